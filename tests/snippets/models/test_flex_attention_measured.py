# SPDX-License-Identifier: Apache-2.0
"""All sides of a case compute the same, and calls are timed one after another, each with its own block mask."""

import functools
import math
import os

import pytest
import torch
import triton

from snippets.fusion import long_softmax_measured
from snippets.models import flex_attention_measured as measured
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [mark.benchmarks.plot_name for mark in MARKS] == ["forward", "both", "options", "first", "blocks"]


@pytest.fixture
def small(monkeypatch):
    """40 tokens in float32, which the interpreter serves; FlexAttention not compiled."""
    sizes = {"TOKENS": 40, "HEADS": 4, "KV_HEADS": 2, "HEAD_DIM": 16, "OPTIONS_WINDOW": 13}
    for name, value in (sizes | {"DEVICE": "cpu", "DTYPE": torch.float32}).items():
        monkeypatch.setattr(measured, name, value)
    monkeypatch.setattr(measured, "compiled", lambda: measured.flex_attention)
    monkeypatch.setattr(measured.torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.setattr(long_softmax_measured, "LARGEST_ERROR", 1e-5)
    torch.manual_seed(0)
    given = measured.operands("both")
    monkeypatch.setattr(measured, "sets_of", lambda step: [given[: 4 if step == "both" else 3]])


def alike(sides):
    measured.check_alike(sides, measured.sets_of("forward")[0], "library")


@pytest.mark.parametrize("window", [5, 17, 40])
def test_all_sides_of_a_window_compute_the_same(small, window):
    sides = measured.sides_of(window, "forward")
    assert set(sides) == set(measured.forward.benchmarks.line_vals)
    alike(sides)
    with pytest.raises(RuntimeError, match="flex differs from library"):
        alike(sides | {"flex": functools.partial(sides["flex"], scale=0.1)})
    assert set(measured.sides_of(window, "both")) == set(measured.both.benchmarks.line_vals)


@pytest.mark.parametrize("option", measured.options.benchmarks.x_vals)
def test_all_sides_of_an_option_compute_the_same(small, option):
    sides = measured.option_sides(option)
    assert set(sides) == set(measured.options.benchmarks.line_vals)
    alike(sides)
    given = measured.sets_of("forward")[0]
    plain = measured.copied(13)(*given)
    assert not torch.allclose(plain, sides["library"](*given), rtol=1e-6, atol=1e-6)


def test_each_first_call_has_a_block_mask_of_its_length(small, monkeypatch):
    asked, made, ran = [], measured.mask_of, []
    monkeypatch.setattr(measured, "mask_of", lambda window, tokens: asked.append(tokens) or made(window, tokens))
    monkeypatch.setattr(measured, "with_backward", lambda run: lambda *given: ran.append(run))
    took = measured.first_calls.__wrapped__()
    assert [*took, *measured.CALLS] == measured.first.benchmarks.x_vals
    assert all(value > 0 for by_side in took.values() for value in by_side.values())
    assert asked == [1024, 40, 40, 40, 40] and len(ran) == 2 and "TORCHINDUCTOR_CACHE_DIR" in os.environ
    monkeypatch.setattr(measured, "CALLS", {"another length": (7, 24)})
    assert set(measured.later_calls.__wrapped__("another length")) == {"library", "flex"} and asked[-1] == 24


def test_tables(monkeypatch):
    asked = []
    found = {"library": Timing((2.0, 3.0, 1.0)), "flex": Timing((4.0,))}
    monkeypatch.setattr(measured, "measure", lambda case, step: asked.append((case, step)) or found)
    assert measured.forward.fn(128, "flex") == measured.both.fn(4096, "flex") == (4.0, 4.0, 4.0)
    assert measured.options.fn("softcap", "library") == (2.0, 1.0, 3.0)
    assert asked == [(128, "forward"), (4096, "both"), ("softcap", "options")]
    monkeypatch.setattr(measured, "first_calls", lambda: {"another window": {"flex": 0.5}})
    assert measured.first.fn("another window", "flex") == 0.5
    assert math.isnan(measured.first.fn("another window", "library"))
