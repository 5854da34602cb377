# SPDX-License-Identifier: Apache-2.0
"""Measure what tiles are good for: the product element by element, then by larger and larger tiles.

Of two square bfloat16 matrices of ``SIZE``: a program for each element of the result, which loads a row of ``a`` and a
column of ``b``; then ``naive.py`` with square tiles; then torch. Columns of the table:

- *loads*: bytes that all programs ask for, by arithmetic: ``2 * SIZE**3`` elements, divided by the side of a tile
- *arrived*: bytes that came to the multiprocessors, from L2 or from memory, counted by NVIDIA's ``ncu``
- *memory*: of these, bytes that came from memory
- *ms*: milliseconds of a call; *share*: of the arithmetic that torch does in the same time

Counted launches begin with empty caches. Times are of calls in rotation, all sides in turns.

Source: NVIDIA's documentation of Nsight Compute, on the metrics of ``l1tex`` and ``dram``.

Run it on a GPU, with ``ncu`` for the bytes: ``python untiled_measured.py``; or with ``TRITON_INTERPRET=1`` in Triton's
interpreter, which shows that the element by element kernel is right.
"""

import functools
import statistics
import sys

import torch
import triton
import triton.language as tl

from snippets.gpu.counters import counters
from snippets.matmul.naive import check_arguments, matmul
from snippets.tools.benchmarking_cold import compare_in_rotation

SIZE, STEP = 2048, 64  # and how many elements along K a program takes at a time
TILES = (16, 32, 64, 128)
METRICS = {"arrived": "l1tex__m_xbar2l1tex_read_sectors.sum", "memory": "dram__bytes_read.sum"}
SECTOR = 32  # bytes


# --8<-- [start:kernel]
@triton.jit
def element_kernel(
    a_ptr, b_ptr, c_ptr, N, K, stride_am, stride_ak, stride_bk, stride_bn, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m, n = tl.program_id(axis=0) // N, tl.program_id(axis=0) % N
    total = tl.zeros((BLOCK_K,), tl.float32)
    for begin in range(0, K, BLOCK_K):
        k = begin + tl.arange(0, BLOCK_K)
        row = tl.load(a_ptr + m * stride_am + k * stride_ak, mask=k < K, other=0)
        column = tl.load(b_ptr + k * stride_bk + n * stride_bn, mask=k < K, other=0)
        total += row.to(tl.float32) * column.to(tl.float32)
    tl.store(c_ptr + tl.program_id(axis=0), tl.sum(total))
# --8<-- [end:kernel]


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return ``a @ b``, computed by a program for each element: for comparison, not for use.

    Args:
        a: ``(M, K)``, with any strides; float16, bfloat16 or float32, less than 2**31 elements away from its first.
        b: ``(K, N)``, alike.

    Raises:
        ValueError: They do not fit, or are too large.
    """
    check_arguments(a, b)
    (M, K), N = a.shape, b.shape[1]
    last = [sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True)) for x in (a, b)]
    if max(M * N, *last) >= 2**31 - STEP:
        raise ValueError(f"{tuple(a.shape)} times {tuple(b.shape)} is too large: offsets here have 32 bits")
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    if M * N:
        with torch.cuda.device_of(a):
            element_kernel[(M * N,)](a, b, c, N, K, *a.stride(), *b.stride(), BLOCK_K=STEP, num_warps=1)
    return c


# --8<-- [start:sides]
def sides():
    """Return the functions that take turns, by the side of their tile; 0 is torch."""
    tiled = {side: functools.partial(matmul, tile=(side, side, 64)) for side in TILES}
    return {1: product} | tiled | {0: torch.matmul}


def matrices():
    return torch.randn(2, SIZE, SIZE, dtype=torch.bfloat16, device="cuda").unbind()
# --8<-- [end:sides]


def run_all():
    """Run what ``ncu`` watches."""
    a, b = matrices()
    for run in sides().values():
        run(a[:128, :128].contiguous(), b[:128, :128].contiguous())  # compiles, outside of the count
        torch.cuda.synchronize()
        with torch.cuda.profiler.profile():
            run(a, b)
            torch.cuda.synchronize()


@functools.cache
def counted() -> dict[int, dict[str, float]]:
    """Return the bytes that arrived, and that came from memory, by the side of a tile."""
    launches = counters(list(METRICS.values()), __file__, "run", cache="all")
    found = {}
    for side, launch in zip(sides(), launches, strict=True):
        found[side] = {what: launch[metric] for what, metric in METRICS.items()}
        found[side]["arrived"] *= SECTOR
    return found


@functools.cache
def timings():
    of_sides = {str(side): run for side, run in sides().items()}
    return compare_in_rotation(of_sides, matrices, rounds=6, steady=True)


def ranged(rounds) -> tuple[float, float, float]:
    return statistics.median(rounds), min(rounds), max(rounds)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="tiles",
        x_names=["side"],
        x_vals=[1, *TILES],
        xlabel="side of a tile",
        ylabel=f"{SIZE} × {SIZE} × {SIZE}, bfloat16",
        line_arg="what",
        line_vals=["loads", "arrived", "memory", "ms", "share"],
        line_names=["loads, GB", "arrived, GB", "from memory, GB", "ms", "% of torch"],
        args={},
    )
)
def tiles(side, what):
    """GB asked for by arithmetic, GB counted; milliseconds; percent of torch's speed, round by round."""
    if what == "loads":
        return 2 * 2 * SIZE**3 / side / 1e9
    if what in METRICS:
        return counted()[side][what] / 1e9
    ours = timings()[str(side)].rounds
    if what == "ms":
        return ranged(ours)
    return ranged([100 * torch_ms / ms for ms, torch_ms in zip(ours, timings()["0"].rounds, strict=True)])


def main():
    if sys.argv[1:] == ["run"]:
        return run_all()
    device = "cuda" if isinstance(element_kernel, triton.JITFunction) else "cpu"
    a = (torch.arange(3 * 70) % 7 - 3).view(3, 70).float().to(device)
    b = (torch.arange(70 * 5) % 5 - 2).view(70, 5).float().to(device)
    print("3 × 70 times 70 × 5, element by element:", "equal" if torch.equal(product(a, b), a @ b) else "NOT equal")


if __name__ == "__main__":
    main()
