# SPDX-License-Identifier: Apache-2.0
"""A copy by TMA in Gluon: one tile and one mbarrier, then a pipeline of several buffers.

TMA is a unit of each multiprocessor that copies tiles between memory and shared memory by itself. An mbarrier, eight
bytes in shared memory, tells the program when a tile has come.

- :func:`copy`: a program for each tile, which it waits for
- :func:`pipelined_copy`: a program for each multiprocessor, several tiles on their way at once

Shapes: ``x`` and ``out`` are (M, N). Bytes moved: 2 * x.nbytes.
Sources: ``mbarrier`` and ``cp.async.bulk.tensor`` in NVIDIA's PTX ISA; ``tma`` and ``mbarrier`` in Gluon's source.

Run it on a Hopper GPU with ``python tma.py``.
"""

import functools

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

TILE = (32, 64)  # rows and columns
MOST = 200 * 1024  # bytes of shared memory for buffers: a multiprocessor of an H200 has 227 KiB for a program
DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.int32, torch.int8, torch.uint8)


# --8<-- [start:one]
@gluon.jit
def copy_kernel(x, out):
    rows: gl.constexpr = x.block_type.shape[0]
    columns: gl.constexpr = x.block_type.shape[1]
    row, column = gl.program_id(0) * rows, gl.program_id(1) * columns

    tile = gl.allocate_shared_memory(x.dtype, [rows, columns], x.layout)
    arrived = mbarrier.allocate_mbarrier()
    mbarrier.init(arrived, count=1)
    fence_async_shared()

    mbarrier.expect(arrived, x.nbytes_per_cta)
    tma.async_load(x, [row, column], arrived, tile)
    mbarrier.wait(arrived, 0)

    tma.async_store(out, [row, column], tile)
    tma.store_wait(pendings=0)
# --8<-- [end:one]


# --8<-- [start:load]
@gluon.jit
def load(x, i, mine, buffers, arrived, tiles_n, BUFFERS: gl.constexpr):
    """Begin to load this program's tile ``i``, if there is one."""
    row, column = place(x, i, tiles_n)
    slot = i % BUFFERS
    mbarrier.expect(arrived.index(slot), x.nbytes_per_cta, pred=i < mine)
    tma.async_load(
        x, [row, column], arrived.index(slot), buffers.index(slot),
        pred=i < mine,
    )  # fmt: skip


@gluon.jit
def place(x, i, tiles_n):
    """Return row and column of this program's tile ``i``."""
    tile = gl.program_id(0) + i * gl.num_programs(0)
    return (
        tile // tiles_n * x.block_type.shape[0],
        tile % tiles_n * x.block_type.shape[1],
    )
# --8<-- [end:load]


# --8<-- [start:pipelined]
@gluon.jit
def pipelined_kernel(
    x, out, tiles, tiles_n, BUFFERS: gl.constexpr, STORING: gl.constexpr
):  # fmt: skip
    pid, programs = gl.program_id(0), gl.num_programs(0)
    mine = (tiles - pid + programs - 1) // programs
    rows: gl.constexpr = x.block_type.shape[0]
    columns: gl.constexpr = x.block_type.shape[1]
    buffers = gl.allocate_shared_memory(
        x.dtype, [BUFFERS, rows, columns], x.layout
    )  # fmt: skip
    arrived = mbarrier.allocate_mbarrier(batch=BUFFERS)
    for each in gl.static_range(BUFFERS):
        mbarrier.init(arrived.index(each), count=1)
    fence_async_shared()

    ahead: gl.constexpr = BUFFERS - STORING
    for i in range(ahead):
        load(x, i, mine, buffers, arrived, tiles_n, BUFFERS)
    for i in range(mine):
        slot, lap = i % BUFFERS, i // BUFFERS
        mbarrier.wait(arrived.index(slot), lap & 1)
        row, column = place(x, i, tiles_n)
        tma.async_store(out, [row, column], buffers.index(slot))
        tma.store_wait(pendings=STORING)
        load(x, i + ahead, mine, buffers, arrived, tiles_n, BUFFERS)
    tma.store_wait(pendings=0)
# --8<-- [end:pipelined]


# --8<-- [start:host]
def copy(x: torch.Tensor, *, tile: tuple[int, int] = TILE) -> torch.Tensor:
    """Return a copy of a matrix, made by a program for each tile.

    Args:
        x: (M, N), on a Hopper GPU or newer; neighbors in a row are neighbors in memory, and each row begins at a
            multiple of 16 bytes.
        tile: Rows and columns of a tile, powers of two, up to 256 each. Its rows have 16 bytes at least.

    Raises:
        ValueError: The arguments are not as above.
    """
    check(x, tile, 1)
    check_gpu(x.device)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        grid = (triton.cdiv(x.shape[0], tile[0]), triton.cdiv(x.shape[1], tile[1]))
        if grid[1] > 65_535:
            raise ValueError(f"x has too many columns for a tile of {tile}; use a wider one, or pipelined_copy")
        with torch.cuda.device_of(x):
            copy_kernel[grid](*descriptors(x, out, tile=tile), num_warps=1)
    return out


def pipelined_copy(
    x: torch.Tensor, *, buffers: int = 4, storing: int | None = None, tile: tuple[int, int] = TILE, per_sm: int = 1
) -> torch.Tensor:
    """Return a copy of a matrix, made by a program for each multiprocessor, which has several tiles on their way.

    Args:
        x: As for :func:`copy`.
        buffers: Tiles that a program has room for. Together they may take ``MOST`` bytes.
        storing: Of these, how many may be on their way out while a load begins: less than ``buffers``. By default 1, or
            0 if there are only two buffers.
        tile: As for :func:`copy`.
        per_sm: Programs for each multiprocessor.

    Raises:
        ValueError: The arguments are not as above.
    """
    storing = int(buffers > 2) if storing is None else storing
    check(x, tile, buffers)
    if not 0 <= storing < buffers:
        raise ValueError(f"storing must be from 0 to {buffers - 1}, less than buffers; got {storing}")
    if per_sm < 1:
        raise ValueError(f"per_sm must be 1 at least; got {per_sm}")
    check_gpu(x.device)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        tiles_n = triton.cdiv(x.shape[1], tile[1])
        tiles = triton.cdiv(x.shape[0], tile[0]) * tiles_n
        grid = (min(tiles, per_sm * multiprocessors(x.device)),)
        with torch.cuda.device_of(x):
            pipelined_kernel[grid](
                *descriptors(x, out, tile=tile), tiles, tiles_n, BUFFERS=buffers, STORING=storing, num_warps=1
            )
    return out
# --8<-- [end:host]


# --8<-- [start:descriptors]
def descriptors(*tensors: torch.Tensor, tile: tuple[int, int]):
    """Return what TMA has to know of each matrix: where it is, its shape and strides, and the shape of a tile."""
    names = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16, torch.float32: gl.float32,
             torch.int32: gl.int32, torch.int8: gl.int8, torch.uint8: gl.uint8}  # fmt: skip
    layout = gl.NVMMASharedLayout.get_default_for(list(tile), names[tensors[0].dtype])
    return [TensorDescriptor.from_tensor(tensor, list(tile), layout) for tensor in tensors]
# --8<-- [end:descriptors]


@functools.cache
def multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def check(x: torch.Tensor, tile: tuple[int, int], buffers: int) -> None:
    """Raise ``ValueError`` if TMA cannot load ``x`` in such tiles."""
    size = x.element_size()
    if x.ndim != 2 or x.dtype not in DTYPES:
        raise ValueError(f"x must be a matrix of one of {DTYPES}; got {tuple(x.shape)} of {x.dtype}")
    if x.numel() and (x.stride(1) != 1 or x.stride(0) * size % 16 or x.stride(0) < 1 or x.data_ptr() % 16):
        raise ValueError(
            f"each row of x must lie in one piece that begins at a multiple of 16 bytes; got strides {x.stride()} of "
            f"{x.dtype} at {x.data_ptr():#x}; copy x.contiguous(), or pad its rows"
        )
    if len(tile) != 2 or any(not 1 <= side <= 256 or side & (side - 1) for side in tile) or tile[1] * size < 16:
        raise ValueError(f"tile must be two powers of two up to 256, its rows of 16 bytes at least; got {tile}")
    if buffers < 1 or buffers * max(tile[0] * tile[1] * size, 128) > MOST:
        raise ValueError(f"{buffers} buffers of {tile} must be one at least, and fit into {MOST:,} bytes")


def check_gpu(device: torch.device) -> None:
    """Raise ``ValueError`` unless this is a GPU with TMA."""
    if device.type != "cuda":
        raise ValueError(f"x must be on a Hopper GPU or newer, for Gluon has no interpreter; it is on {device}")
    if torch.cuda.get_device_capability(device)[0] < 9:
        raise ValueError(f"TMA came with Hopper; {torch.cuda.get_device_name(device)} has none")


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; this needs a Hopper GPU or a newer one")
    for shape in ((1000, 776), (64, 64), (3, 8)):
        x = torch.randn(shape, device="cuda")
        print(f"## {shape[0]} x {shape[1]}")
        print(f"one tile a program: equal: {torch.equal(copy(x), x)}")
        for buffers in (1, 2, 4, 8):
            print(f"{buffers} buffers: equal: {torch.equal(pipelined_copy(x, buffers=buffers), x)}")


if __name__ == "__main__":
    main()
