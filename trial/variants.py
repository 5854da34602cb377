# SPDX-License-Identifier: Apache-2.0
"""Attention in Gluon, forward, in four steps: so that the matrix unit has work while exponentials are taken.

- :func:`waiting_kernel`: scores, softmax, product with the values, one after another
- :func:`flying_kernel`: the product with the values, and the next scores, run during the softmax
- :func:`specialized_kernel`: one warp loads, two groups of four warps have 64 queries each, and may take turns

Shapes: ``q`` is (batch, heads, queries, D), ``k`` and ``v`` are (batch, kv_heads, keys, D), of bfloat16 or float16, and
D is 64 or 128. FLOPs: 4 * batch * heads * queries * keys * D, half of them if causal.
Sources: Shah and others, *FlashAttention-3*, 2024; ``wgmma`` and ``mbarrier`` in NVIDIA's PTX ISA.

Run it on a Hopper GPU with ``python attention.py``.
"""

import functools
import math

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

ROWS = 64  # queries of a group of four warps, as many as wgmma has
LEAST = gl.constexpr(-1e30)  # below every score: -inf less itself would be NaN
WAYS = ("waiting", "flying", "specialized", "turns", "persistent")


# --8<-- [start:layouts]
@gluon.constexpr_function
def layout_of(columns, warps):
    """Return how wgmma leaves a tile: each warp has 16 rows."""
    return gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[warps, 1], instr_shape=[16, columns, 16]
    )  # fmt: skip
# --8<-- [end:layouts]


@gluon.jit
def make_tiles(x, BUFFERS: gl.constexpr):
    """Return room for tiles that a descriptor loads, and an mbarrier for each."""
    shape: gl.constexpr = x.block_type.shape
    tiles = gl.allocate_shared_memory(x.dtype, [BUFFERS, shape[0], shape[1], shape[2], shape[3]], x.layout)
    return tiles, make_mbarriers(BUFFERS, 1)


@gluon.jit
def make_mbarriers(BUFFERS: gl.constexpr, COUNT: gl.constexpr):
    made = mbarrier.allocate_mbarrier(batch=BUFFERS)
    for each in gl.static_range(BUFFERS):
        mbarrier.init(made.index(each), count=COUNT)
    fence_async_shared()
    return made


@gluon.jit
def load(x, batch, head, row, i, tiles, arrived, wanted):
    """Begin to load the rows of a head from ``row`` on, into the next buffer, if wanted."""
    slot = i % tiles.shape[0]
    bar = arrived.index(slot)
    mbarrier.expect(bar, x.nbytes_per_cta, pred=wanted)
    tma.async_load(
        x, [batch, head, row, 0], bar, tiles.index(slot), pred=wanted
    )  # fmt: skip


@gluon.jit
def load_step(x, batch, head, i, steps, tiles, arrived):
    """Begin to load the keys or values of step ``i``, if there is one: the last ones come first."""
    load(x, batch, head, (steps - 1 - i) * x.block_type.shape[2], i, tiles, arrived, i < steps)


@gluon.jit
def tile_of(tiles, slot):
    shape: gl.constexpr = tiles.shape
    return tiles.index(slot).reshape([shape[3], shape[4]])


# --8<-- [start:products]
@gluon.jit
def scores(q_tile, i, k_tiles, k_arrived):
    """Wait for the keys of step i, and begin to multiply them."""
    BUFFERS: gl.constexpr = k_tiles.shape[0]
    keys: gl.constexpr = k_tiles.shape[3]
    LAYOUT: gl.constexpr = layout_of(keys, gl.num_warps())
    nothing = gl.zeros([q_tile.shape[0], keys], gl.float32, LAYOUT)
    wait_for(i, k_tiles, k_arrived)
    k_tile = tile_of(k_tiles, i % BUFFERS)
    return warpgroup_mma(
        q_tile, k_tile.permute((1, 0)), nothing,
        use_acc=False, is_async=True,
    )  # fmt: skip


@gluon.jit
def wait_for(i, tiles, arrived):
    """Wait for the tile of step i."""
    BUFFERS: gl.constexpr = tiles.shape[0]
    mbarrier.wait(arrived.index(i % BUFFERS), i // BUFFERS & 1)


@gluon.jit
def add_values(p, acc, i, v_tiles):
    """Begin to add the values of step i, weighted."""
    v_tile = tile_of(v_tiles, i % v_tiles.shape[0])
    return warpgroup_mma(p, v_tile, acc, is_async=True)
# --8<-- [end:products]



@gluon.jit
def halves(x):
    rows: gl.constexpr = x.shape[0]
    half: gl.constexpr = x.shape[1] // 2
    return gl.split(gl.permute(gl.reshape(x, [rows, 2, half]), [0, 2, 1]))

@gluon.jit
def together(a, b, LAYOUT: gl.constexpr):
    rows: gl.constexpr = a.shape[0]
    width: gl.constexpr = 2 * a.shape[1]
    return gl.reshape(gl.permute(gl.join(a, gl.convert_layout(b, a.type.layout, assert_trivial=True)), [0, 2, 1]), [rows, width])

@gluon.jit
def poly(x):
    x = gl.maximum(x, -127.0)
    t = x + 12582912.0
    f = x - (t - 12582912.0)
    y = gl.fma(f, 0.0554906, 0.2402265)
    y = gl.fma(f, y, 0.6931472)
    y = gl.fma(f, y, 1.0)
    bits = y.to(gl.int32, bitcast=True) + (t.to(gl.int32, bitcast=True) << 23)
    return bits.to(gl.float32, bitcast=True)

@gluon.jit
def exp2(x, POLY: gl.constexpr):
    if POLY == 0:
        return gl.exp2(x)
    else:
        LAYOUT: gl.constexpr = x.type.layout
        a, b = halves(x)
        b, c = halves(b)
        if POLY == 4:
            b = together(gl.exp2(b), poly(c), LAYOUT)
        else:
            c, d = halves(c)
            if POLY == 8:
                c = together(gl.exp2(c), poly(d), LAYOUT)
            else:
                d, e = halves(d)
                c = together(gl.exp2(c), together(gl.exp2(d), poly(e), LAYOUT), LAYOUT)
            b = together(gl.exp2(b), c, LAYOUT)
        return gl.convert_layout(together(gl.exp2(a), b, LAYOUT), LAYOUT, assert_trivial=True)

@gluon.jit
def summed(p, LATER: gl.constexpr):
    if LATER:
        R: gl.constexpr = p.shape[0]
        C: gl.constexpr = p.shape[1]
        return gl.sum(gl.reshape(p, [R, C // 8, 8]), 1)
    else:
        return gl.sum(p, 1)

@gluon.jit
def softmax(s, highest, total, FACTOR: gl.constexpr, LATER: gl.constexpr = False, POLY: gl.constexpr = 0):
    new = gl.maximum(highest, gl.max(s, 1) * FACTOR)
    less = gl.exp2(highest - new)
    p = exp2(gl.fma(s, FACTOR, -gl.expand_dims(new, 1)), POLY)
    if LATER:
        more = summed(p, LATER)
        L: gl.constexpr = gl.SliceLayout(1, more.type.layout)
        factor = gl.expand_dims(gl.convert_layout(less, L), 1)
        return p, new, gl.fma(total, gl.broadcast(factor, more)[0], more), less
    else:
        return p, new, total * less + gl.sum(p, 1), less


@gluon.jit
def as_operand(p, dtype: gl.constexpr, D: gl.constexpr):
    """Return weights where wgmma expects its left operand."""
    LAYOUT: gl.constexpr = gl.DotOperandLayout(
        0, layout_of(D, gl.num_warps()), 2
    )  # fmt: skip
    return gl.convert_layout(p.to(dtype), LAYOUT, assert_trivial=True)


@gluon.jit
def rescaled(acc, factor):
    LAYOUT: gl.constexpr = gl.SliceLayout(1, acc.type.layout)
    factor = gl.convert_layout(factor, LAYOUT, assert_trivial=True)
    return acc * gl.expand_dims(factor, 1)
# --8<-- [end:softmax]


# --8<-- [start:visible]
@gluon.jit
def visible(s, first, row, keys, CAUSAL: gl.constexpr):
    """Return the scores, and -inf for keys that a query doesn't see."""
    LAYOUT: gl.constexpr = s.type.layout
    key = first + gl.arange(0, s.shape[1], gl.SliceLayout(0, LAYOUT))
    query = row + gl.arange(0, s.shape[0], gl.SliceLayout(1, LAYOUT))
    last = query if CAUSAL else query * 0 + keys - 1
    seen = gl.expand_dims(key, 0) <= gl.expand_dims(last, 1)
    return gl.where(seen, s, float("-inf"))
# --8<-- [end:visible]


@gluon.jit
def begin(ROWS: gl.constexpr, KEYS: gl.constexpr, D: gl.constexpr):
    """Return highest score, total and accumulator of queries that have seen nothing."""
    LAYOUT: gl.constexpr = gl.SliceLayout(1, layout_of(KEYS, gl.num_warps()))
    highest = gl.full([ROWS], LEAST, gl.float32, LAYOUT)
    total = gl.zeros([ROWS], gl.float32, LAYOUT)
    return highest, total, gl.zeros([ROWS, D], gl.float32, layout_of(D, gl.num_warps()))


@gluon.jit
def store(out, batch, head, row, acc, total, tile):
    """Begin to store the rows of a head from ``row`` on; those that it hasn't are left out."""
    tma.store_wait(pendings=0)
    gl.barrier()
    tile.reshape(acc.shape).store(rescaled(acc, 1 / total).to(out.dtype))
    fence_async_shared()
    gl.barrier()
    tma.async_store(out, [batch, head, row, 0], tile)


@gluon.jit
def place(pid, blocks, heads, rows, keys, ROWS: gl.constexpr, KEYS: gl.constexpr, CAUSAL: gl.constexpr):
    """Return batch, head and first query of a program's tile, and how many tiles of keys it sees.

    Blocks of one head follow each other, for its keys and values are in the cache then; long ones come first.
    """
    block = blocks - 1 - pid % blocks
    row = block * ROWS
    seen = keys
    if CAUSAL:
        seen = gl.minimum(keys, row + ROWS)
    return pid // blocks // heads, pid // blocks % heads, row, gl.cdiv(seen, KEYS)


@gluon.jit
def place_by(ORDER: gl.constexpr, tile, tiles, blocks, heads, rows, keys, ROWS: gl.constexpr, KEYS: gl.constexpr, CAUSAL: gl.constexpr):
    if ORDER == 1:  # every other lap the other way around
        programs = gl.num_programs(0)
        lap = tile // programs
        there = lap * programs + programs - 1 - tile % programs
        if lap % 2 == 1 and (lap + 1) * programs <= tiles:
            tile = there
    if ORDER == 2:  # longest first over all heads
        block = tile // (tiles // blocks)
        tile = tile % (tiles // blocks) * blocks + block
    batch, head, row, steps = place(tile, blocks, heads, rows, keys, ROWS, KEYS, CAUSAL)
    return batch, head, row, steps


COUNTS = ["blocks", "heads", "group", "rows", "keys", "tiles"]


# --8<-- [start:waiting]
@gluon.jit(do_not_specialize=COUNTS)
def waiting_kernel(
    q, k, v, out, blocks, heads, group, rows, keys, tiles,
    FACTOR: gl.constexpr, CAUSAL: gl.constexpr, BUFFERS: gl.constexpr,
):  # fmt: skip
    ROWS: gl.constexpr = q.block_type.shape[2]
    KEYS: gl.constexpr = k.block_type.shape[2]
    D: gl.constexpr = k.block_type.shape[3]
    batch, head, row, steps = place(gl.program_id(0), blocks, heads, rows, keys, ROWS, KEYS, CAUSAL)
    q_tiles, q_arrived = make_tiles(q, 1)
    k_tiles, k_arrived = make_tiles(k, BUFFERS)
    v_tiles, v_arrived = make_tiles(v, BUFFERS)
    load(q, batch, head, row, 0, q_tiles, q_arrived, True)
    for i in range(BUFFERS):
        load_step(k, batch, head // group, i, steps, k_tiles, k_arrived)
        load_step(v, batch, head // group, i, steps, v_tiles, v_arrived)
    mbarrier.wait(q_arrived.index(0), 0)
    q_tile = tile_of(q_tiles, 0)
    highest, total, acc = begin(ROWS, KEYS, D)
    # --8<-- [start:one-by-one]
    for i in range(steps):
        s = scores(q_tile, i, k_tiles, k_arrived)
        s = warpgroup_mma_wait(0, deps=(s,))
        load_step(k, batch, head // group, i + BUFFERS, steps,
                  k_tiles, k_arrived)  # fmt: skip
        if i == 0:
            s = visible(s, (steps - 1) * KEYS, row, keys, CAUSAL)
        p, highest, total, less = softmax(s, highest, total, FACTOR)
        acc = rescaled(acc, less)
        weight = as_operand(p, v.dtype, D)
        wait_for(i, v_tiles, v_arrived)
        acc = add_values(weight, acc, i, v_tiles)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        load_step(v, batch, head // group, i + BUFFERS, steps,
                  v_tiles, v_arrived)  # fmt: skip
    # --8<-- [end:one-by-one]
    store(out, batch, head, row, acc, total, q_tiles.index(0))
    tma.store_wait(pendings=0)
# --8<-- [end:waiting]


@gluon.jit(do_not_specialize=COUNTS)
def flying_kernel(
    q, k, v, out, blocks, heads, group, rows, keys, tiles,
    FACTOR: gl.constexpr, CAUSAL: gl.constexpr, BUFFERS: gl.constexpr,
):  # fmt: skip
    ROWS: gl.constexpr = q.block_type.shape[2]
    KEYS: gl.constexpr = k.block_type.shape[2]
    D: gl.constexpr = k.block_type.shape[3]
    batch, head, row, steps = place(gl.program_id(0), blocks, heads, rows, keys, ROWS, KEYS, CAUSAL)
    q_tiles, q_arrived = make_tiles(q, 1)
    k_tiles, k_arrived = make_tiles(k, BUFFERS)
    v_tiles, v_arrived = make_tiles(v, BUFFERS)
    load(q, batch, head, row, 0, q_tiles, q_arrived, True)
    for i in range(BUFFERS):
        load_step(k, batch, head // group, i, steps, k_tiles, k_arrived)
        load_step(v, batch, head // group, i, steps, v_tiles, v_arrived)
    mbarrier.wait(q_arrived.index(0), 0)
    q_tile = tile_of(q_tiles, 0)
    highest, total, acc = begin(ROWS, KEYS, D)
    # --8<-- [start:flying]
    s = scores(q_tile, 0, k_tiles, k_arrived)
    s = warpgroup_mma_wait(0, deps=(s,))
    s = visible(s, (steps - 1) * KEYS, row, keys, CAUSAL)
    p, highest, total, less = softmax(s, highest, total, FACTOR)
    weight = as_operand(p, v.dtype, D)
    load_step(k, batch, head // group, BUFFERS, steps, k_tiles, k_arrived)
    wait_for(0, v_tiles, v_arrived)
    for i in range(1, steps):
        s = scores(q_tile, i, k_tiles, k_arrived)
        acc = add_values(weight, acc, i - 1, v_tiles)
        s = warpgroup_mma_wait(1, deps=(s,))
        load_step(k, batch, head // group, i + BUFFERS, steps,
                  k_tiles, k_arrived)  # fmt: skip
        p, highest, total, less = softmax(s, highest, total, FACTOR)
        wait_for(i, v_tiles, v_arrived)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        load_step(v, batch, head // group, i - 1 + BUFFERS, steps,
                  v_tiles, v_arrived)  # fmt: skip
        acc = rescaled(acc, less)
        weight = as_operand(p, v.dtype, D)
    acc = add_values(weight, acc, steps - 1, v_tiles)
    acc = warpgroup_mma_wait(0, deps=(acc,))
    # --8<-- [end:flying]
    store(out, batch, head, row, acc, total, q_tiles.index(0))
    tma.store_wait(pendings=0)


# --8<-- [start:loading]
@gluon.jit
def loading(
    q, k, v, out, counts, room, arrived, free, turn,
    FACTOR: gl.constexpr, CAUSAL: gl.constexpr, GROUPS: gl.constexpr,
    TURNS: gl.constexpr, LATER: gl.constexpr, POLY: gl.constexpr, ORDER: gl.constexpr,
):  # fmt: skip
    """What one warp does: have every buffer filled that is free."""
    blocks, heads, group, rows, keys, tiles = counts
    q_tiles, k_tiles, v_tiles, o_tiles = room
    q_arrived, k_arrived, v_arrived = arrived
    q_free, k_free, v_free = free
    BUFFERS: gl.constexpr = k_tiles.shape[0]
    ROWS: gl.constexpr = q.block_type.shape[2]
    KEYS: gl.constexpr = k.block_type.shape[2]
    i = 0
    lap = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        batch, head, row, steps = place_by(ORDER, tile, tiles, blocks, heads, rows, keys, GROUPS * ROWS, KEYS, CAUSAL)
        for each in gl.static_range(GROUPS):
            mbarrier.wait(q_free.index(each), lap & 1 ^ 1)
            load(q, batch, head, row + each * ROWS, each, q_tiles, q_arrived, True)
        for step in range(steps):
            first = (steps - 1 - step) * KEYS
            slot, phase = i % BUFFERS, i // BUFFERS & 1 ^ 1
            mbarrier.wait(k_free.index(slot), phase)
            load(k, batch, head // group, first, i, k_tiles, k_arrived, True)
            mbarrier.wait(v_free.index(slot), phase)
            load(v, batch, head // group, first, i, v_tiles, v_arrived, True)
            i += 1
        lap += 1
# --8<-- [end:loading]


# --8<-- [start:attending]
@gluon.jit
def attending(
    q, k, v, out, counts, room, arrived, free, turn,
    FACTOR: gl.constexpr, CAUSAL: gl.constexpr, GROUPS: gl.constexpr,
    TURNS: gl.constexpr, LATER: gl.constexpr, POLY: gl.constexpr, ORDER: gl.constexpr, WHO: gl.constexpr,
):  # fmt: skip
    """What a group of four warps does, for its 64 queries."""
    blocks, heads, group, rows, keys, tiles = counts
    q_tiles, k_tiles, v_tiles, o_tiles = room
    q_arrived, k_arrived, v_arrived = arrived
    q_free, k_free, v_free = free
    BUFFERS: gl.constexpr = k_tiles.shape[0]
    ROWS: gl.constexpr = q.block_type.shape[2]
    KEYS: gl.constexpr = k.block_type.shape[2]
    D: gl.constexpr = k.block_type.shape[3]
    NEXT: gl.constexpr = (WHO + 1) % GROUPS
    q_tile = tile_of(q_tiles, WHO)
    i = 0
    lap = 0
    taken = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        batch, head, row, steps = place_by(ORDER, tile, tiles, blocks, heads, rows, keys, GROUPS * ROWS, KEYS, CAUSAL)
        row += WHO * ROWS
        mbarrier.wait(q_arrived.index(WHO), lap & 1)
        highest, total, acc = begin(ROWS, KEYS, D)
        if LATER:
            total = summed(gl.zeros([ROWS, KEYS], gl.float32, layout_of(KEYS, gl.num_warps())), LATER)
        s = warpgroup_mma_wait(0, deps=(scores(q_tile, i, k_tiles, k_arrived),))
        mbarrier.arrive(k_free.index(i % BUFFERS), count=1)
        s = visible(s, (steps - 1) * KEYS, row, keys, CAUSAL)
        p, highest, total, less = softmax(s, highest, total, FACTOR, LATER, POLY)
        weight = as_operand(p, v.dtype, D)
        wait_for(i, v_tiles, v_arrived)
        for step in range(1, steps):
            if TURNS:
                mbarrier.wait(turn.index(WHO), taken & 1 ^ (WHO == 0))
            s = scores(q_tile, i + 1, k_tiles, k_arrived)
            acc = add_values(weight, acc, i, v_tiles)
            if TURNS:
                mbarrier.arrive(turn.index(NEXT), count=1)
                taken += 1
            s = warpgroup_mma_wait(1, deps=(s,))
            mbarrier.arrive(k_free.index((i + 1) % BUFFERS), count=1)
            first = (steps - 1 - step) * KEYS
            if CAUSAL and KEYS < GROUPS * ROWS and first + KEYS > row:
                s = visible(s, first, row, keys, CAUSAL)
            p, highest, total, less = softmax(s, highest, total, FACTOR, LATER, POLY)
            wait_for(i + 1, v_tiles, v_arrived)
            acc = warpgroup_mma_wait(0, deps=(acc,))
            mbarrier.arrive(v_free.index(i % BUFFERS), count=1)
            acc = rescaled(acc, less)
            weight = as_operand(p, v.dtype, D)
            i += 1
        mbarrier.arrive(q_free.index(WHO), count=1)
        acc = add_values(weight, acc, i, v_tiles)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        mbarrier.arrive(v_free.index(i % BUFFERS), count=1)
        if LATER:
            store(out, batch, head, row, acc, gl.sum(total, 1), o_tiles.index(WHO))
        else:
            store(out, batch, head, row, acc, total, o_tiles.index(WHO))
        i += 1
        lap += 1
    tma.store_wait(pendings=0)
# --8<-- [end:attending]


@gluon.jit
def first_attending(q, k, v, out, counts, room, arrived, free, turn, FACTOR: gl.constexpr, CAUSAL: gl.constexpr,
                    GROUPS: gl.constexpr, TURNS: gl.constexpr, LATER: gl.constexpr, POLY: gl.constexpr, ORDER: gl.constexpr):
    attending(q, k, v, out, counts, room, arrived, free, turn, FACTOR, CAUSAL, GROUPS, TURNS, LATER, POLY, ORDER, 0)


@gluon.jit
def second_attending(q, k, v, out, counts, room, arrived, free, turn, FACTOR: gl.constexpr, CAUSAL: gl.constexpr,
                    GROUPS: gl.constexpr, TURNS: gl.constexpr, LATER: gl.constexpr, POLY: gl.constexpr, ORDER: gl.constexpr):
    attending(q, k, v, out, counts, room, arrived, free, turn, FACTOR, CAUSAL, GROUPS, TURNS, LATER, POLY, ORDER, 1)


@gluon.jit
def third_attending(q, k, v, out, counts, room, arrived, free, turn, FACTOR: gl.constexpr, CAUSAL: gl.constexpr,
                    GROUPS: gl.constexpr, TURNS: gl.constexpr, LATER: gl.constexpr, POLY: gl.constexpr, ORDER: gl.constexpr):
    attending(q, k, v, out, counts, room, arrived, free, turn, FACTOR, CAUSAL, GROUPS, TURNS, LATER, POLY, ORDER, 2)


# --8<-- [start:specialized]
@gluon.jit(do_not_specialize=COUNTS)
def specialized_kernel(
    q, k, v, out, blocks, heads, group, rows, keys, tiles,
    FACTOR: gl.constexpr, CAUSAL: gl.constexpr, BUFFERS: gl.constexpr,
    GROUPS: gl.constexpr, TURNS: gl.constexpr, LATER: gl.constexpr, POLY: gl.constexpr, ORDER: gl.constexpr,
):  # fmt: skip
    q_tiles, q_arrived = make_tiles(q, GROUPS)
    k_tiles, k_arrived = make_tiles(k, BUFFERS)
    v_tiles, v_arrived = make_tiles(v, BUFFERS)
    o_tiles, turn = make_tiles(out, GROUPS)
    q_free = make_mbarriers(GROUPS, 1)
    k_free = make_mbarriers(BUFFERS, GROUPS)
    v_free = make_mbarriers(BUFFERS, GROUPS)
    counts = blocks, heads, group, rows, keys, tiles
    room = q_tiles, k_tiles, v_tiles, o_tiles
    arrived = q_arrived, k_arrived, v_arrived
    free = q_free, k_free, v_free
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (first_attending, (q, k, v, out, counts, room, arrived, free, turn, FACTOR, CAUSAL, GROUPS, TURNS, LATER, POLY, ORDER)),
                (second_attending, (q, k, v, out, counts, room, arrived, free, turn, FACTOR, CAUSAL, GROUPS, TURNS, LATER, POLY, ORDER)),
                (loading, (q, k, v, out, counts, room, arrived, free, turn, FACTOR, CAUSAL, GROUPS, TURNS, LATER, POLY, ORDER)),
            ],
            worker_num_warps=[4, 1], worker_num_regs=[240, 24],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (first_attending, (q, k, v, out, counts, room, arrived, free, turn, FACTOR, CAUSAL, GROUPS, TURNS, LATER, POLY, ORDER)),
                (second_attending, (q, k, v, out, counts, room, arrived, free, turn, FACTOR, CAUSAL, GROUPS, TURNS, LATER, POLY, ORDER)),
                (third_attending, (q, k, v, out, counts, room, arrived, free, turn, FACTOR, CAUSAL, GROUPS, TURNS, LATER, POLY, ORDER)),
                (loading, (q, k, v, out, counts, room, arrived, free, turn, FACTOR, CAUSAL, GROUPS, TURNS, LATER, POLY, ORDER)),
            ],
            worker_num_warps=[4, 4, 1], worker_num_regs=[160, 160, 24],
        )  # fmt: skip
# --8<-- [end:specialized]


# --8<-- [start:host]
def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, way: str = "turns",
    block_k: int = 128, buffers: int = 2, groups: int = 2, later: bool = False, poly: int = 0, order: int = 0,
) -> torch.Tensor:  # fmt: skip
    batch, heads, rows, D = q.shape
    keys = k.shape[2]
    out = torch.empty_like(q)
    element = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16}[q.dtype]
    alone = way in ("waiting", "flying")
    ours = ROWS if not alone else 2 * ROWS
    described = []
    for x, side in ((q, ours), (k, block_k), (v, block_k), (out, ours)):
        shape = [1, 1, side, D]
        layout = gl.NVMMASharedLayout.get_default_for(shape, element)
        described.append(TensorDescriptor.from_tensor(x, shape, layout))
    blocks = triton.cdiv(rows, 2 * ROWS if alone else groups * ROWS)
    tiles = batch * heads * blocks
    counts = blocks, heads, heads // k.shape[1], rows, keys, tiles
    options = {"FACTOR": D**-0.5 * math.log2(math.e), "CAUSAL": causal, "BUFFERS": buffers}
    with torch.cuda.device_of(q):
        if alone:
            kernel = waiting_kernel if way == "waiting" else flying_kernel
            kernel[(tiles,)](*described, *counts, **options, num_warps=8)
        else:
            grid = min(tiles, multiprocessors(q.device)) if way == "persistent" else tiles
            specialized_kernel[(grid,)](
                *described, *counts, **options, GROUPS=groups, TURNS=way != "specialized", LATER=later, POLY=poly, ORDER=order, num_warps=4
            )
    return out
# --8<-- [end:host]


@functools.cache
def multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count
