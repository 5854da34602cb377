# SPDX-License-Identifier: Apache-2.0
"""Each way to turn pairs at its shapes, bytes of the least. Without a GPU: that ours and transformers' formula agree,
that what is counted as moved is what the kernel's docstring says, and the tables from made-up times."""

import pytest
import torch
import triton

from snippets.fusion import long_softmax_measured
from snippets.fusion import rope_measured as measured
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(measured).values() if isinstance(value, triton.testing.Mark)]
SMALL = measured.Shape(2, 5, 3, 1, 12)
kinds = pytest.mark.parametrize("name", measured.KINDS)


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [mark.benchmarks.plot_name for mark in MARKS] == ["forward", "both"]


def test_the_rows_and_columns_of_the_other_lessons():
    wanted = ["8192 × 4096", "4096 × 16384", "16384 × 1024", "512 × 131072", "1000 × 3000"]
    assert [str(shape) for shape in measured.SHAPES] == wanted
    for mark in MARKS:
        assert mark.benchmarks.x_vals == [f"{name}, {shape}" for name, shape in measured.NAMED.values()]
        assert mark.benchmarks.x_vals[:5] == [f"half-split, {each}" for each in wanted]


@pytest.fixture
def on_the_cpu(monkeypatch):
    """Operands and our tables in float32, for the interpreter refuses bfloat16; torch's tables stay coarse."""
    make, sides_of = torch.randn, measured.sides_of
    in_float32 = lambda kind: kind._replace(dtype=torch.float32)
    monkeypatch.setattr(measured.torch, "randn", lambda *shape, **options: make(*shape))
    monkeypatch.setattr(measured, "sides_of", lambda kind, shape: sides_of(in_float32(kind), shape, device="cpu"))
    torch.manual_seed(0)


@kinds
def test_sides_agree(name, on_the_cpu, monkeypatch):
    monkeypatch.setattr(long_softmax_measured, "LARGEST_ERROR", 4e-3)  # of the tables in bfloat16
    timed = []
    monkeypatch.setattr(measured, "compare_in_rotation", lambda sides, make, rounds: timed.append((sides, make())))
    for step in ("forward", "both"):
        measured.measure.__wrapped__(name, SMALL, step)
    (forward, given), (both, more) = timed
    assert list(forward) == list(both) == ["ours", "torch"]
    assert [tuple(each.shape) for each in given] == [(2, 5, 3, 12), (2, 5, 1, 12)]
    assert [each.shape for each in more] == [each.shape for each in given] * 2
    assert [each.shape for each in both["ours"](*more)] == [each.shape for each in given]


@kinds
def test_a_wrong_one_is_refused(name, on_the_cpu, monkeypatch):
    monkeypatch.setattr(measured, "compare_in_rotation", lambda *_, **__: pytest.fail("timed, and wrong"))
    ours = measured.sides_of(measured.KINDS[name], SMALL)["ours"]
    sides_of = measured.sides_of
    turned_back = lambda q, k: ours(q, k, sin=-ours.keywords["sin"])
    monkeypatch.setattr(measured, "sides_of", lambda *given: sides_of(*given) | {"ours": turned_back})
    for step in ("forward", "both"):
        with pytest.raises(RuntimeError, match="ours differs from torch"):
            measured.measure.__wrapped__(name, SMALL, step)


def test_moved():
    """Queries and keys in 16 bits, read and written; cos and sin of 6 pairs for each position."""
    plain, coarse = (measured.KINDS[f"half-split{more}"] for more in ("", ", tables in bfloat16"))
    elements = 2 * 5 * 4 * 12
    assert measured.bytes_moved(plain, SMALL, "forward") == 4 * elements + 2 * 5 * 6 * 4
    assert measured.bytes_moved(coarse, SMALL, "forward") == 4 * elements + 2 * 5 * 6 * 2
    assert measured.bytes_moved(plain, SMALL, "both") == 2 * measured.bytes_moved(plain, SMALL, "forward")


def test_tables(monkeypatch):
    """Ours takes 1 ms, torch 2, the copy 4: median, slowest, fastest round."""
    takes = {"ours": Timing((1, 1.25, 0.5)), "torch": Timing((2, 2, 2))}
    asked = []
    monkeypatch.setattr(measured, "measure", lambda *case: asked.append(case) or takes)
    monkeypatch.setattr(long_softmax_measured, "measure_copy", lambda moved: asked.append(moved) or Timing((4, 4, 4)))
    for mark in MARKS:
        step = mark.benchmarks.plot_name
        for case, (name, shape) in measured.NAMED.items():
            moved = measured.bytes_moved(measured.KINDS[name], shape, step)
            cells = {line: mark.fn(case, line) for line in mark.benchmarks.line_vals}
            assert cells["ours"] == pytest.approx((moved / 1e6, moved / 1.25e6, moved / 0.5e6))
            assert cells["torch"][0] == pytest.approx(moved / 2e6) and cells["copy"][0] == pytest.approx(moved / 4e6)
            assert (cells["share"], cells["torch_share"]) == (4, 2)
            assert asked[-2:] == [(name, shape, step), moved]


@pytest.mark.gpu
@kinds
@pytest.mark.parametrize("step", ["forward", "both"])
def test_measures(name, step):
    found = measured.measure.__wrapped__(name, measured.Shape(1, 256, 20, 5, 120), step)
    assert all(0 < found[side].median < 1 for side in ("ours", "torch"))
