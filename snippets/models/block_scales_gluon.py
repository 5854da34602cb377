# SPDX-License-Identifier: Apache-2.0
"""The product of ``block_scales.py`` in Gluon, for Hopper: while one group of warps adds, another one multiplies.

A program computes a tile of 128 × 128. One warp loads. Two groups of four warps have 64 rows of the tile each, and none
waits for the other: when a group takes its 128 products out of the matrix units, scales and adds them, the units work
for the other group.

Shapes, scales, and what it computes: as in ``block_scales.py``. FLOPs: 2 * M * N * K.
Sources: the lessons on Gluon, ``below/wgmma.py``; two groups that take turns are CUTLASS's and DeepGEMM's way.

Run it on a Hopper GPU with ``python block_scales_gluon.py``.
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from snippets.matmul.fp8 import by_rows
from snippets.models import block_scales
from snippets.models.block_scales import multiprocessors

BUFFERS, GROUP_M = 6, 8
AHEAD = gl.constexpr(2)  # steps along K whose scales are loaded ahead


@gluon.jit
def make_mbarriers(BUFFERS: gl.constexpr, COUNT: gl.constexpr):
    made = mbarrier.allocate_mbarrier(batch=BUFFERS)
    for each in gl.static_range(BUFFERS):
        mbarrier.init(made.index(each), count=COUNT)
    fence_async_shared()
    return made


@gluon.jit
def place(tile, tiles_m, tiles_n, GROUP: gl.constexpr):
    """Return row and column of a tile, in the grouped order; the last group may be lower."""
    first = tile // (GROUP * tiles_n) * GROUP
    height = gl.minimum(tiles_m - first, GROUP)
    inside = tile % (GROUP * tiles_n)
    return first + inside % height, inside // height


# --8<-- [start:loading]
@gluon.jit
def loading(
    x, w, y, x_scales_ptr, w_scales_ptr, M, K, tiles_m, tiles_n,
    stride_xm, stride_xk, stride_wn, stride_wk,
    x_tiles, w_tiles, y_tiles, arrived, free, GROUP: gl.constexpr,
):  # fmt: skip
    """What one warp does: have every buffer filled that is free."""
    BUFFERS: gl.constexpr = arrived.shape[0]
    nbytes: gl.constexpr = 2 * x.nbytes_per_cta + w.nbytes_per_cta
    i = 0
    for tile in range(
        gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)
    ):  # fmt: skip
        pid_m, pid_n = place(tile, tiles_m, tiles_n, GROUP)
        m, n = pid_m * 128, pid_n * 128
        # The TMA reads zeros past the end of K.
        for k in range(0, gl.cdiv(K, 128 * AHEAD) * 128 * AHEAD, 128):
            slot = i % BUFFERS
            mbarrier.wait(free.index(slot), i // BUFFERS & 1 ^ 1)
            bar = arrived.index(slot)
            mbarrier.expect(bar, nbytes)
            tma.async_load(x, [m, k], bar, x_tiles.index(2 * slot))
            tma.async_load(x, [m + 64, k], bar, x_tiles.index(2 * slot + 1))
            tma.async_load(w, [n, k], bar, w_tiles.index(slot))
            i += 1
# --8<-- [end:loading]


# --8<-- [start:scales]
@gluon.jit
def load_scales(
    x_scales_ptrs, w_scale_ptr, is_row, step, groups, stride_xk, stride_wk
):  # fmt: skip
    """Load the scales of a step along K; there is none behind the last."""
    there, far = step < groups, gl.to_tensor(step).to(gl.int64)
    x_scale = gl.load(
        x_scales_ptrs + far * stride_xk, mask=is_row & there, other=0.0
    )  # fmt: skip
    w_scale = gl.load(w_scale_ptr + far * stride_wk, mask=there, other=0.0)
    return x_scale, w_scale
# --8<-- [end:scales]


# --8<-- [start:multiplying]
@gluon.jit
def multiplying(
    x, w, y, x_scales_ptr, w_scales_ptr, M, K, tiles_m, tiles_n,
    stride_xm, stride_xk, stride_wn, stride_wk,
    x_tiles, w_tiles, y_tiles, arrived, free,
    GROUP: gl.constexpr, HALF: gl.constexpr,
):  # fmt: skip
    """What four warps do: 64 rows of each tile."""
    BUFFERS: gl.constexpr = arrived.shape[0]
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 128, 32]
    )
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, LAYOUT))
    zero = gl.zeros([64, 128], gl.float32, LAYOUT)
    y_tile = y_tiles.index(HALF)
    i = 0
    for tile in range(
        gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)
    ):  # fmt: skip
        pid_m, pid_n = place(tile, tiles_m, tiles_n, GROUP)
        row = pid_m * 128 + 64 * HALF + rows
        x_scales_ptrs = x_scales_ptr + row.to(gl.int64) * stride_xm
        w_scale_ptr = w_scales_ptr + pid_n.to(gl.int64) * stride_wn
        groups = gl.cdiv(K, 128)
        scales = ()
        for ahead in gl.static_range(AHEAD):
            scales += (load_scales(
                x_scales_ptrs, w_scale_ptr, row < M, ahead, groups,
                stride_xk, stride_wk,
            ),)  # fmt: skip
        acc = gl.zeros([64, 128], gl.float32, LAYOUT)
        # --8<-- [start:turns]
        for first in range(0, groups, AHEAD):
            # The scales of the next AHEAD steps are on their way.
            later = ()
            for step in gl.static_range(AHEAD):
                later += (load_scales(
                    x_scales_ptrs, w_scale_ptr, row < M,
                    first + AHEAD + step, groups, stride_xk, stride_wk,
                ),)  # fmt: skip
            for turn in gl.static_range(AHEAD):
                slot = i % BUFFERS
                mbarrier.wait(arrived.index(slot), i // BUFFERS & 1)
                part = warpgroup_mma(
                    x_tiles.index(2 * slot + HALF),
                    w_tiles.index(slot).permute((1, 0)),
                    zero, use_acc=False, is_async=True,
                )  # fmt: skip
                part = warpgroup_mma_wait(0, deps=(part,))
                # From here on the matrix units belong to the other warps.
                mbarrier.arrive(free.index(slot), count=1)
                x_scale, w_scale = scales[turn]
                acc += part * gl.expand_dims(x_scale * w_scale, 1)
                i += 1
            scales = later
        # --8<-- [end:turns]
        tma.store_wait(pendings=0)  # of the tile before
        gl.barrier()
        y_tile.store(acc.to(y.dtype))
        fence_async_shared()
        gl.barrier()
        tma.async_store(y, [pid_m * 128 + 64 * HALF, pid_n * 128], y_tile)
    tma.store_wait(pendings=0)
# --8<-- [end:multiplying]

@gluon.jit
def upper_half(
    x, w, y, x_scales_ptr, w_scales_ptr, M, K, tiles_m, tiles_n, stride_xm, stride_xk, stride_wn, stride_wk,
    x_tiles, w_tiles, y_tiles, arrived, free, GROUP: gl.constexpr,
):  # fmt: skip
    multiplying(x, w, y, x_scales_ptr, w_scales_ptr, M, K, tiles_m, tiles_n, stride_xm, stride_xk, stride_wn, stride_wk,
                x_tiles, w_tiles, y_tiles, arrived, free, GROUP, 0)  # fmt: skip


@gluon.jit
def lower_half(
    x, w, y, x_scales_ptr, w_scales_ptr, M, K, tiles_m, tiles_n, stride_xm, stride_xk, stride_wn, stride_wk,
    x_tiles, w_tiles, y_tiles, arrived, free, GROUP: gl.constexpr,
):  # fmt: skip
    multiplying(x, w, y, x_scales_ptr, w_scales_ptr, M, K, tiles_m, tiles_n, stride_xm, stride_xk, stride_wn, stride_wk,
                x_tiles, w_tiles, y_tiles, arrived, free, GROUP, 1)  # fmt: skip


# --8<-- [start:kernel]
@gluon.jit(do_not_specialize=["M", "tiles_m", "tiles_n"])
def block_scaled_gluon_kernel(
    x, w, y, x_scales_ptr, w_scales_ptr, M, K, tiles_m, tiles_n,
    stride_xm, stride_xk, stride_wn, stride_wk,
    GROUP: gl.constexpr, BUFFERS: gl.constexpr,
):  # fmt: skip
    x_tiles = gl.allocate_shared_memory(
        x.dtype, [2 * BUFFERS, 64, 128], x.layout
    )  # fmt: skip
    w_tiles = gl.allocate_shared_memory(
        w.dtype, [BUFFERS, 128, 128], w.layout
    )  # fmt: skip
    y_tiles = gl.allocate_shared_memory(y.dtype, [2, 64, 128], y.layout)
    arrived = make_mbarriers(BUFFERS, 1)
    # A buffer is free when both groups have multiplied.
    free = make_mbarriers(BUFFERS, 2)
    args = (
        x, w, y, x_scales_ptr, w_scales_ptr, M, K, tiles_m, tiles_n,
        stride_xm, stride_xk, stride_wn, stride_wk,
        x_tiles, w_tiles, y_tiles, arrived, free, GROUP,
    )  # fmt: skip
    gl.warp_specialize(
        [(upper_half, args), (lower_half, args), (loading, args)],
        worker_num_warps=[4, 1], worker_num_regs=[232, 24],
    )  # fmt: skip
# --8<-- [end:kernel]


# --8<-- [start:host]
def block_scaled_matmul(
    x: torch.Tensor, w: torch.Tensor, x_scales: torch.Tensor, w_scales: torch.Tensor,
    *, buffers: int = BUFFERS,
) -> torch.Tensor:  # fmt: skip
    """Return ``x @ w.T`` in bfloat16, as ``block_scales.block_scaled_matmul`` does, on a Hopper GPU.

    Args:
        x, w, x_scales, w_scales: As there, on a Hopper GPU.
        buffers: How many tiles of each operand a program has room for, from 2 to 6.

    Raises:
        ValueError: The arguments are not as above.
    """
    block_scales.check_arguments(x, w, x_scales, w_scales, torch.bfloat16)
    check_gpu(x.device)
    if buffers not in range(2, BUFFERS + 1):
        raise ValueError(f"buffers must be from 2 to {BUFFERS}; got {buffers!r}")
    (M, K), N = x.shape, len(w)
    y = torch.empty(M, triton.cdiv(N, 8) * 8, dtype=torch.bfloat16, device=x.device)[:, :N]
    if M * N * K == 0:
        return y.zero_()
    described = [
        TensorDescriptor(
            t, list(t.shape), [t.stride(0), 1], block,
            gl.NVMMASharedLayout.get_default_for(block, element),
        )
        for t, block, element in (
            (by_rows(x), [64, 128], gl.float8e4nv),
            (by_rows(w), [128, 128], gl.float8e4nv),
            (y, [64, 128], gl.bfloat16),
        )
    ]  # fmt: skip
    tiles_m, tiles_n = triton.cdiv(M, 128), triton.cdiv(N, 128)
    if tiles_m * tiles_n + 2**16 >= 2**31:  # tiles are counted in 32 bits
        raise ValueError(f"a result of {M} x {N} takes too many tiles of 128 x 128; split it")
    with torch.cuda.device_of(x):
        block_scaled_gluon_kernel[(min(tiles_m * tiles_n, multiprocessors(x.device)),)](
            *described, x_scales, w_scales, M, K, tiles_m, tiles_n, *x_scales.stride(), *w_scales.stride(),
            GROUP=GROUP_M, BUFFERS=buffers, num_warps=4,
        )  # fmt: skip
    return y
# --8<-- [end:host]


def check_gpu(device: torch.device) -> None:
    """Raise ``ValueError`` unless this is a GPU of Hopper."""
    if torch.cuda.get_device_capability(device)[0] != 9:
        raise ValueError(f"{torch.cuda.get_device_name(device)} has no wgmma; a Hopper GPU is needed")


def main():
    if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
        raise SystemExit("no Hopper GPU found, and Gluon has no interpreter")
    torch.manual_seed(0)
    M, N, K = 1000, 1500, 2000
    whole = lambda rows: torch.randint(-4, 5, (rows, K), device="cuda").float().to(block_scales.E4M3)
    powers = lambda *shape: 2.0 ** torch.randint(-2, 3, shape, device="cuda")
    x, w, groups = whole(M), whole(N), triton.cdiv(K, 128)
    scales = powers(M, groups), powers(triton.cdiv(N, 128), groups)
    exact = block_scales.block_scaled_matmul(x, w, *scales)
    equal = torch.equal(block_scaled_matmul(x, w, *scales), exact)
    print(f"whole numbers, {M}×{K} @ {K}×{N}:", "equal to Triton's" if equal else "NOT equal to Triton's")


if __name__ == "__main__":
    main()
