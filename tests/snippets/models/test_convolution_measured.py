# SPDX-License-Identifier: Apache-2.0
"""All sides give the same results, a copy moves as many bytes as they must, and units are what a table says."""

import pytest
import torch
import triton

from snippets.models import convolution_measured as module
from snippets.models.convolution import in_torch
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(module).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    module.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)


@pytest.fixture
def small(monkeypatch):
    """Small tensors in float32, which the interpreter serves, and each side run once instead of timed."""
    make = torch.randn
    monkeypatch.setattr(module.torch, "randn", lambda *shape, device=None, dtype=None: make(*shape))
    monkeypatch.setattr(module.torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(module, "TILES", [(1, 16), (4, 4)])
    monkeypatch.setattr(module, "TILED_PIXELS", 20)
    monkeypatch.setattr(module, "TEXTS", {layout: (layout, 2, 5, 12) for layout in ("tokens", "time")})
    layers = {"3 × 3": (2, 3, 9, 5, 3, 2, 1), "1 × 1": (2, 3, 9, 5, 1, 1, 0)}
    monkeypatch.setattr(module, "PICTURES", layers | {"28², 128 → 128, 3 × 3": (2, 3, 9, 5, 3, 1, 1)})
    seen = {}

    def run_once(sides, make, rounds):
        given = make()
        for name, side in sides.items():
            seen[name] = given, side(*given)
        return {name: Timing((1.0, 3.0, 2.0)) for name in sides}

    def rates(sides, make, flops, rounds):
        run_once(sides, make, rounds)
        return {name: (flops, flops, flops) for name in sides}

    monkeypatch.setattr(module, "compare_in_rotation", run_once)
    monkeypatch.setattr(module, "rates", rates)
    caches = [getattr(module, name) for name in dir(module) if name.startswith("measure_")]
    for each in caches:
        each.cache_clear()
    yield seen
    for each in caches:
        each.cache_clear()


def test_tables(small):
    assert module.stencil.fn(20, "compiled") == (2000.0, 1000.0, 3000.0)
    assert set(small) == set(module.BLURS) == set(module.stencil.benchmarks.line_vals)
    assert list(module.measure_tiles()) == ["1 × 16", "4 × 4", "copy"]
    assert module.tiles.fn("4 × 4", "ours") == module.tiles.fn("4 × 4", "copy") == (2000.0, 1000.0, 3000.0)


@pytest.mark.parametrize("layout", ["tokens", "time"])
def test_a_copy_moves_what_the_passes_have_to(small, layout):
    assert module.causal.fn(layout, "torch") == (2000.0, 1000.0, 3000.0)
    assert set(small) == set(module.CAUSAL)
    results = small["ours"][1], small["loads"][1], small["compiled"][1]
    assert all(torch.allclose(each[0], results[0][0], atol=1e-4) for each in results)
    (x, _), y = small["copy"]
    assert y.shape == x.shape and x.stride(1 if layout == "tokens" else 2) == 1
    assert module.training.fn(layout, "copy") == (2000.0, 1000.0, 3000.0)
    (x, grad), (one, two) = small["copy"]
    assert torch.equal(one, -x) and torch.equal(two, x + grad)
    assert [each.shape for each in small["ours"][1]] == [(2, 5, 12), (5, 4), (5,)]


def test_cudnns_convolution_sees_no_later_step():
    x, weight, bias = torch.randn(2, 5, 9), torch.randn(5, 4), torch.randn(5)
    assert torch.allclose(module.by_conv1d(x, weight, bias), in_torch(x, weight, bias, silu=True), atol=1e-5)


def test_operations_are_counted(small):
    assert module.pictures.fn("3 × 3", "ours")[0] == 2 * 2 * 5 * 5 * 5 * 3 * 9
    assert module.pictures.fn("1 × 1", "torch")[0] == 2 * 2 * 9 * 9 * 5 * 3


def test_formats(small):
    assert module.formats.fn("contiguous", "ours") == (2000.0, 1000.0, 3000.0)
    assert small["ours"][0][0].is_contiguous()
    module.formats.fn("channels_last", "ours")
    assert small["ours"][0][0].is_contiguous(memory_format=torch.channels_last)


def test_a_wrong_side_is_refused(small, monkeypatch):
    monkeypatch.setattr(module, "blur", lambda x: x + 1)
    with pytest.raises(RuntimeError, match="ours differs by"):
        module.measure_stencil(20)
