# SPDX-License-Identifier: Apache-2.0
"""Each mistake is the one that the page names; on a GPU every benchmark gives sane numbers."""

import json

import pytest
import torch
import triton

from snippets.tools import benchmarking_mistakes as mistakes
from snippets.tools.benchmarking import Timing

MARKS = [name for name, value in vars(mistakes).items() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    mistakes.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(MARKS)


def test_times_of_the_interpreter(capsys):
    mistakes.time_interpreter(2**12, (16, 4096))
    times = json.loads(capsys.readouterr().out)
    assert times["16"] > 5 * times["4096"] > 0, "the interpreter takes its time for each program, 256 of them or one"


def test_the_interpreter_is_timed_in_a_process_of_its_own(monkeypatch):
    calls = []
    monkeypatch.setattr(mistakes, "in_a_new_process", lambda *call, **variables: calls.append((call, variables)))
    monkeypatch.setattr(mistakes, "compare", lambda sides, rounds: {name: Timing((2.0, 4.0)) for name in sides})
    monkeypatch.setattr(torch, "rand", lambda *shape, device: torch.empty(shape))
    found = mistakes.measure_blocks.__wrapped__(8, (16, 32))
    assert calls == [(("benchmarking_mistakes.time_interpreter(8, (16, 32))",), {"TRITON_INTERPRET": "1"})]
    assert found["gpu"] == {"16": 3.0, "32": 3.0}


def test_only_the_clock_of_the_bug_does_not_wait(monkeypatch):
    order = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: order.append("wait"))
    assert mistakes.by_the_clock_bug(lambda: order.append("run")) >= 0 and order == ["run"]
    assert mistakes.by_the_clock(lambda: order.append("run")) >= 0 and order == ["run", "wait", "run", "wait"]


@pytest.mark.parametrize("n", [32, 4096])
def test_the_wrong_bytes_are_too_few_by_n(monkeypatch, n):
    monkeypatch.setattr(mistakes, "measure_matmul", lambda n: ({"float32": Timing((2.0, 4.0, 3.0))}, {}))
    wrong, right = (mistakes.matmul_bytes.fn(n, formula) for formula in ("wrong", "right"))
    assert right[0] == pytest.approx(3 * n * n * 4 / 3e-3 / 1e9)  # two matrices read, one written, in float32
    assert right == pytest.approx([n * rate for rate in wrong])


def test_products_in_each_precision_are_one_product(monkeypatch):
    draw, before = torch.randn, torch.get_float32_matmul_precision()
    monkeypatch.setattr(torch, "randn", lambda *shape, device: draw(*shape))
    monkeypatch.setattr(mistakes, "compare", lambda sides, rounds: list(sides))
    sides, errors = mistakes.measure_matmul.__wrapped__(128)
    assert sides == list(errors) == ["float32", "tf32", "bfloat16"]
    assert errors["float32"] < 1e-5 < errors["bfloat16"] < 0.05
    assert torch.get_float32_matmul_precision() == before, "the setting is put back"


@pytest.mark.gpu
@pytest.mark.long
@pytest.mark.parametrize("name", MARKS)
def test_benchmarks_run(name):
    mark = getattr(mistakes, name)
    benchmark = mark.benchmarks
    for line in benchmark.line_vals:
        result = mark.fn(**{benchmark.x_names[0]: benchmark.x_vals[0], benchmark.line_arg: line}, **benchmark.args)
        values = result if isinstance(result, tuple) else (result,)
        assert len(values) in (1, 3) and all(0 <= value < 1e7 for value in values)


@pytest.mark.gpu
def test_the_bug_does_not_wait():
    from snippets.programs.vector_add import add

    x, y = torch.rand(2, 2**28, device="cuda")
    run = lambda: add(x, y)
    run()
    waited = min(mistakes.by_the_clock(run) for _ in range(5))
    torch.cuda.synchronize()
    assert mistakes.by_the_clock_bug(run) < waited / 2
