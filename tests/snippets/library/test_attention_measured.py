# SPDX-License-Identifier: Apache-2.0
"""Each case of attention to copy: the sides agree, FLOPs are those of what is seen, and the tables are of both."""

import pytest
import torch
from torch.nn.attention import SDPBackend

from snippets.library import attention_measured as measured
from snippets.tools.benchmarking import Timing


def test_main_names_the_benchmarks(capsys):
    measured.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(".")[0] for line in lines] == ["forward", "both"]


@pytest.fixture
def small(monkeypatch):
    """Short sequences in float32, which the interpreter serves, torch's products of matrices in place of its backends,
    flex_attention as it is without a compiler; each side runs once instead of being timed."""
    make = torch.randn
    monkeypatch.setattr(measured, "DEVICE", "cpu")
    monkeypatch.setattr(measured, "BATCH", 1), monkeypatch.setattr(measured, "HEADS", 4)
    monkeypatch.setattr(measured, "LENGTHS", (5, 0, 18))
    few = lambda case: case._replace(length=min(case.length, 24), window=case.window // 128)
    monkeypatch.setattr(measured, "CASES", {name: few(case) for name, case in measured.CASES.items()})
    monkeypatch.setattr(measured.torch, "randn", lambda *shape, **_: make(*shape))
    monkeypatch.setattr(measured.torch, "compile", lambda function, **_: function)
    backends = dict.fromkeys(measured.lesson_measured.BACKENDS, SDPBackend.MATH)
    monkeypatch.setattr(measured.lesson_measured, "BACKENDS", backends)
    in_torch = lambda cu, longest: lambda q, k, v: measured.attention_variable(q, k, v, cu, cu, causal=True)
    monkeypatch.setattr(measured.packed_measured, "in_torch", in_torch)
    monkeypatch.setattr(measured, "operands_in_rotation", lambda make: [make()])
    monkeypatch.setattr(measured, "Rotation", lambda run, sets, steady: type("Rotation", (), {"before": 9})())
    monkeypatch.setattr(measured, "compare", lambda sides, rounds, timer: {name: Timing([2.0]) for name in sides})
    measured.measure.cache_clear()
    yield
    measured.measure.cache_clear()


@pytest.mark.parametrize("name", measured.CASES)
def test_the_sides_agree(small, name):
    step = "both" if name in ("packed", "head_dim 96") else "forward"
    found = measured.measure(name, step)
    without = {"lesson"} if name == "packed" else set()  # whose backward is no lesson
    assert set(found) == {"ours", *measured.CASES[name].sides.split()} - without
    flops = measured.flops(measured.CASES[name], step)
    assert measured.table(name, "ours", step) == Timing([2.0]).rate(flops, unit=1e12)
    assert measured.table(name, "of_best", step) == 1
    for side in {"cudnn", "flash", "flex", "lesson"} - set(found):
        assert measured.table(name, side, step) != measured.table(name, side, step), "a dash, which is NaN"


def test_the_lesson_takes_part_in_the_forward_of_packed_sequences(small):
    assert set(measured.measure("packed", "forward")) == {"ours", "lesson", "flash"}


def test_flops_are_of_what_is_seen():
    case = measured.Case("", length=600, head_dim=3, value_dim=5)
    heads = measured.BATCH * measured.HEADS
    assert measured.flops(case, "forward") == heads * 600 * 600 / 2 * 2 * (3 + 5)
    assert measured.flops(case, "both") == heads * 600 * 600 / 2 * 2 * (4 * 3 + 3 * 5)
    seen = sum(min(query + 1, 100) for query in range(600))
    assert measured.flops(case._replace(window=100), "forward") == pytest.approx(heads * seen * 2 * (3 + 5), rel=0.001)


def test_a_wrong_side_is_refused(small, monkeypatch):
    monkeypatch.setattr(measured, "lesson_attention", lambda q, k, v, causal: 2 * v)
    with pytest.raises(RuntimeError, match="lesson differs from ours"):
        measured.measure("head_dim 128", "forward")
