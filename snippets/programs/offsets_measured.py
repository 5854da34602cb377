# SPDX-License-Identifier: Apache-2.0
"""Copies of strided tensors, measured: by layout, by the shape of the tile, and with tensor descriptors.

- :func:`by_layout`: ``contiguous`` and torch's ``clone``, on eight layouts
- :func:`by_tile`: ``contiguous`` with tiles of several shapes, on a matrix and on its transpose
- :func:`by_descriptor`: the same copy by pointers and by tensor descriptors

float32. Units: GB/s of 10**9 bytes, each element read once and written once.

``python offsets_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools

import torch
import triton

from snippets.programs.offsets import contiguous, copy_by_descriptor
from snippets.tools.benchmarking import compare

# --8<-- [start:layouts]
SIDE = 8192
LAYOUTS = {
    "contiguous": lambda: torch.rand(SIDE, SIDE, device="cuda"),
    "left half of the columns": lambda: torch.rand(
        SIDE, 2 * SIDE, device="cuda"
    )[:, :SIDE],
    "every second row": lambda: torch.rand(2 * SIDE, SIDE, device="cuda")[
        ::2
    ],
    "every second column": lambda: torch.rand(
        SIDE, 2 * SIDE, device="cuda"
    )[:, ::2],
    "every eighth column": lambda: torch.rand(
        SIDE, 8 * SIDE, device="cuda"
    )[:, ::8],
    "transposed": lambda: torch.rand(SIDE, SIDE, device="cuda").t(),
    "batch of 64, transposed": lambda: (
        torch.rand(64, 1024, 1024, device="cuda").mT
    ),
    "batch of 64, innermost": lambda: torch.rand(
        1024, 1024, 64, device="cuda"
    ).permute(2, 0, 1),
}
# --8<-- [end:layouts]


def rates(sides: dict, moved: int, rounds: int = 6) -> dict:
    """Return GB/s by side: median, slowest and fastest round.

    The sides take turns; L2 is cold and clean before each run.
    """
    return {side: timing.rate(moved) for side, timing in compare(sides, rounds=rounds).items()}


# --8<-- [start:by_layout]
@functools.lru_cache(maxsize=1)
def measure_layout(layout):
    x = LAYOUTS[layout]()
    source = torch.rand(SIDE, SIDE, device="cuda")
    sides = {
        "triton": lambda: contiguous(x),
        "torch": lambda: x.clone(memory_format=torch.contiguous_format),
        "copy": source.clone,
    }
    return rates(sides, 2 * x.numel() * x.itemsize)  # each element is read once and written once


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="by_layout",
        x_names=["layout"],
        x_vals=list(LAYOUTS),
        xlabel="input",
        ylabel="GB/s",
        line_arg="provider",
        line_vals=["triton", "torch", "copy"],
        line_names=["contiguous (Triton)", "clone (torch)", "clone without strides"],
        args={},
    )
)
def by_layout(layout, provider):
    """Useful bytes per second, 2**26 float32 elements: 8 bytes for each, whatever else was fetched with them."""
    return measure_layout(layout)[provider]
# --8<-- [end:by_layout]


# --8<-- [start:by_tile]
TILES = [(1, 1024), (4, 256), (16, 64), (32, 32), (64, 64), (64, 16), (256, 4), (1024, 1)]


@functools.lru_cache(maxsize=1)
def measure_tile(rows, columns):
    x = torch.rand(SIDE, SIDE, device="cuda")
    sides = {
        "contiguous": lambda: contiguous(x, block=(rows, columns)),
        "transposed": lambda: contiguous(x.t(), block=(rows, columns)),
    }
    return rates(sides, 2 * x.numel() * x.itemsize)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="by_tile",
        x_names=["rows", "columns"],
        x_vals=TILES,
        xlabel="rows and columns of a tile",
        ylabel="GB/s",
        line_arg="provider",
        line_vals=["contiguous", "transposed"],
        line_names=["input contiguous", "input transposed"],
        args={},
    )
)
def by_tile(rows, columns, provider):
    """Bytes moved per second by :func:`contiguous`, 8192 x 8192 float32, for several shapes of tile."""
    return measure_tile(rows, columns)[provider]
# --8<-- [end:by_tile]


# --8<-- [start:by_descriptor]
@functools.lru_cache(maxsize=1)
def measure_descriptor(side):
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    x = torch.rand(side, side, device="cuda")
    sides = {
        "pointers": lambda: contiguous(x, block=(64, 64), flat=False),
        "descriptor": lambda: copy_by_descriptor(x, block=(64, 64)),
        "inside": lambda: copy_by_descriptor(x, block=(64, 64), inside=True),
        "copy": x.clone,
    }
    return rates(sides, 2 * x.numel() * x.itemsize)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="by_descriptor",
        x_names=["side"],
        x_vals=[2**k for k in range(9, 15)],
        x_log=True,
        xlabel="side of the matrix (float32)",
        ylabel="GB/s",
        line_arg="provider",
        line_vals=["pointers", "descriptor", "inside", "copy"],
        line_names=["pointers", "descriptor from the host", "descriptor made in the kernel", "clone (torch)"],
        args={},
    )
)
def by_descriptor(side, provider):
    """Bytes moved per second, tiles of 64 x 64 on all three Triton sides."""
    return measure_descriptor(side)[provider]
# --8<-- [end:by_descriptor]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (by_layout, by_tile, by_descriptor):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
