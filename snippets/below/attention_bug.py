# SPDX-License-Identifier: Apache-2.0
"""Attention whose products have landed before the softmax begins: right, and no faster than if it had waited.

The kernel is ``flying_kernel`` of ``attention.py`` with one line moved: it waits for a tile of values where that is
multiplied, and not at the end of the softmax before. Then nothing stands between the exponentials and the wait for the
products, and the assembler puts that wait first.

Shapes: as in ``attention.py``, for as many queries as keys, not causal.

Run it on a Hopper GPU with ``python attention_bug.py``.
"""

import math

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma, warpgroup_mma_wait

from snippets.below.attention import (
    BLOCK,
    BUFFERS,
    COUNTS,
    KEYS,
    add_values,
    as_operand,
    attention,
    begin,
    check,
    check_gpu,
    describe,
    load,
    load_step,
    make_tiles,
    place,
    rescaled,
    scores,
    softmax,
    store,
    tile_of,
    visible,
    wait_for,
)


@gluon.jit(do_not_specialize=COUNTS)
def landing_kernel(
    q, k, v, out, blocks, heads, group, together, keys, tiles,
    FACTOR: gl.constexpr, CAUSAL: gl.constexpr, BUFFERS: gl.constexpr,
):  # fmt: skip
    KEYS: gl.constexpr = k.block_type.shape[2]
    D: gl.constexpr = k.block_type.shape[3]
    rows: gl.constexpr = q.block_type.shape[2]
    counts = blocks, heads, group, together, keys, tiles
    batch, head, row, steps = place(gl.program_id(0), counts, rows, KEYS, CAUSAL)
    kv_head = head // group
    q_tiles, q_arrived = make_tiles(q, 1)
    k_tiles, k_arrived = make_tiles(k, BUFFERS)
    v_tiles, v_arrived = make_tiles(v, BUFFERS)
    load(q, batch, head, row, 0, q_tiles, q_arrived, True)
    for i in range(BUFFERS):
        load_step(k, batch, kv_head, i, steps, k_tiles, k_arrived)
        load_step(v, batch, kv_head, i, steps, v_tiles, v_arrived)
    mbarrier.wait(q_arrived.index(0), 0)
    q_tile = tile_of(q_tiles, 0)
    highest, total, acc = begin(rows, KEYS, D)
    s = warpgroup_mma_wait(0, deps=(scores(q_tile, 0, k_tiles, k_arrived),))
    load_step(k, batch, kv_head, BUFFERS, steps, k_tiles, k_arrived)
    s = visible(s, (steps - 1) * KEYS, row, keys, CAUSAL)
    p, highest, total, less = softmax(s, highest, total, FACTOR)
    weight = as_operand(p, v.dtype, D)
    # --8<-- [start:landing]
    for i in range(1, steps):
        s = scores(q_tile, i, k_tiles, k_arrived)
        wait_for(i - 1, v_tiles, v_arrived)
        acc = add_values(weight, acc, i - 1, v_tiles)
        s = warpgroup_mma_wait(1, deps=(s,))
        load_step(k, batch, kv_head, i + BUFFERS, steps, k_tiles, k_arrived)
        p, highest, total, less = softmax(s, highest, total, FACTOR)
        acc = warpgroup_mma_wait(0, deps=(acc,))
    # --8<-- [end:landing]
        load_step(v, batch, kv_head, i - 1 + BUFFERS, steps, v_tiles, v_arrived)
        acc = rescaled(acc, less)
        weight = as_operand(p, v.dtype, D)
    wait_for(steps - 1, v_tiles, v_arrived)
    acc = add_values(weight, acc, steps - 1, v_tiles)
    acc = warpgroup_mma_wait(0, deps=(acc,))
    store(out, batch, head, row, acc, total, q_tiles.index(0))
    tma.store_wait(pendings=0)


def landing(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False) -> torch.Tensor:
    """Return what :func:`snippets.below.attention.attention` does; raises ``ValueError`` as that."""
    check(q, k, v, causal, "flying")
    check_gpu(q.device)
    batch, heads, queries, D = q.shape
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    blocks = triton.cdiv(queries, BLOCK)
    tiles = batch * heads * blocks
    with torch.cuda.device_of(q):
        landing_kernel[(tiles,)](
            *describe(q, k, v, out, rows=BLOCK, keys=KEYS), blocks, heads, heads // k.shape[1], 1,
            k.shape[2], tiles,
            FACTOR=D**-0.5 * math.log2(math.e), CAUSAL=causal, BUFFERS=BUFFERS, num_warps=8,
        )  # fmt: skip
    return out


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; this needs a Hopper GPU")
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 8, 2048, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    equal = torch.equal(landing(q, k, v), attention(q, k, v, way="flying"))
    print(f"the same bits as with its products in flight: {equal}")


if __name__ == "__main__":
    main()
