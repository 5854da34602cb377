# SPDX-License-Identifier: Apache-2.0
"""Dropout at each shape, bytes of the least. Without a GPU: that both sides pass the check and wrong ones do not, what
autograd keeps, and the tables from made-up times."""

import pytest
import torch
import triton

from snippets.fusion import dropout_measured as measured
from snippets.fusion import long_softmax_measured
from snippets.fusion.dropout import add_dropout, dropout
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(measured).values() if isinstance(value, triton.testing.Mark)]
names = pytest.mark.parametrize("name", measured.SIDES)


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)
    assert listed == ["forward", "both", "steps", "kept"]


def test_each_at_every_shape():
    assert len(measured.NAMED) == 2 * len(measured.SHAPES) == 8
    assert measured.forward.benchmarks.x_vals == measured.both.benchmarks.x_vals == list(measured.NAMED)
    assert len(set(measured.steps.benchmarks.x_vals)) == len(measured.SHAPES)


@pytest.fixture
def on_the_cpu(monkeypatch):
    """Operands in float32, for the interpreter refuses bfloat16; and ones with which to check: few."""
    randn, ones = torch.randn, torch.ones
    check = measured.check_dropout
    monkeypatch.setattr(measured.torch, "randn", lambda *shape, **options: randn(*shape))
    monkeypatch.setattr(measured.torch, "ones", lambda *shape, **options: ones(100, 100))
    monkeypatch.setattr(measured, "check_dropout", lambda sides, inputs, device: check(sides, inputs, "cpu"))
    torch.manual_seed(0)


@names
def test_sides_agree_and_are_timed(name, on_the_cpu, monkeypatch):
    timed = []
    monkeypatch.setattr(measured, "compare_in_rotation", lambda sides, make, rounds: timed.append((sides, make())))
    for step in ("forward", "both"):
        measured.measure.__wrapped__(name, 5, 60, step)
    (forward, given), (both, more) = timed
    inputs = 2 if "residual" in name else 1
    assert len(given) == inputs and len(more) == inputs + 1
    assert {tuple(x.shape) for x in more} == {(5, 60)} and list(forward) == list(both) == ["ours", "torch"]
    for side in both.values():
        grads = side(*more)
        assert len(grads) == inputs
        kept = grads[0] != 0
        assert torch.allclose(grads[0][kept], more[-1][kept] / (1 - measured.P))
    for side in forward.values():
        assert side(*given).shape == (5, 60)


def test_steps_agree_and_are_timed(on_the_cpu, monkeypatch):
    timed = []
    zeros = torch.zeros
    monkeypatch.setattr(measured.torch, "zeros", lambda *shape, device, dtype: zeros(*shape, dtype=dtype))
    monkeypatch.setattr(measured, "compare_in_rotation", lambda sides, make, rounds: timed.append((sides, make())))
    measured.measure_steps.__wrapped__(5, 60)
    ((sides, given),) = timed
    assert list(sides) == ["one", "four", "eight", "drawn", "torch"] and [tuple(x.shape) for x in given] == [(5, 60)]


@pytest.mark.parametrize(
    "wrong, fragment",
    [
        (lambda x: dropout(x, 0.2, seed=0), r"ours keeps 0\.(79|80|81)"),
        (lambda x: dropout(x, 0.1, seed=0) * 0.9, "multiplies by 1.000"),
        (lambda x: dropout(x, 0.1, seed=0) * torch.linspace(1, 1.005, 100), "more than two numbers"),
        (lambda x: dropout(x.detach(), 0.1, seed=1) + 0 * dropout(x, 0.1, seed=2), "a gradient of another mask"),
    ],
)
def test_a_wrong_side_is_refused(wrong, fragment, on_the_cpu):
    with pytest.raises(RuntimeError, match=fragment):
        measured.check_dropout({"ours": wrong}, 1, "cpu")


def test_a_wrong_gradient_of_the_residual_is_refused(on_the_cpu):
    wrong = lambda x, residual: add_dropout(x, 2 * residual, 0.1, seed=0)
    with pytest.raises(RuntimeError, match="a gradient of another mask"):
        measured.check_dropout({"ours": wrong}, 2, "cpu")


def test_kept(monkeypatch):
    """On a CPU, torch keeps another mask than on a GPU; ``native_dropout`` is what it calls there."""
    monkeypatch.setattr(measured, "operands", lambda tensors, *shape: [torch.ones(*shape)] * tensors)
    native = {
        "dropout": lambda x: torch.native_dropout(x, 0.1, True)[0],
        "dropout + residual": lambda x, residual: torch.native_dropout(x, 0.1, True)[0] + residual,
    }
    for name, function in native.items():
        assert measured.kept.fn(name, "ours", 30, 40) == 8
        monkeypatch.setitem(measured.SIDES[name], "torch", function)
        assert measured.kept.fn(name, "torch", 30, 40) == 30 * 40


def test_tables(monkeypatch):
    """Ours takes 1 ms, torch 2, the copy 4: median, slowest, fastest round."""
    takes = {"ours": Timing((1, 1.25, 0.5)), "torch": Timing((2, 2, 2))}
    asked = []
    copy = lambda moved: asked.append(moved) or Timing((4, 4, 4))
    monkeypatch.setattr(measured, "measure", lambda *case: asked.append(case) or takes)
    monkeypatch.setattr(long_softmax_measured, "measure_copy", copy)
    for mark, elements in ((measured.forward, (2, 3)), (measured.both, (4, 5))):
        for case, (name, rows, columns) in measured.NAMED.items():
            moved = 2 * elements["residual" in name] * rows * columns
            cells = {line: mark.fn(case, line) for line in mark.benchmarks.line_vals}
            assert cells["ours"] == pytest.approx((moved / 1e6, moved / 1.25e6, moved / 0.5e6))
            assert cells["torch"][0] == pytest.approx(moved / 2e6) and cells["copy"][0] == pytest.approx(moved / 4e6)
            assert (cells["share"], cells["torch_share"]) == (4, 2)
            assert asked[-2:] == [(name, rows, columns, mark.benchmarks.plot_name), moved]


def test_table_of_steps(monkeypatch):
    monkeypatch.setattr(measured, "measure_steps", lambda *shape: {"one": Timing((2.0,)), "four": Timing((1.0,))})
    asked = []
    monkeypatch.setattr(measured, "measure_copy", lambda moved: asked.append(moved) or Timing((1.5,)))
    found = [measured.steps.fn(shape, "one") for shape in measured.steps.benchmarks.x_vals]
    assert found == [0.75] * len(measured.SHAPES)
    assert asked == [4 * rows * columns for rows, columns in measured.SHAPES]


@pytest.mark.gpu
@names
@pytest.mark.parametrize("step", ["forward", "both"])
def test_measures(name, step):
    found = measured.measure.__wrapped__(name, 256, 3000, step)
    assert all(0 < found[side].median < 1 for side in ("ours", "torch"))


@pytest.mark.gpu
def test_measures_steps():
    found = measured.measure_steps.__wrapped__(256, 3000)
    assert all(0 < found[side].median < 1 for side in ("one", "four", "eight", "drawn", "torch"))


@pytest.mark.gpu
@names
def test_kept_on_a_gpu(name):
    assert measured.kept.fn(name, "ours", 300, 400) == 8
    assert measured.kept.fn(name, "torch", 300, 400) == 300 * 400
