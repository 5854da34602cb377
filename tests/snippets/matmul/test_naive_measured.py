# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of the first matrix product: listed, and on a GPU each side gives a rate."""

import pytest
import triton

from snippets.matmul import naive_measured

MARKS = [value for value in vars(naive_measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    naive_measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)


@pytest.mark.gpu
@pytest.mark.parametrize("name, n", [("speed", 512), ("odd", 4095)])
def test_benchmarks_run(name, n):
    mark = getattr(naive_measured, name)
    for side in mark.benchmarks.line_vals:
        median, slowest, fastest = mark.fn(n, side)
        assert 1 < slowest <= median <= fastest < 5000
