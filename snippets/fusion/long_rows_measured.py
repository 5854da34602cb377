# SPDX-License-Identifier: Apache-2.0
"""Softmax of rows that do not fit: does the second read find its row in L2, if it comes soon after the first?

``long_softmax.py`` goes through all rows twice, in two launches: maxima and sums, then shares. When the second begins,
the first rows have long left the L2 cache. Here one launch does both. Its programs come in groups: a group takes the
first pass of row i, a program for each part of it, and the second pass of row i - delay. A program of a second pass
waits until the programs of that row's first pass have added their numbers to memory, and counted themselves.

Waiting ends only if the programs that are waited for run. They have smaller pids, and a GPU was seen to start programs
in the order of their pids; CUDA promises no order.

- :func:`softmax_in_one`: softmax of the rows of ``x``, for the delay that is asked for
- :func:`delays`: GB/s for each delay, and with hints to the cache
- :func:`others`: GB/s of the two launches, of torch, and of a copy; and of the first pass alone

Shapes: ``x``, result ``(rows, columns)``. Bytes: those of a copy, each element read and written once; of the first pass
alone each read once. bfloat16, normally distributed. Units: GB/s of 10**9 bytes.

Run it on a GPU with ``python long_rows_measured.py``, or with ``TRITON_INTERPRET=1`` in the interpreter: it shows that
all delays give the same shares. ``.run`` of the benchmarks needs a GPU, pandas and matplotlib.
"""

import functools

import torch
import triton
import triton.language as tl

from snippets.fusion.long_softmax import parts_kernel, shared_out, softmax
from snippets.fusion.long_softmax import plan as plan_of_two
from snippets.fusion.long_softmax_measured import check_alike
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation

SHAPE = (512, 131072)
DELAYS = (0, 4, 8, 16, 33, 66, 132, 264, 512)
BLOCK = 8192  # columns of a part


# --8<-- [start:kernel]
@triton.jit
def one_launch_kernel(
    x_ptr, out_ptr, maximum_ptr, total_ptr, count_ptr, rows, columns, parts, delay,
    BLOCK: tl.constexpr, PARTS: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    group, place = pid // (2 * parts), pid % (2 * parts)
    second = place >= parts
    part = place % parts
    row = tl.where(second, group - delay, group).to(tl.int64)
    if (row >= 0) & (row < rows):
        column = part * BLOCK + tl.arange(0, BLOCK)
        mask = column < columns
        x_ptr += row * columns
        if second:
            x = tl.load(x_ptr + column, mask=mask, other=-float("inf"), eviction_policy=SECOND).to(tl.float32)
            while tl.atomic_add(count_ptr + row, 0, sem="acquire") < parts:
                pass
            other = tl.arange(0, PARTS)
            theirs = row * parts + other
            maxima = tl.load(maximum_ptr + theirs, mask=other < parts, other=-float("inf"), cache_modifier=".cg")
            totals = tl.load(total_ptr + theirs, mask=other < parts, other=0.0, cache_modifier=".cg")
            maximum = tl.max(maxima, axis=0)
            factor = 1 / tl.sum(totals * tl.exp(maxima - maximum), axis=0)
            share = tl.exp(x - maximum) * factor
            tl.store(out_ptr + row * columns + column, share, mask=mask, eviction_policy=SECOND)
        else:
            x = tl.load(x_ptr + column, mask=mask, other=-float("inf"), eviction_policy=FIRST).to(tl.float32)
            maximum = tl.max(x, axis=0)
            tl.store(maximum_ptr + row * parts + part, maximum)
            tl.store(total_ptr + row * parts + part, tl.sum(tl.exp(x - maximum), axis=0))
            tl.debug_barrier()  # all threads have stored before one of them counts
            tl.atomic_add(count_ptr + row, 1, sem="release")


# --8<-- [end:kernel]


# --8<-- [start:host]
def softmax_in_one(x: torch.Tensor, delay: int, hints: bool = False, block: int = BLOCK) -> torch.Tensor:
    """Softmax of each row, in one launch; the second pass of a row runs ``delay`` rows after its first.

    Args:
        x: ``(rows, columns)``, contiguous, without NaN and infinities; columns more than 0.
        delay: From 0 on.
        hints: Whether the cache is told to keep what is read first, and to give up what is read last.
        block: A power of two: columns of a part, each of which takes two programs.

    Raises:
        ValueError: ``x`` is not contiguous, or has not two axes.
    """
    if x.ndim != 2 or not x.is_contiguous():
        raise ValueError(f"x must be contiguous, of two axes; got shape {tuple(x.shape)}, strides {x.stride()}")
    rows, columns = x.shape
    parts = triton.cdiv(columns, block)
    out = torch.empty_like(x)
    maxima, totals = torch.empty((2, rows, parts), dtype=torch.float32, device=x.device)
    count = torch.zeros(rows, dtype=torch.int32, device=x.device)
    first, second = ("evict_last", "evict_first") if hints else ("", "")
    one_launch_kernel[((rows + delay) * 2 * parts,)](
        x, out, maxima, totals, count, rows, columns, parts, delay,
        BLOCK=block, PARTS=triton.next_power_of_2(parts), FIRST=first, SECOND=second, num_warps=4,
    )  # fmt: skip
    return out


# --8<-- [end:host]


# --8<-- [start:measure]
def first_pass(x: torch.Tensor) -> torch.Tensor:
    """What the first launch of ``long_softmax.py`` does: maxima and sums."""
    by = plan_of_two(*x.shape, x.dtype)
    parts, length, maxima, totals = shared_out(x, by)
    parts_kernel[(len(x) * parts,)](
        x, maxima, totals, x.shape[1], x.stride(0), parts, length,
        LOWEST=torch.finfo(torch.float32).min, COMPUTE=tl.float32, BLOCK=by.block, num_warps=by.num_warps,
    )  # fmt: skip
    return maxima


def make() -> list[torch.Tensor]:
    return [torch.randn(*SHAPE, device="cuda", dtype=torch.bfloat16)]


@functools.cache
def measure() -> dict[object, Timing]:
    """Milliseconds of each side: by delay and hints, or by name."""
    torch.manual_seed(0)
    torch_softmax = functools.partial(torch.softmax, dim=-1)
    sides = {
        (delay, hints): functools.partial(softmax_in_one, delay=delay, hints=hints)
        for delay in DELAYS
        for hints in (False, True)
    }
    sides |= {"two launches": softmax, "torch": torch_softmax}
    check_alike(sides, make(), "torch")
    return compare_in_rotation(sides | {"first pass": first_pass, "copy": torch.clone}, make, rounds=3)


# --8<-- [end:measure]


# --8<-- [start:tables]
def moved(once: bool = False) -> int:
    """Bytes of a copy, or of what is read once."""
    rows, columns = SHAPE
    return (1 if once else 2) * rows * columns * torch.bfloat16.itemsize


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="delays",
        x_names=["delay"],
        x_vals=list(DELAYS),
        xlabel="rows between the two passes",
        ylabel="GB/s",
        line_arg="what",
        line_vals=["plain", "hints", "share"],
        line_names=["without hints", "with hints", "the better, share of copy"],
        args={},
    )
)
def delays(delay, what):
    """GB/s of one launch, by how many rows its second pass is behind: median, slowest and fastest of 3 rounds."""
    found = measure()
    if what == "share":
        return found["copy"].median / min(found[delay, hints].median for hints in (False, True))
    return found[delay, what == "hints"].rate(moved())


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="others",
        x_names=["side"],
        x_vals=["two launches", "torch", "first pass", "copy"],
        ylabel="GB/s",
        line_arg="what",
        line_vals=["rate", "share"],
        line_names=["GB/s", "share of copy's time"],
        args={},
    )
)
def others(side, what):
    """GB/s of other ways: median, slowest and fastest of 3 rounds; and the copy's time by theirs."""
    found = measure()
    if what == "share":
        return found["copy"].median / found[side].median
    return found[side].rate(moved(once=side == "first pass"))


# --8<-- [end:tables]


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(6, 40, device=device)
    wanted = torch.softmax(x, dim=-1)
    for delay in (0, 1, 3, 6):
        same = torch.allclose(softmax_in_one(x, delay, block=16), wanted)
        print(f"delay of {delay} rows, {(6 + delay) * 2 * 3} programs, the shares are torch's: {same}")


if __name__ == "__main__":
    main()
