# SPDX-License-Identifier: Apache-2.0
"""What the counters say is turned into sectors a request; on a GPU, they are those that the addresses call for."""

import shutil
from unittest import mock

import pytest

from snippets.gpu import coalescing
from snippets.gpu import coalescing_counted as counted

SEEN = {"load": 64, "loads": 4, "store": 32, "stores": 8, "memory": 8 * counted.N, "shared": 3 * counted.LEAST}
SEEN["conflicts"] = counted.LEAST // 2


def test_per_request():
    cases = len(counted.STEPS) * len(counted.PER_THREAD) + len(counted.ORDERS) + len(counted.TILES)
    launches = [{"kernel": "a_kernel"} | {counted.METRICS[what]: n for what, n in SEEN.items()}] * cases
    counted.measure.cache_clear()
    with mock.patch.object(counted, "counters", return_value=launches) as asked:
        steps = {what: counted.steps.fn(4, what) for what in ("four", "one", "memory")}
        tiles = {what: counted.tiles.fn("64 × 64", what) for what in ("load", "shared", "conflicts")}
        assert counted.orders.fn("random", "load") == 16
    counted.measure.cache_clear()
    assert steps == {"four": 16, "one": 16, "memory": 8} and tiles == {"load": 16, "shared": 3, "conflicts": 0.5}
    assert asked.call_args.args[1:] == (counted.__file__, "run") and asked.call_args.kwargs == {"cache": "all"}


def test_main_says_what_there_is(capsys):
    counted.main()
    assert [line.partition(".")[0] for line in capsys.readouterr().out.splitlines()] == ["steps", "orders", "tiles"]


@pytest.mark.gpu
@pytest.mark.alone
def test_counters_agree_with_the_addresses():
    if not shutil.which("ncu"):
        pytest.skip("ncu is not on the PATH; it comes with the CUDA toolkit")
    seen = counted.measure()
    assert seen[1, "four"]["load"] == counted.N * 4 / 32 and seen[32, "four"]["load"] == counted.N
    for step in counted.STEPS:
        sectors = coalescing.sectors(range(0, 32 * step, step), itemsize=4)
        assert seen[step, "one"]["load"] / seen[step, "one"]["loads"] == sectors
    assert seen["1 × 4096"]["store"] > 4 * seen["64 × 64"]["store"]
