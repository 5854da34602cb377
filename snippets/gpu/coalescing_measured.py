# SPDX-License-Identifier: Apache-2.0
"""Coalescing, measured: what strides, gathers, narrow loads and transposes cost.

- :func:`strides`: ``take_every``, by the step between the elements
- :func:`gathers`: ``gather``, by the order of its indices
- :func:`widths`: a copy, by the width of its loads
- :func:`tiles`: ``transpose``, by the shape of its tile

Units: GB/s of 10**9 useful bytes: each element of the result is read once and written once; an index is read.

``python coalescing_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools

import torch
import triton

from snippets.gpu.coalescing import STEPS, gather, take_every, transpose
from snippets.tools.benchmarking import compare

# --8<-- [start:measure]
N = 2**24  # elements of a result


@functools.lru_cache(maxsize=1)
def measure_strides(step):
    x = torch.rand(N * step, device="cuda")
    out = torch.empty(N, device="cuda")
    sides = {
        "four": lambda: take_every(x, step, num_warps=4),
        "one": lambda: take_every(x, step, num_warps=32),
        "torch": lambda: out.copy_(x[::step]),
    }
    return {side: timing.rate(2 * 4 * N) for side, timing in compare(sides, rounds=6).items()}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="strides",
        x_names=["step"],
        x_vals=list(STEPS),
        x_log=True,
        xlabel="step, in elements (float32)",
        ylabel="useful GB/s",
        line_arg="side",
        line_vals=["four", "one", "torch"],
        line_names=["take_every, 4 elements a thread", "take_every, 1 element a thread", "torch"],
        args={},
    )
)
def strides(step, side):
    """Useful bytes per second of ``x[::step]`` with 2²⁴ elements: median, slowest and fastest of 6 rounds."""
    return measure_strides(step)[side]
# --8<-- [end:measure]


BY_BYTES = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
ORDERS = {"ordered": "in order", "nearby": "shuffled within 1,024", "random": "random"}


def indices(order: str, elements: int, n: int = N) -> torch.Tensor:
    """Return ``n`` int32 indices into ``elements`` elements, in one of ``ORDERS``."""
    index = torch.arange(n, dtype=torch.int32, device="cuda")
    if order == "nearby":
        shuffles = torch.rand(n // 1024, 1024, device="cuda").argsort(dim=1)
        index = index.view(-1, 1024).gather(1, shuffles).flatten()
    elif order == "random":
        index = torch.randint(elements, (n,), dtype=torch.int32, device="cuda")
    return index


@functools.lru_cache(maxsize=1)
def measure_gathers(bytes):
    x = torch.randint(100, (2**30 // bytes,), device="cuda", dtype=BY_BYTES[bytes])  # far more than L2 holds
    made = {order: indices(order, len(x)) for order in ORDERS}
    sides = {order: functools.partial(gather, x, index) for order, index in made.items()}
    sides["torch"] = lambda: x[made["random"]]
    return {side: timing.rate((4 + 2 * bytes) * N) for side, timing in compare(sides, rounds=4).items()}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="gathers",
        x_names=["bytes"],
        x_vals=list(BY_BYTES),
        xlabel="bytes in an element",
        ylabel="useful GB/s",
        line_arg="order",
        line_vals=[*ORDERS, "torch"],
        line_names=[*ORDERS.values(), "random, by torch"],
        args={},
    )
)
def gathers(bytes, order):
    """Useful bytes per second of ``x[index]``, 2²⁴ out of 1 GiB: median, slowest and fastest of 4 rounds."""
    return measure_gathers(bytes)[order]


@functools.lru_cache(maxsize=1)
def measure_widths(bytes):
    n = 2**28 // bytes
    x = torch.randint(100, (n + 16,), device="cuda", dtype=BY_BYTES[bytes])
    block = 4096 // bytes
    sides = {
        "aligned": lambda: take_every(x[:n], 1, block_size=block),
        "shifted": lambda: take_every(x[1 : n + 1], 1, block_size=block),
    }
    return {side: timing.rate(2 * 2**28) for side, timing in compare(sides, rounds=6).items()}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="widths",
        x_names=["bytes"],
        x_vals=list(BY_BYTES),
        xlabel="bytes in an element",
        ylabel="GB/s",
        line_arg="start",
        line_vals=["aligned", "shifted"],
        line_names=["x: 16 bytes a load", "x[1:]: one element a load"],
        args={},
    )
)
def widths(bytes, start):
    """Bytes per second of a copy of 256 MiB by the width of its loads: median, slowest and fastest of 6 rounds."""
    return measure_widths(bytes)[start]


TILES = (1, 4096), (2, 2048), (4, 1024), (8, 512), (16, 256), (32, 128), (64, 64), (128, 32), (512, 8), (4096, 1)


@functools.lru_cache(maxsize=1)
def measure_tiles(n=8192):
    x = torch.rand(n, n, device="cuda")
    out = torch.empty_like(x)
    sides = {f"{r} × {c}": functools.partial(transpose, x, rows=r, columns=c) for r, c in TILES}
    sides |= {"torch": lambda: out.copy_(x.T), "copy": lambda: out.copy_(x)}
    return {side: timing.rate(2 * 4 * n * n) for side, timing in compare(sides, rounds=4).items()}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="tiles",
        x_names=["tile"],
        x_vals=[f"{r} × {c}" for r, c in TILES],
        xlabel="tile of 4,096 elements",
        ylabel="GB/s",
        line_arg="side",
        line_vals=["triton", "torch", "copy"],
        line_names=["transpose", "torch", "a copy"],
        args={},
    )
)
def tiles(tile, side):
    """Bytes per second of the transpose of 8192 × 8192 float32: median, slowest and fastest of 4 rounds."""
    return measure_tiles()[tile if side == "triton" else side]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (strides, gathers, widths, tiles):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
