# SPDX-License-Identifier: Apache-2.0
"""Products and layers to copy: the sides agree, the rates are of the FLOPs, and a call of each kind is timed."""

import pytest
import torch
import triton

from snippets.library import matmul_measured as measured
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_names_every_benchmark(capsys):
    measured.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(".")[0] for line in lines] == [mark.benchmarks.plot_name for mark in MARKS]


@pytest.fixture
def small(monkeypatch):
    """Small matrices in float32, which the interpreter serves; nothing compiled, and each side run once."""
    monkeypatch.setattr(measured, "DTYPE", torch.float32)
    monkeypatch.setattr(measured, "DEVICE", "cpu")
    monkeypatch.setattr(measured, "SMALL", 16)
    monkeypatch.setattr(measured.torch, "compile", lambda function, dynamic: function)
    few = lambda shape: tuple(min(size, 12 + size % 7) for size in shape)
    monkeypatch.setattr(measured, "SHAPES", {name: few(shape) for name, shape in measured.SHAPES.items()})
    layers = {name: layer._replace(shape=(6, 10, 12)) for name, layer in measured.LAYERS.items()}
    monkeypatch.setattr(measured, "LAYERS", layers)

    def run_once(sides, make, rounds, steady):
        for side in sides.values():
            side(*make())
        return {name: Timing([2.0 if name == "ours" else 1.0]) for name in sides}

    monkeypatch.setattr(measured, "compare_in_rotation", run_once)
    caches = measured.measure_product, measured.measure_layer, measured.measure_host
    for each in caches:
        each.cache_clear()
    yield
    for each in caches:
        each.cache_clear()


@pytest.mark.parametrize("name", ["512 × 512 × 512", "4096 × 576 × 7168", "1 × 4096 × 4096"])
def test_products_agree_and_shares_are_of_the_time(small, name):
    M, N, K = measured.SHAPES[name]
    for layout in ("", "rows_"):
        ours, cublas, share = (measured.product.fn(name, layout + side) for side in ("ours", "cublas", "share"))
        assert ours[0] == pytest.approx(2 * M * N * K / 2e-3 / 1e12) and cublas[0] == pytest.approx(2 * ours[0])
        assert share == 0.5
    assert measured.operands(M, N, K, "weight")[1].stride() == (1, K)
    assert measured.operands(M, N, K, "rows")[1].stride() == (N, 1)


@pytest.mark.parametrize("name", measured.LAYERS)
def test_layers_agree_and_the_rate_is_of_the_flops(small, name):
    flops = 2 * 6 * 10 * 12 * (2 if "gated" in name else 1)
    assert measured.forward.fn(name, "ours")[0] == pytest.approx(flops / 2e-3 / 1e12)
    assert measured.both.fn(name, "ours")[0] == pytest.approx(3 * flops / 2e-3 / 1e12)
    assert measured.both.fn(name, "compiled") == measured.both.fn(name, "torch")


def test_a_wrong_side_is_refused(small, monkeypatch):
    monkeypatch.setattr(measured, "matmul", lambda a, b: 1.1 * (a @ b))
    with pytest.raises(RuntimeError, match="ours differs from cublas"):
        measured.measure_product("512 × 512 × 512", "rows")
    monkeypatch.setattr(measured, "linear", lambda x, weight, *given, **options: x @ weight.T)
    with pytest.raises(RuntimeError, match="ours differs from torch"):
        measured.measure_layer("bias, GELU, 8192 × 3072 × 768", "forward")


def test_the_host_is_timed_call_by_call(small, monkeypatch):
    ran = []
    monkeypatch.setattr(measured.launch_cost, "host", lambda run, calls: ran.append((run(), calls)) or 3e-4)
    rows = measured.host.benchmarks.x_vals
    assert list(measured.calls()) == rows
    for name in rows[2:]:
        assert [measured.host.fn(name, side)[0] for side in ("ours", "torch")] == pytest.approx([3, 3])
    assert {(tuple(result.shape), calls) for result, calls in ran} == {((16, 16), 100)}
