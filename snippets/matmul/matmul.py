# SPDX-License-Identifier: Apache-2.0
"""Multiply matrices of any shape, ``c = a @ b``, with the kernel and the tile that should be fastest for the shape.

There are four kernels, built from what the chapter's lessons teach one by one:

- :func:`tile_kernel` loads tiles through pointers, and goes through them in the grouped order. If there are few tiles,
  several programs share each of them. Every program computes a stretch of K, and the last one adds all the sums, in the
  order of K. A product of few rows is computed transposed, ``cᵀ = bᵀ aᵀ``, so that the many columns of ``b`` fill the
  rows of the matrix units.
- :func:`described_kernel` does the same, but loads tiles with tensor descriptors.
- :func:`streamed_kernel` uses descriptors, too, and its tiles can be 192 columns wide. If the last round of tiles would
  leave many programs without work, the programs divide the steps of all its tiles evenly among themselves.
- :func:`persistent_kernel` is for large products. It loads with descriptors, and one program per multiprocessor
  computes tile after tile.

:func:`plan` chooses the kernel and its settings with an estimate. It needs only the sizes, so it works without a GPU,
and the same shape on the same kind of GPU always gives the same bits.

Shapes: ``a`` is (M, K), ``b`` is (K, N), ``c`` is (M, N). FLOPs: 2 * M * N * K.

Run it on a GPU with ``python matmul.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import dataclasses
import functools
from collections.abc import Iterator
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

DTYPES = torch.float16, torch.bfloat16, torch.float32


# --8<-- [start:order]
@triton.jit
def position(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Return a tile's row and column in the grouped order: GROUP_M tiles down, then the next column."""
    per_group = GROUP_M * tiles_n
    first = tile // per_group * GROUP_M
    height = tl.minimum(tiles_m - first, GROUP_M)  # the last group may be lower
    return first + tile % per_group % height, tile % per_group // height
# --8<-- [end:order]


# --8<-- [start:share]
@triton.jit
def share(M, N, K, parts, SPLIT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Return a program's tile, its part of that tile, and where its steps along K begin and end."""
    pid, steps = tl.program_id(axis=0), tl.cdiv(K, BLOCK_K)
    if SPLIT:
        tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
        part = pid // tiles
        return pid % tiles, part, part * steps // parts, (part + 1) * steps // parts
    else:
        return pid, 0, 0, steps
# --8<-- [end:share]


# --8<-- [start:pointers]
@triton.jit
def tile_pointers(
    ptr,
    first,
    k,
    size,
    stride,
    ALONG_K: tl.constexpr,
    UNIT: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Return pointers to BLOCK rows of ``a``, or columns of ``b``, from
    ``first``, and BLOCK_K steps of K from ``k``.

    Also return the distance to the next tile along K. One 64-bit offset
    leads to the tile. Offsets within it have the dtype INDEX, 32 bits if
    that's enough. Rows past the end wrap around to ``first``, so they need
    no mask. UNIT promises the compiler that runs of UNIT elements, 16
    bytes, are aligned, so that one instruction can load each of them.
    """
    begin, k = tl.cast(first, tl.int64), tl.cast(k, tl.int64)
    rows, steps = tl.arange(0, BLOCK), tl.arange(0, BLOCK_K).to(INDEX)
    if ALONG_K:  # neighbors in memory are neighbors along K
        offsets = (
            tl.multiple_of(
                (rows % (size - first)).to(INDEX) * stride, UNIT
            )[:, None]
            + steps[None, :]
        )
        return ptr + (begin * stride + k) + offsets, BLOCK_K
    else:
        rows = (rows % tl.multiple_of(size - first, UNIT)).to(INDEX)
        offsets = (
            rows[:, None] + tl.multiple_of(steps * stride, UNIT)[None, :]
        )
        return ptr + (begin + k * stride) + offsets, BLOCK_K * tl.cast(
            stride, tl.int64
        )
# --8<-- [end:pointers]


# --8<-- [start:store]
@triton.jit
def store_tile(
    c_ptr, acc, m, n, M, N,
    SWAPPED: tl.constexpr, UNIT: tl.constexpr, INDEX: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Store a tile of c, which is contiguous. If SWAPPED, the tile is of c transposed."""
    rows, columns = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    inside = (rows < tl.multiple_of(M - m, UNIT if SWAPPED else 1))[:, None]
    inside &= (columns < tl.multiple_of(N - n, 1 if SWAPPED else UNIT))[None, :]
    if SWAPPED:
        first = tl.cast(n, tl.int64) * M + m
        offsets = rows[:, None] + tl.multiple_of(columns.to(INDEX) * M, UNIT)[None, :]
    else:
        first = tl.cast(m, tl.int64) * N + n
        offsets = tl.multiple_of(rows.to(INDEX) * N, UNIT)[:, None] + columns[None, :]
    tl.store(c_ptr + first + offsets, acc, mask=inside)  # rounded to c's dtype
# --8<-- [end:store]


# --8<-- [start:finish]
@triton.jit
def finish(
    c_ptr, acc, partial_ptr, count_ptr, tile, part, parts, m, n, M, N,
    SWAPPED: tl.constexpr, SPLIT: tl.constexpr, UNIT: tl.constexpr, INDEX: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Store a tile. If programs share it, keep this program's sums; the last program adds them all and stores."""
    if not SPLIT:
        store_tile(c_ptr, acc, m, n, M, N, SWAPPED, UNIT, INDEX, BLOCK_M, BLOCK_N)
    else:
        TILE: tl.constexpr = BLOCK_M * BLOCK_N
        ROWS: tl.constexpr = min(BLOCK_M, 4096 // BLOCK_N)
        rows, columns = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
        pieces = partial_ptr + tile.to(tl.int64) * parts * TILE
        tl.store(pieces + part * TILE + rows[:, None] * BLOCK_N + columns[None, :], acc)
        tl.debug_barrier()  # all threads store before one of them counts
        before = tl.atomic_add(count_ptr + tile, 1, sem="acq_rel", scope="gpu")
        if before == parts - 1:  # the others have stored theirs
            for top in range(0, BLOCK_M, ROWS):  # strip by strip, which needs fewer registers
                strip = pieces + top * BLOCK_N + tl.arange(0, ROWS)[:, None] * BLOCK_N + columns[None, :]
                total = tl.load(strip, cache_modifier=".cg")
                for piece in tl.range(1, parts, loop_unroll_factor=4):
                    total += tl.load(strip + piece * TILE, cache_modifier=".cg")
                store_tile(c_ptr, total, m + top, n, M, N, SWAPPED, UNIT, INDEX, ROWS, BLOCK_N)
            tl.store(count_ptr + tile, 0)  # for the next launch
# --8<-- [end:finish]


# --8<-- [start:tile]
@triton.jit
def tile_kernel(
    a_ptr, b_ptr, c_ptr, partial_ptr, count_ptr, M, N, K, stride_a, stride_b, parts,
    A_ALONG_K: tl.constexpr, B_ALONG_K: tl.constexpr, SWAPPED: tl.constexpr, SPLIT: tl.constexpr, K_EVEN: tl.constexpr,
    UNIT: tl.constexpr, C_UNIT: tl.constexpr, INDEX: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tile, part, begin, end = share(M, N, K, parts, SPLIT, BLOCK_M, BLOCK_N, BLOCK_K)
    pid_m, pid_n = position(tile, tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    m, n, k = pid_m * BLOCK_M, pid_n * BLOCK_N, begin * BLOCK_K
    # --8<-- [start:loop]
    a_ptrs, a_step = tile_pointers(a_ptr, m, k, M, stride_a, A_ALONG_K, UNIT, INDEX, BLOCK_M, BLOCK_K)
    b_ptrs, b_step = tile_pointers(b_ptr, n, k, N, stride_b, B_ALONG_K, UNIT, INDEX, BLOCK_N, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(begin, end):
        if K_EVEN:
            a, b = tl.load(a_ptrs), tl.load(b_ptrs)
        else:
            left = K - step * BLOCK_K
            if A_ALONG_K or B_ALONG_K:
                left = tl.multiple_of(left, UNIT)
            inside = (tl.arange(0, BLOCK_K) < left)[None, :]
            a, b = tl.load(a_ptrs, mask=inside, other=0.0), tl.load(b_ptrs, mask=inside, other=0.0)
        acc = tl.dot(a, b.T, acc, input_precision=PRECISION)
        a_ptrs += a_step
        b_ptrs += b_step
    # --8<-- [end:loop]
    finish(c_ptr, acc, partial_ptr, count_ptr, tile, part, parts, m, n, M, N,
           SWAPPED, SPLIT, C_UNIT, INDEX, BLOCK_M, BLOCK_N)  # fmt: skip
# --8<-- [end:tile]


# --8<-- [start:described]
@triton.jit
def described_kernel(
    a, b, c_ptr, partial_ptr, count_ptr, M, N, K, parts,
    A_ALONG_K: tl.constexpr, B_ALONG_K: tl.constexpr, SPLIT: tl.constexpr,
    C_UNIT: tl.constexpr, INDEX: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """Multiply like :func:`tile_kernel`, but load with tensor descriptors, which need neither offsets nor masks."""
    tile, part, begin, end = share(M, N, K, parts, SPLIT, BLOCK_M, BLOCK_N, BLOCK_K)
    pid_m, pid_n = position(tile, tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    m, n = pid_m * BLOCK_M, pid_n * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(begin, end):
        k = step * BLOCK_K
        a_tile = a.load([m, k]) if A_ALONG_K else a.load([k, m]).T
        b_tile = b.load([n, k]).T if B_ALONG_K else b.load([k, n])
        acc = tl.dot(a_tile, b_tile, acc, input_precision=PRECISION)
    finish(c_ptr, acc, partial_ptr, count_ptr, tile, part, parts, m, n, M, N,
           False, SPLIT, C_UNIT, INDEX, BLOCK_M, BLOCK_N)  # fmt: skip
# --8<-- [end:described]


# --8<-- [start:streamed]
@triton.jit
def streamed_kernel(
    a, b, b_more, c_ptr, partial_ptr, count_ptr, M, N, K, whole,
    A_ALONG_K: tl.constexpr, B_ALONG_K: tl.constexpr, STREAMED: tl.constexpr, C_UNIT: tl.constexpr,
    INDEX: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, MORE_N: tl.constexpr,
    BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """Multiply in tiles of BLOCK_N + MORE_N columns.

    Programs compute the first ``whole`` tiles in turns, a whole tile at a time, and share the rest.

    The steps of the rest, tile after tile, form a stream, and each program gets an equally long part of it. So a part
    may begin and end within a tile. The program with a tile's last step adds the others' sums and stores the tile.
    """
    WIDTH: tl.constexpr = BLOCK_N + MORE_N
    LEFT: tl.constexpr = BLOCK_N if MORE_N else BLOCK_N // 2  # the sums are kept in two halves, side by side
    RIGHT: tl.constexpr = WIDTH - LEFT
    pid, programs = tl.program_id(axis=0), tl.num_programs(axis=0)
    tiles_m, tiles_n, steps = tl.cdiv(M, BLOCK_M), tl.cdiv(N, WIDTH), tl.cdiv(K, BLOCK_K)
    stream, begin, end, first, pieces = 0, 0, 0, 0, 0
    if STREAMED:
        stream = (tiles_m * tiles_n - whole) * steps
        begin, end = pid * stream // programs, (pid + 1) * stream // programs
        first = begin // steps
        pieces = tl.cdiv(end, steps) - first
    for turn in range(pieces + tl.cdiv(tl.maximum(whole - pid, 0), programs)):
        tile, step_0, step_1 = pid + (turn - pieces) * programs, 0, steps
        shared = first + pieces - 1 - turn  # last tile first, so that others needn't wait long for its sums
        if turn < pieces:
            tile, before = whole + shared, shared * steps
            step_0, step_1 = tl.maximum(begin - before, 0), tl.minimum(end - before, steps)
        pid_m, pid_n = position(tile, tiles_m, tiles_n, GROUP_M)
        m, n = pid_m * BLOCK_M, pid_n * WIDTH
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        if MORE_N:
            more = tl.zeros((BLOCK_M, MORE_N), dtype=tl.float32)
        for step in range(step_0, step_1):
            k = step * BLOCK_K
            a_tile = a.load([m, k]) if A_ALONG_K else a.load([k, m]).T
            acc = tl.dot(a_tile, b.load([n, k]).T if B_ALONG_K else b.load([k, n]), acc)
            if MORE_N:
                b_tile = b_more.load([n + BLOCK_N, k]).T if B_ALONG_K else b_more.load([k, n + BLOCK_N])
                more = tl.dot(a_tile, b_tile, more)
        if MORE_N:
            left, right = acc, more
        else:
            left, right = tl.split(tl.permute(tl.reshape(acc, (BLOCK_M, 2, LEFT)), (0, 2, 1)))
        rows = tl.arange(0, BLOCK_M)[:, None]
        at_left = rows * LEFT + tl.arange(0, LEFT)[None, :]
        at_right = BLOCK_M * LEFT + rows * RIGHT + tl.arange(0, RIGHT)[None, :]
        if step_1 < steps:
            sums = partial_ptr + pid * (BLOCK_M * WIDTH)
            tl.store(sums + at_left, left)
            tl.store(sums + at_right, right)
            tl.debug_barrier()  # all threads store before one of them counts
            tl.atomic_add(count_ptr + shared, 1, sem="release", scope="gpu")
        else:
            if step_0 > 0:
                other = ((shared * steps + 1) * programs - 1) // stream  # the program with the tile's first step
                # It waits only for programs with lower numbers. A GPU starts those first, so the wait ends.
                while tl.atomic_add(count_ptr + shared, 0, sem="acquire", scope="gpu") < pid - other:
                    pass
                for program in range(other, pid):
                    sums = partial_ptr + program * (BLOCK_M * WIDTH)
                    left += tl.load(sums + at_left, cache_modifier=".cg")
                    right += tl.load(sums + at_right, cache_modifier=".cg")
                tl.store(count_ptr + shared, 0)  # for the next launch
            store_tile(c_ptr, left, m, n, M, N, False, C_UNIT, INDEX, BLOCK_M, LEFT)
            store_tile(c_ptr, right, m, n + LEFT, M, N, False, C_UNIT, INDEX, BLOCK_M, RIGHT)
# --8<-- [end:streamed]


# --8<-- [start:persistent]
@triton.jit
def persistent_kernel(
    a, b, c, M, N, K,
    A_ALONG_K: tl.constexpr, B_ALONG_K: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    pid, programs = tl.program_id(axis=0), tl.num_programs(axis=0)
    stored = pid - programs
    for tile in tl.range(pid, tiles_m * tiles_n, programs, flatten=True):
        pid_m, pid_n = position(tile, tiles_m, tiles_n, GROUP_M)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            a_tile = a.load([pid_m * BLOCK_M, k]) if A_ALONG_K else a.load([k, pid_m * BLOCK_M]).T
            b_tile = b.load([pid_n * BLOCK_N, k]).T if B_ALONG_K else b.load([k, pid_n * BLOCK_N])
            acc = tl.dot(a_tile, b_tile, acc, input_precision=PRECISION)
        stored += programs  # computed again, because the loads may be at the next tile by now
        pid_m, pid_n = position(stored, tiles_m, tiles_n, GROUP_M)
        # Store two halves, one by one, which needs half as much shared memory.
        halves = tl.permute(tl.reshape(acc.to(c.dtype), (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
        left, right = tl.split(halves)
        c.store([pid_m * BLOCK_M, pid_n * BLOCK_N], left)
        c.store([pid_m * BLOCK_M, pid_n * BLOCK_N + BLOCK_N // 2], right)
# --8<-- [end:persistent]


# --8<-- [start:plan]
class Plan(NamedTuple):
    """How to compute a product."""

    kernel: str  # "tile", "described", "streamed" or "persistent"
    swapped: bool  # whether to compute the transpose; then block_m counts columns of c
    block_m: int
    block_n: int
    block_k: int
    num_warps: int
    num_stages: int
    parts: int  # programs that share a tile, each with its own stretch of K
    programs: int
    more_n: int = 0  # columns of a streamed tile in addition to block_n
    whole: int = 0  # tiles that one program computes alone, before the streamed ones


# --8<-- [start:constants]
# A random search fitted these to an H200's times for 37 sizes (bfloat16,
# operands in rotation, Triton 3.9). A multiprocessor does this much in a
# nanosecond: FLOPs, to be divided by the bytes of an element; FLOPs of
# float32 without matrix units; bytes loaded from L2; bytes of sums stored;
# bytes of partial sums that one program adds up. The last is for the whole
# GPU: bytes from memory.
FLOPS, FLOPS_BY_HAND, L2_BYTES, STORES, ONE_READS, MEMORY = (
    11_000, 500, 130, 800, 20, 4_300,
)
# The share of these FLOPs that a tile reaches, by block_m and block_n.
REACHED = {
    (128, 256): 1.08, (128, 192): 0.82, (128, 128): 1.0, (64, 256): 0.94,
    (64, 128): 0.89, (128, 64): 0.71, (64, 64): 0.59, (64, 32): 0.46,
}
# Factors: with descriptors; with 8 warps where 4 would do, so that only
# one program fits.
DESCRIBED, ALONE = 1.2, 0.92
# How many times as long a step takes in a stream, where neighbors load the
# same tiles at different times.
OUT_OF_STEP = 1.07
# Nanoseconds: from a program's first load to its last store, without its
# steps; for a load; for the rest of a step; waiting for the last program.
# And the share of the first that remains between two tiles of a persistent
# program.
EDGE, LATENCY, TURN, LAST, OVERLAPPED = 2_500, 1_000, 17, 2_200, 0.37
# --8<-- [end:constants]

# --8<-- [start:tiles]
# block_m, block_n, block_k for elements of 2 bytes, num_warps, num_stages
TILES = [
    (128, 256, 64, 8, 3),
    (128, 128, 64, 4, 3),  # two such programs fit on a multiprocessor of an H200
    (64, 256, 64, 4, 4),
    (64, 128, 64, 4, 4),
    (64, 64, 128, 4, 4),
    (64, 32, 128, 4, 4),
]
TILES_DESCRIBED = [
    (128, 256, 64, 8, 4),
    (128, 128, 64, 4, 4),
    (128, 64, 128, 4, 4),
    (64, 128, 128, 4, 3),
    (64, 64, 64, 4, 6),
]
TILES_STREAMED = [(128, 128, 64, 64, 8, 4), (128, 128, 0, 64, 8, 6)]  # after block_n: more_n
TILES_OF_PERSISTENT = [(128, 256, 64, 8, 4), (64, 256, 64, 4, 4), (64, 128, 128, 4, 4)]
TILES_BY_HAND = [(64, 64, 16, 4, 3), (32, 32, 32, 4, 3)]  # float32 without matrix units
FEW, GROUP_M = 64, 8
# --8<-- [end:tiles]


def plan(
    M: int, N: int, K: int, *, size: int = 2, by_hand: bool = False, wide: bool = True,
    multiprocessors: int = 132, shared: int = 232_448,
) -> Plan:  # fmt: skip
    """Return the plan that :func:`estimate` says is fastest.

    Args:
        M, N, K: At least 1.
        size: Bytes per element of a and b.
        by_hand: Whether to multiply float32 in full precision, which the matrix units can't do.
        wide: Whether all loads can be 16 bytes wide.
        multiprocessors, shared: The number of multiprocessors, and the bytes of shared memory that a program may use.
            The defaults are an H200's.

    >>> plan(1, 4096, 4096).swapped, plan(8192, 8192, 8192).kernel
    (True, 'persistent')
    """
    found = candidates(M, N, K, size, by_hand, wide, multiprocessors, shared)
    reckon = functools.partial(estimate, M, N, K, size, by_hand, multiprocessors, shared)
    return min(found, key=lambda plan: (reckon(plan), plan.parts, plan.block_m * plan.block_n))


def candidates(M, N, K, size, by_hand, wide, multiprocessors, shared) -> Iterator[Plan]:
    """Yield the plans that work and may be fast."""
    few, swapped = min(M, N) <= FEW, M <= FEW and M <= N
    rows, columns = (N, M) if swapped else (M, N)  # of what is computed
    if few and not by_hand:
        yield plan_of_few(rows, columns, K, size, swapped, wide, multiprocessors, shared)
        return
    kernels = [("tile", TILES_BY_HAND if by_hand else TILES), ("described", TILES_DESCRIBED if size == 2 else [])]
    for kernel, tile in ((kernel, tile) for kernel, tiles in kernels if wide or kernel == "tile" for tile in tiles):
        m, n, k, warps, stages = tile
        if not few and (m >= 2 * rows or n >= 2 * columns):
            continue  # half of the tile would be empty
        if few:
            n = min(n, max(8, triton.next_power_of_2(columns)))
        if not by_hand:
            k = k * 2 // size
        stages = max(1, min(stages, shared // ((m + n) * k * size)))
        tiles, steps = -(-rows // m) * -(-columns // n), -(-K // k)
        # At most 8 programs per multiprocessor, so that there are few partial sums, and parts * steps below 2**31.
        for parts in range(1, max(1, min(steps // 2, 8 * multiprocessors // tiles, 2**30 // steps)) + 1):
            if stages * (m + n) * k * size <= shared:
                yield Plan(kernel, swapped, m, n, k, warps, stages, parts, tiles * parts)
    if wide and size == 2 and not few:
        yield from candidates_streamed(M, N, K, multiprocessors, shared)
    for m, n, k, warps, stages in TILES_OF_PERSISTENT:
        if wide and N % 8 == 0 and size == 2 and not few and (stages * (m + n) * k + m * n // 2) * size <= shared:
            tiles = -(-M // m) * -(-N // n)
            rounds = -(-tiles // multiprocessors)
            yield Plan("persistent", False, m, n, k, warps, stages, 1, -(-tiles // rounds))


def candidates_streamed(M, N, K, multiprocessors, shared) -> Iterator[Plan]:
    """Yield plans with one program per multiprocessor, with whole tiles only or with the last rounds streamed."""
    for m, n, more, k, warps, stages in TILES_STREAMED:
        tiles, steps = -(-M // m) * -(-N // (n + more)), -(-K // k)
        if 2 * stages * (m + n + more) * k > shared or m >= 2 * M or n >= N:
            continue
        rounds = -(-tiles // multiprocessors)
        yield Plan("streamed", False, m, n, k, warps, stages, 1, -(-tiles // rounds), more, tiles)
        # The last round, which isn't full, is streamed, together with the full one before it.
        whole = max(0, rounds - 2) * multiprocessors
        stream = (tiles - whole) * steps
        if tiles % multiprocessors and stream >= 8 * multiprocessors and stream * multiprocessors < 2**31:
            yield Plan("streamed", False, m, n, k, warps, stages, 1, multiprocessors, more, whole)


def plan_of_few(rows, columns, K, size, swapped, wide, multiprocessors, shared) -> Plan:
    """Return the plan for few columns.

    Most of the work is reading the other matrix, so all multiprocessors should begin at once.

    Each has one program, with six tiles under way, if that leaves few without work; otherwise two, with four tiles.
    """
    m, n, k = 64, max(8, triton.next_power_of_2(columns)), (256 if wide else 64) // size
    if wide and -(-rows // m) > 2 * multiprocessors:
        m *= 2
    # wgmma, which needs 4 warps, reads float32 only along K. With 2 warps, another instruction reads it along N, too.
    warps = 2 if size == 4 else 4
    tiles, steps = -(-rows // m), -(-K // k)
    for each, stages in ((1, 6), (2, 4)):
        parts = max(1, min(each * multiprocessors // tiles, steps // 2, 2**30 // steps))
        stages = max(1, min(stages, shared // ((m + n) * k * size)))
        if 0.9 * multiprocessors <= tiles * parts <= multiprocessors:
            break
    return Plan("tile", swapped, m, n, k, warps, stages, parts, tiles * parts)
# --8<-- [end:plan]


# --8<-- [start:estimate]
def estimate(
    M, N, K, size, by_hand, multiprocessors, shared, plan: Plan
) -> float:
    """Return an estimate of how long a product takes, in nanoseconds."""
    m, n, k = plan.block_m, plan.block_n + plan.more_n, plan.block_k
    # Bytes loaded in a step, and a program's steps per tile.
    loaded, steps = (m + n) * k * size, -(-K // (k * plan.parts))
    tiles = -(-M // m) * -(-N // n)
    together = 1
    if plan.kernel in ("tile", "described"):
        # How many programs fit on a multiprocessor, if each thread has 64
        # registers in addition to its sums.
        registers = plan.num_warps * 32 * 64 + m * n
        room = max(
            1, min(shared // (plan.num_stages * loaded), 2**16 // registers)
        )
        together = min(room, -(-plan.programs // multiprocessors))
        rounds = -(-plan.programs // (together * multiprocessors))
    else:
        rounds = -(
            -(plan.whole if plan.kernel == "streamed" else tiles)
            // plan.programs
        )
    reached = REACHED.get((m, n), 0.5) * (
        1 if plan.kernel == "tile" else DESCRIBED
    )
    if plan.num_warps == 8 and (m, n) == (128, 128):
        reached *= ALONE
    arithmetic = (
        together
        * 2
        * m
        * n
        * k
        / (FLOPS_BY_HAND if by_hand else FLOPS / size * reached)
    )
    step = TURN + max(
        arithmetic, together * loaded / L2_BYTES,
        LATENCY / max(1, plan.num_stages - 1),
    )
    edge = EDGE + together * m * n * 4 / STORES
    memory = size * (M * K + K * N + M * N) / MEMORY
    last = (
        LAST + plan.parts * m * n * 4 / ONE_READS if plan.parts > 1 else 0
    )
    if plan.kernel == "persistent":
        last, edge = EDGE, OVERLAPPED * edge
    if plan.kernel == "streamed" and plan.whole < tiles:
        stream = tiles - plan.whole
        last = (
            -(-stream * steps // plan.programs) * step * OUT_OF_STEP + edge
        )
        last += LAST + -(-plan.programs // stream) * m * n * 4 / ONE_READS
    return max(rounds * (steps * step + edge), memory) + last
# --8<-- [end:estimate]


# --8<-- [start:host]
def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return ``a @ b``, with sums in float32 and the same bits in every run.

    Args:
        a: ``(M, K)``, float16, bfloat16 or float32, with any strides; on a GPU, or in the interpreter on the CPU.
            float32 is multiplied as TF32 if ``torch.set_float32_matmul_precision`` allows that.
        b: ``(K, N)`` with the dtype and the device of ``a`` and any strides.

    Returns:
        ``(M, N)`` of the dtype of ``a``, contiguous. The kernel may still be running. A matrix is copied first if
        neither its rows nor its columns are contiguous. Both are copied if c has more than 64 rows and columns and
        loads of 16 bytes wouldn't be aligned.

    Raises:
        ValueError: If an argument is something the kernels can't serve.

    >>> matmul(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    for name, x in (("a", a), ("b", b)):
        if x.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} requires a gradient, which matmul does not compute; use torch.no_grad()")
    if torch.compiler.is_compiling():
        return compiled_matmul(a, b)  # torch.compile doesn't look into it
    return product(a, b, keep=True)


@torch.library.custom_op("triton_by_example::matmul", mutates_args=())
def compiled_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Multiply under ``torch.compile``, without kept memory, because the compiler may make a CUDA graph of it."""
    return product(a, b, keep=False)


@compiled_matmul.register_fake
def _(a, b):
    return a.new_empty(a.shape[0], b.shape[1])


def product(a: torch.Tensor, b: torch.Tensor, *, keep: bool) -> torch.Tensor:
    """Multiply as in :func:`matmul`: look up what depends on the shapes, then allocate and launch."""
    for name, x in (("a", a), ("b", b)):
        if x.layout != torch.strided:
            raise ValueError(f"{name} is {x.layout}; pass {name}.to_dense()")
        if x.is_neg():  # its memory doesn't have the sign applied yet
            raise ValueError(f"{name} is negated lazily; pass {name}.resolve_neg()")
    precision = "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    begins = a.data_ptr() % 16 == 0, b.data_ptr() % 16 == 0
    launch = prepared(a.shape, a.stride(), b.shape, b.stride(), a.dtype, b.dtype, a.device, b.device, begins, precision)
    if launch.copied is not None:  # what to copy, and the zeros to add along K; see copy_along_k
        for_a, for_b, more = launch.copied
        a = copy_along_k(a, more) if for_a else a
        b = copy_along_k(b.t(), more).t() if for_b else b
        return product(a, b, keep=keep)
    c = torch.empty(*launch.shape, dtype=a.dtype, device=a.device)
    plan = launch.plan
    if plan is None:  # nothing to compute, or only empty sums
        return c.zero_()
    with torch.cuda.device_of(a):
        if plan.kernel == "persistent":
            given = [a, b, c]
        else:
            partial = count = c  # placeholders that nobody reads or writes
            if launch.sums:
                partial = torch.empty(launch.sums, dtype=torch.float32, device=a.device)
                count = counters(a.device, launch.shared, keep)
            given = [b, a] if plan.swapped else [a, b, b] if plan.kernel == "streamed" else [a, b]
            given += c, partial, count
        for i, how in enumerate(launch.described):
            given[i] = TensorDescriptor(given[i], *how)
        launch.run(*given)
    return c
# --8<-- [end:host]


# --8<-- [start:prepared]
@dataclasses.dataclass
class Launch:
    """Everything about a launch that doesn't change from call to call."""

    shape: tuple[int, int]  # of c
    plan: Plan | None = None
    kernel: triton.JITFunction | None = None
    numbers: tuple[int, ...] = ()  # arguments after the tensors
    options: dict = dataclasses.field(default_factory=dict)
    described: tuple = ()  # shape, strides and block of each descriptor
    sums: int = 0  # partial sums that programs keep for each other
    shared: int = 0  # tiles that programs share
    copied: tuple[bool, bool, int] | None = None
    compiled: triton.compiler.CompiledKernel | None = None  # set by the first launch, except in the interpreter

    def run(self, *given) -> None:
        """Launch the kernel. After the first launch, don't ask Triton which compiled kernel fits the arguments.

        It is always the same one, because everything Triton looks at is part of the key of :func:`prepared`.
        Two threads must not make the first launch of one shape at the same time; ``snippets/library/matmul.py`` is for
        that.
        """
        grid = self.plan.programs, 1, 1
        if self.compiled is None:
            self.compiled = self.kernel[grid](*given, *self.numbers, **self.options)
            self.constants = [self.options[name] for name in self.kernel.arg_names if name in self.options]
        else:
            self.compiled[grid](*given, *self.numbers, *self.constants)


@functools.lru_cache(maxsize=4096)
def prepared(a_shape, a_stride, b_shape, b_stride, a_dtype, b_dtype, a_device, b_device, begins, precision) -> Launch:
    """Check the arguments and plan the launch. ``begins`` says whether a and b begin at multiples of 16 bytes."""
    check_arguments(a_shape, b_shape, a_dtype, b_dtype, a_device, b_device)
    (M, K), N, size = a_shape, b_shape[1], a_dtype.itemsize
    if M * N * K == 0:
        return Launch((M, N))
    unit, by_hand = 16 // size, size == 4 and precision == "ieee"
    a, b = walk(M, K, a_stride), walk(N, K, b_stride[::-1])
    if a is None or b is None:
        return Launch((M, N), copied=(a is None, b is None, 0))
    runs = a.aligned(unit) and b.aligned(unit)
    if min(M, N) > FEW and not by_hand and not (all(begins) and runs):
        return Launch((M, N), copied=(True, True, -K % unit))
    found = plan(M, N, K, size=size, by_hand=by_hand, wide=all(begins) and runs, **limits_of(a_device))
    m, n, k = found.block_m, found.block_n, found.block_k
    first, second = (b, a) if found.swapped else (a, b)
    options = {
        "A_ALONG_K": first.along_k, "B_ALONG_K": second.along_k, "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k,
        "GROUP_M": GROUP_M, "num_warps": found.num_warps, "num_stages": found.num_stages,
    }  # fmt: skip
    if found.kernel == "persistent":
        described = a.described(m, k), b.described(n, k), ((M, N), (N, 1), [m, n // 2])
        return Launch((M, N), found, persistent_kernel, (M, N, K), options | {"PRECISION": precision}, described)
    width, reach = n + found.more_n, max(m, n) * (N + 1)
    if found.kernel == "tile":
        reach = max(reach, first.reach(m, k), second.reach(n, k))
    options |= {"C_UNIT": 1 if N % unit else unit, "INDEX": tl.int64 if reach >= 2**31 else tl.int32}
    shared = found.programs // found.parts if found.parts > 1 else 0
    if found.kernel == "streamed":
        shared = -(-M // m) * -(-N // width) - found.whole
    sums = found.programs * m * width if shared else 0
    if found.kernel == "streamed":
        options |= {"MORE_N": found.more_n, "STREAMED": shared > 0}
        described = a.described(m, k), b.described(n, k), b.described(found.more_n or n, k)
        return Launch((M, N), found, streamed_kernel, (M, N, K, found.whole), options, described, sums, shared)
    options |= {"SPLIT": found.parts > 1, "PRECISION": precision}
    if found.kernel == "described":
        described = a.described(m, k), b.described(n, k)
        return Launch((M, N), found, described_kernel, (M, N, K, found.parts), options, described, sums, shared)
    options |= {"SWAPPED": found.swapped, "K_EVEN": K % k == 0, "UNIT": unit if runs else 1}
    numbers = first.rows, second.rows, K, first.stride, second.stride, found.parts
    return Launch((M, N), found, tile_kernel, numbers, options, (), sums, shared)


class Walk(NamedTuple):
    """How one side of the product is laid out in memory: the rows of a, or the columns of b."""

    rows: int
    K: int
    along_k: bool  # whether neighbors in memory are neighbors along K
    stride: int  # elements from one row to the next or, if rows are neighbors, from one step along K to the next

    def aligned(self, unit: int) -> bool:
        """Return whether each run of neighbors begins and ends a multiple of 16 bytes away from the first element."""
        run, runs = (self.K, self.rows) if self.along_k else (self.rows, self.K)
        return run % unit == 0 and self.stride % unit == 0 and (self.stride >= run or runs == 1)

    def reach(self, block: int, block_k: int) -> int:
        """Return a bound that is larger than all offsets within a tile."""
        return block * self.stride + block_k if self.along_k else block + block_k * self.stride

    def described(self, block: int, block_k: int) -> tuple:
        """Return shape, strides and block of a tensor descriptor."""
        if self.along_k:
            return (self.rows, self.K), (max(self.stride, self.K), 1), [block, block_k]
        return (self.K, self.rows), (max(self.stride, self.rows), 1), [block_k, block]


def walk(rows: int, K: int, strides: tuple[int, int]) -> Walk | None:
    """Return the layout of a side, or None if it is contiguous along neither dimension."""
    if strides[1] == 1 or K == 1:
        return Walk(rows, K, True, strides[0] if rows > 1 else 0)
    if strides[0] == 1 or rows == 1:
        return Walk(rows, K, False, strides[1])
    return None
# --8<-- [end:prepared]


def copy_along_k(x: torch.Tensor, more: int) -> torch.Tensor:
    """Return a contiguous copy of a tensor ``(rows, K)`` with ``more`` zeros at the end of each row."""
    return torch.nn.functional.pad(x, (0, more)).contiguous()


# --8<-- [start:counters]
KEPT = {}  # by device and stream; launches on one stream run one after another, so they can share
FOR_GRAPHS = {}  # by device; not given to a graph yet. A graph may run on any stream at any time, so it never shares
ROOM = 2**20


def counters(device: torch.device, tiles: int, keep: bool) -> torch.Tensor:
    """Return zeros for a launch on the current stream. The launch leaves them as zeros."""
    if not keep:
        return torch.zeros(tiles, dtype=torch.int32, device=device)  # costs one more kernel, a microsecond or two
    on_gpu = device.type == "cuda"
    if on_gpu and torch.cuda.is_current_stream_capturing():
        tiles = -(-tiles // 4) * 4  # so that the next ones begin at a multiple of 16 bytes
        left = FOR_GRAPHS.get(device, ())
        if len(left) < tiles:
            return torch.zeros(tiles, dtype=torch.int32, device=device)
        FOR_GRAPHS[device] = left[tiles:]
        return left[:tiles]
    key = device, triton.runtime.driver.active.get_current_stream(device.index) if on_gpu else 0
    if key not in KEPT or len(KEPT[key]) < tiles:
        KEPT[key] = torch.zeros(max(tiles, 4096), dtype=torch.int32, device=device)
        if on_gpu and device not in FOR_GRAPHS:
            FOR_GRAPHS[device] = torch.zeros(ROOM, dtype=torch.int32, device=device)
            torch.cuda.current_stream(device).synchronize()  # once: other streams will read these zeros
    return KEPT[key]
# --8<-- [end:counters]


@functools.cache
def limits_of(device: torch.device) -> dict[str, int]:
    """Return the limits of a GPU that :func:`plan` needs; in the interpreter, none, so that it uses an H200's."""
    if device.type != "cuda":
        return {}
    properties = torch.cuda.get_device_properties(device)
    # A program can ask for more than the default. torch has no such limit for AMD's GPUs.
    shared = getattr(properties, "shared_memory_per_block_optin", properties.shared_memory_per_block)
    return {"multiprocessors": properties.multi_processor_count, "shared": shared}


def check_arguments(a_shape, b_shape, a_dtype, b_dtype, a_device, b_device) -> None:
    """Raise ``ValueError`` for arguments that the kernels would get wrong, or can't serve at all."""
    if len(a_shape) != 2 or len(b_shape) != 2 or a_shape[1] != b_shape[0] or a_dtype != b_dtype or a_device != b_device:
        raise ValueError(
            "a must be (M, K) and b (K, N), of one dtype and on one device; "
            f"got {tuple(a_shape)} of {a_dtype} on {a_device} and {tuple(b_shape)} of {b_dtype} on {b_device}"
        )
    if max(*a_shape, *b_shape) >= 2**30:  # (with 2**31 programs, the result would be larger than any memory)
        raise ValueError(f"dimensions must be below 2**30; got {tuple(a_shape)} and {tuple(b_shape)}")
    if a_dtype not in DTYPES:
        raise ValueError(f"dtype {a_dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    interpreted = not isinstance(tile_kernel, triton.JITFunction)
    if a_device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"a is on {a_device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if interpreted and a_dtype == torch.bfloat16:
        raise ValueError("Triton's interpreter multiplies bfloat16 wrongly (seen in 3.6 to 3.9); use float32 there")


# --8<-- [start:main]
SHAPES = (
    (1, 4096, 4096), (16, 4096, 14336), (64, 28672, 8192), (128, 128, 65536), (300, 7168, 2048), (512, 512, 512),
    (1536, 1536, 1536), (1920, 1280, 5120), (3072, 3072, 3072), (4096, 4096, 4096), (8192, 8192, 8192),
)  # fmt: skip


def describe(M: int, N: int, K: int) -> str:
    found = plan(M, N, K)
    tile = f"{found.block_m} x {found.block_n} x {found.block_k}" + " of the transposed" * found.swapped
    return f"{found.kernel}, {tile}, {found.parts} parts, {found.programs} programs"


def main():
    device = "cuda" if isinstance(tile_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)
    print("## right")
    for M, N, K in ((1, 300, 500), (20, 70, 300), (100, 70, 90)):
        a, b = (torch.randint(-3, 4, shape).to(device, torch.float16) for shape in ((M, K), (K, N)))
        equal = torch.equal(matmul(a, b).double(), a.double() @ b.double())
        print(f"{M} x {N} x {K}:", "equal" if equal else "NOT equal")
    print("## plans")
    for shape in SHAPES:
        print(f"{' x '.join(map(str, shape))}: {describe(*shape)}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
