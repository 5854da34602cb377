# SPDX-License-Identifier: Apache-2.0
"""Each shape is measured once, bytes are those of the least, results are compared first. Without a GPU: that ours and
torch's agree through ``with_backward``, that ``check_alike`` refuses, and the tables from made-up times."""

import pytest
import torch
import triton

from snippets.fusion import long_softmax_measured as measured
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [mark.benchmarks.plot_name for mark in MARKS] == ["forward", "both"]


def numbers(*shape, device, count=1):
    torch.manual_seed(0)
    return torch.randn(count, *shape).to(device).unbind()


def test_sides_agree(device):
    measured.check_alike(measured.SIDES, numbers(3, 50, device=device), "torch")
    both = {name: measured.with_backward(run) for name, run in measured.SIDES.items()}
    x, grad = numbers(3, 50, device=device, count=2)
    measured.check_alike(both, (x, grad), "torch")
    [found] = both["ours"](x, grad)
    wanted = x.clone().requires_grad_()
    torch.softmax(wanted, dim=-1).backward(grad)
    assert torch.allclose(found, wanted.grad, atol=1e-6) and not x.requires_grad


def test_with_backward_of_several():
    x, y, first, second = numbers(4, device="cpu", count=4)
    run = measured.with_backward(lambda x, y: (x * y, 3 * y), results=2)
    found = run(x, y, first, second)
    assert torch.equal(found[0], first * y) and torch.allclose(found[1], first * x + 3 * second)


@pytest.mark.parametrize("wrong", [lambda x: 1.02 * x, lambda x: x * float("nan"), lambda x: (x, -x)])
def test_what_differs_is_refused(wrong):
    x = torch.ones(2, 3)
    sides = {"ours": wrong, "torch": lambda x: (x, x) if isinstance(wrong(x), tuple) else x}
    with pytest.raises(RuntimeError, match=r"ours differs from torch by .* in result [01] of 2 × 3"):
        measured.check_alike(sides, (x,), "torch")


@pytest.fixture
def made_up(monkeypatch):
    """Ours takes 1 ms, torch 2, a copy 8 ns an element: median, slowest, fastest round. No tensor has memory."""
    seen = []

    def compared(sides, make, rounds):
        given = make()
        seen.append((list(sides), rounds))
        takes = {"ours": (1, 1.25, 0.5), "torch": (2, 2, 2), "copy": (given[0].numel() * 8e-6,) * 3}
        return {name: Timing(takes[name]) for name in sides}

    no_memory = lambda *shape, **options: torch.empty(*shape, device="meta", dtype=options["dtype"])
    monkeypatch.setattr(measured.torch, "randn", no_memory)
    monkeypatch.setattr(measured, "check_alike", lambda sides, given, expected: seen.append((sides, given, expected)))
    monkeypatch.setattr(measured, "compare_in_rotation", compared)
    measured.measure.cache_clear(), measured.measure_copy.cache_clear()
    yield seen
    measured.measure.cache_clear(), measured.measure_copy.cache_clear()


def test_tables(made_up):
    found = {
        mark.benchmarks.plot_name: {
            shape: {line: mark.fn(shape, line) for line in mark.benchmarks.line_vals}
            for shape in mark.benchmarks.x_vals
        }
        for mark in MARKS
    }
    assert list(found["forward"]) == list(found["both"]) == [f"{m} × {n}" for m, n in measured.SHAPES]
    for rows, columns in measured.SHAPES:
        for step, least in (("forward", 4), ("both", 10)):  # bytes: 2 for each element
            cells, moved = found[step][f"{rows} × {columns}"], least * rows * columns
            assert cells["ours"] == pytest.approx((moved / 1e6, moved / 1.25e6, moved / 0.5e6))
            assert cells["torch"] == pytest.approx((moved / 2e6,) * 3) and cells["copy"] == pytest.approx((0.5,) * 3)
            assert cells["share"] == pytest.approx(2e-6 * moved) and cells["torch_share"] == pytest.approx(1e-6 * moved)
    checked = [(list(sides), [tuple(x.shape) for x in given]) for sides, given, expected in filter(is_check, made_up)]
    tensors = [[shape] * count for count in (1, 2) for shape in measured.SHAPES]
    assert checked == [(["ours", "torch"], shapes) for shapes in tensors], "each is compared once"
    timed = [call for call in made_up if not is_check(call)]
    copies = 2 * len({rows * columns for rows, columns in measured.SHAPES})  # shapes of one size share a copy
    assert timed.count((["ours", "torch"], 3)) == 12 and timed.count((["copy"], 3)) == len(timed) - 12 == copies


def is_check(call):
    return len(call) == 3


@pytest.mark.gpu
@pytest.mark.parametrize("step", ["forward", "both"])
def test_measures(step):
    found = measured.measure.__wrapped__(256, 3000, step)
    assert all(0 < found[name].median < 1 for name in ("ours", "torch"))
    assert 0 < measured.measure_copy.__wrapped__(measured.MOVED[step] * 256 * 3000 * 2).median < 1


@pytest.mark.gpu
def test_a_backward_in_a_graph_writes_the_gradient():
    x, grad = numbers(256, 3000, device="cuda", count=2)
    for run in map(measured.with_backward, measured.SIDES.values()):
        [expected] = run(x, grad)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            [found] = run(x, grad)
        found.zero_()
        graph.replay()
        assert torch.equal(found, expected) and found.any()
