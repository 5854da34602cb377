# SPDX-License-Identifier: Apache-2.0
"""Grayscale, measured: by the shape of the block, by the layout of the picture, and beside torch.

- :func:`blocks`: GB/s, by the shape of the block
- :func:`sizes`: GB/s of both layouts, of one-dimensional blocks, of torch eager and compiled, and of a copy

Pictures of random pixels, uint8. Units: GB/s of 10**9 bytes, three read and one written for each pixel.

``python greyscale_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools

import torch
import triton

from snippets.programs.greyscale import by_torch, greyscale, greyscale_flat, interleaved
from snippets.tools.benchmarking import compare


def rate(sides: dict, pixels: int, rounds: int = 4) -> dict:
    """Return GB/s by side: median, slowest and fastest round.

    The sides take turns; L2 is cold and clean before each run.
    """
    found = compare(sides, rounds=rounds)
    return {side: timing.rate(4 * pixels) for side, timing in found.items()}  # three bytes read and one written


@functools.lru_cache(maxsize=1)
def measure_blocks(block, side=8192):
    rows, columns = map(int, block.split(" × "))
    picture = torch.randint(0, 256, (3, side, side), dtype=torch.uint8, device="cuda")
    mixed = interleaved(picture)
    source = torch.randint(0, 256, (2 * side * side,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    sides = {
        "planar": lambda: greyscale(picture, block=(rows, columns)),
        "interleaved": lambda: greyscale(mixed, channel_dim=-1, block=(rows, columns)),
        "copy": lambda: target.copy_(source),
    }
    return rate(sides, side * side)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="blocks",
        x_names=["block"],
        x_vals=[
            "1 × 256", "1 × 1024", "1 × 4096", "4 × 256", "16 × 64", "32 × 32", "64 × 16", "256 × 4", "1024 × 1",
        ],
        xlabel="block, rows × columns",
        ylabel="GB/s",
        line_arg="provider",
        line_vals=["planar", "interleaved", "copy"],
        line_names=["planar", "interleaved", "copy of as many bytes"],
        args={},
    )
)  # fmt: skip
def blocks(block, provider):
    """Bytes moved per second by blocks of several shapes, on a picture of 8192 × 8192 random pixels."""
    return measure_blocks(block)[provider]


@functools.lru_cache(maxsize=1)
def measure_sizes(size):
    side = int(size.split(" × ")[0])
    picture = torch.randint(0, 256, (3, side, side), dtype=torch.uint8, device="cuda")
    mixed = interleaved(picture)
    source = torch.randint(0, 256, (2 * side * side,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    compiled = torch.compile(by_torch, dynamic=False)
    sides = {
        "planar": lambda: greyscale(picture),
        "interleaved": lambda: greyscale(mixed, channel_dim=-1),
        "flat": lambda: greyscale_flat(picture),
        "eager": lambda: by_torch(picture),
        "compiled": lambda: compiled(picture),
        "copy": lambda: target.copy_(source),
    }
    return rate(sides, side * side)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="sizes",
        x_names=["size"],
        x_vals=["1024 × 1024", "4096 × 4096", "8192 × 8192", "8191 × 8191"],
        xlabel="rows × columns",
        ylabel="GB/s",
        line_arg="provider",
        line_vals=["planar", "interleaved", "flat", "eager", "compiled", "copy"],
        line_names=["planar", "interleaved", "1-D blocks", "eager torch", "torch.compile", "copy of as many bytes"],
        args={},
    )
)
def sizes(size, provider):
    """Bytes moved per second on square pictures of random pixels; the last one has an odd side."""
    return measure_sizes(size)[provider]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (blocks, sizes):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
