# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of the grayscale kernel: listed, and on a GPU each side gives a rate."""

import pytest
import triton

from snippets.programs import greyscale_measured

MARKS = [value for value in vars(greyscale_measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    greyscale_measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)


@pytest.mark.gpu
@pytest.mark.long
@pytest.mark.parametrize("name, x", [("blocks", "32 × 32"), ("sizes", "1000 × 1000")])
def test_benchmarks_run(name, x):
    mark = getattr(greyscale_measured, name)
    for line in mark.benchmarks.line_vals:
        median, low, high = mark.fn(x, line)
        assert 0 < low <= median <= high
