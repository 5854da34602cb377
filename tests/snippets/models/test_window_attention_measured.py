# SPDX-License-Identifier: Apache-2.0
"""All sides of a case compute the same; a cell is the median, fastest and slowest round; what has no side is NaN."""

import functools
import json
import math
import subprocess

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
    assert listed == [mark.benchmarks.plot_name for mark in MARKS] == ["forward", "both", "options", "blocks", "first"]


@pytest.fixture
def small(monkeypatch):
    """40 tokens in float32, which the interpreter serves; FlexAttention not compiled; no sides that need a GPU."""
    sizes = {"TOKENS": 40, "HEADS": 4, "KV_HEADS": 2, "HEAD_DIM": 16, "OPTIONS_WINDOW": 13}
    for name, value in (sizes | {"DEVICE": "cpu", "DTYPE": torch.float32}).items():
        monkeypatch.setattr(measured, name, value)
    monkeypatch.setattr(measured, "BACKENDS", {"cudnn": measured.SDPBackend.MATH, "flash": measured.SDPBackend.MATH})
    make = measured.create_block_mask
    monkeypatch.setattr(measured, "create_block_mask", lambda *given, _compile, **options: make(*given, **options))
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(long_softmax_measured, "LARGEST_ERROR", 1e-5)
    torch.manual_seed(0)
    monkeypatch.setattr(measured, "sets_of", lambda step: [measured.operands(step)])


def alike(sides, step="forward"):
    measured.check_alike(sides, measured.sets_of(step)[0], "library")


@pytest.mark.parametrize("window", [1, 17, 40])
def test_all_sides_of_a_window_compute_the_same(small, window):
    sides = measured.sides_of(window, "forward")
    assert set(sides) == {"library", "flex", "ours", "masked"} | ({"cudnn", "flash"} if window == 40 else set())
    alike(sides)
    with pytest.raises(RuntimeError, match="ours differs from library"):
        alike(sides | {"ours": functools.partial(measured.window_attention, window=window + 5, scale=0.1)})


@pytest.mark.parametrize("option", measured.OPTIONS)
def test_all_sides_of_an_option_compute_the_same(small, option):
    sides = measured.option_sides(option)
    assert set(sides) == {"library", "flex"} | (set() if option == "ALiBi" else {"ours"})
    alike(sides)
    plain = measured.option_sides("none")["library"]
    given = measured.sets_of("forward")[0]
    differs = not torch.allclose(plain(*given), sides["library"](*given), rtol=1e-6, atol=1e-6)
    assert differs == (option != "none")


def test_the_mask_alone_visits_every_tile(small):
    q, k, v = measured.operands("forward")
    loads = []
    for run in (measured.masked_alone, lambda q, k, v, window: measured.window_attention(q, k, v, window=window)):
        with recorded_accesses() as seen:
            run(q, k, v, 1)
        inside = lambda at: (at >= k.data_ptr()) & (at < k.data_ptr() + k.nbytes)
        loads.append(sum(int(inside(at).sum()) for kind, at in seen if kind == "load"))
    assert loads[0] > loads[1] > 0


def test_tables(monkeypatch):
    asked = []
    found = {"ours": Timing((2.0, 3.0, 1.0)), "flex": Timing((4.0,))}
    monkeypatch.setattr(measured, "measure", lambda case, step: asked.append((case, step)) or found)
    assert measured.forward.fn(128, "ours") == (2.0, 1.0, 3.0)
    assert math.isnan(measured.forward.fn(128, "cudnn"))
    assert measured.both.fn(4096, "flex") == (4.0, 4.0, 4.0)
    assert measured.options.fn("softcap", "ours") == (2.0, 1.0, 3.0)
    assert asked == [(128, "forward"), (128, "forward"), (4096, "both"), ("softcap", "options")]


def test_first_calls_are_those_of_a_fresh_process_with_empty_caches(monkeypatch):
    given = {}

    def run(command, env, **options):
        given.update(env, command=command)
        return subprocess.CompletedProcess(command, 0, "noise\n" + json.dumps(dict.fromkeys(measured.STEPS, 1.5)))

    monkeypatch.setattr(measured.subprocess, "run", run)
    measured.measure_first.cache_clear()
    assert measured.first.fn("a third length", "flex") == 1.5
    assert given["command"][1:] == [measured.__file__, "flex"]
    assert given["TRITON_CACHE_DIR"].startswith(given["TORCHINDUCTOR_CACHE_DIR"].removesuffix("inductor"))
    measured.measure_first.cache_clear()


@pytest.mark.gpu
def test_measures(monkeypatch):
    monkeypatch.setattr(measured, "TOKENS", 4096)
    found = measured.measure.__wrapped__(1024, "forward")
    assert set(found) == {"library", "flex", "ours", "masked"}
    assert all(0 < timing.median < 10 for timing in found.values())
