# SPDX-License-Identifier: Apache-2.0
"""All sides of a window compute the same; a cell is the median, fastest and slowest round; what has no side is NaN."""

import functools
import math
from unittest import mock

import pytest
import torch
import triton
from guards import recorded_accesses

from snippets.fusion import long_softmax_measured
from snippets.models import window_attention_measured as measured
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [mark.benchmarks.plot_name for mark in MARKS] == ["forward", "options"]


@pytest.fixture
def small(monkeypatch):
    """40 tokens in float32, which the interpreter serves, and torch's plain product in place of its peers."""
    sizes = {"TOKENS": 40, "HEADS": 4, "KV_HEADS": 2, "HEAD_DIM": 16, "OPTIONS_WINDOW": 13}
    for name, value in (sizes | {"DEVICE": "cpu", "DTYPE": torch.float32}).items():
        monkeypatch.setattr(measured, name, value)
    monkeypatch.setattr(measured, "BACKENDS", {"cudnn": measured.SDPBackend.MATH, "flash": measured.SDPBackend.MATH})
    monkeypatch.setattr(long_softmax_measured, "LARGEST_ERROR", 1e-5)
    torch.manual_seed(0)
    given = measured.operands()
    monkeypatch.setattr(measured, "sets", lambda: [given])
    return given


@pytest.mark.parametrize("window", [5, 17, 40])
def test_all_sides_of_a_window_compute_the_same(small, window, monkeypatch):
    ran = []
    monkeypatch.setattr(measured, "timed", lambda sides: ran.append(set(sides)))
    measured.measure.__wrapped__(window)
    assert ran == [{"ours", "masked"} | ({"cudnn", "flash"} if window == 40 else set())]
    wrong = functools.partial(measured.window_attention, window=window, scale=0.1)
    monkeypatch.setattr(measured, "masked_alone", lambda *given, window: wrong(*given))
    with pytest.raises(RuntimeError, match="masked differs from ours"):
        measured.measure.__wrapped__(window)


def test_options_change_the_result(small):
    sides = measured.option_sides()
    assert list(sides) == measured.options.benchmarks.x_vals
    plain, *others = (run(*small) for run in sides.values())
    assert not any(torch.allclose(plain, other, rtol=1e-6, atol=1e-6) for other in others)


def test_the_mask_alone_visits_every_tile(small):
    q, k, v = small
    loads = []
    for run in (measured.masked_alone, lambda q, k, v, window: measured.window_attention(q, k, v, window=window)):
        with recorded_accesses() as seen:
            run(q, k, v, 1)
        inside = lambda at: (at >= k.data_ptr()) & (at < k.data_ptr() + k.nbytes)
        loads.append(sum(int(inside(at).sum()) for kind, at in seen if kind == "load"))
    assert loads[0] > loads[1] > 0


@pytest.mark.parametrize("block_q, block_k", [(16, 32), (32, 16)])
def test_the_mask_alone_in_tiles_that_are_not_square(block_q, block_k):
    tile = {"BLOCK_Q": block_q, "BLOCK_K": block_k, "num_warps": 4, "num_stages": 2}
    shapes = (2, 70, 4, 16), (2, 90, 2, 16), (2, 90, 2, 16)
    q, k, v = (torch.randn(shape).transpose(1, 2) for shape in shapes)
    with mock.patch.object(measured.snippet.plain, "default_tile", lambda *_: tile):
        for window in (1, 20, 200):
            wanted = measured.window_attention(q, k, v, window=window)
            assert torch.allclose(measured.masked_alone(q, k, v, window), wanted, atol=1e-5)


def test_tables(monkeypatch):
    asked = []
    found = {"ours": Timing((2.0, 3.0, 1.0))}
    monkeypatch.setattr(measured, "measure", lambda window: asked.append(window) or found)
    monkeypatch.setattr(measured, "measure_options", lambda: {"softcap": Timing((4.0,))})
    assert measured.forward.fn(128, "ours") == (2.0, 1.0, 3.0)
    assert math.isnan(measured.forward.fn(128, "cudnn")) and asked == [128, 128]
    assert measured.options.fn("softcap", "ours") == (4.0, 4.0, 4.0)
