# SPDX-License-Identifier: Apache-2.0
"""What the lesson measures: child processes answer, the list is whole; on a GPU every benchmark gives sane numbers."""

import json

import pytest
import triton

from snippets.tools import benchmarking_measured as measured
from snippets.tools import benchmarking_mistakes as mistakes

MARKS = [
    (module, name)
    for module in (measured, mistakes)
    for name, value in vars(module).items()
    if isinstance(value, triton.testing.Mark)
]


@pytest.mark.parametrize("module", [measured, mistakes], ids=lambda module: module.__name__)
def test_main_lists_every_benchmark(module, capsys):
    module.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(name for owner, name in MARKS if owner is module)


def test_first_calls_in_a_process_of_their_own():
    times = measured.in_a_new_process("benchmarking_measured.time_first_calls(100)", TRITON_INTERPRET="1")
    assert len(times) == 4 and min(times) > 0


def test_times_of_the_interpreter(capsys):
    mistakes.time_interpreter(2**12, (16, 4096))
    times = json.loads(capsys.readouterr().out)
    assert times["16"] > 5 * times["4096"] > 0, "the interpreter takes its time for each program, 256 of them or one"


def test_a_process_that_fails_says_why():
    with pytest.raises(RuntimeError, match="benchmarking_mesaured"):
        measured.in_a_new_process("benchmarking_mesaured.time_first_calls(100)")


@pytest.mark.gpu
@pytest.mark.timeout(300)
@pytest.mark.parametrize("module, name", MARKS)
def test_benchmarks_run(module, name):
    mark = getattr(module, name)
    benchmark = mark.benchmarks
    for line in benchmark.line_vals:
        result = mark.fn(**{benchmark.x_names[0]: benchmark.x_vals[0], benchmark.line_arg: line}, **benchmark.args)
        values = result if isinstance(result, tuple) else (result,)
        assert len(values) in (1, 3) and all(0 <= value < 1e7 for value in values)


@pytest.mark.gpu
def test_the_bug_does_not_wait():
    import torch

    from snippets.programs.vector_add import add

    x, y = torch.rand(2, 2**28, device="cuda")
    run = lambda: add(x, y)
    run()
    waited = min(mistakes.by_the_clock(run) for _ in range(5))
    torch.cuda.synchronize()
    assert mistakes.by_the_clock_bug(run) < waited / 2
