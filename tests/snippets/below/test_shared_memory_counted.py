# SPDX-License-Identifier: Apache-2.0
"""What the counters say is turned into wavefronts an access; on a GPU, they are those that the layouts call for."""

import shutil
from unittest import mock

import pytest

from snippets.below import shared_memory_counted as counted
from snippets.below.shared_memory import LAYOUTS
from snippets.below.shared_memory_compiled import A_COLUMN, wavefronts


def test_by_layout():
    launches = [
        {"kernel": "a"} | {metric: (i + j) * counted.ACCESSES for j, metric in enumerate(counted.METRICS.values())}
        for i in range(len(LAYOUTS))
    ]
    counted.measure.cache_clear()
    with mock.patch.object(counted, "counters", return_value=launches) as asked:
        found = [[counted.wavefronts.fn(name, what) for what in counted.METRICS] for name in LAYOUTS]
    counted.measure.cache_clear()
    assert found == [[i, i + 1, i + 2, i + 3] for i in range(len(LAYOUTS))]
    assert asked.call_args.args[1:] == (counted.__file__, "run")


def test_main_says_what_there_is(capsys):
    counted.main()
    assert capsys.readouterr().out.startswith("wavefronts.run(")


@pytest.mark.gpu
@pytest.mark.alone
def test_counted_as_computed():
    if not shutil.which("ncu"):
        pytest.skip("ncu is not on the PATH; it comes with the CUDA toolkit")
    for name, seen in counted.measure().items():
        assert seen["load"] == pytest.approx(wavefronts(LAYOUTS[name], A_COLUMN), rel=0.05), name
