# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of coalescing: listed, and on a GPU each side gives a rate."""

import pytest
import triton

from snippets.gpu import coalescing_measured

MARKS = [value for value in vars(coalescing_measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    coalescing_measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)


@pytest.mark.gpu
@pytest.mark.parametrize("name, x", [("strides", 4), ("gathers", 4), ("widths", 2), ("tiles", "8 × 512")])
def test_benchmarks_run(name, x):
    mark = getattr(coalescing_measured, name)
    for line in mark.benchmarks.line_vals:
        median, low, high = mark.fn(x, line)
        assert 0 < low <= median <= high
