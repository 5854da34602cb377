# SPDX-License-Identifier: Apache-2.0
"""Attention in Gluon, forward, step by step: so that the matrix unit has work while exponentials are taken.

- :func:`waiting_kernel`: scores, softmax, product with the values, one after another
- :func:`flying_kernel`: the product with the values is in flight during the next softmax
- :func:`specialized_kernel`: one warp loads, and two or three groups of four warps have 64 queries each

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

ROWS = gl.constexpr(64)  # queries of a group of four warps, as many as wgmma has
LEAST = gl.constexpr(-1e30)  # below every score: -inf less itself would be NaN
BLOCK, KEYS, BUFFERS = 128, 128, 2  # queries of two groups, keys of a step, and tiles of them that have room
TOGETHER = 32 * 2**20  # bytes of keys and values that stay in an L2 cache of 60 MiB while others pass through
SHORT = 4096  # keys; beyond, programs that begin one by one cost less than those that share all tiles unevenly
WAYS = ("waiting", "flying", "specialized", "turns", "third", "persistent")


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


# --8<-- [start:softmax]
@gluon.jit
def softmax(s, highest, total, FACTOR: gl.constexpr):
    """Return weights, and the factor for all that was added before."""
    new = gl.maximum(highest, gl.max(s, 1) * FACTOR)
    less = gl.exp2(highest - new)
    p = gl.exp2(gl.fma(s, FACTOR, -gl.expand_dims(new, 1)))
    return p, new, rescaled(total, less) + partial_sums(p), less


@gluon.jit
def as_operand(p, dtype: gl.constexpr, D: gl.constexpr):
    """Return weights where wgmma expects its left operand."""
    LAYOUT: gl.constexpr = gl.DotOperandLayout(
        0, layout_of(D, gl.num_warps()), 2
    )  # fmt: skip
    return gl.convert_layout(p.to(dtype), LAYOUT, assert_trivial=True)


@gluon.jit
def rescaled(x, factor):
    LAYOUT: gl.constexpr = gl.SliceLayout(1, x.type.layout)
    factor = gl.convert_layout(factor, LAYOUT, assert_trivial=True)
    return x * gl.expand_dims(factor, 1)
# --8<-- [end:softmax]


# --8<-- [start:sums]
@gluon.jit
def partial_sums(p):
    """Add up what a thread has of each row: two of eight columns remain."""
    rows: gl.constexpr = p.shape[0]
    columns: gl.constexpr = p.shape[1]
    return gl.sum(gl.reshape(p, [rows, columns // 8, 8]), 1)
# --8<-- [end:sums]


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
def begin(rows: gl.constexpr, KEYS: gl.constexpr, D: gl.constexpr):
    """Return highest score, total and accumulator of queries that have seen nothing."""
    LAYOUT: gl.constexpr = layout_of(KEYS, gl.num_warps())
    highest = gl.full([rows], LEAST, gl.float32, gl.SliceLayout(1, LAYOUT))
    total = partial_sums(gl.zeros([rows, KEYS], gl.float32, LAYOUT))
    return highest, total, gl.zeros([rows, D], gl.float32, layout_of(D, gl.num_warps()))


@gluon.jit
def store(out, batch, head, row, acc, total, tile):
    """Begin to store the rows of a head from ``row`` on; those that it hasn't are left out."""
    tma.store_wait(pendings=0)
    gl.barrier()
    tile.reshape(acc.shape).store(rescaled(acc, 1 / gl.sum(total, 1)).to(out.dtype))
    fence_async_shared()
    gl.barrier()
    tma.async_store(out, [batch, head, row, 0], tile)


# --8<-- [start:place]
@gluon.jit
def place(tile, counts, rows: gl.constexpr, KEYS: gl.constexpr, CAUSAL: gl.constexpr):
    """Return batch, head and first query of a tile, and how many tiles of keys it sees.

    Some heads go together, so many that their keys and values stay in the cache; of these, the tiles that see most keys
    come first. Of programs that share all tiles, those that were first in one lap are last in the next.
    """
    blocks, heads, _, together, keys, tiles = counts
    programs = gl.num_programs(0)
    lap = tile // programs
    if lap % 2 == 1 and (lap + 1) * programs <= tiles <= together * blocks:
        tile = (2 * lap + 1) * programs - 1 - tile
    first = tile // (together * blocks) * together
    width = gl.minimum(tiles // blocks - first, together)
    inside = tile - first * blocks
    row = (blocks - 1 - inside // width) * rows
    pair = first + inside % width
    seen = keys
    if CAUSAL:
        seen = gl.minimum(keys, row + rows)
    return pair // heads, pair % heads, row, gl.cdiv(seen, KEYS)
# --8<-- [end:place]


COUNTS = ["blocks", "heads", "group", "together", "keys", "tiles"]


# --8<-- [start:waiting]
@gluon.jit(do_not_specialize=COUNTS)
def waiting_kernel(
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
    # --8<-- [start:one-by-one]
    for i in range(steps):
        s = scores(q_tile, i, k_tiles, k_arrived)
        s = warpgroup_mma_wait(0, deps=(s,))
        load_step(k, batch, kv_head, i + BUFFERS, steps, k_tiles, k_arrived)
        if i == 0:
            s = visible(s, (steps - 1) * KEYS, row, keys, CAUSAL)
        p, highest, total, less = softmax(s, highest, total, FACTOR)
        acc = rescaled(acc, less)
        weight = as_operand(p, v.dtype, D)
        wait_for(i, v_tiles, v_arrived)
        acc = add_values(weight, acc, i, v_tiles)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        load_step(v, batch, kv_head, i + BUFFERS, steps, v_tiles, v_arrived)
    # --8<-- [end:one-by-one]
    store(out, batch, head, row, acc, total, q_tiles.index(0))
    tma.store_wait(pendings=0)
# --8<-- [end:waiting]


@gluon.jit(do_not_specialize=COUNTS)
def flying_kernel(
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
    # --8<-- [start:flying]
    s = scores(q_tile, 0, k_tiles, k_arrived)
    s = warpgroup_mma_wait(0, deps=(s,))
    s = visible(s, (steps - 1) * KEYS, row, keys, CAUSAL)
    p, highest, total, less = softmax(s, highest, total, FACTOR)
    weight = as_operand(p, v.dtype, D)
    load_step(k, batch, kv_head, BUFFERS, steps, k_tiles, k_arrived)
    wait_for(0, v_tiles, v_arrived)
    for i in range(1, steps):
        s = scores(q_tile, i, k_tiles, k_arrived)
        acc = add_values(weight, acc, i - 1, v_tiles)
        s = warpgroup_mma_wait(1, deps=(s,))
        load_step(k, batch, kv_head, i + BUFFERS, steps, k_tiles, k_arrived)
        p, highest, total, less = softmax(s, highest, total, FACTOR)
        wait_for(i, v_tiles, v_arrived)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        load_step(v, batch, kv_head, i - 1 + BUFFERS, steps,
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
    q, k, v, counts, room, arrived, free,
    CAUSAL: gl.constexpr, GROUPS: gl.constexpr,
):  # fmt: skip
    """What one warp does: have every buffer filled that is free."""
    _, _, group, _, _, tiles = counts
    q_tiles, k_tiles, v_tiles, _ = room
    q_arrived, k_arrived, v_arrived = arrived
    q_free, k_free, v_free = free
    BUFFERS: gl.constexpr = k_tiles.shape[0]
    KEYS: gl.constexpr = k.block_type.shape[2]
    i = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        lap = tile // gl.num_programs(0)
        batch, head, row, steps = place(tile, counts, GROUPS * ROWS, KEYS, CAUSAL)
        for who in gl.static_range(GROUPS):
            mbarrier.wait(q_free.index(who), lap & 1 ^ 1)
            load(q, batch, head, row + who * ROWS, who, q_tiles, q_arrived, True)
        for step in range(steps):
            first = (steps - 1 - step) * KEYS
            slot, phase = i % BUFFERS, i // BUFFERS & 1 ^ 1
            mbarrier.wait(k_free.index(slot), phase)
            load(k, batch, head // group, first, i, k_tiles, k_arrived, True)
            mbarrier.wait(v_free.index(slot), phase)
            load(v, batch, head // group, first, i, v_tiles, v_arrived, True)
            i += 1
# --8<-- [end:loading]


# --8<-- [start:attending]
@gluon.jit
def attending(
    q, k, v, out, counts, room, arrived, free, turn,
    FACTOR: gl.constexpr, CAUSAL: gl.constexpr, GROUPS: gl.constexpr,
    TURNS: gl.constexpr, WHO: gl.constexpr,
):  # fmt: skip
    """What a group of four warps does, for its 64 queries."""
    _, _, _, _, keys, tiles = counts
    q_tiles, k_tiles, v_tiles, o_tiles = room
    q_arrived, k_arrived, v_arrived = arrived
    q_free, k_free, v_free = free
    BUFFERS: gl.constexpr = k_tiles.shape[0]
    KEYS: gl.constexpr = k.block_type.shape[2]
    D: gl.constexpr = k.block_type.shape[3]
    q_tile = tile_of(q_tiles, WHO)
    i = 0  # steps, over all tiles
    taken = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        lap = tile // gl.num_programs(0)
        batch, head, row, steps = place(tile, counts, GROUPS * ROWS, KEYS, CAUSAL)
        row += WHO * ROWS
        mbarrier.wait(q_arrived.index(WHO), lap & 1)
        highest, total, acc = begin(ROWS, KEYS, D)
        s = warpgroup_mma_wait(0, deps=(scores(q_tile, i, k_tiles, k_arrived),))
        mbarrier.arrive(k_free.index(i % BUFFERS), count=1)
        s = visible(s, (steps - 1) * KEYS, row, keys, CAUSAL)
        p, highest, total, less = softmax(s, highest, total, FACTOR)
        weight = as_operand(p, v.dtype, D)
        wait_for(i, v_tiles, v_arrived)
        # --8<-- [start:turns]
        for step in range(1, steps):
            if TURNS:
                mbarrier.wait(turn.index(WHO), taken & 1 ^ (WHO == 0))
            s = scores(q_tile, i + 1, k_tiles, k_arrived)
            acc = add_values(weight, acc, i, v_tiles)
            if TURNS:
                mbarrier.arrive(turn.index((WHO + 1) % GROUPS), count=1)
            taken += 1
            s = warpgroup_mma_wait(1, deps=(s,))
            mbarrier.arrive(k_free.index((i + 1) % BUFFERS), count=1)
            first = (steps - 1 - step) * KEYS
            # Three groups have so many rows that the diagonal crosses
            # more than one tile.
            if CAUSAL and GROUPS * ROWS > KEYS and first + KEYS > row:
                s = visible(s, first, row, keys, CAUSAL)
            p, highest, total, less = softmax(s, highest, total, FACTOR)
            wait_for(i + 1, v_tiles, v_arrived)
            acc = warpgroup_mma_wait(0, deps=(acc,))
            mbarrier.arrive(v_free.index(i % BUFFERS), count=1)
            acc = rescaled(acc, less)
            weight = as_operand(p, v.dtype, D)
            i += 1
        # --8<-- [end:turns]
        mbarrier.arrive(q_free.index(WHO), count=1)
        acc = add_values(weight, acc, i, v_tiles)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        mbarrier.arrive(v_free.index(i % BUFFERS), count=1)
        store(out, batch, head, row, acc, total, o_tiles.index(WHO))
        i += 1
    tma.store_wait(pendings=0)
# --8<-- [end:attending]


# --8<-- [start:specialized]
@gluon.jit(do_not_specialize=COUNTS)
def specialized_kernel(
    q, k, v, out, blocks, heads, group, together, keys, tiles,
    FACTOR: gl.constexpr, CAUSAL: gl.constexpr, BUFFERS: gl.constexpr,
    GROUPS: gl.constexpr, TURNS: gl.constexpr,
):  # fmt: skip
    q_tiles, q_arrived = make_tiles(q, GROUPS)
    k_tiles, k_arrived = make_tiles(k, BUFFERS)
    v_tiles, v_arrived = make_tiles(v, BUFFERS)
    o_tiles, turn = make_tiles(out, GROUPS)
    counts = blocks, heads, group, together, keys, tiles
    room = q_tiles, k_tiles, v_tiles, o_tiles
    arrived = q_arrived, k_arrived, v_arrived
    # Queries are freed by their group, keys and values by all groups.
    free = (make_mbarriers(GROUPS, 1), make_mbarriers(BUFFERS, GROUPS),
            make_mbarriers(BUFFERS, GROUPS))  # fmt: skip
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (attending, (q, k, v, out, counts, room, arrived, free,
                             turn, FACTOR, CAUSAL, GROUPS, TURNS, 0)),
                (attending, (q, k, v, out, counts, room, arrived, free,
                             turn, FACTOR, CAUSAL, GROUPS, TURNS, 1)),
                (loading, (q, k, v, counts, room, arrived, free,
                           CAUSAL, GROUPS)),
            ],
            worker_num_warps=[4, 1], worker_num_regs=[240, 24],
        )  # fmt: skip
    # --8<-- [end:specialized]
    else:
        gl.warp_specialize(
            [
                (attending, (q, k, v, out, counts, room, arrived, free, turn, FACTOR, CAUSAL, GROUPS, TURNS, 0)),
                (attending, (q, k, v, out, counts, room, arrived, free, turn, FACTOR, CAUSAL, GROUPS, TURNS, 1)),
                (attending, (q, k, v, out, counts, room, arrived, free, turn, FACTOR, CAUSAL, GROUPS, TURNS, 2)),
                (loading, (q, k, v, counts, room, arrived, free, CAUSAL, GROUPS)),
            ],
            worker_num_warps=[4, 4, 1], worker_num_regs=[160, 160, 24],
        )  # fmt: skip


# --8<-- [start:host]
def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, way: str | None = None
) -> torch.Tensor:
    """Return softmax(q kᵀ / √D) v, for each head.

    Args:
        q: (batch, heads, queries, D), bfloat16 or float16, on a Hopper GPU; D is 64 or 128. Neighbors in a row are
            neighbors in memory, and each row begins at a multiple of 16 bytes.
        k, v: (batch, kv_heads, keys, D), as ``q``. If there are fewer of their heads, several of ``q`` share one.
        causal: Whether a query sees only the keys up to its own position; then there must be as many as queries.
        way: One of ``WAYS``, "third" for D = 64 only; by default "persistent" for up to ``SHORT`` keys, else "third" or
            "specialized".

    Returns:
        A new tensor like ``q``, contiguous. Without keys it is zeros.

    Raises:
        ValueError: The arguments are not as above.
    """
    check(q, k, v, causal, way)
    check_gpu(q.device)
    batch, heads, queries, D = q.shape
    kv_heads, keys = k.shape[1:3]
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if 0 in (out.numel(), keys):
        return out.zero_()
    way = default(D, keys) if way is None else way
    groups = 3 if way == "third" or (way == "persistent" and D == 64) else 2
    blocks = triton.cdiv(queries, groups * ROWS.value)
    tiles = batch * heads * blocks
    group = heads // kv_heads
    room = 2 * TOGETHER if way == "persistent" else TOGETHER
    together = group * max(1, room // (keys * D * 4)) if causal else 1
    counts = blocks, heads, group, together, keys, tiles
    options = dict(FACTOR=D**-0.5 * math.log2(math.e), CAUSAL=causal, BUFFERS=BUFFERS)
    with torch.cuda.device_of(q):
        if way in ("waiting", "flying"):
            kernel = waiting_kernel if way == "waiting" else flying_kernel
            described = describe(q, k, v, out, rows=BLOCK, keys=KEYS)
            kernel[(tiles,)](*described, *counts, **options, num_warps=8)
        else:
            described = describe(q, k, v, out, rows=ROWS.value, keys=KEYS)
            programs = min(tiles, multiprocessors(q.device)) if way == "persistent" else tiles
            specialized_kernel[(programs,)](
                *described, *counts, **options, GROUPS=groups, TURNS=way == "turns", num_warps=4
            )
    return out


def default(D: int, keys: int) -> str:
    if keys <= SHORT:
        return "persistent"
    return "specialized" if D == 128 else "third"


def describe(q, k, v, out, *, rows: int, keys: int) -> list[TensorDescriptor]:
    """Return what TMA has to know: of a head it loads no row that isn't there, and stores none."""
    element = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16}[q.dtype]
    described = []
    for x, side in ((q, rows), (k, keys), (v, keys), (out, rows)):
        shape = [1, 1, side, x.shape[-1]]
        layout = gl.NVMMASharedLayout.get_default_for(shape, element)
        described.append(TensorDescriptor.from_tensor(x, shape, layout))
    return described
# --8<-- [end:host]


@functools.cache
def multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, way: str | None) -> None:
    """Raise ``ValueError`` if these are no attention that the kernels know."""
    if any(x.ndim != 4 for x in (q, k, v)) or k.shape != v.shape or q.shape[::3] != k.shape[::3]:
        raise ValueError(
            f"q must be (batch, heads, queries, D), and k and v (batch, kv_heads, keys, D); got {tuple(q.shape)}, "
            f"{tuple(k.shape)} and {tuple(v.shape)}"
        )
    if q.shape[3] not in (64, 128):
        raise ValueError(f"D must be 64 or 128; got {q.shape[3]}")
    if k.shape[1] < 1 or q.shape[1] % k.shape[1]:
        raise ValueError(f"heads must be a multiple of kv_heads; got {q.shape[1]} and {k.shape[1]}")
    if causal and q.shape[2] != k.shape[2]:
        raise ValueError(f"causal needs as many keys as queries; got {k.shape[2]} and {q.shape[2]}")
    if way not in (None, *WAYS) or (way == "third" and q.shape[3] == 128):
        raise ValueError(f"way must be one of {WAYS}, 'third' for D = 64 only; got {way!r} for D = {q.shape[3]}")
    if q.dtype not in (torch.bfloat16, torch.float16) or len({(x.dtype, x.device) for x in (q, k, v)}) > 1:
        raise ValueError(
            f"q, k and v must be alike, of 16 bits; got {q.dtype}, {k.dtype}, {v.dtype} on {q.device}, {k.device}, "
            f"{v.device}"
        )
    for name, x in (("q", q), ("k", k), ("v", v)):
        odd = any(stride % 8 or stride < 1 for stride in x.stride()[:3])
        if x.numel() and (x.stride(3) != 1 or odd or x.data_ptr() % 16):
            raise ValueError(
                f"each row of {name} must lie in one piece that begins at a multiple of 16 bytes; got strides "
                f"{x.stride()} at {x.data_ptr():#x}; copy {name}.contiguous()"
            )


def check_gpu(device: torch.device) -> None:
    """Raise ``ValueError`` unless this is a GPU of Hopper."""
    if device.type != "cuda":
        raise ValueError(f"q must be on a Hopper GPU, for Gluon has no interpreter; it is on {device}")
    if torch.cuda.get_device_capability(device)[0] != 9:
        raise ValueError(f"wgmma is Hopper's; {torch.cuda.get_device_name(device)} has another instruction")


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; this needs a Hopper GPU")
    torch.manual_seed(0)
    for heads, kv_heads, length, D in ((16, 16, 2048, 128), (8, 2, 1000, 64), (1, 1, 1, 128)):
        shapes = [(2, each, length, D) for each in (heads, kv_heads, kv_heads)]
        q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in shapes)
        for causal in (False, True):
            expected = torch.nn.functional.scaled_dot_product_attention(
                *(x.double() for x in (q, k, v)), is_causal=causal, enable_gqa=True
            )
            ways = [way for way in WAYS if D == 64 or way != "third"]
            errors = {way: (attention(q, k, v, causal=causal, way=way).double() - expected).abs().max() for way in ways}
            close = {way: (error / expected.abs().max() < 0.01).item() for way, error in errors.items()}
            print(f"{tuple(q.shape)}{', causal' if causal else ''}: error below 1%: {close}")


if __name__ == "__main__":
    main()
