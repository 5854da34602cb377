# SPDX-License-Identifier: Apache-2.0
"""The copy by TMA, measured by the number of buffers and the size of a tile.

The matrix is 16,384 x 8,192 of bfloat16, 256 MiB. One program runs on each multiprocessor; a tile of 64 x 64 is 8 KiB.
All sides run in turns, on operands in rotation, all calls in one CUDA graph (``snippets/tools/benchmarking_cold.py``).
Each call allocates its result.

Units: GB/s of 10**9 bytes, read and written.

``python tma_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools

import torch
import triton

from snippets.below import gluon_copy, tma
from snippets.tools.benchmarking_cold import rates

SHAPE = (16384, 8192)
TILES = {"8 KiB": (64, 64), "16 KiB": (64, 128), "32 KiB": (128, 128)}
BUFFERS = (1, 2, 3, 4, 6)
PEERS = {
    "pipelined": functools.partial(tma.pipelined_copy, tile=(64, 128), buffers=6),
    "one tile": functools.partial(tma.copy, tile=(64, 128)),
    "registers": functools.partial(gluon_copy.copy, per_thread=8),
    "torch": torch.clone,
}


# --8<-- [start:measure]
@functools.cache
def measure() -> dict:
    """Return the rates of all sides."""
    torch.manual_seed(0)
    make = lambda: (torch.randn(SHAPE, device="cuda", dtype=torch.bfloat16),)
    sides = {
        (tile, buffers): functools.partial(tma.pipelined_copy, tile=TILES[tile], buffers=buffers)
        for tile in TILES
        for buffers in BUFFERS
    }
    return rates(sides | PEERS, make, 2 * 2 * SHAPE[0] * SHAPE[1], unit=1e9, steady=False)
# --8<-- [end:measure]


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="buffers", x_names=["buffers"], x_vals=list(BUFFERS), xlabel="buffers of a program", ylabel="GB/s",
        line_arg="tile", line_vals=list(TILES), line_names=[f"tiles of {tile}" for tile in TILES], args={},
    )
)  # fmt: skip
def buffers(buffers, tile):
    """Bytes in a second of a pipelined copy, one program on each multiprocessor, by buffers and tiles."""
    return measure()[tile, buffers]


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="peers", x_names=["side"], x_vals=list(PEERS), xlabel="copy", ylabel="GB/s",
        line_arg="what", line_vals=["rate"], line_names=["GB/s"], args={},
    )
)  # fmt: skip
def peers(side, what):
    """Bytes in a second of the copies of these lessons, and of torch's."""
    return measure()[side]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (buffers, peers):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
