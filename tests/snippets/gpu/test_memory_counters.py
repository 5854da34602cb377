# SPDX-License-Identifier: Apache-2.0
"""What the counters say is turned into shares of the loads; on a GPU, each walk is answered from its level."""

import shutil
from unittest import mock

import pytest

from snippets.gpu import memory_counters as counted

SEEN = {"loads": 200.0, "l1": 150.0, "asked": 50.0, "l2": 40.0, "halves": 20.0, "memory": 640.0}


def test_shares_of_the_loads():
    launch = {"kernel": "chase_kernel"} | {counted.METRICS[what]: n for what, n in SEEN.items()}
    launches = [launch] * len(counted.WALKS)
    counted.measure.cache_clear()
    with mock.patch.object(counted, "counters", return_value=launches) as asked:
        said = {what: counted.counted.fn("16 MiB", what) for what in ("l1", "l2", "memory", "halves")}
    counted.measure.cache_clear()
    assert said == {"l1": 75, "l2": 20, "memory": 3.2, "halves": 0.1}
    assert asked.call_args.args[1:] == (counted.__file__, "walk") and asked.call_args.kwargs == {"cache": "all"}


def test_main_says_what_there_is(capsys):
    counted.main()
    assert capsys.readouterr().out.startswith("counted.run(print_data=True)")


@pytest.mark.gpu
@pytest.mark.alone
def test_each_walk_is_answered_from_its_level():
    if not shutil.which("ncu"):
        pytest.skip("ncu is not on the PATH; it comes with the CUDA toolkit")
    seen = counted.measure()
    assert seen["64 KiB"]["l1"] > 95 and seen["64 KiB, past L1"]["l1"] == 0
    assert seen["16 MiB"]["l1"] < 5 and seen["16 MiB"]["memory"] < 10
    assert seen["1 GiB"]["l2"] < 5 and seen["1 GiB"]["memory"] >= 32
