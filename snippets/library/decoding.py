# SPDX-License-Identifier: Apache-2.0
"""Attention for inference, with the options that models ask for: few queries of each sequence, many keys in a cache.

The lesson ``fusion/decoding.py`` derives the method and has the plain kernels. Each sequence has ``length`` keys in the
cache, of which the last belongs to its last query. With ``i`` a query, ``j`` a key that it sees, and ``distance =
i + length - queries - j``::

    product = scale * k_scale * q[i] @ k[j]
    capped = softcap * tanh(product / softcap)                    # softcap=None: capped = product
    score = capped - alibi_slope * abs(distance)
    seen = -right <= distance <= left                             # window=(left, right); causal: right = 0
    lse = log(exp(sink) + sum(exp(score)))                        # over all keys that are seen
    out = v_scale * sum(exp(score - lse) * v[j])

Too few tiles of queries would leave most multiprocessors idle, so the keys that a tile sees are split into parts. A
program stores the result and ``lse`` of each part, and a second kernel joins them::

    lse = log(exp(sink) + sum(exp(lse_i)));  out = sum(exp(lse_i - lse) * out_i)

- :func:`decode_attention`: keys side by side or in pages, in fp8 or in the dtype of ``q``; as many queries for each
  sequence, or packed ones of different numbers. It has no gradient.

Traffic, in elements: the keys and values that some query sees are read once by all heads of a group together, at least
if these have no more than 16 queries (64 in 16 bits); each part of each query is written and read once. Values that are
the first columns of their keys, as in multi-head latent attention (MLA), are not read a second time. Nothing is added
up by atomics: equal inputs give equal bits.
Source: Dao, Haziza, Massa and Sizov, *Flash-Decoding for long-context inference*, 2023; Kwon and others, *Efficient
Memory Management for Large Language Model Serving with PagedAttention*, 2023; DeepSeek-AI, *DeepSeek-V2*, 2024.

Run it on a GPU with ``python decoding.py``, or with ``TRITON_INTERPRET=1 python decoding.py`` in the interpreter.
"""

import functools
import math
import operator
from typing import NamedTuple

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
CACHED = (torch.float8_e4m3fn, torch.float8_e5m2)  # what a cache may have instead of the dtype of q
WIDEST = 576  # of head_dim, and of a value
LONGEST = 2**29  # keys of a sequence, so that positions and their differences are counted in 32 bits
MOST_SPLITS = 256
LOG2E = tl.constexpr(math.log2(math.e))  # for exp2 in place of exp
COUNTS = ["kv_heads", "group", "queries", "rows", "keys", "tiles", "splits", "left", "right"]  # not compiled for
LN2 = tl.constexpr(math.log(2))


# --8<-- [start:load]
@triton.jit
def load_rows(rows, mask, WIDTH: tl.constexpr, BLOCKS: tl.constexpr, DTYPE: tl.constexpr):
    """Load rows as a tuple of pieces of ``BLOCKS`` columns, with zeros for other rows and from column ``WIDTH`` on.

    Parameters:
        rows: Pointers to the first elements.
        mask: Which rows there are.
        DTYPE: What to convert to; None for the dtype in memory.
    """
    pieces = ()
    for i in tl.static_range(len(BLOCKS)):
        column = i * BLOCKS[0] + tl.arange(0, BLOCKS[i])[None, :]
        inside = mask[:, None]
        if i * BLOCKS[0] + BLOCKS[i] > WIDTH:
            inside = inside & (column < WIDTH)
        piece = tl.load(rows[:, None] + column, mask=inside, other=0.0)
        if DTYPE is not None:
            piece = piece.to(DTYPE)
        pieces += (piece,)
    return pieces


@triton.jit
def store_rows(rows, mask, pieces, WIDTH: tl.constexpr, BLOCKS: tl.constexpr):
    for i in tl.static_range(len(BLOCKS)):
        column = i * BLOCKS[0] + tl.arange(0, BLOCKS[i])[None, :]
        inside = mask[:, None] & (column < WIDTH)
        tl.store(rows[:, None] + column, pieces[i], mask=inside)  # rounded to the tensor's dtype


@triton.jit
def cached_rows(
    ptr, strides, table_ptr, batch, kv_head, first, key, inside, PAGE_SIZE: tl.constexpr, BLOCK: tl.constexpr
):
    """Return pointers to the first elements of a tile's keys, or values; ``strides``: of a page, a head and a row."""
    page_stride, head_stride, row_stride = strides
    page, row = batch, key.to(tl.int64)
    if table_ptr is not None:
        if PAGE_SIZE % BLOCK == 0:  # all of the tile lies in one page
            page = tl.load(table_ptr + first // PAGE_SIZE).to(tl.int64)
        else:
            page = tl.load(table_ptr + key // PAGE_SIZE, mask=inside, other=0).to(tl.int64)
        row = row % PAGE_SIZE
    return ptr + (page * page_stride + kv_head * head_stride + row * row_stride)


@triton.jit
def queries_of(cu_ptr, batch, queries, rows):
    """Return where the queries of a sequence begin among ``rows`` packed ones, and how many there are."""
    begin = 0
    if cu_ptr is not None:  # inside of the tensor, whatever it says
        begin = tl.minimum(tl.maximum(tl.load(cu_ptr + batch), 0), rows).to(tl.int32)
        end = tl.minimum(tl.maximum(tl.load(cu_ptr + batch + 1), 0), rows).to(tl.int32)
        queries = tl.minimum(tl.maximum(end - begin, 0), queries)
    return begin, queries
# --8<-- [end:load]


@triton.jit
def fitted(pieces, DTYPE: tl.constexpr):
    """Return rows divided by their largest number, so that they fit the range of ``DTYPE``; and these numbers."""
    largest = tl.max(tl.abs(pieces[0]).to(tl.float32), axis=1)
    for i in tl.static_range(1, len(pieces)):
        largest = tl.maximum(largest, tl.max(tl.abs(pieces[i]).to(tl.float32), axis=1))
    largest = tl.where(largest == 0.0, 1.0, largest)
    result = ()
    for i in tl.static_range(len(pieces)):
        result += ((pieces[i].to(tl.float32) / largest[:, None]).to(DTYPE),)
    return result, largest


# --8<-- [start:range]
@triton.jit
def steps_seen(first, last, shift, length, left, right, BLOCK: tl.constexpr):
    """Return which keys the queries from ``first`` to ``last`` see, and in which tiles of ``BLOCK`` these lie.

    A query sees the keys from ``query + shift - left`` to ``query + shift + right``, if they are there.
    """
    start, end = 0, length
    if left is not None:
        start = tl.maximum(first + shift - left, 0)
    if right is not None:
        end = tl.minimum(end, last + shift + right + 1)
    end = tl.where(first <= last, tl.maximum(end, 0), 0)
    start = tl.minimum(start, end)
    return start, end, start // BLOCK, tl.cdiv(end, BLOCK)


@triton.jit
def part_of(begin, end, split, splits):
    """Return where one of ``splits`` parts begins and ends; the first ones have a step more, if need be."""
    each, more = (end - begin) // splits, (end - begin) % splits
    begin += split * each + tl.minimum(split, more)
    return begin, begin + each + (split < more).to(tl.int32)
# --8<-- [end:range]


@triton.jit
def logaddexp2(a, b):
    """Return ``log2(2**a + 2**b)``."""
    high, low = tl.maximum(a, b), tl.minimum(a, b)
    return tl.where(low == -float("inf"), high, high + tl.log2(1 + tl.exp2(low - high)))


# --8<-- [start:loop]
@triton.jit
def through_keys(
    q,
    k_ptr,
    v_ptr,
    k_strides,
    v_strides,
    table_ptr,
    slope,
    factor,
    begin_step,
    end_step,
    common,
    GUARDED: tl.constexpr,
    SHARED: tl.constexpr,
    SOFTCAP: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    COMPUTE: tl.constexpr,
    DTYPE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    HEAD_BLOCKS: tl.constexpr,
    VALUE_BLOCKS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Return maximum, sum and weighted values of the keys in the tiles from ``begin_step`` to ``end_step``."""
    batch, kv_head, place, start, end, left, right = common
    maximum = tl.full((ROWS,), -float("inf"), COMPUTE)
    total = tl.zeros((ROWS,), COMPUTE)
    accumulator = ()
    for i in tl.static_range(len(VALUE_BLOCKS)):
        accumulator += (tl.full((ROWS, VALUE_BLOCKS[i]), 0.0, COMPUTE),)
    for step in range(begin_step, end_step):
        key = step * BLOCK + tl.arange(0, BLOCK)
        inside = (key >= start) & (key < end)  # what no query sees may be anything, and is not read
        k_rows = cached_rows(
            k_ptr, k_strides, table_ptr, batch, kv_head, step * BLOCK, key, inside, PAGE_SIZE, BLOCK
        )  # fmt: skip
        k = load_rows(k_rows, inside, HEAD_DIM, HEAD_BLOCKS, DTYPE)
        product = tl.dot(q[0], k[0].T, input_precision="ieee", out_dtype=COMPUTE)
        for i in tl.static_range(1, len(q)):
            product = tl.dot(q[i], k[i].T, product, input_precision="ieee", out_dtype=COMPUTE)
        if SOFTCAP is None:
            score = product * factor[:, None]
        else:
            tanh = 1 - 2 / (1 + tl.exp2(product * (factor * (2 / SOFTCAP))[:, None]))
            score = tanh * (SOFTCAP * LOG2E)
        distance = place[:, None] - key[None, :]
        if slope is not None:
            score -= slope[:, None] * tl.abs(distance)
        seen = inside[None, :]
        if left is not None:
            seen = seen & (distance <= left)
        if right is not None:
            seen = seen & (distance >= -right)
        score = tl.where(seen, score, -float("inf"))
        new_maximum = tl.maximum(maximum, tl.max(score, axis=1))
        # all scores are -inf so far: -inf - 0, not -inf - -inf, which is NaN
        below = tl.where(new_maximum == -float("inf"), 0.0, new_maximum)
        rescale = tl.exp2(maximum - below)
        weight = tl.exp2(score - below[:, None])
        total = total * rescale + tl.sum(weight, axis=1)
        if SHARED:
            v = k
        else:
            v_rows = cached_rows(
                v_ptr, v_strides, table_ptr, batch, kv_head, step * BLOCK, key, inside, PAGE_SIZE, BLOCK
            )  # fmt: skip
            v = load_rows(v_rows, inside, VALUE_DIM, VALUE_BLOCKS, DTYPE)
        added = ()
        for i in tl.static_range(len(VALUE_BLOCKS)):
            values, weights = v[i], weight
            if GUARDED:  # 0 * NaN is NaN, and so is 0 * inf: who sees such a value gets NaN, and nobody else
                finite = tl.abs(values) < float("inf")
                spoiled = tl.max(tl.where(finite, 0, 1), axis=1)[None, :] > 0
                weights = tl.where(seen & spoiled, float("nan"), weight)
                values = tl.where(finite, values, 0.0)
            added += (
                tl.dot(
                    weights.to(values.dtype), values, accumulator[i] * rescale[:, None],
                    input_precision="ieee", out_dtype=COMPUTE,
                ),
            )  # fmt: skip
        accumulator = added
        maximum = new_maximum
    return maximum, total, accumulator
# --8<-- [end:loop]


@triton.jit
def all_finite(pieces):
    broken = 0
    for i in tl.static_range(len(pieces)):
        broken += tl.max(tl.where(tl.abs(pieces[i]) < float("inf"), 0, 1))
    return broken == 0


# --8<-- [start:parts]
@triton.jit(do_not_specialize=COUNTS)
def parts_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    lse_ptr,
    q_strides,
    k_strides,
    v_strides,
    out_strides,
    lse_strides,
    lengths_ptr,
    table_ptr,
    table_stride,
    cu_ptr,
    sinks_ptr,
    slopes_ptr,
    slopes_stride,
    k_scale_ptr,
    v_scale_ptr,
    scale_strides,
    kv_heads,
    group,
    queries,
    rows,
    keys,
    tiles,
    splits,
    left,
    right,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    GUARDED: tl.constexpr,
    SHARED: tl.constexpr,
    WHOLE: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    COMPUTE: tl.constexpr,
    DTYPE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    HEAD_BLOCKS: tl.constexpr,
    VALUE_BLOCKS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute the result and ``lse`` of one part of the keys, for a tile of the queries of one head of ``k``.

    Parameters:
        q_ptr: ``(batch, heads, queries, HEAD_DIM)``, or packed, of a batch of 1.
        k_ptr, v_ptr: The cache. Its strides are those of a page, or of a sequence, of a head and of a row.
        out_ptr, lse_ptr: Of every part, ``lse`` in powers of 2; or of the only one, as it is returned, or None. The
            strides are those of a part, and then as of ``q``.
        lengths_ptr: ``(batch,)``, or None if each sequence has ``keys``.
        table_ptr: ``(batch, pages of a sequence)``, rows ``table_stride`` apart, or None.
        cu_ptr: ``(batch + 1,)`` for ``rows`` packed queries of which a sequence has at most ``queries``, or None.
        sinks_ptr: ``(heads,)``. None where other parts follow: the sink belongs to all of them together.
        slopes_ptr: ``(heads,)`` or ``(batch, heads)``, or None.
        k_scale_ptr, v_scale_ptr: Of each head of the cache, ``scale_strides`` apart, or None.
        GUARDED: Whether some queries of a tile see what others don't, which may be NaN or inf.
        SHARED: Whether values are the first columns of their keys.
        WHOLE: Whether there is one part only.
        DTYPE: What to multiply in, if the cache is in fp8: float16, for a GPU converts two numbers to that by one
            instruction, or float32 for a ``q`` in float32.
        HEAD_BLOCKS, VALUE_BLOCKS: In how many columns to cut a row: powers of two.
    """
    pid = tl.program_id(axis=0)  # neighbors read neighboring heads of the same keys
    tile, kv_head = pid % tiles, pid // tiles % kv_heads
    split, batch = pid // (tiles * kv_heads) % splits, (pid // (tiles * kv_heads) // splits).to(tl.int64)
    begin_q, queries = queries_of(cu_ptr, batch, queries, rows)
    length = keys
    if lengths_ptr is not None:
        length = tl.minimum(tl.maximum(tl.load(lengths_ptr + batch), 0), keys).to(tl.int32)
    # the heads of a query stand one after another, so that a tile has few queries, and these see nearly the same keys
    row = tile * ROWS + tl.arange(0, ROWS)
    query, head = row // group, kv_head * group + row % group
    there = query < queries
    shift = length - queries
    last = tl.minimum((tile * ROWS + ROWS - 1) // group, queries - 1)
    start, end, begin_step, end_step = steps_seen(tile * ROWS // group, last, shift, length, left, right, BLOCK)
    begin_step, end_step = part_of(begin_step, end_step, split, splits)

    batch_q = batch
    if cu_ptr is not None:  # packed queries are of one batch
        batch_q = batch * 0
    place = begin_q + query.to(tl.int64), head.to(tl.int64)
    q_batch, q_head, q_row = q_strides
    q_rows = q_ptr + (batch_q * q_batch + place[1] * q_head + place[0] * q_row)
    q = load_rows(q_rows, there, HEAD_DIM, HEAD_BLOCKS, None)
    factor = tl.full((ROWS,), SCALE * LOG2E, COMPUTE)
    if k_scale_ptr is not None:
        factor *= tl.load(k_scale_ptr + kv_head * scale_strides[0]).to(COMPUTE)
    if DTYPE is not None and q_ptr.dtype.element_ty != DTYPE:
        q, largest = fitted(q, DTYPE)
        factor *= largest
    slope, table = None, table_ptr
    if slopes_ptr is not None:
        slope = tl.load(slopes_ptr + batch * slopes_stride + head, mask=there, other=0.0).to(COMPUTE) * LOG2E
    if table_ptr is not None:
        table = table_ptr + batch * table_stride
    common = batch, kv_head.to(tl.int64), query + shift, start, end, left, right
    # --8<-- [start:twice]
    maximum, total, accumulator = through_keys(  # GUARDED=False
        q, k_ptr, v_ptr, k_strides, v_strides, table, slope, factor, begin_step, end_step, common, False, SHARED,
        SOFTCAP, PAGE_SIZE, COMPUTE, DTYPE, HEAD_DIM, VALUE_DIM, HEAD_BLOCKS, VALUE_BLOCKS, ROWS, BLOCK,
    )  # fmt: skip
    if GUARDED and not all_finite(accumulator):
        maximum, total, accumulator = through_keys(
            q, k_ptr, v_ptr, k_strides, v_strides, table, slope, factor, begin_step, end_step, common, True, SHARED,
            SOFTCAP, PAGE_SIZE, COMPUTE, DTYPE, HEAD_DIM, VALUE_DIM, HEAD_BLOCKS, VALUE_BLOCKS, ROWS, BLOCK,
        )  # fmt: skip
    # --8<-- [end:twice]
    lse = tl.where(total == 0.0, -float("inf"), maximum + tl.log2(tl.where(total == 0.0, 1.0, total)))
    share = 1 / tl.where(total == 0.0, 1.0, total)
    if sinks_ptr is not None:
        sink = tl.load(sinks_ptr + head, mask=there, other=0.0).to(COMPUTE) * LOG2E
        with_sink = logaddexp2(lse, sink)
        share *= tl.where(with_sink == -float("inf"), 0.0, tl.exp2(lse - with_sink))
        lse = with_sink
    if v_scale_ptr is not None:
        share *= tl.load(v_scale_ptr + kv_head * scale_strides[1]).to(COMPUTE)
    result = ()
    for i in tl.static_range(len(VALUE_BLOCKS)):
        result += (accumulator[i] * share[:, None],)
    out_part, out_batch, out_head, out_row = out_strides
    out_rows = out_ptr + (split * out_part + batch_q * out_batch + place[1] * out_head + place[0] * out_row)
    store_rows(out_rows, there, result, VALUE_DIM, VALUE_BLOCKS)
    if lse_ptr is not None:
        if WHOLE:
            lse *= LN2
        lse_part, lse_batch, lse_head, lse_row = lse_strides
        lse_rows = lse_ptr + (split * lse_part + batch_q * lse_batch + place[1] * lse_head + place[0] * lse_row)
        tl.store(lse_rows, lse, mask=there)
# --8<-- [end:parts]


# --8<-- [start:combine]
@triton.jit(do_not_specialize=["splits", "heads"])
def combine_kernel(
    part_ptr,
    part_lse_ptr,
    out_ptr,
    lse_ptr,
    sinks_ptr,
    splits,
    numbers,
    heads,
    COMPUTE: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    VALUE_BLOCKS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Join the parts of one query of one head.

    Parameters:
        part_ptr: ``(splits, numbers, VALUE_DIM)``: ``numbers`` is how many queries all heads have, by head within one.
        part_lse_ptr: ``(splits, numbers)``, in powers of 2.
        out_ptr, lse_ptr: ``(numbers, VALUE_DIM)`` and ``(numbers,)``, the latter as it is returned, or None.
        sinks_ptr: ``(heads,)``, or None.
    """
    number = tl.program_id(axis=0).to(tl.int64)
    lse = tl.full((), -float("inf"), COMPUTE)
    if sinks_ptr is not None:
        lse = tl.load(sinks_ptr + number % heads).to(COMPUTE) * LOG2E
    maximum, total = lse, tl.where(lse == -float("inf"), 0.0, 1.0).to(COMPUTE)
    accumulator = ()
    for i in tl.static_range(len(VALUE_BLOCKS)):
        accumulator += (tl.full((1, VALUE_BLOCKS[i]), 0.0, COMPUTE),)
    for begin in range(0, splits, BLOCK):
        split = (begin + tl.arange(0, BLOCK)).to(tl.int64)
        there, part = split < splits, split * numbers + number
        part_lse = tl.load(part_lse_ptr + part, mask=there, other=-float("inf"))
        new_maximum = tl.maximum(maximum, tl.max(part_lse, axis=0))
        below = tl.where(new_maximum == -float("inf"), 0.0, new_maximum)
        rescale, weight = tl.exp2(maximum - below), tl.exp2(part_lse - below)
        total = total * rescale + tl.sum(weight, axis=0)
        parts = load_rows(part_ptr + part * VALUE_DIM, there, VALUE_DIM, VALUE_BLOCKS, None)
        added = ()
        for i in tl.static_range(len(VALUE_BLOCKS)):
            added += (accumulator[i] * rescale + tl.sum(weight[:, None] * parts[i], axis=0, keep_dims=True),)
        accumulator, maximum = added, new_maximum
    share = 1 / tl.where(total == 0.0, 1.0, total)
    result = ()
    for i in tl.static_range(len(VALUE_BLOCKS)):
        result += (accumulator[i] * share,)
    row = number + tl.arange(0, 1)
    store_rows(out_ptr + row * VALUE_DIM, row >= 0, result, VALUE_DIM, VALUE_BLOCKS)
    if lse_ptr is not None:
        lse = tl.where(total == 0.0, -float("inf"), maximum + tl.log2(tl.where(total == 0.0, 1.0, total)))
        tl.store(lse_ptr + number, lse * LN2)
# --8<-- [end:combine]


# --8<-- [start:choose]
@functools.lru_cache(maxsize=4096)
def choose_splits(programs: int, steps: int, room: int) -> int:
    """Return into how many parts to split the keys: few, but no multiprocessor is idle for long.

    Args:
        programs: How many there are without a split.
        steps: Tiles of keys that one has to go through at most. A part gets two at least.
        room: How many programs the GPU runs at a time; the last wave of them should be nearly full.

    >>> choose_splits(8, 1024, room=396), choose_splits(128, 128, room=396), choose_splits(5000, 128, room=396)
    (48, 3, 1)
    """
    full = {}
    for splits in range(1, max(1, min(steps // 2, MOST_SPLITS)) + 1):
        waves = triton.cdiv(programs * splits, room)
        full[splits] = programs * splits / (waves * room)
    enough = 0.95 * max(full.values())
    return next(splits for splits, share in full.items() if share >= enough)


@functools.lru_cache(maxsize=4096)
def default_tile(
    dtype: torch.dtype, head_columns: int, value_columns: int, rows: int, paged: bool, in_fp8: bool, shared: bool
) -> tuple[dict[str, int], int]:
    """Return rows of ``q`` and keys of a tile and how to compile for it, and how many programs a multiprocessor runs.

    Measured on an H200. If keys are ``paged``, the number of a page is loaded ahead of the page, and that takes stages,
    too; if values are the first columns of keys, and so ``shared``, shared memory has room for a larger tile.

    >>> default_tile(torch.bfloat16, 128, 128, rows=4, paged=False, in_fp8=False, shared=False)
    ({'ROWS': 16, 'BLOCK': 64, 'num_warps': 4, 'num_stages': 3}, 3)
    """
    widest, together = max(head_columns, value_columns), 3
    # Triton 3.6 makes wrong results of heads of 23 columns with values of 6 in tiles of more rows (seen on an H200)
    most = 32 if min(head_columns, value_columns) < 64 else 64 if in_fp8 else 128
    if dtype.itemsize > 2:
        block = max(16, (2048 if dtype == torch.float32 else 512) // triton.next_power_of_2(widest))
        tile = 16, block, 4, 2 if widest * dtype.itemsize <= 1024 else 1
    elif widest <= 256:
        height = min(most, max(16, triton.next_power_of_2(rows)))
        elements = 2**14 if in_fp8 and height < 64 else 2**13  # of a tile of keys
        block = min(64 if height == 128 else 128, elements // triton.next_power_of_2(widest))
        tile = height, block, 8 if height * widest > 2 ** (12 if in_fp8 else 13) else 4, 5 if paged else 3
        together = 2 if in_fp8 else 3
    else:
        height = min(most, 64 if shared and not in_fp8 else 32, max(16, triton.next_power_of_2(rows)))
        if height == 64:
            tile, together = (height, 64, 8, 3 if paged else 2), 1
        else:
            tile, together = (height, 32, 8 if in_fp8 and height == 32 else 4, 3), 2
    return dict(zip(("ROWS", "BLOCK", "num_warps", "num_stages"), tile, strict=True)), together


@functools.lru_cache(maxsize=4096)
def blocks_of(width: int) -> tuple[int, ...]:
    """Return the columns of a tile, in one piece or two: powers of two, of at least 16 for the matrix units.

    >>> blocks_of(64), blocks_of(80), blocks_of(192), blocks_of(576)
    ((64,), (64, 16), (128, 64), (512, 64))
    """
    whole = max(16, triton.next_power_of_2(width))
    half, rest = whole // 2, max(16, triton.next_power_of_2(width - whole // 2))
    return (half, rest) if whole > 64 and rest < half else (whole,)


@functools.cache
def multiprocessors_of(device: torch.device) -> int:
    """Return the number of multiprocessors; in the interpreter, that of an H200."""
    return 132 if device.type != "cuda" else torch.cuda.get_device_properties(device).multi_processor_count
# --8<-- [end:choose]


# --8<-- [start:launch]
def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor | None,
    page_table: torch.Tensor | None,
    cu_q: torch.Tensor | None,
    max_q: int | None,
    sinks: torch.Tensor | None,
    slopes: torch.Tensor | None,
    k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None,
    scale: float,
    softcap: float | None,
    left: int | None,
    right: int | None,
    splits: int | None,
    with_lse: bool,
) -> list[torch.Tensor]:
    """Return the result, and ``lse`` if asked for; packed queries have the shape ``(1, heads, total, head_dim)``."""
    given = q, k, v, lengths, page_table, cu_q, sinks, slopes, k_scale, v_scale
    how = max_q, scale, softcap, left, right, splits, with_lse
    try:
        key = *map(layout, given), *how, k.data_ptr() == v.data_ptr()
    except RuntimeError as error:  # tensors that torch.vmap maps have no address
        raise NotImplementedError("decode_attention is not mapped by torch.vmap; it takes a batch") from error
    plan = PLANS.get(key)
    if plan is None:
        check_arguments(*given)
    results = outputs(q, v, with_lse)
    out, lse = results if with_lse else (*results, None)
    if plan is None:
        sequences = len(q) if cu_q is None else len(cu_q) - 1
        queries = q.shape[2] if cu_q is None or max_q is None else min(max_q, q.shape[2])
        if not out.numel() or not sequences * queries:
            return [out.zero_(), *(each.fill_(-math.inf) for each in results[1:])]
        plan = remember(key, prepare(*given, queries, *how[1:-1]))
    if plan.copied:
        q = q.contiguous().resolve_neg()
    parts, part_lses = out[None], None if lse is None else lse[None]
    if plan.combine:
        parts = room_for(q, v.shape[3], plan.splits, dtype=dtype_inside(q))
        part_lses = room_for(q, 1, plan.splits, dtype=dtype_inside(q))[..., 0]
    sinks_first, sinks_last = (None, sinks) if plan.combine else (sinks, None)
    q_strides, k_strides, v_strides, table_stride, slopes_stride, scale_strides = plan.strides
    with torch.cuda.device_of(q):  # Triton launches on the current device, which need not be that of the tensors
        plan.parts.run(
            q, k, v, parts, part_lses, q_strides, k_strides, v_strides, parts.stride()[:4],
            (0, 0, 0, 0) if part_lses is None else part_lses.stride(), lengths, page_table, table_stride, cu_q,
            sinks_first, slopes, slopes_stride, k_scale, v_scale, scale_strides, *plan.numbers,
        )  # fmt: skip
        if plan.combine:
            plan.combine.run(parts, part_lses, out, lse, sinks_last, plan.splits, out.numel() // v.shape[3], q.shape[1])
    return results


class Plan(NamedTuple):
    """Hold what stays the same from call to call with such tensors."""

    parts: "Launch"
    combine: "Launch | None"
    splits: int
    strides: tuple
    numbers: tuple  # behind the tensors
    copied: bool  # whether q is copied first, since the kernel cannot read it where it lies


def prepare(
    q, k, v, lengths, page_table, cu_q, sinks, slopes, k_scale, v_scale, queries, scale, softcap, left, right, splits
) -> Plan:
    (batch_q, heads, rows, head_dim), value_dim = q.shape, v.shape[3]
    (kv_heads, keys), batch = sizes(k, page_table), batch_q if cu_q is None else len(cu_q) - 1
    if page_table is None:
        page_size, table_stride, k_strides, v_strides = 1, 0, k.stride()[:3], v.stride()[:3]
    else:  # of a page, a head, a row
        page_size, table_stride = k.shape[1], page_table.stride(0)
        k_strides, v_strides = ((x.stride(0), x.stride(2), x.stride(1)) for x in (k, v))
    group, blocks = heads // kv_heads, (blocks_of(head_dim), blocks_of(value_dim))
    shared = k.data_ptr() == v.data_ptr() and k_strides == v_strides
    shared = shared and value_dim == sum(blocks[1]) and blocks[1] == blocks[0][: len(blocks[1])]
    tile, together = default_tile(
        q.dtype, *map(sum, blocks), group * queries, page_table is not None, k.dtype in CACHED, shared
    )  # fmt: skip
    tiles = triton.cdiv(group * queries, tile["ROWS"])
    programs = batch * kv_heads * tiles
    if splits is None:
        seen = keys if left is None or right is None else left + right + triton.cdiv(tile["ROWS"], group)
        steps = triton.cdiv(min(keys, seen), tile["BLOCK"])
        splits = choose_splits(programs, steps, together * multiprocessors_of(q.device))
    if programs * splits >= 2**31:  # CUDA's limit along one axis
        raise ValueError(
            f"{tuple(q.shape)} takes {programs * splits} programs; 2**31 - 1 is the limit: split the batch"
        )
    both = {"COMPUTE": tl.float64 if dtype_inside(q) == torch.float64 else tl.float32}
    both |= {"VALUE_DIM": value_dim, "VALUE_BLOCKS": blocks[1]}
    options = both | tile | {
        "SCALE": scale, "SOFTCAP": softcap, "GUARDED": queries > 1 and (left is not None or right is not None),
        "SHARED": shared, "WHOLE": splits == 1, "PAGE_SIZE": page_size,
        "DTYPE": None if k.dtype == q.dtype else tl.float32 if q.dtype == torch.float32 else tl.float16,
        "HEAD_DIM": head_dim, "HEAD_BLOCKS": blocks[0],
    }  # fmt: skip
    combine = None
    if splits > 1:
        block = min(triton.next_power_of_2(splits), max(1, 8192 // sum(blocks[1])))
        combine = Launch(combine_kernel, batch_q * rows * heads, both | {"BLOCK": block, "num_warps": 4})
    copied = q.stride(3) != 1 or q.is_neg()
    q = q.contiguous() if copied else q
    slopes_stride = 0 if slopes is None or slopes.ndim == 1 else slopes.stride(0)
    scale_strides = (stride_of(k_scale), stride_of(v_scale))
    strides = q.stride()[:3], k_strides, v_strides, table_stride, slopes_stride, scale_strides
    numbers = kv_heads, group, queries, rows, keys, tiles, splits, left, right
    return Plan(Launch(parts_kernel, programs * splits, options), combine, splits, strides, numbers, copied)


class Launch:
    """Launch a kernel again and again, for arguments of which Triton would make the same.

    For each call ``kernel[grid](…)`` Triton looks at all arguments, to find what it has compiled for their like. Here
    it does so once, since all that it looks at is in the key of ``PLANS``. New tensors count as beginning at a multiple
    of 16 bytes, as torch makes them.
    """

    def __init__(self, kernel, programs: int, options: dict):
        self.kernel, self.grid, self.options = kernel, (programs, 1, 1), options
        self.constants = [options[name] for name in kernel.arg_names if name in options]
        self.compiled = None  # set by the first launch, except in the interpreter

    def run(self, *given) -> None:
        if self.compiled is None:
            self.compiled = self.kernel[self.grid](*given, **self.options)
        else:
            self.compiled[self.grid](*given, *self.constants)


PLANS = {}  # by the layouts of tensors, and by options. What is found here has passed all checks


def layout(x: torch.Tensor | None):
    """Return all of a tensor that decides how a kernel is launched, or whether it is refused; not its numbers."""
    if x is None or x.layout != torch.strided:
        return x if x is None else x.layout
    aligned = x.data_ptr() % 16 == 0
    return x.shape, x.stride(), x.dtype, x.device, aligned, x.is_neg()


def remember(key: tuple, plan: Plan) -> Plan:
    if len(PLANS) >= 4096:  # shapes that never end, such as of texts of all lengths, must not fill the memory
        PLANS.clear()
    PLANS[key] = plan
    return plan


# --8<-- [end:launch]


def room_for(q: torch.Tensor, columns: int, *parts: int, dtype: torch.dtype) -> torch.Tensor:
    """Return ``(*parts, batch, heads, queries, columns)``, where the heads of a query are neighbors in memory."""
    batch, heads, queries, _ = q.shape
    return q.new_empty((*parts, batch, queries, heads, columns), dtype=dtype).transpose(-3, -2)


def outputs(q: torch.Tensor, v: torch.Tensor, with_lse: bool) -> list[torch.Tensor]:
    """Return room for the result and, if asked for, for ``lse``."""
    out = room_for(q, v.shape[3], dtype=q.dtype)
    return [out, room_for(q, 1, dtype=dtype_inside(q))[..., 0]] if with_lse else [out]


def sizes(k: torch.Tensor, page_table: torch.Tensor | None) -> tuple[int, int]:
    """Return the heads of ``k``, and how many keys a sequence has at most."""
    return tuple(k.shape[1:3]) if page_table is None else (k.shape[2], page_table.shape[1] * k.shape[1])


def dtype_inside(x: torch.Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def stride_of(scale: torch.Tensor | None) -> int:
    return 0 if scale is None or scale.numel() == 1 else scale.stride(0)


# --8<-- [start:op]
attend_op = torch.library.custom_op("triton_by_example::decode_attention_to_copy", attend, mutates_args=())


@attend_op.register_fake
def _(q, k, v, *others):
    return outputs(q, v, others[-1])
# --8<-- [end:op]


# --8<-- [start:host]
def decode_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    lengths: torch.Tensor | None = None,
    page_table: torch.Tensor | None = None,
    cu_seqlens_q: torch.Tensor | None = None,
    max_seqlen_q: int | None = None,
    causal: bool = False,
    window: tuple[int | None, int | None] = (None, None),
    scale: float | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    splits: int | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Return the attention of few queries to the many keys of a cache, for each head; without a gradient.

    Args:
        q: ``(batch, heads, queries, head_dim)`` on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``;
            head_dim up to ``WIDEST``, any strides. With ``cu_seqlens_q``, ``(total, heads, head_dim)``.
        k: ``(batch, kv_heads, keys, head_dim)``, or with a page table ``(pages, page_size, kv_heads, head_dim)``, of
            the dtype of ``q`` or of one of ``CACHED``. The elements of a row are neighbors in memory, all else may lie
            anywhere. It is never copied. heads is a multiple of kv_heads, and ``heads // kv_heads`` heads in a row
            share a head of ``k`` and ``v``.
        v: As ``k``, but of any width to ``WIDEST``. Where it is a view of the first columns of ``k``, as in MLA, a
            power of two of them, it is not read again.
        lengths: ``(batch,)``, int32 or int64: how many keys each sequence has. What is below 0 counts as 0, what is
            above the most as the most. Keys and values behind a length are not read.
        page_table: ``(batch, pages of a sequence)``, int32 or int64: key ``i`` of a sequence is row ``i % page_size``
            of page ``page_table[sequence, i // page_size]``. The kernel trusts it: each entry up to the length must be
            the number of a page, or foreign memory is read. Those behind the length are not read.
        cu_seqlens_q: ``(batch + 1,)``, int32 or int64, for packed queries: sequence i has those from
            ``cu_seqlens_q[i]`` to ``cu_seqlens_q[i + 1]``, perhaps none. What is in no sequence is not written.
        max_seqlen_q: The most queries of a sequence, if they are packed; those beyond it are not served. Unless told,
            there is room for all queries in each sequence, and many programs do nothing.
        causal: Whether a query sees only keys that are no later: the same as a window with 0 on its right. The last
            query and the last key, by its length, are of the same time.
        window: How many keys before and after its own place a query sees; None or -1 for all.
        scale: Of the products; ``head_dim ** -0.5`` unless told. The kernel is compiled anew for each that is used, and
            for each ``softcap``, page_size and width.
        softcap: Bounds scores: ``softcap * tanh(score / softcap)``. None, or 0, for none.
        sinks: ``(heads,)`` of one of ``DTYPES``: a score of each head that is added to those of every query, and has no
            value.
        alibi_slopes: ``(heads,)`` or ``(batch, heads)``: of each score, slope times the distance between query and key
            is taken off.
        k_scale, v_scale: ``(kv_heads,)`` or one number, float32, on the device of ``q``: what keys and values have to
            be multiplied by, for a cache in fp8.
        splits: Into how many parts the keys that a tile sees are split, 1 to ``MOST_SPLITS``; unless told, as
            :func:`choose_splits` says. With a fixed number, a sequence's result does not depend on the rest of the
            batch, to the last bit.
        return_lse: Whether to return ``lse``, too: to merge the result with that of other keys.

    Returns:
        A new tensor ``(batch, heads, queries, value_dim)``, or ``(total, heads, value_dim)``, of the dtype of ``q``, in
        which the heads of a query are neighbors in memory. It is computed in float32 (in float64 for float64), with the
        weights rounded to the dtype of ``v`` before they meet it, or to float16 if that is fp8 and ``q`` has 16 bits.
        With ``return_lse`` also the logarithm of the sum of ``exp(score)`` and of ``exp(sink)``, ``(batch, heads,
        queries)`` or ``(heads, total)``. A query that sees no key gets zeros and, without a sink, a ``lse`` of -inf.
        What a query does not see may be anything, also NaN. Nothing waits for the GPU: the kernel may still be running
        when the result is returned.

    Raises:
        ValueError: If an argument is something the kernels can't serve, such as a tensor that requires a gradient.
        NotImplementedError: It is called under ``torch.vmap``.

    >>> q, k = torch.zeros(2, 1, 1, 16), torch.zeros(2, 1, 4, 16)
    >>> v = torch.arange(4.0).view(1, 1, 4, 1).repeat(2, 1, 1, 16)
    >>> decode_attention(q, k, v, lengths=torch.tensor([3, 4]), window=(1, 0))[:, 0, 0, 0]
    tensor([1.5000, 2.5000])
    """
    packed = cu_seqlens_q is not None
    for name, x, axes in (("q", q, 3 if packed else 4), ("k", k, 4), ("v", v, 4)):
        if x.ndim != axes:
            layout = "(total, heads, head_dim)" if axes == 3 else "(batch, heads, queries, head_dim)"
            if name != "q":
                layout = f"(batch, kv_heads, keys, width){' or in pages' if page_table is None else ''}"
            raise ValueError(f"{name} must be {layout}; got the shape {tuple(x.shape)}")
    if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v)):
        raise ValueError(
            "q, k or v requires a gradient, which decode_attention does not compute; use torch.no_grad(), or attention"
        )
    options = options_of(q, causal, window, scale, softcap)
    splits = None if splits is None else as_int("splits", splits)
    if splits is not None and not 1 <= splits <= MOST_SPLITS:
        raise ValueError(f"splits must be from 1 to {MOST_SPLITS}; got {splits}")
    max_q = None if max_seqlen_q is None else as_int("max_seqlen_q", max_seqlen_q)
    run = attend_op if torch.compiler.is_compiling() else attend
    out, *lse = run(
        q.transpose(0, 1)[None] if packed else q, k, v, lengths, page_table, cu_seqlens_q, max_q, sinks, alibi_slopes,
        k_scale, v_scale, *options, splits, bool(return_lse),
    )  # fmt: skip
    if packed:
        out, lse = out.squeeze(0).transpose(0, 1), [each.squeeze(0) for each in lse]
    return (out, *lse) if lse else out
# --8<-- [end:host]


def options_of(q, causal, window, scale, softcap) -> tuple[float, float | None, int | None, int | None]:
    """Return scale, softcap, left and right as the kernels take them; what hides nothing is None."""
    try:
        left, right = (None if each is None else operator.index(each) for each in window)
    except (TypeError, ValueError):
        raise ValueError(f"window must be (left, right), whole numbers or None; got {window!r}") from None
    if any(each is not None and each < -1 for each in (left, right)):
        raise ValueError(f"window must be of numbers from 0 on, or None or -1 for all keys; got {window!r}")
    if causal:
        right = 0
    left, right = (None if each in (None, -1) or each >= LONGEST else each for each in (left, right))
    scale = max(q.shape[-1], 1) ** -0.5 if scale is None else as_float("scale", scale)
    softcap = None if softcap is None else as_float("softcap", softcap) or None
    if softcap is not None and softcap < 0:
        raise ValueError(f"softcap must be above 0, or None or 0 for none; got {softcap}")
    return scale, softcap, left, right


def as_int(name: str, value) -> int:
    """Return a whole number of Python or NumPy, or of a tensor on the CPU, as Python's ``int``."""
    if isinstance(value, int):
        return value
    try:
        if getattr(value, "is_cuda", False):  # to read it, the host would wait for the GPU
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, not on a GPU; got {value!r}") from None


def as_float(name: str, value) -> float:
    """Return a number of Python or NumPy, or of a tensor on the CPU, as Python's ``float``."""
    if isinstance(value, float):
        return value
    try:
        if isinstance(value, str) or getattr(value, "is_cuda", False):  # the host would wait for the GPU
            raise TypeError
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{name} must be a number, not on a GPU; got {value!r}") from None


# --8<-- [start:check]
def check_arguments(q, k, v, lengths, page_table, cu_q, sinks, slopes, k_scale, v_scale) -> None:
    """Raise ``ValueError`` for arguments that the kernels would get wrong, or can't serve at all."""
    named = {"q": q, "k": k, "v": v, "lengths": lengths, "page_table": page_table, "cu_seqlens_q": cu_q}
    named |= {"sinks": sinks, "alibi_slopes": slopes, "k_scale": k_scale, "v_scale": v_scale}
    for name, x in named.items():
        if x is None:
            continue
        if x.layout != torch.strided:
            raise ValueError(f"{name} is {x.layout}; pass {name}.to_dense()")
        if x.device != q.device:
            raise ValueError(f"q is on {q.device} and {name} on {x.device}; move them to one device")
        if name in ("k", "v") and (x.is_neg() or (x.stride(3) != 1 and x.numel())):
            raise ValueError(
                f"the elements of a row of {name} must be neighbors in memory, not negated lazily; got strides "
                f"{x.stride()}; {name}.contiguous().resolve_neg() copies it, so keep that copy for all steps"
            )
    if q.dtype not in DTYPES:
        raise ValueError(f"dtype {q.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    cached = (q.dtype, *(() if q.dtype == torch.float64 else CACHED))
    if k.dtype not in cached or v.dtype != k.dtype:
        raise ValueError(
            f"q is {q.dtype}, k {k.dtype} and v {v.dtype}; k and v must both be one of {', '.join(map(str, cached))}"
        )
    (batch, heads, queries, head_dim), value_dim = q.shape, v.shape[3]
    (kv_heads, keys), batch = sizes(k, page_table), batch if cu_q is None else len(cu_q) - 1
    for name, x, shape in (
        ("lengths", lengths, (batch,)),
        ("page_table", page_table, (batch, page_table.shape[-1] if page_table is not None and page_table.ndim else 0)),
        ("cu_seqlens_q", cu_q, (batch + 1,)),
    ):
        if x is None:
            continue
        if x.dtype not in (torch.int32, torch.int64) or tuple(x.shape) != shape or batch < 0:
            raise ValueError(
                f"{name} must be int32 or int64, of the shape {shape} for {batch} sequences; got {x.dtype}, "
                f"{tuple(x.shape)}"
            )
        if x.shape[-1] > 1 and x.stride(-1) != 1:
            raise ValueError(f"{name} must have neighbors along its last axis; got strides {x.stride()}")
    if v.shape[:3] != k.shape[:3]:
        raise ValueError(f"v must have the shape of k but for its width; got {tuple(v.shape)} and {tuple(k.shape)}")
    if head_dim != k.shape[3] or (page_table is None and len(k) != batch):
        raise ValueError(f"q and k must have the same batch and head_dim; got {tuple(q.shape)} and {tuple(k.shape)}")
    if page_table is not None and page_table.numel() and not k.shape[0] * k.shape[1]:
        raise ValueError(f"the page table has {page_table.numel()} entries, but k, {tuple(k.shape)}, has no pages")
    if heads and (not kv_heads or heads % kv_heads):
        raise ValueError(f"the {heads} heads of q must be a multiple of the {kv_heads} of k and v")
    for name, width in {"head_dim": head_dim, "value_dim": value_dim}.items():
        if not 1 <= width <= WIDEST:
            raise ValueError(f"{name} {width} is not supported; 1 to {WIDEST} are")
    if keys > LONGEST or heads * queries > LONGEST:
        raise ValueError(f"{keys} keys, {heads} heads and {queries} queries are too many: at most 2**29 are served")
    if sinks is not None and (sinks.shape != (heads,) or not sinks.is_contiguous() or sinks.dtype not in DTYPES):
        raise ValueError(
            f"sinks must be contiguous, of the shape ({heads},) and one of {', '.join(map(str, DTYPES))}; got "
            f"{tuple(sinks.shape)} of {sinks.dtype}"
        )
    if slopes is not None and (tuple(slopes.shape) not in ((heads,), (batch, heads)) or slopes.stride(-1) != 1):
        raise ValueError(
            f"alibi_slopes must be of the shape ({heads},) or ({batch}, {heads}), a row's numbers adjacent in memory; "
            f"got {tuple(slopes.shape)}, strides {slopes.stride()}"
        )
    for name, x in {"k_scale": k_scale, "v_scale": v_scale}.items():
        if x is not None and (x.dtype != torch.float32 or (x.numel() != 1 and tuple(x.shape) != (kv_heads,))):
            raise ValueError(f"{name} must be float32, one number or ({kv_heads},); got {x.dtype}, {tuple(x.shape)}")
    interpreted = not isinstance(parts_kernel, triton.JITFunction)
    if q.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"q is on {q.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if q.dtype == torch.bfloat16 and interpreted:
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")
# --8<-- [end:check]


# --8<-- [start:in_torch]
def gathered(cache: torch.Tensor, page_table: torch.Tensor) -> torch.Tensor:
    """Return pages as ``(batch, kv_heads, keys, width)``, copied."""
    return cache[page_table].flatten(1, 2).transpose(1, 2)


def in_torch(
    q, k, v, *, lengths=None, page_table=None, causal=False, window=(None, None), scale=None, softcap=None, sinks=None,
    alibi_slopes=None, k_scale=None, v_scale=None,
):  # fmt: skip
    """Compute result and ``lse`` by operations of torch, for queries that are not packed."""
    if page_table is not None:
        k, v = gathered(k, page_table), gathered(v, page_table)
    (batch, heads, queries, head_dim), (kv_heads, keys) = q.shape, k.shape[1:3]
    k, v = (x.to(q.dtype) if s is None else x.to(q.dtype) * s.view(-1, 1, 1) for x, s in ((k, k_scale), (v, v_scale)))
    k, v = (x.repeat_interleave(heads // kv_heads, dim=1) for x in (k, v))
    lengths = torch.full((batch,), keys, device=q.device) if lengths is None else lengths.clamp(0, keys)
    key, query = torch.arange(keys, device=q.device), torch.arange(queries, device=q.device)
    distance = (query + (lengths[:, None] - queries))[:, None, :, None] - key  # (batch, 1, queries, keys)
    left, right = (None if each == -1 else each for each in (window[0], 0 if causal else window[1]))
    seen = (key < lengths[:, None])[:, None, None].expand(batch, 1, queries, keys)
    if left is not None:
        seen = seen & (distance <= left)
    if right is not None:
        seen = seen & (-right <= distance)
    scores = q @ k.mT * (head_dim**-0.5 if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if alibi_slopes is not None:
        scores = scores - alibi_slopes[..., None, None] * distance.abs()
    scores = scores.masked_fill(~seen, -math.inf)
    lse = scores.logsumexp(-1) if keys else scores.sum(-1) - math.inf
    if sinks is not None:
        lse = torch.logaddexp(lse, sinks.to(lse.dtype)[:, None])
    weights = torch.exp(scores - lse.masked_fill(lse == -math.inf, 0)[..., None])
    return weights @ v.masked_fill(~seen.any(2)[..., None], 0), lse  # what no query sees may be NaN, and so is 0 * NaN
# --8<-- [end:in_torch]


def main():
    device = "cuda" if isinstance(parts_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)
    numbers = lambda *shape: torch.randn(*shape, dtype=torch.float64).to(device)

    print("## options")
    table = torch.randperm(6).view(2, 3).to(device)
    lengths = torch.tensor([11, 4], device=device)
    latent = numbers(2, 1, 12, 48)
    q, k, v = numbers(2, 4, 3, 40), numbers(2, 2, 12, 40), numbers(2, 2, 12, 24)
    pages = numbers(6, 4, 2, 40), numbers(6, 4, 2, 24)
    cases = {
        "two heads share one of k and v": ((q, k, v), {}),
        "lengths, causal": ((q, k, v), {"lengths": lengths, "causal": True}),
        "pages": ((q, *pages), {"lengths": lengths, "page_table": table}),
        "a window, 5 back": ((q, k, v), {"lengths": lengths, "window": (5, 0)}),
        "softcap": ((q, k, v), {"softcap": 2.0}),
        "sinks": ((q, k, v), {"sinks": numbers(4)}),
        "ALiBi": ((q, k, v), {"causal": True, "alibi_slopes": numbers(4).abs()}),
        "values inside of keys, as in MLA": ((numbers(2, 8, 1, 48), latent, latent[..., :32]), {"lengths": lengths}),
        "a window in pages, softcap and sinks": (
            (q, *pages), {"page_table": table, "window": (4, 0), "softcap": 2.0, "sinks": numbers(4)}
        ),
    }  # fmt: skip
    for name, (given, options) in cases.items():
        wanted = in_torch(*given, **options)
        same = all(
            torch.allclose(*each)
            for splits in (1, 3)
            for each in zip(decode_attention(*given, **options, splits=splits, return_lse=True), wanted, strict=True)
        )
        print(f"{name}: result and lse", "as by torch" if same else "NOT as by torch")

    print("## a cache in fp8")
    q, k, v = (x.float() for x in (q, k, v))
    k_scale, v_scale = (x.abs().amax((0, 2, 3)) / 448 for x in (k, v))
    small_k, small_v = ((x / s.view(-1, 1, 1)).to(torch.float8_e4m3fn) for x, s in ((k, k_scale), (v, v_scale)))
    found = decode_attention(q, small_k, small_v, k_scale=k_scale, v_scale=v_scale)
    same = torch.allclose(found, in_torch(q, small_k, small_v, k_scale=k_scale, v_scale=v_scale)[0], atol=1e-5)
    exact = in_torch(q, k, v)[0]
    print("as by torch with the same cache:", same)
    print(f"error by the cache, as a share of the result: {(found - exact).norm() / exact.norm():.2f}")

    print("## packed queries")
    counts = torch.tensor([0, 1, 4], device=device)  # one query, then three
    cache = {"lengths": lengths, "causal": True}
    packed = decode_attention(torch.cat([q[0, :, 2:], q[1]], 1).transpose(0, 1), k, v, cu_seqlens_q=counts, **cache)
    alone = [decode_attention(q[:1, :, 2:], k[:1], v[:1], lengths=lengths[:1], causal=True)]
    alone += [decode_attention(q[1:], k[1:], v[1:], lengths=lengths[1:], causal=True)]
    same = torch.allclose(packed.transpose(0, 1), torch.cat([each[0] for each in alone], 1))
    print("as each sequence by itself:", same)


if __name__ == "__main__":
    main()
