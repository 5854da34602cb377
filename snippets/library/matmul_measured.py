# SPDX-License-Identifier: Apache-2.0
"""The products to copy, measured, beside cuBLAS, and their layers beside torch, eager and compiled.

- :func:`product`: TFLOP/s of ``matmul``, by shape and by how the right matrix is stored
- :func:`forward`, :func:`both`: TFLOP/s of layers, forward, and forward and backward together
- :func:`host`: microseconds until a call has returned

The right matrix is the transpose of a weight, as ``torch.nn.Linear`` has it, or stored row after row. *compiled* is
what ``torch.compile`` makes of torch's layer for just this shape. bfloat16, normally distributed; weights are scaled so
that an activation gets numbers around 1. Sides are compared with each other before they are timed: in turns, on
operands in rotation, all calls in one CUDA graph (``snippets/tools/benchmarking_cold.py``).

FLOPs: 2 * M * N * K, and of a gated layer twice that; forward and backward three times as many. Units: TFLOP/s of
10**12, microseconds, and shares of the time of cuBLAS or torch.
Source: ``torch.matmul`` calls cuBLAS.

``python matmul_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
import triton

from snippets.fusion.long_softmax_measured import check_alike, with_backward
from snippets.gpu import launch_cost
from snippets.library.matmul import in_torch, linear, matmul
from snippets.tools.benchmarking import Timing, compare
from snippets.tools.benchmarking_cold import compare_in_rotation

DTYPE, DEVICE = torch.bfloat16, "cuda"
LARGE = 1e11  # FLOPs: products from here on lower the clock, so each is timed at its own


# --8<-- [start:product]
SHAPES = {
    f"{M} × {N} × {K}": (M, N, K)
    for M, N, K in (
        (512, 512, 512), (1024, 1024, 1024), (1536, 1536, 1536), (2048, 2048, 2048), (4096, 4096, 4096),
        (8192, 8192, 8192), (4096, 14336, 4096), (4096, 4096, 14336), (4096, 576, 7168), (300, 7168, 2048),
        (1024, 50257, 768), (16, 4096, 14336), (1, 4096, 4096),
    )
}  # fmt: skip


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE, dtype=DTYPE)


def operands(M: int, N: int, K: int, layout: str) -> list[torch.Tensor]:
    """Return random matrices; the right one is a ``"weight"``, transposed, or has ``"rows"``."""
    return [random(M, K), random(N, K).t() if layout == "weight" else random(K, N)]


@functools.cache
def measure_product(name: str, layout: str) -> dict[str, Timing]:
    """Return the milliseconds of both sides."""
    torch.manual_seed(0)
    M, N, K = SHAPES[name]
    sides = {"ours": matmul, "cublas": torch.matmul}
    make = functools.partial(operands, M, N, K, layout)
    check_alike(sides, make(), "cublas")
    return compare_in_rotation(sides, make, rounds=3, steady=2 * M * N * K > LARGE)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="product",
        x_names=["shape"],
        x_vals=list(SHAPES),
        xlabel="M × N × K",
        ylabel="TFLOP/s",
        line_arg="side",
        line_vals=["ours", "cublas", "share", "rows_ours", "rows_cublas", "rows_share"],
        line_names=["weight: ours", "cuBLAS", "of cuBLAS", "rows: ours", "cuBLAS, rows", "of cuBLAS, rows"],
        args={},
    )
)
def product(shape, side):
    """TFLOP/s of a product: median, slowest and fastest of 3 rounds."""
    layout, _, side = side.rpartition("_")
    found, (M, N, K) = measure_product(shape, layout or "weight"), SHAPES[shape]
    if side == "share":
        return found["cublas"].median / found["ours"].median
    return found[side].rate(2 * M * N * K, unit=1e12)
# --8<-- [end:product]


# --8<-- [start:layers]
class Layer(NamedTuple):
    """A layer from K to N columns, of M rows."""

    shape: tuple[int, int, int]  # M, N and K
    activation: str
    gated: bool = False
    has_bias: bool = True

    def flops(self, step: str) -> int:
        M, N, K = self.shape
        return 2 * M * N * K * (1 + self.gated) * (1 if step == "forward" else 3)


LAYERS = {
    "bias, GELU, 8192 × 3072 × 768": Layer((8192, 3072, 768), "gelu"),
    "bias, GELU, 4096 × 14336 × 4096": Layer((4096, 14336, 4096), "gelu"),
    "gated by SiLU, 4096 × 14336 × 4096": Layer((4096, 14336, 4096), "silu", gated=True, has_bias=False),
}


def given_to(layer: Layer, step: str) -> list[torch.Tensor]:
    """Return x, a weight, a bias if there is one, and for both directions the gradient of the result."""
    M, N, K = layer.shape
    rows = N * (1 + layer.gated)
    given = [random(M, K), random(rows, K) * K**-0.5]
    given += [random(rows)] if layer.has_bias else []
    return given if step == "forward" else [*given, random(M, N)]


def call(function: Callable[..., torch.Tensor], layer: Layer, x, weight, bias=None) -> torch.Tensor:
    return function(x, weight, bias, layer.activation, gated=layer.gated)


@functools.cache
def measure_layer(name: str, step: str) -> dict[str, Timing]:
    """Return the milliseconds of each side, forward or both."""
    torch.manual_seed(0)
    torch.compiler.reset()  # for it compiles a function for some shapes, and then no more
    layer = LAYERS[name]
    sides = {"ours": functools.partial(call, linear, layer), "torch": functools.partial(call, in_torch, layer)}
    sides["compiled"] = torch.compile(sides["torch"], dynamic=False)
    if step == "both":
        sides = {side: with_backward(run) for side, run in sides.items()}
    make = functools.partial(given_to, layer, step)
    check_alike(sides, make(), "torch")
    return compare_in_rotation(sides, make, rounds=3, steady=True)


COLUMNS = {
    "x_names": ["layer"],
    "x_vals": list(LAYERS),
    "xlabel": "layer, M × N × K",
    "ylabel": "TFLOP/s",
    "line_arg": "side",
    "line_vals": ["ours", "torch", "compiled"],
    "line_names": ["this file", "torch", "compiled"],
}


@triton.testing.perf_report(triton.testing.Benchmark(plot_name="forward", args={}, **COLUMNS))
def forward(layer, side):
    """TFLOP/s of a layer's forward, without gradients: median, slowest and fastest of 3 rounds."""
    return measure_layer(layer, "forward")[side].rate(LAYERS[layer].flops("forward"), unit=1e12)


@triton.testing.perf_report(triton.testing.Benchmark(plot_name="both", args={}, **COLUMNS))
def both(layer, side):
    """TFLOP/s of forward and backward together: median, slowest and fastest of 3 rounds."""
    return measure_layer(layer, "both")[side].rate(LAYERS[layer].flops("both"), unit=1e12)
# --8<-- [end:layers]


# --8<-- [start:host]
SMALL = 512  # rows and columns: so few that the GPU keeps up with either


def calls() -> dict[str, dict[str, Callable[[], object]]]:
    """Return calls by what is called and by side."""
    given = random(SMALL, SMALL), random(SMALL, SMALL), random(SMALL)
    leaves = [x.clone().requires_grad_() for x in given]
    layers = {"ours": linear, "torch": in_torch}
    each = lambda *given: {side: functools.partial(run, *given) for side, run in layers.items()}
    return {
        "matmul": {"ours": lambda: matmul(*given[:2]), "torch": lambda: torch.matmul(*given[:2])},
        "linear, bias": each(*given),
        "linear, bias, GELU": each(*given, "gelu"),
        "the same, with gradients to come": each(*leaves, "gelu"),
    }


@functools.cache
def measure_host(what: str, times: int = 100, rounds: int = 10) -> Mapping[str, Timing]:
    """Return the milliseconds until a call has returned; all calls fit into the queue, so none waits for the GPU."""
    torch.manual_seed(0)
    sides = calls()[what]
    for run in sides.values():
        run()  # compiles
    return compare(sides, rounds=rounds, timer=lambda run: launch_cost.host(run, times) * 1e3 / times)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="host",
        x_names=["call"],
        x_vals=["matmul", "linear, bias", "linear, bias, GELU", "the same, with gradients to come"],
        xlabel="what is called",
        ylabel="µs",
        line_arg="side",
        line_vals=["ours", "torch"],
        line_names=["this file", "torch"],
        args={},
    )
)
def host(call, side):
    """Microseconds of the host until a call returns: median, fastest and slowest of 10 rounds of 100 calls."""
    timing = measure_host(call)[side]
    return tuple(ms * 1e3 for ms in (timing.median, min(timing.rounds), max(timing.rounds)))
# --8<-- [end:host]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (product, forward, both, host):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
