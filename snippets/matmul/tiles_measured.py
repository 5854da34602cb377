# SPDX-License-Identifier: Apache-2.0
"""Tiles in two pieces whose widths add up to what a shape wants, such as 256 + 32 columns, timed against cuBLAS.

``tl.arange`` takes powers of two only, so a tile has such sides. But :func:`streamed_kernel` of ``matmul.py`` keeps two
tiles side by side, which share their rows: together they may have 288 columns, or 320. ``plan`` knows 128 + 64 alone.

- :func:`pieces`: six shapes by the plan that ``matmul.py`` picks, by two such tiles, with 4 and with 8 warps, and by
  cuBLAS

bfloat16; ``b`` is the transpose of a weight. All sides run in turns, on operands in rotation, all calls in one CUDA
graph (``snippets/tools/benchmarking_cold.py``).

FLOPs: 2 * M * N * K. Units: microseconds, and shares of cuBLAS's speed.
Source: ``torch.matmul`` calls cuBLAS.

``python tiles_measured.py`` prints how many tiles each shape has. The benchmark needs a GPU, and ``.run`` needs pandas
and matplotlib.
"""

import functools

import torch
import triton

from snippets.matmul import matmul
from snippets.matmul.matmul import Plan
from snippets.matmul.matmul_measured import NAMED, check_alike, microseconds, operands
from snippets.matmul.plans_measured import by
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation

MULTIPROCESSORS = 132  # an H200's; on another GPU the same plans are timed
# Those of One matmul for every shape, What bounds it
SHAPES = [
    "4096 × 576 × 7168", "1536 × 1536 × 1536", "300 × 7168 × 2048", "512 × 6144 × 4096", "1024 × 4096 × 4096",
    "768 × 3072 × 8192",
]  # fmt: skip


# --8<-- [start:plans]
# block_m, block_n, more_n, block_k, num_warps, num_stages: as many stages as shared memory has room for
TILES = {
    "64 × (256 + 32), 4 warps": (64, 256, 32, 64, 4, 5),
    "64 × (256 + 32), 8 warps": (64, 256, 32, 64, 8, 5),
    "64 × (256 + 64), 4 warps": (64, 256, 64, 64, 4, 4),
    "64 × (256 + 64), 8 warps": (64, 256, 64, 64, 8, 4),
}


def plan_of(M: int, N: int, tile: str) -> Plan:
    """Return the plan of a product by whole tiles of ``TILES``, in as few rounds as they take.

    >>> plan_of(4096, 576, "64 × (256 + 32), 4 warps").programs  # 64 rows of tiles, two in a row
    128
    """
    m, n, more, k, warps, stages = TILES[tile]
    tiles = triton.cdiv(M, m) * triton.cdiv(N, n + more)
    programs = triton.cdiv(tiles, triton.cdiv(tiles, MULTIPROCESSORS))
    return Plan("streamed", False, m, n, k, warps, stages, 1, programs, more, tiles)
# --8<-- [end:plans]


# --8<-- [start:measure]
@functools.cache
def measure(shape: str) -> dict[str, Timing]:
    """Return the milliseconds of each side."""
    M, N, K = NAMED[shape]
    torch.manual_seed(0)
    make = functools.partial(operands, M, N, K)
    sides = {"cublas": torch.matmul, "picked": matmul.matmul}
    sides |= {tile: by(plan_of(M, N, tile)) for tile in TILES}
    check_alike(sides, make())
    return compare_in_rotation(sides, make, rounds=3)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="pieces",
        x_names=["shape"],
        x_vals=SHAPES,
        xlabel="M × N × K",
        ylabel="µs",
        line_arg="what",
        line_vals=["picked", *TILES, "cublas", "picked_share", "share"],
        line_names=["picked", *TILES, "cuBLAS", "picked, share of cuBLAS", "best of the four, share of cuBLAS"],
        args={},
    )
)
def pieces(shape, what):
    """Microseconds: median, fastest and slowest of 3 rounds; cuBLAS's time by ours, and by that of the best tile."""
    found = measure(shape)
    if what in found:
        return microseconds(found[what])
    ours = found["picked"].median if what == "picked_share" else min(found[tile].median for tile in TILES)
    return found["cublas"].median / ours
# --8<-- [end:measure]


# --8<-- [start:main]
def main():
    print("pieces.run(print_data=True)  # needs a GPU")
    for shape in SHAPES:
        M, N, _ = NAMED[shape]
        plans = {tile.partition(",")[0]: plan_of(M, N, tile) for tile in TILES}
        found = ", ".join(f"{plan.whole} of {name} for {plan.programs} programs" for name, plan in plans.items())
        print(f"{shape}: {found}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
