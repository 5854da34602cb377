# SPDX-License-Identifier: Apache-2.0
"""Each kind at each shape, bytes of the least. Without a GPU: that ours, torch's and the exact side agree on what
``operands`` makes, that what is counted as moved is what the kernels' docstrings say, and the tables from made-up
times."""

import math

import pytest
import torch
import triton

from snippets.fusion import long_softmax_measured
from snippets.fusion import scan_measured as measured
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(measured).values() if isinstance(value, triton.testing.Mark)]
kinds = pytest.mark.parametrize("kind", measured.KINDS)
SMALL = {"cumsum": [(2, 30)], "recurrence": [(2, 30), (2, 13, 3)], "top 8": [(2, 12)]}


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [mark.benchmarks.plot_name for mark in MARKS] == ["forward", "both", "counting"]


def test_every_kind_has_its_shapes():
    assert len(measured.NAMED) == len(measured.CASES) == 12 and {kind for kind, _ in measured.CASES} == {*SMALL}
    for mark in MARKS[:2]:
        assert mark.benchmarks.x_vals == list(measured.NAMED)


@pytest.fixture
def on_the_cpu(monkeypatch):
    """Operands in float32, for the interpreter refuses bfloat16."""
    make = torch.randn
    monkeypatch.setattr(measured.torch, "randn", lambda *shape, **options: make(*shape))
    torch.manual_seed(0)


@kinds
def test_sides_agree(kind, on_the_cpu, monkeypatch):
    monkeypatch.setattr(long_softmax_measured, "LARGEST_ERROR", 1e-5)
    timed = []
    monkeypatch.setattr(measured, "compare_in_rotation", lambda sides, make, rounds: timed.append((sides, make())))
    for shape in SMALL[kind]:
        timed.clear()
        for step in ("forward", "both"):
            measured.measure.__wrapped__(kind, shape, step)
        (forward, given), (both, more) = timed
        inputs = measured.KINDS[kind].inputs
        assert list(forward) == list(both) == ["ours", "torch"]
        assert len(given) == inputs and len(more) == inputs + 1 and {x.shape for x in given} == {torch.Size(shape)}
        for sides, operands, results in ((forward, given, 1), (both, more, inputs)):
            as_tuple = lambda found: found if isinstance(found, tuple) else (found,)
            ours, theirs = (as_tuple(sides[side](*operands)) for side in ("ours", "torch"))
            assert len(ours) == results
            for a, b in zip(ours, theirs, strict=True):
                assert torch.allclose(a, b, rtol=1e-4, atol=1e-4)
    if kind == "recurrence":
        assert given[0].min() > 0.88 and given[0].max() < 1


@kinds
def test_a_wrong_one_is_refused(kind, on_the_cpu, monkeypatch):
    monkeypatch.setattr(measured, "compare_in_rotation", lambda *_, **__: pytest.fail("timed, and wrong"))
    right = measured.KINDS[kind]
    wrong = right._replace(ours=lambda *given: 1.1 * right.ours(*given))
    monkeypatch.setitem(measured.KINDS, kind, wrong)
    for step in ("forward", "both"):
        with pytest.raises(RuntimeError, match="ours differs from exact"):
            measured.measure.__wrapped__(kind, SMALL[kind][0], step)


def test_moved():
    """Forward: inputs and the result; backward: what the docstrings of the kernels say."""
    found = {name: (kind.forward, kind.both) for name, kind in measured.KINDS.items()}
    assert found == {"cumsum": (1 + 1, 2 + 2), "recurrence": (2 + 1, 5 + 3), "top 8": (1, 1 + 1)}


def test_tables(monkeypatch):
    """Ours takes 1 ms, torch 2, the copy 4: median, slowest, fastest round."""
    takes = {"ours": Timing((1, 1.25, 0.5)), "torch": Timing((2, 2, 2))}
    asked = []
    monkeypatch.setattr(measured, "measure", lambda *case: asked.append(case) or takes)
    monkeypatch.setattr(long_softmax_measured, "measure_copy", lambda moved: asked.append(moved) or Timing((4, 4, 4)))
    for mark in MARKS[:2]:
        step = mark.benchmarks.plot_name
        for case, (kind, shape) in measured.NAMED.items():
            moved = 2 * getattr(measured.KINDS[kind], step) * math.prod(shape)
            cells = {line: mark.fn(case, line) for line in mark.benchmarks.line_vals}
            assert cells["ours"] == pytest.approx((moved / 1e6, moved / 1.25e6, moved / 0.5e6))
            assert cells["torch"][0] == pytest.approx(moved / 2e6) and cells["copy"][0] == pytest.approx(moved / 4e6)
            assert (cells["share"], cells["torch_share"]) == (4, 2)
            assert asked[-2:] == [(kind, shape, step), moved]


@pytest.fixture
def small_counts(monkeypatch):
    make = torch.randint
    monkeypatch.setattr(measured.torch, "randint", lambda *given, device, **options: make(*given, **options))
    monkeypatch.setattr(measured, "COUNTED", 3000)


@pytest.mark.parametrize("spread", measured.counting.benchmarks.x_vals)
def test_counting(spread, small_counts, monkeypatch):
    def compared(sides, rounds):
        assert rounds == 3 and sides["copy"]().numel() == 1500
        return {name: Timing((1e-3 * (i + 1),) * 3) for i, name in enumerate(sides)}

    monkeypatch.setattr(measured, "compare", compared)
    monkeypatch.setattr(measured, "measure_counting", measured.measure_counting.__wrapped__)
    cells = [measured.counting.fn(spread, what) for what in measured.counting.benchmarks.line_vals]
    assert cells == [pytest.approx((i + 1,) * 3) for i in range(5)] + [5]


def test_wrong_counts_are_refused(small_counts, monkeypatch):
    monkeypatch.setattr(measured, "compare", lambda *_, **__: pytest.fail("timed, and wrong"))
    monkeypatch.setattr(measured, "histogram", lambda x, bins: x.bincount(minlength=bins) + 1)
    with pytest.raises(RuntimeError, match=r"ours differs from torch\.bincount"):
        measured.measure_counting.__wrapped__("evenly")


@pytest.mark.gpu
@kinds
@pytest.mark.parametrize("step", ["forward", "both"])
def test_measures(kind, step):
    found = measured.measure.__wrapped__(kind, (256, 3000), step)
    assert all(0 < found[side].median < 10 for side in ("ours", "torch"))


@pytest.mark.gpu
def test_measures_counting(monkeypatch):
    monkeypatch.setattr(measured, "COUNTED", 2**20)
    found = measured.measure_counting.__wrapped__("all the same")
    assert set(found) == {"ours", "each", "histc", "bincount", "copy"}
