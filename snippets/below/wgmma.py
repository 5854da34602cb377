# SPDX-License-Identifier: Apache-2.0
"""A matrix product in Gluon, in five steps, from one tile at a time to two thread blocks that share what they load.

- :func:`waiting_kernel`: load, wait, multiply, wait
- :func:`pipelined_kernel`: loads are several steps ahead, and a product is in flight while the next is issued
- :func:`persistent_kernel`: a program for each multiprocessor; the next tile's loads begin before a tile is stored
- :func:`specialized_kernel`: one warp loads, and two groups of four warps multiply, each half of a tile
- the same with ``num_ctas=2``: two thread blocks, a cluster, load each tile of ``b`` once for both

Shapes: ``a`` is (M, K), ``b`` is (K, N), ``c`` is (M, N), of bfloat16 or float16. FLOPs: 2 * M * N * K.
Sources: ``wgmma`` and ``mbarrier`` in NVIDIA's PTX ISA; ``warpgroup_mma`` and ``warp_specialize`` in Gluon's source.

Run it on a Hopper GPU with ``python wgmma.py``.
"""

import functools

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    cluster,
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M = 128, 256, 64, 8
QUARTERS = 4  # pieces in which a tile is stored
WAYS = ("waiting", "pipelined", "persistent", "specialized", "clustered")


# --8<-- [start:buffers]
@gluon.jit
def make_buffers(a, b, BUFFERS: gl.constexpr):
    """Return room for tiles of a and of b, and an mbarrier for each pair."""
    rows: gl.constexpr = a.block_type.shape[0]
    depth: gl.constexpr = a.block_type.shape[1]
    columns: gl.constexpr = b.block_type.shape[1]
    a_tiles = gl.allocate_shared_memory(
        a.dtype, [BUFFERS, rows, depth], a.layout
    )  # fmt: skip
    b_tiles = gl.allocate_shared_memory(
        b.dtype, [BUFFERS, depth, columns], b.layout
    )  # fmt: skip
    return a_tiles, b_tiles, make_mbarriers(BUFFERS)


@gluon.jit
def make_mbarriers(BUFFERS: gl.constexpr):
    made = mbarrier.allocate_mbarrier(batch=BUFFERS)
    for each in gl.static_range(BUFFERS):
        mbarrier.init(made.index(each), count=1)
    fence_async_shared()
    return made
# --8<-- [end:buffers]


# --8<-- [start:zeros]
@gluon.jit
def zeros(rows: gl.constexpr, columns: gl.constexpr):
    """Return an accumulator; each warp holds 16 rows, as wgmma has it."""
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0],
        warps_per_cta=[gl.num_warps(), 1],
        instr_shape=[16, columns, 16],
    )
    return gl.zeros([rows, columns], gl.float32, LAYOUT)
# --8<-- [end:zeros]


# --8<-- [start:load]
@gluon.jit
def load(a, b, row, column, k, i, wanted, a_tiles, b_tiles, arrived):
    """Begin to load the tiles of step i, into the next buffers."""
    slot = i % a_tiles.shape[0]
    bar = arrived.index(slot)
    nbytes: gl.constexpr = a.nbytes_per_cta + b.nbytes_per_cta
    mbarrier.expect(bar, nbytes, pred=wanted)
    tma.async_load(a, [row, k], bar, a_tiles.index(slot), pred=wanted)
    tma.async_load(b, [k, column], bar, b_tiles.index(slot), pred=wanted)
# --8<-- [end:load]


# --8<-- [start:multiply]
@gluon.jit
def multiply(acc, i, a_tiles, b_tiles, arrived):
    """Wait for the tiles of step i, and begin to multiply them."""
    BUFFERS: gl.constexpr = a_tiles.shape[0]
    slot = i % BUFFERS
    mbarrier.wait(arrived.index(slot), i // BUFFERS & 1)
    return warpgroup_mma(
        a_tiles.index(slot), b_tiles.index(slot), acc, is_async=True
    )  # fmt: skip
# --8<-- [end:multiply]


# --8<-- [start:waiting]
@gluon.jit
def waiting_kernel(a, b, c, K):
    rows: gl.constexpr = a.block_type.shape[0]
    depth: gl.constexpr = a.block_type.shape[1]
    columns: gl.constexpr = b.block_type.shape[1]
    row, column = gl.program_id(0) * rows, gl.program_id(1) * columns
    a_tiles, b_tiles, arrived = make_buffers(a, b, 1)
    acc = zeros(rows, columns)
    for i in range(gl.cdiv(K, depth)):
        load(a, b, row, column, i * depth, i, True,
             a_tiles, b_tiles, arrived)  # fmt: skip
        acc = multiply(acc, i, a_tiles, b_tiles, arrived)
        acc = warpgroup_mma_wait(0, deps=(acc,))
    store(c, row, column, acc)
# --8<-- [end:waiting]


@gluon.jit
def store(c, row, column, acc):
    """Store a tile, and wait for it."""
    c_tile = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    store_by(c, row, column, acc, c_tile)
    tma.store_wait(pendings=0)


@gluon.jit
def store_by(c, row, column, acc, c_tile):
    """Store the four quarters of a tile through one buffer; the last may still be on its way out."""
    columns: gl.constexpr = c.block_type.shape[1]
    left, right = halves(acc)
    first, second = halves(left)
    third, fourth = halves(right)
    store_quarter(c, row, column, first, c_tile)
    store_quarter(c, row, column + columns, second, c_tile)
    store_quarter(c, row, column + 2 * columns, third, c_tile)
    store_quarter(c, row, column + 3 * columns, fourth, c_tile)


@gluon.jit
def halves(x):
    rows: gl.constexpr = x.shape[0]
    half: gl.constexpr = x.shape[1] // 2
    return gl.split(gl.permute(gl.reshape(x, [rows, 2, half]), [0, 2, 1]))


@gluon.jit
def store_quarter(c, row, column, values, c_tile):
    """Begin to store, once the quarter before has left the buffer."""
    tma.store_wait(pendings=0)
    gl.barrier()
    c_tile.store(values.to(c.dtype))
    fence_async_shared()
    gl.barrier()
    tma.async_store(c, [row, column], c_tile)


@gluon.jit
def place(tile, tiles_m, tiles_n, GROUP: gl.constexpr):
    """Return row and column of a tile, in the grouped order; the last group may be lower."""
    first = tile // (GROUP * tiles_n) * GROUP
    height = gl.minimum(tiles_m - first, GROUP)
    inside = tile % (GROUP * tiles_n)
    return first + inside % height, inside // height


@gluon.jit(do_not_specialize=["tiles_m", "tiles_n"])
def pipelined_kernel(
    a, b, c, tiles_m, tiles_n, K, GROUP: gl.constexpr, BUFFERS: gl.constexpr
):  # fmt: skip
    rows: gl.constexpr = a.block_type.shape[0]
    depth: gl.constexpr = a.block_type.shape[1]
    columns: gl.constexpr = b.block_type.shape[1]
    pid_m, pid_n = place(gl.program_id(0), tiles_m, tiles_n, GROUP)
    row, column = pid_m * rows, pid_n * columns
    a_tiles, b_tiles, arrived = make_buffers(a, b, BUFFERS)
    # --8<-- [start:pipelined]
    steps = gl.cdiv(K, depth)
    for i in range(BUFFERS - 1):
        load(a, b, row, column, i * depth, i, i < steps,
             a_tiles, b_tiles, arrived)  # fmt: skip
    acc = zeros(rows, columns)
    for i in range(steps):
        acc = multiply(acc, i, a_tiles, b_tiles, arrived)
        acc = warpgroup_mma_wait(1, deps=(acc,))
        # Step i - 1 is multiplied, so its buffers are free.
        ahead = i + BUFFERS - 1
        load(a, b, row, column, ahead * depth, ahead, ahead < steps,
             a_tiles, b_tiles, arrived)  # fmt: skip
    acc = warpgroup_mma_wait(0, deps=(acc,))
    # --8<-- [end:pipelined]
    store(c, row, column, acc)


@gluon.jit
def load_step(a, b, i, total, steps, tiles_m, tiles_n, a_tiles, b_tiles, arrived, GROUP: gl.constexpr):
    """Begin to load step ``i`` of all steps of this program, over all of its tiles."""
    tile = gl.program_id(0) + i // steps * gl.num_programs(0)
    pid_m, pid_n = place(tile, tiles_m, tiles_n, GROUP)
    row, column = pid_m * a.block_type.shape[0], pid_n * b.block_type.shape[1]
    k = i % steps * a.block_type.shape[1]
    load(a, b, row, column, k, i, i < total, a_tiles, b_tiles, arrived)


@gluon.jit(do_not_specialize=["tiles_m", "tiles_n"])
def persistent_kernel(
    a, b, c, tiles_m, tiles_n, K, GROUP: gl.constexpr, BUFFERS: gl.constexpr
):  # fmt: skip
    rows: gl.constexpr = a.block_type.shape[0]
    depth: gl.constexpr = a.block_type.shape[1]
    columns: gl.constexpr = b.block_type.shape[1]
    a_tiles, b_tiles, arrived = make_buffers(a, b, BUFFERS)
    c_tile = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    pid, programs = gl.program_id(0), gl.num_programs(0)
    steps = gl.cdiv(K, depth)
    total = (tiles_m * tiles_n - pid + programs - 1) // programs * steps
    # --8<-- [start:persistent]
    for i in range(BUFFERS - 1):
        load_step(a, b, i, total, steps, tiles_m, tiles_n,
                  a_tiles, b_tiles, arrived, GROUP)  # fmt: skip
    i = 0
    for tile in range(pid, tiles_m * tiles_n, programs):
        acc = zeros(rows, columns)
        for _ in range(steps):
            acc = multiply(acc, i, a_tiles, b_tiles, arrived)
            acc = warpgroup_mma_wait(1, deps=(acc,))
            load_step(a, b, i + BUFFERS - 1, total, steps, tiles_m, tiles_n,
                      a_tiles, b_tiles, arrived, GROUP)  # fmt: skip
            i += 1
        acc = warpgroup_mma_wait(0, deps=(acc,))
        pid_m, pid_n = place(tile, tiles_m, tiles_n, GROUP)
        store_by(c, pid_m * rows, pid_n * columns, acc, c_tile)
    # --8<-- [end:persistent]
    tma.store_wait(pendings=0)


# --8<-- [start:loading]
@gluon.jit
def loading(
    a, b, c, tiles_m, tiles_n, K,
    a_tiles, b_tiles, c_tiles, arrived, free, both, GROUP: gl.constexpr,
):  # fmt: skip
    """What one warp does: have every buffer filled that is free."""
    BUFFERS: gl.constexpr = b_tiles.shape[0]
    rows: gl.constexpr = a.block_type.shape[0]  # of each group
    depth: gl.constexpr = a.block_type.shape[1]
    nbytes: gl.constexpr = 2 * a.nbytes_per_cta + b.nbytes_per_cta
    SHARED: gl.constexpr = gl.num_ctas() == 2
    i = 0
    for tile in range(
        gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)
    ):  # fmt: skip
        pid_m, pid_n = place(tile, tiles_m, tiles_n, GROUP)
        row, column = pid_m * 2 * rows, pid_n * b.block_type.shape[1]
        for k in range(0, K, depth):
            slot = i % BUFFERS
            # In lap 0 they are free: of a fresh mbarrier, phase 1 is over.
            phase = i // BUFFERS & 1 ^ 1
            mbarrier.wait(free.index(slot), phase)
            bar = arrived.index(slot)
            mbarrier.expect(bar, nbytes)
            for half in gl.static_range(2):
                tma.async_load(a, [row + half * rows, k], bar,
                               a_tiles.index(2 * slot + half))  # fmt: skip
            # --8<-- [start:multicast]
            if SHARED:
                # The other thread block may still read its tile of b.
                mbarrier.wait(both.index(slot), phase)
            tma.async_load(
                b, [k, column], bar, b_tiles.index(slot), multicast=SHARED
            )  # fmt: skip
            # --8<-- [end:multicast]
            i += 1
# --8<-- [end:loading]


# --8<-- [start:multiplying]
@gluon.jit
def multiplying(
    a, b, c, tiles_m, tiles_n, K,
    a_tiles, b_tiles, c_tiles, arrived, free, both,
    GROUP: gl.constexpr, HALF: gl.constexpr,
):  # fmt: skip
    """What four warps do: multiply half of the rows of each tile."""
    BUFFERS: gl.constexpr = b_tiles.shape[0]
    rows: gl.constexpr = a.block_type.shape[0]
    columns: gl.constexpr = b.block_type.shape[1]
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, columns, 16],
        cga_layout=a.layout.cga_layout,
    )  # fmt: skip
    steps = gl.cdiv(K, a.block_type.shape[1])
    i = 0
    for tile in range(
        gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)
    ):  # fmt: skip
        acc = gl.zeros([rows, columns], gl.float32, LAYOUT)
        for step in range(steps):
            slot = i % BUFFERS
            mbarrier.wait(arrived.index(slot), i // BUFFERS & 1)
            acc = warpgroup_mma(
                a_tiles.index(2 * slot + HALF), b_tiles.index(slot), acc,
                is_async=True,
            )  # fmt: skip
            acc = warpgroup_mma_wait(1, deps=(acc,))
            release(free, both, i + BUFFERS - 1, step > 0)
            i += 1
        acc = warpgroup_mma_wait(0, deps=(acc,))
        release(free, both, i + BUFFERS - 1, True)
        pid_m, pid_n = place(tile, tiles_m, tiles_n, GROUP)
        store_by(c, (2 * pid_m + HALF) * rows, pid_n * columns, acc,
                 c_tiles.index(HALF))  # fmt: skip
    tma.store_wait(pendings=0)


@gluon.jit
def release(free, both, i, wanted):
    """Say that this group has multiplied the tiles of step i."""
    slot = i % free.shape[0]
    mbarrier.arrive(free.index(slot), count=1, pred=wanted)
    if gl.num_ctas() == 2:
        mbarrier.arrive(both.index(slot), count=1, pred=wanted)
# --8<-- [end:multiplying]


@gluon.jit
def upper_half(
    a, b, c, tiles_m, tiles_n, K, a_tiles, b_tiles, c_tiles, arrived, free, both, GROUP: gl.constexpr
):  # fmt: skip
    multiplying(a, b, c, tiles_m, tiles_n, K, a_tiles, b_tiles, c_tiles, arrived, free, both, GROUP, 0)


@gluon.jit
def lower_half(
    a, b, c, tiles_m, tiles_n, K, a_tiles, b_tiles, c_tiles, arrived, free, both, GROUP: gl.constexpr
):  # fmt: skip
    multiplying(a, b, c, tiles_m, tiles_n, K, a_tiles, b_tiles, c_tiles, arrived, free, both, GROUP, 1)


# --8<-- [start:specialized]
@gluon.jit(do_not_specialize=["tiles_m", "tiles_n"])
def specialized_kernel(
    a, b, c, tiles_m, tiles_n, K, GROUP: gl.constexpr, BUFFERS: gl.constexpr
):  # fmt: skip
    rows: gl.constexpr = a.block_type.shape[0]
    depth: gl.constexpr = a.block_type.shape[1]
    a_tiles = gl.allocate_shared_memory(
        a.dtype, [2 * BUFFERS, rows, depth], a.layout
    )  # fmt: skip
    b_tiles = gl.allocate_shared_memory(
        b.dtype, [BUFFERS, depth, b.block_type.shape[1]], b.layout
    )  # fmt: skip
    c_tiles = gl.allocate_shared_memory(
        c.dtype, [2, rows, c.block_type.shape[1]], c.layout
    )  # fmt: skip
    SHARED: gl.constexpr = gl.num_ctas() == 2
    arrived = mbarrier.allocate_mbarrier(batch=BUFFERS)
    free = mbarrier.allocate_mbarrier(batch=BUFFERS)
    # One for both thread blocks; with one thread block it isn't used.
    both = mbarrier.allocate_mbarrier(batch=BUFFERS, two_ctas=SHARED)
    for each in gl.static_range(BUFFERS):
        mbarrier.init(arrived.index(each), count=1)
        mbarrier.init(free.index(each), count=2)
        mbarrier.init(both.index(each), count=2)
    fence_async_shared()
    args = (a, b, c, tiles_m, tiles_n, K,
            a_tiles, b_tiles, c_tiles, arrived, free, both, GROUP)  # fmt: skip
    gl.warp_specialize(
        [(upper_half, args), (lower_half, args), (loading, args)],
        worker_num_warps=[4, 1], worker_num_regs=[232, 24],
    )  # fmt: skip
    if SHARED:
        # Don't end while the other one may still arrive at our mbarriers.
        cluster.barrier()
# --8<-- [end:specialized]


# --8<-- [start:host]
def matmul(
    a: torch.Tensor, b: torch.Tensor, *, way: str = "clustered", buffers: int = 4,
    block: tuple[int, int, int] = (BLOCK_M, BLOCK_N, BLOCK_K), num_warps: int = 8,
) -> torch.Tensor:  # fmt: skip
    """Return ``a @ b``.

    Args:
        a: (M, K), bfloat16 or float16, on a Hopper GPU; rows of neighbors that begin at multiples of 16 bytes.
        b: (K, N), as ``a``.
        way: One of ``WAYS``.
        buffers: How many tiles of ``a`` and of ``b`` a thread block has room for; "waiting" has one.
        block: Rows and columns of a thread block's tile of the result, and how deep along K a step is: powers of two,
            64 rows and columns at least, 256 columns at most, 16 deep at least.
        num_warps: Warps that multiply: 4, or 8 if a tile has 128 rows or more. "specialized" and "clustered" need 8.

    Raises:
        ValueError: The arguments are not as above.
    """
    check(a, b, way, buffers)
    check_block(block, num_warps, way)
    check_gpu(a.device)
    (M, K), N = a.shape, b.shape[1]
    out = torch.empty((M, N), dtype=a.dtype, device=a.device)
    if 0 in (M, N):
        return out
    if K == 0:
        return out.zero_()
    rows, columns, depth = block
    groups = 2 if way in ("specialized", "clustered") else 1
    ctas = 2 if way == "clustered" else 1
    # What a descriptor names is for a whole program: with two thread blocks, each has half of the rows, and all of b.
    tall = rows * ctas // groups
    by_rows, by_none = ([[1, 0]], [[0, 0]]) if ctas == 2 else (None, None)
    shapes = [tall, depth], [depth, columns], [tall, columns // QUARTERS]
    element = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16}[a.dtype]
    described = [
        TensorDescriptor.from_tensor(x, shape, gl.NVMMASharedLayout.get_default_for(shape, element, cga_layout=dealt))
        for x, shape, dealt in zip((a, b, out), shapes, (by_rows, by_none, by_rows), strict=True)
    ]
    tiles_m, tiles_n = triton.cdiv(M, tall * groups), triton.cdiv(N, columns)
    with torch.cuda.device_of(a):
        if way == "waiting":
            waiting_kernel[(tiles_m, tiles_n)](*described, K, num_warps=num_warps)
        elif way == "pipelined":
            pipelined_kernel[(tiles_m * tiles_n,)](
                *described, tiles_m, tiles_n, K, GROUP=GROUP_M, BUFFERS=buffers, num_warps=num_warps
            )
        else:
            kernel = persistent_kernel if way == "persistent" else specialized_kernel
            grid = (min(tiles_m * tiles_n, multiprocessors(a.device) // ctas),)
            kernel[grid](
                *described, tiles_m, tiles_n, K, GROUP=GROUP_M // ctas, BUFFERS=buffers,
                num_warps=num_warps // groups, num_ctas=ctas,
            )  # fmt: skip
    return out
# --8<-- [end:host]


@functools.cache
def multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def check(a: torch.Tensor, b: torch.Tensor, way: str, buffers: int) -> None:
    """Raise ``ValueError`` if these cannot be multiplied."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"a and b must be (M, K) and (K, N); got {tuple(a.shape)} and {tuple(b.shape)}")
    if a.dtype != b.dtype or a.dtype not in (torch.bfloat16, torch.float16) or a.device != b.device:
        raise ValueError(f"a and b must be alike, of 16 bits; got {a.dtype}, {a.device}, {b.dtype}, {b.device}")
    for name, x in (("a", a), ("b", b)):
        if x.numel() and (x.stride(1) != 1 or x.stride(0) % 8 or x.stride(0) < 1 or x.data_ptr() % 16):
            raise ValueError(
                f"each row of {name} must lie in one piece that begins at a multiple of 16 bytes; got strides "
                f"{x.stride()} at {x.data_ptr():#x}; copy {name}.contiguous(), or pad its rows"
            )
    if b.shape[1] % 8:
        raise ValueError(f"b must have a multiple of 8 columns, for the result is stored by TMA; got {b.shape[1]}")
    if way not in WAYS:
        raise ValueError(f"way must be one of {WAYS}; got {way!r}")
    if buffers < 2:
        raise ValueError(f"buffers must be 2 at least; got {buffers}")


def check_block(block: tuple[int, int, int], num_warps: int, way: str) -> None:
    """Raise ``ValueError`` if wgmma has no such tile."""
    least = (64, 64, 16)
    if len(block) != 3 or any(side < a or side & (side - 1) for side, a in zip(block, least, strict=True)):
        raise ValueError(f"block must be three powers of two, 64 x 64 and 16 deep at least; got {block}")
    if block[1] > 256:
        raise ValueError(f"block must have 256 columns at most, as wgmma has; got {block}")
    if num_warps not in (4, 8) or 16 * num_warps > block[0]:
        raise ValueError(f"num_warps must be 4, or 8 for 128 rows or more; got {num_warps} for {block[0]} rows")
    if way in ("specialized", "clustered") and num_warps != 8:
        raise ValueError(f"{way!r} has two groups of four warps, so num_warps must be 8; got {num_warps}")


def check_gpu(device: torch.device) -> None:
    """Raise ``ValueError`` unless this is a GPU of Hopper."""
    if device.type != "cuda":
        raise ValueError(f"a must be on a Hopper GPU, for Gluon has no interpreter; it is on {device}")
    if torch.cuda.get_device_capability(device)[0] != 9:
        raise ValueError(f"wgmma is Hopper's; {torch.cuda.get_device_name(device)} has another instruction")


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; this needs a Hopper GPU")
    random = torch.Generator().manual_seed(0)
    for M, K, N in ((2048, 2048, 2048), (1000, 520, 776), (64, 8, 8)):
        shapes = (M, K), (K, N)
        a, b = (torch.randint(-2, 3, shape, generator=random).to("cuda", torch.bfloat16) for shape in shapes)
        expected = (a.float() @ b.float()).bfloat16()
        exact = {way: torch.equal(matmul(a, b, way=way), expected) for way in WAYS}
        print(f"{M} x {K} x {N}, exact: {exact}")


if __name__ == "__main__":
    main()
