# SPDX-License-Identifier: Apache-2.0
"""What the lesson measures: child processes answer, the list is whole; on a GPU every benchmark gives sane numbers."""

import pytest
import triton

from snippets.tools import benchmarking_measured as measured

MARKS = [name for name, value in vars(measured).items() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(MARKS)


def test_first_calls_in_a_process_of_their_own():
    times = measured.in_a_new_process("benchmarking_measured.time_first_calls(100)", TRITON_INTERPRET="1")
    assert len(times) == 4 and min(times) > 0


def test_a_process_that_fails_says_why():
    with pytest.raises(RuntimeError, match="benchmarking_mesaured"):
        measured.in_a_new_process("benchmarking_mesaured.time_first_calls(100)")


@pytest.mark.gpu
@pytest.mark.long
@pytest.mark.parametrize("name", MARKS)
def test_benchmarks_run(name):
    mark = getattr(measured, name)
    benchmark = mark.benchmarks
    for line in benchmark.line_vals:
        result = mark.fn(**{benchmark.x_names[0]: benchmark.x_vals[0], benchmark.line_arg: line}, **benchmark.args)
        values = result if isinstance(result, tuple) else (result,)
        assert len(values) in (1, 3) and all(0 <= value < 1e7 for value in values)
