# SPDX-License-Identifier: Apache-2.0
"""Without a GPU: which sides and shapes there are, what a cell of a table is, and what is refused."""

import pytest
import torch
import triton

from snippets.fusion import block_measured as measured
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [mark.benchmarks.plot_name for mark in MARKS] == ["times", "memory", "losses"]


def test_the_gain_is_over_the_faster_of_the_two(monkeypatch):
    made = {"ours": Timing((2.0, 3.0, 4.0)), "torch": Timing((6.0,)), "compiled": Timing((4.5,))}
    monkeypatch.setattr(measured, "measure", lambda shape: made)
    assert measured.times.fn("any", "gain") == 1.5
    assert measured.times.fn("any", "ours") == (3.0, 2.0, 4.0)


def test_memory_is_in_megabytes(monkeypatch):
    monkeypatch.setattr(measured, "held", lambda shape, side: 3_000_000)
    assert measured.memory.fn("any", "ours") == 3.0


def test_a_loss_is_the_mean_of_ten(monkeypatch):
    monkeypatch.setattr(measured, "history", lambda side: [float(i) for i in range(1001)])
    assert [measured.losses.fn(step, "ours") for step in (0, 4, 1000)] == [0.0, 2.0, 995.5]


def test_a_wrong_side_is_refused(monkeypatch):
    grads = {"ours": 1.2, "torch": 1.0, "compiled": 1.0}
    monkeypatch.setattr(measured, "operands", lambda shape: [])
    monkeypatch.setattr(measured, "step_of", lambda shape, side: lambda: [torch.tensor([grads[side]])])
    monkeypatch.setattr(measured, "compare_in_rotation", lambda *_, **__: pytest.fail("timed, and wrong"))
    with pytest.raises(RuntimeError, match=r"ours differs from torch by 0\.2 at"):
        measured.measure.__wrapped__("1 × 8192 tokens, 4096 wide")


@pytest.mark.gpu
def test_sides_agree_and_are_timed(monkeypatch):
    monkeypatch.setitem(measured.NAMED, "small", (1, 256, 512, 4, 2, 1024))
    found = measured.measure.__wrapped__("small")
    assert list(found) == ["ours", "torch", "compiled"]
    assert measured.held("small", "ours") > 0
