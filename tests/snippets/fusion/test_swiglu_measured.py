# SPDX-License-Identifier: Apache-2.0
"""Each layer at its shapes, bytes of the least. Without a GPU: that ours and torch's agree on what ``operands`` makes,
that what is counted as moved is what the kernels' docstring says, and the tables from made-up times."""

import pytest
import torch
import triton

from snippets.fusion import long_softmax_measured
from snippets.fusion import swiglu_measured as measured
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(measured).values() if isinstance(value, triton.testing.Mark)]
kinds = pytest.mark.parametrize("name", measured.KINDS)


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [mark.benchmarks.plot_name for mark in MARKS] == ["forward", "both"]


def test_swiglu_at_every_shape():
    assert len(measured.NAMED) == 2 * len(measured.SHAPES) + 2 * 2
    for mark in MARKS:
        assert mark.benchmarks.x_vals == [f"{name}, {m} × {n}" for name, m, n in measured.NAMED.values()]


@pytest.fixture
def on_the_cpu(monkeypatch):
    """Operands in float32, for the interpreter refuses bfloat16."""
    make = torch.randn
    monkeypatch.setattr(measured.torch, "randn", lambda *shape, **options: make(*shape))
    torch.manual_seed(0)


@kinds
def test_sides_agree(name, on_the_cpu, monkeypatch):
    monkeypatch.setattr(long_softmax_measured, "LARGEST_ERROR", 1e-6)
    timed = []
    monkeypatch.setattr(measured, "compare_in_rotation", lambda sides, make, rounds: timed.append((sides, make())))
    for step in ("forward", "both"):
        measured.measure.__wrapped__(name, 5, 60, step)
    (forward, given), (both, more) = timed
    assert list(forward) == list(both) == ["ours", "torch"] and forward["ours"](*given).shape == (5, 60)
    inputs = 1 if measured.KINDS[name].halves else 2
    assert len(given) == inputs and len(more) == inputs + 1 and len(both["ours"](*more)) == inputs
    assert sum(each.numel() for each in given) + 5 * 60 == measured.MOVED["forward"] * 5 * 60
    read_and_written = sum(each.numel() for each in (*more, *both["ours"](*more)))
    assert measured.MOVED["forward"] * 5 * 60 + read_and_written == measured.MOVED["both"] * 5 * 60


@kinds
def test_a_wrong_one_is_refused(name, on_the_cpu, monkeypatch):
    monkeypatch.setattr(measured, "compare_in_rotation", lambda *_, **__: pytest.fail("timed, and wrong"))
    wrong = lambda gate, *up: measured.KINDS[name].torch(1.05 * gate, *up)
    monkeypatch.setitem(measured.KINDS, name, measured.KINDS[name]._replace(ours=wrong))
    for step in ("forward", "both"):
        with pytest.raises(RuntimeError, match="ours differs from torch"):
            measured.measure.__wrapped__(name, 5, 60, step)


def test_tables(monkeypatch):
    """Ours takes 1 ms, torch 2, the copy 4: median, slowest, fastest round."""
    takes = {"ours": Timing((1, 1.25, 0.5)), "torch": Timing((2, 2, 2))}
    asked = []
    monkeypatch.setattr(measured, "measure", lambda *case: asked.append(case) or takes)
    monkeypatch.setattr(long_softmax_measured, "measure_copy", lambda moved: asked.append(moved) or Timing((4, 4, 4)))
    for mark, least in zip(MARKS, (6, 16), strict=True):  # bytes: 2 for each element
        for case, (name, rows, columns) in measured.NAMED.items():
            moved = least * rows * columns
            cells = {line: mark.fn(case, line) for line in mark.benchmarks.line_vals}
            assert cells["ours"] == pytest.approx((moved / 1e6, moved / 1.25e6, moved / 0.5e6))
            assert cells["torch"][0] == pytest.approx(moved / 2e6) and cells["copy"][0] == pytest.approx(moved / 4e6)
            assert (cells["share"], cells["torch_share"]) == (4, 2)
            assert asked[-2:] == [(name, rows, columns, mark.benchmarks.plot_name), moved]


@pytest.mark.gpu
@kinds
@pytest.mark.parametrize("step", ["forward", "both"])
def test_measures(name, step):
    found = measured.measure.__wrapped__(name, 256, 3000, step)
    assert all(0 < found[side].median < 1 for side in ("ours", "torch"))
