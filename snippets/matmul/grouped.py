# SPDX-License-Identifier: Apache-2.0
"""Matrix product whose programs take the tiles of the result in groups of rows, so that they share what they read.

``C = A @ B`` for A ``(M, K)`` and B ``(K, N)``; a program computes one tile of C, and reads a row of tiles of A and a
column of tiles of B. Programs that run at the same time share these if their own tiles stand close together.
:func:`grouped` therefore goes down ``GROUP_M`` rows of tiles before it goes one column on. 1 is row-major order, and
as many rows as there are, or more, is column-major.

- :func:`matmul`: the product, on any shape and strides
- :func:`tile_order`: the same order in plain Python
- :func:`tile_reads`: how many reads of tiles a cache of a given size answers, when programs run in a given order

Units: FLOPs are ``2 * M * N * K``; a cache's size is in tiles.
Source: the order is that of Triton's tutorial on matrix multiplication, and of ``tl.swizzle2d``.

Run it on a GPU with ``python grouped.py``, or with ``TRITON_INTERPRET=1 python grouped.py`` in Triton's interpreter,
which alone can say which tiles the programs read. (For that it imports ``snippets/tools/testing.py``; a copy of this
file alone leaves it out.)
"""

from collections import OrderedDict
from collections.abc import Sequence
from importlib.util import find_spec
from typing import NamedTuple

import torch
import triton
import triton.language as tl

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
LONGEST = 2**30  # of a dimension, so that a step beyond its end still fits in 32 bits


# --8<-- [start:grouped]
@triton.jit
def grouped(pid, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    programs = GROUP_M * tiles_n  # of a group
    first_m = pid // programs * GROUP_M  # its first row of tiles
    rows = tl.minimum(tiles_m - first_m, GROUP_M)  # the last may have fewer
    within = pid % programs
    return first_m + within % rows, within // rows
# --8<-- [end:grouped]


# --8<-- [start:kernel]
@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    pid_m, pid_n = grouped(
        tl.program_id(axis=0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N),
        GROUP_M,
    )
    m, n = pid_m * BLOCK_M, pid_n * BLOCK_N
    rows, columns = (
        tl.arange(0, BLOCK_M)[:, None],
        tl.arange(0, BLOCK_N)[None, :],
    )
    k = tl.arange(0, BLOCK_K)
    # One 64-bit offset leads to the tile. Offsets within it have 32 bits.
    a_ptrs = (
        a_ptr
        + m.to(tl.int64) * stride_am
        + (rows * stride_am + k[None, :] * stride_ak)
    )
    b_ptrs = (
        b_ptr
        + n.to(tl.int64) * stride_bn
        + (k[:, None] * stride_bk + columns * stride_bn)
    )
    step = tl.full((), BLOCK_K, tl.int64)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        left = k < K - start
        a = tl.load(a_ptrs, mask=(rows < M - m) & left[None, :], other=0)
        b = tl.load(b_ptrs, mask=left[:, None] & (columns < N - n), other=0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += step * stride_ak
        b_ptrs += step * stride_bk
    c_begin = m.to(tl.int64) * stride_cm + n.to(tl.int64) * stride_cn
    c_ptrs = c_ptr + c_begin + (rows * stride_cm + columns * stride_cn)
    mask = (rows < M - m) & (columns < N - n)
    tl.store(c_ptrs, acc, mask=mask)  # rounded to c's dtype
# --8<-- [end:kernel]


# --8<-- [start:matmul]
def matmul(
    a: torch.Tensor, b: torch.Tensor, *, group: int = 8, tile: tuple[int, int, int] | None = None,
    num_warps: int = 8, num_stages: int = 3,
) -> torch.Tensor:
    """Return ``a @ b`` in the dtype of ``a``, computed in float32.

    Args:
        a, b: ``(M, K)`` and ``(K, N)``, float32, float16 or bfloat16, with any strides, on one device. float32 is
            multiplied without TF32.
        group: Rows of tiles in a group: 1 is row-major order.
        tile: Rows and columns of a tile of the result, and the step along K; powers of two, on a GPU the step from 16.
        num_warps, num_stages: As for any kernel of Triton's.

    Raises:
        ValueError: Shapes, dtypes, devices or options are not as above, or the elements of one tile lie 2**31 or more
            apart.

    >>> matmul(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    check_arguments(a, b)
    tile = tile or ((64, 64, 16) if a.dtype == torch.float32 else (128, 128, 64))
    check_options(group, tile, num_warps)
    (M, K), N = a.shape, b.shape[1]
    tiles = triton.cdiv(M, tile[0]) * triton.cdiv(N, tile[1])
    if max(tiles, group * triton.cdiv(N, tile[1])) >= 2**31:  # pids are int32, and so is the size of a group
        raise ValueError(f"{M} x {N} elements are too many tiles of {tile[0]} x {tile[1]}, or the group is too large")
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    for name, x, sides in (("a", a, (tile[0], tile[2])), ("b", b, (tile[2], tile[1])), ("c", c, tile[:2])):
        check_span(name, x.shape, x.stride(), sides)
    if tiles:
        with torch.cuda.device_of(a):
            # --8<-- [start:launch]
            matmul_kernel[(tiles,)](
                a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(),
                BLOCK_M=tile[0], BLOCK_N=tile[1], BLOCK_K=tile[2], GROUP_M=group,
                num_warps=num_warps, num_stages=num_stages,
            )
            # --8<-- [end:launch]
    return c
# --8<-- [end:matmul]


def check_arguments(a: torch.Tensor, b: torch.Tensor) -> None:
    """Raise ``ValueError`` for matrices that the kernel would multiply wrongly or not at all."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"a and b must be (M, K) and (K, N); got {tuple(a.shape)} and {tuple(b.shape)}")
    if a.dtype != b.dtype or a.dtype not in DTYPES:
        raise ValueError(f"a and b must be of one dtype of {', '.join(map(str, DTYPES))}; got {a.dtype} and {b.dtype}")
    if a.device != b.device or a.device.type not in ("cuda", "cpu"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"a and b must be on one GPU; got {a.device} and {b.device}")
    interpreted = not isinstance(matmul_kernel, triton.JITFunction)
    if a.device.type == "cpu" and not interpreted:
        raise ValueError("a is on the CPU; move it to a GPU, or set TRITON_INTERPRET=1 before importing this file")
    if a.dtype == torch.bfloat16 and interpreted:
        raise ValueError("Triton's interpreter multiplies bfloat16 wrongly (seen in 3.6 to 3.9); use float32 there")
    if max(*a.shape, *b.shape) > LONGEST:
        raise ValueError(f"dimensions must be at most 2**30; got {tuple(a.shape)} and {tuple(b.shape)}")
    for name, x in (("a", a), ("b", b)):
        if x.layout != torch.strided:
            raise ValueError(f"{name} is {x.layout}; pass {name}.to_dense()")
        if x.is_neg():  # its memory doesn't have the sign applied yet
            raise ValueError(f"{name} is negated lazily; pass {name}.resolve_neg()")
        if x.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} requires a gradient, which matmul does not compute; use torch.no_grad()")


def check_span(name: str, shape, strides, sides) -> None:
    """Raise ``ValueError`` if the elements of one tile lie too far apart for offsets of 32 bits.

    >>> check_span("a", (2**20, 2**20), (2**20, 1), (128, 64))  # 2**40 elements, but those of a tile are close
    """
    span = sum((min(side, size) - 1) * stride for side, size, stride in zip(sides, shape, strides, strict=True))
    if span >= 2**31:
        raise ValueError(
            f"{name} has strides {tuple(strides)}: in a tile of {sides[0]} × {sides[1]}, elements would lie {span} "
            f"apart; 2**31 - 1 is the limit. Take a smaller tile, or of a and b contiguous copies"
        )


def check_options(group: int, tile: tuple[int, int, int], num_warps: int) -> None:
    if not isinstance(group, int) or group < 1:
        raise ValueError(f"group must be a whole number from 1; got {group!r}")
    if len(tile) != 3 or not all(isinstance(side, int) and side > 0 and side & (side - 1) == 0 for side in tile):
        raise ValueError(f"tile must be three powers of two, such as (128, 128, 64); got {tile!r}")
    if tile[2] < 16 and isinstance(matmul_kernel, triton.JITFunction):
        raise ValueError(f"the step along K must be at least 16 on a GPU; got {tile!r}")
    if num_warps not in (1, 2, 4, 8, 16, 32):
        raise ValueError(f"num_warps must be a power of two up to 32; got {num_warps!r}")


# The order, three times: by the kernel's helper, by Triton's own function, in plain Python


# --8<-- [start:order]
@triton.jit
def order_kernel(
    order_ptr, tiles_m, tiles_n,
    GROUP_M: tl.constexpr, SWIZZLE2D: tl.constexpr,
):
    pid = tl.program_id(axis=0)
    if SWIZZLE2D:
        pid_m, pid_n = tl.swizzle2d(
            pid // tiles_n, pid % tiles_n, tiles_m, tiles_n, GROUP_M,
        )
    else:
        pid_m, pid_n = grouped(pid, tiles_m, tiles_n, GROUP_M)
    tl.store(order_ptr + pid_m * tiles_n + pid_n, pid)
# --8<-- [end:order]


def order(tiles_m: int, tiles_n: int, group: int, *, swizzle2d: bool = False, device: str = "cpu") -> torch.Tensor:
    """Return which program takes which tile, ``(tiles_m, tiles_n)`` of int32, as a kernel stored it."""
    taken = torch.full((tiles_m, tiles_n), -1, dtype=torch.int32, device=device)
    with torch.cuda.device_of(taken):
        order_kernel[(tiles_m * tiles_n,)](taken, tiles_m, tiles_n, GROUP_M=group, SWIZZLE2D=swizzle2d)
    return taken


# --8<-- [start:tile_order]
def tile_order(tiles_m: int, tiles_n: int, group: int) -> list[tuple[int, int]]:
    """Return the tile of each program, row and column, by pid.

    >>> tile_order(3, 2, group=2)
    [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
    """
    return [
        (m, n)
        for first in range(0, tiles_m, group)
        for n in range(tiles_n)
        for m in range(first, min(first + group, tiles_m))
    ]
# --8<-- [end:tile_order]


class Reads(NamedTuple):
    """Reads of tiles, and those of them that the cache answered; the others, ``misses``, go to memory."""

    reads: int
    hits: int

    @property
    def misses(self) -> int:
        return self.reads - self.hits


# --8<-- [start:model]
def tile_reads(
    order: Sequence[tuple[int, int]], tiles_k: int, *,
    resident: int, cache: int | None = None,
) -> Reads:
    """Count the reads that a cache of ``cache`` tiles answers if programs
    compute tiles in the given ``order``.

    ``resident`` programs run at a time, wave after wave. The programs of a
    wave go through the ``tiles_k`` steps together. In step k the program of
    tile (m, n) reads tile (m, k) of A, then tile (k, n) of B. A full cache
    drops the tile that hasn't been read for the longest time; with
    ``None``, the cache never gets full.

    >>> row_major, by_three = tile_order(9, 9, 1), tile_order(9, 9, 3)
    >>> tile_reads(row_major[:9], 9, resident=9).misses
    90
    >>> tile_reads(by_three[:9], 9, resident=9).misses
    54
    """
    if min(tiles_k, resident, 1 if cache is None else cache) < 1:
        raise ValueError("tiles_k, resident and cache must be at least 1")
    kept, hits = OrderedDict(), 0
    for first in range(0, len(order), resident):
        wave = order[first : first + resident]
        for k in range(tiles_k):
            for m, n in wave:
                for tile in ("A", m, k), ("B", k, n):
                    hits += tile in kept
                    kept[tile] = None
                    kept.move_to_end(tile)  # asked for last
                    if cache is not None and len(kept) > cache:
                        kept.popitem(last=False)
    return Reads(2 * len(order) * tiles_k, hits)
# --8<-- [end:model]


# What the programs of the real kernel read


# --8<-- [start:touched]
class Program(NamedTuple):
    """The tiles that a program touched: of A and B in the order of its steps, and the one of C."""

    a: list[tuple[int, int]]
    b: list[tuple[int, int]]
    c: tuple[int, int]


def touched(tiles: tuple[int, int, int], group: int, side: int = 1) -> list[Program]:
    """Multiply matrices of ``tiles`` along M, N and K, each of ``side`` squared, and return what each program touched.

    In Triton's interpreter only. It takes tiles of a single element, too.
    """
    from snippets.tools.testing import recorded_accesses  # here, so that the rest of this file can be copied alone

    M, N, K = (side * count for count in tiles)
    matrices = {"a": torch.rand(M, K), "b": torch.rand(K, N), "c": torch.empty(M, N)}
    a, b, c = matrices.values()
    with recorded_accesses() as accesses:
        matmul_kernel[(tiles[0] * tiles[1],)](
            a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(),
            BLOCK_M=side, BLOCK_N=side, BLOCK_K=side, GROUP_M=group,
        )
    assert torch.allclose(c, a @ b)
    programs, read = [], {"a": [], "b": []}
    for op, addresses in accesses:
        name, x = next(
            (name, x) for name, x in matrices.items()
            if 0 <= addresses[0] - x.data_ptr() < x.numel() * x.itemsize
        )
        row, column = divmod(int(addresses[0] - x.data_ptr()) // x.itemsize, x.stride(0))
        tile = row // side, column // side
        if op == "load":
            read[name].append(tile)
        else:  # the last thing that a program does
            programs.append(Program(**read, c=tile))
            read = {"a": [], "b": []}
    return programs
# --8<-- [end:touched]


# --8<-- [start:h200]
TILE_BYTES = 128 * 64 * 2  # 128 rows or columns, 64 along K, bfloat16
H200 = {"resident": 132, "cache": 60 * 2**20 // TILE_BYTES}  # a program on each multiprocessor; 60 MiB of L2
SIZES = {8192: (1, 2, 4, 8, 16, 32, 64), 2048: (1, 8, 16)}  # square matrices, and groups


def predict(size: int, group: int, *, resident: int, cache: int | None) -> Reads:
    """Return the reads of a product of square matrices of ``size``, in tiles of 128 by 128, 64 along K at a time."""
    tiles = size // 128
    return tile_reads(tile_order(tiles, tiles, group), size // 64, resident=resident, cache=cache)
# --8<-- [end:h200]


# --8<-- [start:main]
def main():
    device = "cuda" if isinstance(matmul_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    complete = device == "cpu" and find_spec("snippets")  # is there what tells the reads?
    if complete:
        print("## read by the first nine programs")
        for name, group in (("row-major", 1), ("groups of 3", 3)):
            nine = touched((9, 9, 9), group)[:9]
            a = {tile for program in nine for tile in program.a}
            b = {tile for program in nine for tile in program.b}
            print(f"{name}, reads of tiles: {sum(len(program.a + program.b) for program in nine)}")
            print(f"{name}, different tiles of A: {len(a)}")
            print(f"{name}, different tiles of B: {len(b)}")
            print(f"{name}, different tiles: {len(a) + len(b)}")

    for name, group in (("row-major", 1), ("groups of 3", 3)):
        taken = order(5, 4, group, device=device)
        print(f"## {name}")
        for row in taken.tolist():
            print(*(f"{pid:3}" for pid in row))
        assert torch.equal(taken, order(5, 4, group, swizzle2d=True, device=device))
        if complete:
            assert [taken[program.c].item() for program in touched((5, 4, 4), group)] == list(range(20))

    print("## model")
    for size, groups in SIZES.items():
        least = 2 * (size // 128) * (size // 64)  # each tile once
        for group in groups:
            seen = predict(size, group, **H200)
            print(f"{size}, groups of {group}, hits: {100 * seen.hits / seen.reads:.1f} %")
            print(f"{size}, groups of {group}, read: {seen.misses * TILE_BYTES / 1e9:.3f} GB")
            print(f"{size}, groups of {group}, times the least: {seen.misses / least:.1f}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
