# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of vector add: listed, and on a GPU each side gives a time."""

import pytest
import triton

from snippets.programs import vector_add_measured

MARKS = [value for value in vars(vector_add_measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    vector_add_measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)


@pytest.mark.gpu
@pytest.mark.long
@pytest.mark.parametrize("mark", MARKS, ids=[mark.benchmarks.plot_name for mark in MARKS])
def test_benchmarks_run(mark):
    for line in mark.benchmarks.line_vals:
        median, low, high = mark.fn(4096, line)
        assert 0 < low <= median <= high
