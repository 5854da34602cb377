# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of persistent matmul: listed, and on a GPU their sides compute the same."""

import pytest
import triton

from snippets.matmul import persistent_measured

MARKS = [value for value in vars(persistent_measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    persistent_measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)


@pytest.mark.gpu
def test_benchmarks_run():
    for name in ("steps", "early"):
        measure = getattr(persistent_measured, f"measure_{name}")
        for median, low, high in measure(256).values():
            assert 0 < low <= median <= high < 2000
    found = persistent_measured.measure_stages(256)
    assert set(found) == {1, 2, 3, 4} and all(rate[0] > 0 for rate in found.values())
