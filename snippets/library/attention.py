# SPDX-License-Identifier: Apache-2.0
"""Attention with gradients and the options that models ask for: of a batch, or of packed sequences of many lengths.

The lesson ``fusion/attention.py`` derives the formulas and has the plain kernels. With ``i`` a query, ``j`` a key that
it sees, and ``distance = i + shift - j``, where ``shift`` is ``keys - queries``, or 0 if aligned to the top left::

    product = scale * q[i] @ k[j]
    capped = softcap * tanh(product / softcap)                    # softcap=None: capped = product
    score = capped - alibi_slope * abs(distance) + bias[i, j]
    seen = -right <= distance <= left                             # window=(left, right); causal: right = 0
    lse = log(exp(sink) + sum(exp(score)))                        # over all keys that are seen
    p = exp(score - lse);  out = p @ v

Backward, from ``grad`` of the result and ``grad_lse``::

    delta = sum(grad * out) - grad_lse                            # for each query
    grad_product = p * (grad @ vᵀ - delta) * (1 - tanh(product / softcap)**2)
    grad_q = scale * grad_product @ k;  grad_k = scale * grad_productᵀ @ q;  grad_v = pᵀ @ grad
    grad_sink = -sum(exp(sink - lse) * delta)

- :func:`attention`: ``q`` ``(batch, heads, queries, head_dim)``
- :func:`attention_variable`: ``q`` ``(total, heads, head_dim)``, sequences packed one after another

Both are the same three kernels: a packed batch is a batch of one whose rows are cut into sequences. Tiles of keys that
no query of a tile sees are skipped; those that all see wholly have no mask. The sides of a tile are powers of two,
so a head of 192 columns is two pieces, of 128 and of 64; what is no sum of two such is padded inside. Nothing is added
up by atomics: equal inputs give equal bits. On a Hopper GPU, tiles come by tensor descriptors where the tensors lie as
the TMA wants it, else by pointers.

Traffic, in elements: ``q`` is read once and the result written once; each tile of queries reads the ``k`` and ``v``
that it sees. Backward: ``q``, ``out`` and ``grad`` once, ``k`` and ``v`` by each tile of queries; then ``k`` and ``v``
once, ``q`` and ``grad`` by each tile of keys.
Source: Milakov and Gimelshein, *Online normalizer calculation for softmax*, 2018; Dao, *FlashAttention-2*, 2023; Press
and others, *Train Short, Test Long* (ALiBi), 2022; Xiao and others, *Efficient Streaming Language Models with Attention
Sinks*, 2024.

Run it on a GPU with ``python attention.py``, or with ``TRITON_INTERPRET=1 python attention.py`` in the interpreter.
"""

import functools
import math
import operator
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
WIDEST = 256  # of head_dim, and of a value
LONGEST = 2**29  # queries or keys, so that positions and their differences are counted in 32 bits
MOST_SEQUENCES = 4096  # each program goes through all of their beginnings
LOG2E = tl.constexpr(math.log2(math.e))  # for exp2 in place of exp
COUNTS = ["sequences", "heads", "group", "queries", "keys", "tiles", "left", "right"]  # the same code for all of them


# --8<-- [start:place]
@triton.jit
def place_of(
    cu_ptr,
    cu_other_ptr,
    sequences,
    rows,
    others,
    tile,
    BLOCK: tl.constexpr,
    SEQUENCES: tl.constexpr,
):
    """Return where a tile's sequence begins, its length, the tile's first row in it; and begin and length of the other
    side: the keys of those queries, or the queries of those keys.

    Without ``cu_ptr`` all rows are one sequence. If there is no such tile, all five are 0.
    """
    begin, first, other_begin = 0, tile * BLOCK, 0
    if cu_ptr is not None:
        sequence, begin, length, first = tile_of(cu_ptr, sequences, rows, tile, BLOCK, SEQUENCES)
        rows = length
        is_one = sequence < sequences  # what follows the last sequence sees nothing
        other_begin = bounded(tl.load(cu_other_ptr + sequence, mask=is_one & (sequence > 0), other=0), others)
        other_end = bounded(tl.load(cu_other_ptr + sequence + 1, mask=is_one, other=0), others)
        others = tl.where(is_one, tl.maximum(other_end - other_begin, 0), 0)
    return begin, rows, first, other_begin, others


@triton.jit
def tile_of(cu_ptr, sequences, rows, tile, BLOCK: tl.constexpr, SEQUENCES: tl.constexpr):
    """Return a tile's sequence, its begin and length, and the tile's first row in it.

    What follows the last sequence counts as one more, with the number ``sequences``.
    """
    sequence = tl.arange(0, SEQUENCES)
    begin = bounded(tl.load(cu_ptr + sequence, mask=(sequence > 0) & (sequence <= sequences), other=0), rows)
    end = bounded(tl.load(cu_ptr + sequence + 1, mask=sequence < sequences, other=rows), rows)
    length = tl.where(sequence <= sequences, tl.maximum(end - begin, 0), 0)
    tiles = tl.cdiv(length, BLOCK)
    before = tl.cumsum(tiles.to(tl.int64), axis=0) - tiles  # 64 bits: wrong lengths may add up to any number
    here = (before <= tile) & (tile < before + tiles)  # true for one sequence at most
    first = (tile - tl.sum(tl.where(here, before, 0), axis=0)).to(tl.int32) * BLOCK
    length = tl.sum(tl.where(here, length, 0), axis=0)
    begin = tl.sum(tl.where(here, begin, 0), axis=0)
    return tl.sum(tl.where(here, sequence, 0), axis=0), begin, length, tl.where(length > 0, first, 0)


@triton.jit
def bounded(cu, rows):
    """Return a number of ``cu_seqlens``, of 32 or 64 bits, inside of the tensor, whatever it says."""
    return tl.minimum(tl.maximum(cu, 0), rows).to(tl.int32)
# --8<-- [end:place]


# --8<-- [start:tiles]
@triton.jit
def tiles_seen(first, others, shift, left, right, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Return which of the keys a tile of queries sees, in tiles of ``BLOCK``: where the first begins, from where to
    where all queries see all keys, and the end.

    A query sees ``query + shift - left`` to ``query + shift + right``. The same says which queries a tile of keys is
    seen by, with ``-shift``, and left and right exchanged.
    """
    start, whole, whole_end, end = 0, 0, others // BLOCK * BLOCK, others
    if left is not None:  # the first query sees furthest back, the last one least far
        start = tl.maximum(first + shift - left, 0) // BLOCK * BLOCK
        whole = tl.cdiv(tl.maximum(first + ROWS - 1 + shift - left, 0), BLOCK) * BLOCK
    if right is not None:  # and the other way around
        whole_end = tl.minimum(whole_end, tl.maximum(first + shift + right + 1, 0) // BLOCK * BLOCK)
        end = tl.minimum(end, first + ROWS + shift + right)
    return start, whole, tl.maximum(whole, whole_end), end


@triton.jit
def visible(query, key, queries, keys, shift, left, right):
    seen = (query < queries) & (key < keys)
    if left is not None:
        seen = seen & (key >= query + (shift - left))
    if right is not None:
        seen = seen & (key <= query + (shift + right))
    return seen
# --8<-- [end:tiles]


# --8<-- [start:load]
@triton.jit
def head_of(source, more, strides, batch, head, begin, DESCRIBED: tl.constexpr):
    """Return where a head of a sequence begins; or descriptors of a tile's pieces, which cover all heads."""
    if DESCRIBED:
        if more is None:  # noqa: SIM108, for both sides of an expression have one type in Triton
            source = (source,)
        else:
            source = source, more
    else:
        stride_batch, stride_head, stride_row = strides
        source += tl.cast(batch, tl.int64) * stride_batch + tl.cast(head, tl.int64) * stride_head
        source += tl.cast(begin, tl.int64) * stride_row
    return source


@triton.jit
def piece_of(
    ptr, stride, first, rows, HEIGHT: tl.constexpr, COLUMN: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr
):
    """Return pointers to the columns of a tile from ``COLUMN`` on, and which of its elements there are."""
    down, right = tl.arange(0, HEIGHT)[:, None], COLUMN + tl.arange(0, BLOCK)[None, :]
    mask = down < rows - first
    if COLUMN + BLOCK > WIDTH:
        mask = mask & (right < WIDTH)
    return ptr + tl.cast(first, tl.int64) * stride + (down * stride + right), mask


@triton.jit
def load_rows(
    source,
    strides,
    batch,
    head,
    begin,
    first,
    rows,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCKS: tl.constexpr,
    DESCRIBED: tl.constexpr,
):
    """Load rows of a sequence from ``first`` on, cut into a tuple of pieces of ``BLOCKS`` columns.

    After the last row come zeros, or by a descriptor what follows there. In the columns from ``WIDTH`` on are zeros.
    """
    pieces = ()
    for i in tl.static_range(len(BLOCKS)):
        if DESCRIBED:
            piece = source[i].load([batch, head, begin + first, i * BLOCKS[0]]).reshape(HEIGHT, BLOCKS[i])
        else:
            ptrs, mask = piece_of(source, strides[2], first, rows, HEIGHT, i * BLOCKS[0], BLOCKS[i], WIDTH)
            piece = tl.load(ptrs, mask=mask, other=0.0)
        pieces += (piece,)
    return pieces


@triton.jit
def store_rows(ptr, strides, first, rows, pieces, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, BLOCKS: tl.constexpr):
    for i in tl.static_range(len(BLOCKS)):
        ptrs, mask = piece_of(ptr, strides[2], first, rows, HEIGHT, i * BLOCKS[0], BLOCKS[i], WIDTH)
        tl.store(ptrs, pieces[i], mask=mask)  # rounded to the tensor's dtype
# --8<-- [end:load]


@triton.jit
def zeros(HEIGHT: tl.constexpr, BLOCKS: tl.constexpr, COMPUTE: tl.constexpr):
    """Return what :func:`load_rows` does, of zeros."""
    pieces = ()
    for i in tl.static_range(len(BLOCKS)):
        pieces += (tl.full((HEIGHT, BLOCKS[i]), 0.0, COMPUTE),)  # tl.zeros takes no such shape in Triton 3.7
    return pieces


@triton.jit
def scaled(pieces, factor):
    result = ()
    for i in tl.static_range(len(pieces)):
        result += (pieces[i] * factor,)
    return result


# --8<-- [start:products]
@triton.jit
def products(a, b, COMPUTE: tl.constexpr):
    """Return the product of each row of ``a`` with each row of ``b``."""
    product = tl.dot(
        a[0], b[0].T,
        input_precision="ieee", out_dtype=COMPUTE,
    )  # fmt: skip
    for i in tl.static_range(1, len(a)):
        product = tl.dot(
            a[i], b[i].T, product,
            input_precision="ieee", out_dtype=COMPUTE,
        )  # fmt: skip
    return product
# --8<-- [end:products]


@triton.jit
def add_weighted(pieces, weight, rows, COMPUTE: tl.constexpr):
    """Add ``weight @ rows``."""
    weight = weight.to(rows[0].dtype)
    result = ()
    for i in tl.static_range(len(rows)):
        result += (tl.dot(weight, rows[i], pieces[i], input_precision="ieee", out_dtype=COMPUTE),)
    return result


# --8<-- [start:scores]
@triton.jit
def scores_of(
    product,
    query,
    key,
    queries,
    keys,
    shift,
    slope_ptr,
    bias_ptr,
    bias_strides,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    LATER: tl.constexpr,
):
    """Return the scores times log2(e), or with ``LATER`` not yet scaled; and the softcap's derivative."""
    derivative = 1.0
    score = product
    if SOFTCAP is not None:
        tanh = 1 - 2 / (1 + tl.exp2(product * (2 * SCALE / SOFTCAP * LOG2E)))
        derivative = 1 - tanh * tanh
        score = tanh * (SOFTCAP * LOG2E)
    elif not LATER:
        score = product * (SCALE * LOG2E)
    if slope_ptr is not None:
        slope = tl.load(slope_ptr).to(score.dtype) * LOG2E
        score -= slope * tl.abs(query + shift - key)
    if bias_ptr is not None:
        stride_query, stride_key = bias_strides
        ptrs = bias_ptr + query.to(tl.int64) * stride_query + key.to(tl.int64) * stride_key
        bias = tl.load(ptrs, mask=(query < queries) & (key < keys), other=0.0)
        score += bias.to(score.dtype) * LOG2E
    return score, derivative


@triton.jit
def bias_offset(strides, batch, head):
    stride_batch, stride_head, _, _ = strides
    return tl.cast(batch, tl.int64) * stride_batch + tl.cast(head, tl.int64) * stride_head


@triton.jit
def all_finite(pieces):
    broken = 0
    for i in tl.static_range(len(pieces)):
        broken += tl.max(tl.where(tl.abs(pieces[i]) < float("inf"), 0, 1))
    return broken == 0


@triton.jit
def poisoned(weight, seen, rows):
    """Return weights and rows to multiply, without what isn't seen: 0 * NaN is NaN, and so is 0 * inf.

    A row that is not finite becomes zeros, and its weights become NaN for those who see it.
    """
    pieces = ()
    for i in tl.static_range(len(rows)):
        finite = tl.abs(rows[i]) < float("inf")
        poison = tl.max(tl.where(finite, 0, 1), axis=1)[None, :] > 0
        weight = tl.where(poison, float("nan"), weight)
        pieces += (tl.where(finite, rows[i], 0.0),)
    return tl.where(seen, weight, 0.0), pieces
# --8<-- [end:scores]


# --8<-- [start:forward]
@triton.jit
def attend(
    maximum,
    total,
    accumulator,
    start,
    end,
    hole,
    hole_end,
    common,
    MASKED: tl.constexpr,
    GUARDED: tl.constexpr,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    LATER: tl.constexpr,
    DESCRIBED: tl.constexpr,
    COMPUTE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    HEAD_BLOCKS: tl.constexpr,
    VALUE_BLOCKS: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Go on through the keys from ``start`` to ``end``, leaving out those from ``hole`` to ``hole_end``."""
    (
        q, k_source, v_source, k_strides, v_strides, batch, kv_head, begin_k, slope_ptr, bias_ptr, bias_strides,
        first, queries, keys, shift, left, right,
    ) = common  # fmt: skip
    FACTOR: tl.constexpr = SCALE * LOG2E if LATER else 1.0
    query = first + tl.arange(0, BLOCK_Q)[:, None]
    for step in range(start, end - (hole_end - hole), BLOCK_K):
        first_key = step
        if MASKED:
            first_key = tl.where(step < hole, step, step + (hole_end - hole))
        k = load_rows(
            k_source, k_strides, batch, kv_head, begin_k, first_key, keys, BLOCK_K, HEAD_DIM, HEAD_BLOCKS, DESCRIBED
        )  # fmt: skip
        product = products(q, k, COMPUTE)
        key = first_key + tl.arange(0, BLOCK_K)[None, :]
        score, _ = scores_of(
            product, query, key, queries, keys, shift, slope_ptr, bias_ptr, bias_strides, SCALE, SOFTCAP, LATER
        )  # fmt: skip
        if MASKED:
            seen = visible(query, key, queries, keys, shift, left, right)
            score = tl.where(seen, score, -float("inf"))
        new_maximum = tl.maximum(maximum, tl.max(score, axis=1) * FACTOR)
        # all scores are -inf so far: -inf - 0, not -inf - -inf, which is NaN
        below = tl.where(new_maximum == -float("inf"), 0.0, new_maximum)
        rescale = tl.exp2(maximum - below)
        weight = tl.exp2(score * FACTOR - below[:, None])
        total = total * rescale + tl.sum(weight, axis=1)
        accumulator = scaled(accumulator, rescale[:, None])
        v = load_rows(
            v_source, v_strides, batch, kv_head, begin_k, first_key, keys, BLOCK_K, VALUE_DIM, VALUE_BLOCKS, DESCRIBED
        )  # fmt: skip
        if GUARDED:
            weight, v = poisoned(weight, seen, v)
        accumulator = add_weighted(accumulator, weight, v, COMPUTE)
        maximum = new_maximum
    return maximum, total, accumulator


@triton.jit(do_not_specialize=COUNTS)
def attention_kernel(
    q_source,
    k_source,
    v_source,
    q_more,
    k_more,
    v_more,
    out_ptr,
    lse_ptr,
    q_strides,
    k_strides,
    v_strides,
    out_strides,
    cu_q_ptr,
    cu_k_ptr,
    sinks_ptr,
    slopes_ptr,
    slopes_stride,
    bias_ptr,
    bias_strides,
    sequences,
    heads,
    group,
    queries,
    keys,
    tiles,
    left,
    right,
    TOP_LEFT: tl.constexpr,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    LATER: tl.constexpr,
    DESCRIBED: tl.constexpr,
    COMPUTE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    HEAD_BLOCKS: tl.constexpr,
    VALUE_BLOCKS: tl.constexpr,
    SEQUENCES: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Compute the result, and ``lse``, of a tile of queries of one head.

    Parameters:
        q_source, k_source, v_source: ``(batch, heads or heads // group, rows, HEAD_DIM or VALUE_DIM)``, as pointers,
            or if ``DESCRIBED`` as descriptors of tiles ``(1, 1, BLOCK_Q or BLOCK_K, block)``, where ``block`` is the
            first of ``HEAD_BLOCKS`` or ``VALUE_BLOCKS``.
        q_more, k_more, v_more: Descriptors for the second block, or None. Triton launches no tuple of descriptors
            before 3.8.
        q_strides, k_strides, v_strides, out_strides: Of batch, head and row, in elements.
        lse_ptr: ``(batch, heads, queries)`` of the dtype ``COMPUTE``.
        cu_q_ptr, cu_k_ptr: Where each sequence begins, ``(sequences + 1,)``; None if each of the batch is one.
        sinks_ptr: ``(heads,)``, or None.
        slopes_ptr: ``(batch or 1, heads)``, ``slopes_stride`` apart, or None.
        bias_ptr: ``(batch, heads, queries, keys)``, ``bias_strides`` apart, which may be 0; or None.
        queries, keys: Rows of ``q`` and of ``k``; of all sequences, if they are packed.
        tiles: How many of queries there may be in each of the batch.
        left, right: How many keys before and after its own place a query sees; None for all.
        LATER: Whether scores are scaled only in the exponent, which is cheaper. Nothing may be added to them then.
        HEAD_BLOCKS, VALUE_BLOCKS: Columns of a tile's pieces, one or two powers of two that ``HEAD_DIM`` or
            ``VALUE_DIM`` columns fit into.
        SEQUENCES: A power of two above ``sequences``.
    """
    # the last tile of queries sees most keys, if it is causal, so it begins first
    tile, pair = tiles - 1 - tl.program_id(axis=0) % tiles, tl.program_id(axis=0) // tiles
    batch, head, rows = pair // heads, pair % heads, queries
    begin_q, queries, first, begin_k, keys = place_of(
        cu_q_ptr, cu_k_ptr, sequences, queries, keys, tile, BLOCK_Q, SEQUENCES
    )  # fmt: skip
    shift = 0 if TOP_LEFT else keys - queries
    kv_head = head // group
    q_source = head_of(q_source, q_more, q_strides, batch, head, begin_q, DESCRIBED)
    k_source = head_of(k_source, k_more, k_strides, batch, kv_head, begin_k, DESCRIBED)
    v_source = head_of(v_source, v_more, v_strides, batch, kv_head, begin_k, DESCRIBED)
    out_ptr = head_of(out_ptr, None, out_strides, batch, head, begin_q, False)
    if slopes_ptr is not None:
        slopes_ptr += batch * slopes_stride + head
    if bias_ptr is not None:
        bias_ptr += bias_offset(bias_strides, batch, head)
    q = load_rows(
        q_source, q_strides, batch, head, begin_q, first, queries, BLOCK_Q, HEAD_DIM, HEAD_BLOCKS, DESCRIBED
    )  # fmt: skip
    start, whole, whole_end, end = tiles_seen(first, keys, shift, left, right, BLOCK_Q, BLOCK_K)
    common = (
        q, k_source, v_source, k_strides, v_strides, batch, kv_head, begin_k, slopes_ptr, bias_ptr, bias_strides[2:],
        first, queries, keys, shift, left, right,
    )  # fmt: skip
    maximum = tl.full((BLOCK_Q,), -float("inf"), COMPUTE)
    total = tl.zeros((BLOCK_Q,), COMPUTE)
    accumulator = zeros(BLOCK_Q, VALUE_BLOCKS, COMPUTE)
    maximum, total, accumulator = attend(  # what all of these queries see, MASKED=False
        maximum, total, accumulator, whole, whole_end, 0, 0, common, False, False,
        SCALE, SOFTCAP, LATER, DESCRIBED, COMPUTE, HEAD_DIM, VALUE_DIM, HEAD_BLOCKS, VALUE_BLOCKS, BLOCK_Q, BLOCK_K,
    )  # fmt: skip
    maximum, total, accumulator = attend(  # what some of them see, MASKED=True
        maximum, total, accumulator, start, end, whole, whole_end, common, True, False,
        SCALE, SOFTCAP, LATER, DESCRIBED, COMPUTE, HEAD_DIM, VALUE_DIM, HEAD_BLOCKS, VALUE_BLOCKS, BLOCK_Q, BLOCK_K,
    )  # fmt: skip
    if not all_finite(accumulator):  # perhaps only by what a query doesn't see: once more, GUARDED=True
        maximum = tl.full((BLOCK_Q,), -float("inf"), COMPUTE)
        total = tl.zeros((BLOCK_Q,), COMPUTE)
        accumulator = zeros(BLOCK_Q, VALUE_BLOCKS, COMPUTE)
        maximum, total, accumulator = attend(
            maximum, total, accumulator, start, end, 0, 0, common, True, True,
            SCALE, SOFTCAP, LATER, DESCRIBED, COMPUTE, HEAD_DIM, VALUE_DIM, HEAD_BLOCKS, VALUE_BLOCKS, BLOCK_Q, BLOCK_K,
        )  # fmt: skip
    if sinks_ptr is not None:  # one more score, without a value
        sink = tl.load(sinks_ptr + head).to(COMPUTE) * LOG2E
        new_maximum = tl.maximum(maximum, sink)
        below = tl.where(new_maximum == -float("inf"), 0.0, new_maximum)
        rescale = tl.exp2(maximum - below)
        total = total * rescale + tl.exp2(sink - below)
        accumulator = scaled(accumulator, rescale[:, None])
        maximum = new_maximum
    none = total == 0.0  # no key, or all scores -inf: out is 0, and lse is -inf
    lse = tl.where(none, -float("inf"), maximum / LOG2E + tl.log(tl.where(none, 1.0, total)))
    out = scaled(accumulator, 1 / tl.where(none, 1.0, total)[:, None])
    store_rows(out_ptr, out_strides, first, queries, out, BLOCK_Q, VALUE_DIM, VALUE_BLOCKS)
    query = first + tl.arange(0, BLOCK_Q)
    tl.store(lse_ptr + pair.to(tl.int64) * rows + begin_q + query, lse, mask=query < queries)
# --8<-- [end:forward]


# --8<-- [start:grad_q]
@triton.jit
def add_to_grad_q(
    grad_q,
    lse2,
    delta,
    start,
    end,
    hole,
    hole_end,
    common,
    MASKED: tl.constexpr,
    GUARDED: tl.constexpr,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    LATER: tl.constexpr,
    DESCRIBED: tl.constexpr,
    COMPUTE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    HEAD_BLOCKS: tl.constexpr,
    VALUE_BLOCKS: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Add what the keys from ``start`` to ``end``, without the hole, contribute to the gradient of q."""
    (
        q, grad, k_source, v_source, k_strides, v_strides, batch, kv_head, begin_k, slope_ptr, bias_ptr, bias_strides,
        first, queries, keys, shift, left, right,
    ) = common  # fmt: skip
    FACTOR: tl.constexpr = SCALE * LOG2E if LATER else 1.0
    query = first + tl.arange(0, BLOCK_Q)[:, None]
    for step in range(start, end - (hole_end - hole), BLOCK_K):
        first_key = step
        if MASKED:
            first_key = tl.where(step < hole, step, step + (hole_end - hole))
        k = load_rows(
            k_source, k_strides, batch, kv_head, begin_k, first_key, keys, BLOCK_K, HEAD_DIM, HEAD_BLOCKS, DESCRIBED
        )  # fmt: skip
        v = load_rows(
            v_source, v_strides, batch, kv_head, begin_k, first_key, keys, BLOCK_K, VALUE_DIM, VALUE_BLOCKS, DESCRIBED
        )  # fmt: skip
        product = products(q, k, COMPUTE)
        key = first_key + tl.arange(0, BLOCK_K)[None, :]
        score, derivative = scores_of(
            product, query, key, queries, keys, shift, slope_ptr, bias_ptr, bias_strides, SCALE, SOFTCAP, LATER
        )  # fmt: skip
        p = tl.exp2(score * FACTOR - lse2[:, None])
        if MASKED:
            seen = visible(query, key, queries, keys, shift, left, right)
            p = tl.where(seen, p, 0.0)
        grad_p = products(grad, v, COMPUTE)
        grad_product = p * (grad_p - delta[:, None]) * derivative
        if GUARDED:
            grad_product, k = poisoned(grad_product, seen, k)
        grad_q = add_weighted(grad_q, grad_product, k, COMPUTE)
    return grad_q


@triton.jit(do_not_specialize=COUNTS)
def grad_q_kernel(
    q_source,
    k_source,
    v_source,
    grad_source,
    q_more,
    k_more,
    v_more,
    grad_more,
    out_ptr,
    lse_ptr,
    grad_lse_ptr,
    delta_ptr,
    lse2_ptr,
    grad_q_ptr,
    q_strides,
    k_strides,
    v_strides,
    grad_strides,
    out_strides,
    grad_q_strides,
    cu_q_ptr,
    cu_k_ptr,
    slopes_ptr,
    slopes_stride,
    bias_ptr,
    bias_strides,
    sequences,
    heads,
    group,
    queries,
    keys,
    tiles,
    left,
    right,
    TOP_LEFT: tl.constexpr,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    LATER: tl.constexpr,
    DESCRIBED: tl.constexpr,
    COMPUTE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    HEAD_BLOCKS: tl.constexpr,
    VALUE_BLOCKS: tl.constexpr,
    SEQUENCES: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Compute the gradient of a tile of queries of one head, and ``delta`` and ``lse * log2(e)`` for the next kernel.

    Parameters, beside those of :func:`attention_kernel`:
        grad_source: The gradient of the result, ``(batch, heads, queries, VALUE_DIM)``, as ``q_source`` is given.
        grad_lse_ptr: That of ``lse``, contiguous, or None.
        delta_ptr, lse2_ptr: Like ``lse``.
        grad_q_ptr: Like ``q``.
    """
    tile, pair = tiles - 1 - tl.program_id(axis=0) % tiles, tl.program_id(axis=0) // tiles
    batch, head, rows = pair // heads, pair % heads, queries
    begin_q, queries, first, begin_k, keys = place_of(
        cu_q_ptr, cu_k_ptr, sequences, queries, keys, tile, BLOCK_Q, SEQUENCES
    )  # fmt: skip
    shift = 0 if TOP_LEFT else keys - queries
    kv_head = head // group
    q_source = head_of(q_source, q_more, q_strides, batch, head, begin_q, DESCRIBED)
    k_source = head_of(k_source, k_more, k_strides, batch, kv_head, begin_k, DESCRIBED)
    v_source = head_of(v_source, v_more, v_strides, batch, kv_head, begin_k, DESCRIBED)
    grad_source = head_of(grad_source, grad_more, grad_strides, batch, head, begin_q, DESCRIBED)
    out_ptr = head_of(out_ptr, None, out_strides, batch, head, begin_q, False)
    grad_q_ptr = head_of(grad_q_ptr, None, grad_q_strides, batch, head, begin_q, False)
    if slopes_ptr is not None:
        slopes_ptr += batch * slopes_stride + head
    if bias_ptr is not None:
        bias_ptr += bias_offset(bias_strides, batch, head)
    q = load_rows(
        q_source, q_strides, batch, head, begin_q, first, queries, BLOCK_Q, HEAD_DIM, HEAD_BLOCKS, DESCRIBED
    )  # fmt: skip
    grad = load_rows(
        grad_source, grad_strides, batch, head, begin_q, first, queries, BLOCK_Q, VALUE_DIM, VALUE_BLOCKS, DESCRIBED
    )  # fmt: skip
    out = load_rows(
        out_ptr, out_strides, batch, head, begin_q, first, queries, BLOCK_Q, VALUE_DIM, VALUE_BLOCKS, False
    )  # fmt: skip
    query = first + tl.arange(0, BLOCK_Q)
    number = pair.to(tl.int64) * rows + begin_q + query
    delta = tl.zeros((BLOCK_Q,), COMPUTE)
    for i in tl.static_range(len(VALUE_BLOCKS)):
        delta += tl.sum(grad[i].to(COMPUTE) * out[i].to(COMPUTE), axis=1)
    if grad_lse_ptr is not None:
        delta -= tl.load(grad_lse_ptr + number, mask=query < queries, other=0.0)
    lse = tl.load(lse_ptr + number, mask=query < queries, other=-float("inf"))
    lse2 = tl.where(lse == -float("inf"), float("inf"), lse * LOG2E)  # who sees nothing gets p = exp2(-inf) = 0
    tl.store(delta_ptr + number, delta, mask=query < queries)
    tl.store(lse2_ptr + number, lse2, mask=query < queries)
    start, whole, whole_end, end = tiles_seen(first, keys, shift, left, right, BLOCK_Q, BLOCK_K)
    common = (
        q, grad, k_source, v_source, k_strides, v_strides, batch, kv_head, begin_k, slopes_ptr, bias_ptr,
        bias_strides[2:], first, queries, keys, shift, left, right,
    )  # fmt: skip
    grad_q = zeros(BLOCK_Q, HEAD_BLOCKS, COMPUTE)
    grad_q = add_to_grad_q(  # MASKED=False
        grad_q, lse2, delta, whole, whole_end, 0, 0, common, False, False,
        SCALE, SOFTCAP, LATER, DESCRIBED, COMPUTE, HEAD_DIM, VALUE_DIM, HEAD_BLOCKS, VALUE_BLOCKS, BLOCK_Q, BLOCK_K,
    )  # fmt: skip
    grad_q = add_to_grad_q(  # MASKED=True
        grad_q, lse2, delta, start, end, whole, whole_end, common, True, False,
        SCALE, SOFTCAP, LATER, DESCRIBED, COMPUTE, HEAD_DIM, VALUE_DIM, HEAD_BLOCKS, VALUE_BLOCKS, BLOCK_Q, BLOCK_K,
    )  # fmt: skip
    if not all_finite(grad_q):  # GUARDED=True
        grad_q = add_to_grad_q(
            zeros(BLOCK_Q, HEAD_BLOCKS, COMPUTE), lse2, delta, start, end, 0, 0, common, True, True,
            SCALE, SOFTCAP, LATER, DESCRIBED, COMPUTE, HEAD_DIM, VALUE_DIM, HEAD_BLOCKS, VALUE_BLOCKS, BLOCK_Q, BLOCK_K,
        )  # fmt: skip
    store_rows(grad_q_ptr, grad_q_strides, first, queries, scaled(grad_q, SCALE), BLOCK_Q, HEAD_DIM, HEAD_BLOCKS)
# --8<-- [end:grad_q]


# --8<-- [start:grad_k_v]
@triton.jit
def add_to_grad_k_v(
    grad_k,
    grad_v,
    start,
    end,
    hole,
    hole_end,
    common,
    MASKED: tl.constexpr,
    GUARDED: tl.constexpr,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    LATER: tl.constexpr,
    DESCRIBED: tl.constexpr,
    COMPUTE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    HEAD_BLOCKS: tl.constexpr,
    VALUE_BLOCKS: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Add what the queries from ``start`` to ``end``, without the hole, contribute, of each head of a group in turn."""
    (
        k, v, q_source, grad_source, q_more, grad_more, lse2_ptr, delta_ptr, q_strides, grad_strides, batch, begin_q,
        slopes_ptr, slopes_stride, bias_ptr, bias_strides, heads, first_head, group, rows, first_key, queries, keys,
        shift, left, right,
    ) = common  # fmt: skip
    FACTOR: tl.constexpr = SCALE * LOG2E if LATER else 1.0
    key = first_key + tl.arange(0, BLOCK_K)[:, None]
    tiles = tl.cdiv(tl.maximum(end - (hole_end - hole) - start, 0), BLOCK_Q)
    for step in range(0, group * tiles):
        head, first = first_head + step // tiles, start + step % tiles * BLOCK_Q
        if MASKED:
            first = tl.where(first < hole, first, first + (hole_end - hole))
        q_here = head_of(q_source, q_more, q_strides, batch, head, begin_q, DESCRIBED)
        grad_here = head_of(grad_source, grad_more, grad_strides, batch, head, begin_q, DESCRIBED)
        slope_ptr, bias_here = slopes_ptr, bias_ptr
        if slopes_ptr is not None:
            slope_ptr += batch * slopes_stride + head
        if bias_ptr is not None:
            bias_here += bias_offset(bias_strides, batch, head)
        q = load_rows(
            q_here, q_strides, batch, head, begin_q, first, queries, BLOCK_Q, HEAD_DIM, HEAD_BLOCKS, DESCRIBED
        )  # fmt: skip
        grad = load_rows(
            grad_here, grad_strides, batch, head, begin_q, first, queries, BLOCK_Q, VALUE_DIM, VALUE_BLOCKS, DESCRIBED
        )  # fmt: skip
        query = first + tl.arange(0, BLOCK_Q)
        number = (batch * heads + head).to(tl.int64) * rows + begin_q + query
        lse2 = tl.load(lse2_ptr + number, mask=query < queries, other=float("inf"))
        delta = tl.load(delta_ptr + number, mask=query < queries, other=0.0)
        product_t = products(k, q, COMPUTE)
        score_t, derivative_t = scores_of(
            product_t, query[None, :], key, queries, keys, shift, slope_ptr, bias_here, bias_strides[2:],
            SCALE, SOFTCAP, LATER,
        )  # fmt: skip
        p_t = tl.exp2(score_t * FACTOR - lse2[None, :])
        if MASKED:
            seen = visible(query[None, :], key, queries, keys, shift, left, right)
            p_t = tl.where(seen, p_t, 0.0)
        grad_p_t = products(v, grad, COMPUTE)
        grad_product_t = p_t * (grad_p_t - delta[None, :]) * derivative_t
        if GUARDED:
            p_t, grad = poisoned(p_t, seen, grad)
            grad_product_t, q = poisoned(grad_product_t, seen, q)
        grad_v = add_weighted(grad_v, p_t, grad, COMPUTE)
        grad_k = add_weighted(grad_k, grad_product_t, q, COMPUTE)
    return grad_k, grad_v


@triton.jit(do_not_specialize=COUNTS)
def grad_k_v_kernel(
    q_source,
    k_source,
    v_source,
    grad_source,
    q_more,
    k_more,
    v_more,
    grad_more,
    lse2_ptr,
    delta_ptr,
    grad_k_ptr,
    grad_v_ptr,
    q_strides,
    k_strides,
    v_strides,
    grad_strides,
    grad_k_strides,
    grad_v_strides,
    cu_q_ptr,
    cu_k_ptr,
    slopes_ptr,
    slopes_stride,
    bias_ptr,
    bias_strides,
    sequences,
    heads,
    group,
    queries,
    keys,
    tiles,
    left,
    right,
    TOP_LEFT: tl.constexpr,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    LATER: tl.constexpr,
    DESCRIBED: tl.constexpr,
    COMPUTE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    HEAD_BLOCKS: tl.constexpr,
    VALUE_BLOCKS: tl.constexpr,
    SEQUENCES: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Compute the gradients of a tile of keys, and of its values, of one head of ``k``.

    Parameters: as of :func:`grad_q_kernel`; ``tiles`` are those of keys.
    """
    tile, pair = tl.program_id(axis=0) % tiles, tl.program_id(axis=0) // tiles
    kv_heads, rows = heads // group, queries
    batch, kv_head = pair // kv_heads, pair % kv_heads
    begin_k, keys, first_key, begin_q, queries = place_of(
        cu_k_ptr, cu_q_ptr, sequences, keys, queries, tile, BLOCK_K, SEQUENCES
    )  # fmt: skip
    shift = 0 if TOP_LEFT else keys - queries
    k_source = head_of(k_source, k_more, k_strides, batch, kv_head, begin_k, DESCRIBED)
    v_source = head_of(v_source, v_more, v_strides, batch, kv_head, begin_k, DESCRIBED)
    grad_k_ptr = head_of(grad_k_ptr, None, grad_k_strides, batch, kv_head, begin_k, False)
    grad_v_ptr = head_of(grad_v_ptr, None, grad_v_strides, batch, kv_head, begin_k, False)
    k = load_rows(
        k_source, k_strides, batch, kv_head, begin_k, first_key, keys, BLOCK_K, HEAD_DIM, HEAD_BLOCKS, DESCRIBED
    )  # fmt: skip
    v = load_rows(
        v_source, v_strides, batch, kv_head, begin_k, first_key, keys, BLOCK_K, VALUE_DIM, VALUE_BLOCKS, DESCRIBED
    )  # fmt: skip
    # which queries see these keys: left and right, and so the shift, change sides
    start, whole, whole_end, end = tiles_seen(first_key, queries, -shift, right, left, BLOCK_K, BLOCK_Q)
    if first_key + BLOCK_K > keys:  # what follows the last key may be anything
        whole_end = whole
    common = (
        k, v, q_source, grad_source, q_more, grad_more, lse2_ptr, delta_ptr, q_strides, grad_strides, batch, begin_q,
        slopes_ptr, slopes_stride, bias_ptr, bias_strides, heads, kv_head * group, group, rows, first_key, queries,
        keys, shift, left, right,
    )  # fmt: skip
    grad_k = zeros(BLOCK_K, HEAD_BLOCKS, COMPUTE)
    grad_v = zeros(BLOCK_K, VALUE_BLOCKS, COMPUTE)
    grad_k, grad_v = add_to_grad_k_v(  # MASKED=True
        grad_k, grad_v, start, end, whole, whole_end, common, True, False,
        SCALE, SOFTCAP, LATER, DESCRIBED, COMPUTE, HEAD_DIM, VALUE_DIM, HEAD_BLOCKS, VALUE_BLOCKS, BLOCK_Q, BLOCK_K,
    )  # fmt: skip
    grad_k, grad_v = add_to_grad_k_v(  # MASKED=False
        grad_k, grad_v, whole, whole_end, 0, 0, common, False, False,
        SCALE, SOFTCAP, LATER, DESCRIBED, COMPUTE, HEAD_DIM, VALUE_DIM, HEAD_BLOCKS, VALUE_BLOCKS, BLOCK_Q, BLOCK_K,
    )  # fmt: skip
    if not (all_finite(grad_k) and all_finite(grad_v)):  # GUARDED=True
        grad_k = zeros(BLOCK_K, HEAD_BLOCKS, COMPUTE)
        grad_v = zeros(BLOCK_K, VALUE_BLOCKS, COMPUTE)
        grad_k, grad_v = add_to_grad_k_v(
            grad_k, grad_v, start, end, 0, 0, common, True, True,
            SCALE, SOFTCAP, LATER, DESCRIBED, COMPUTE, HEAD_DIM, VALUE_DIM, HEAD_BLOCKS, VALUE_BLOCKS, BLOCK_Q, BLOCK_K,
        )  # fmt: skip
    # what lies after the last key, finite or not, is in rows that are not stored
    store_rows(grad_k_ptr, grad_k_strides, first_key, keys, scaled(grad_k, SCALE), BLOCK_K, HEAD_DIM, HEAD_BLOCKS)
    store_rows(grad_v_ptr, grad_v_strides, first_key, keys, grad_v, BLOCK_K, VALUE_DIM, VALUE_BLOCKS)
# --8<-- [end:grad_k_v]


class Options(NamedTuple):
    """Hold what attention is: how scores are computed, and who sees what.

    Attributes:
        scale: Of the products.
        softcap: The bound of the scores, or None.
        left, right: How many keys before and after its own place a query sees, or None for all.
        top_left: Whether the first query and the first key are of the same place; else the last ones are.
    """

    scale: float
    softcap: float | None
    left: int | None
    right: int | None
    top_left: bool


# --8<-- [start:launches]
def attention_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_q: torch.Tensor | None,
    cu_k: torch.Tensor | None,
    sinks: torch.Tensor | None,
    slopes: torch.Tensor | None,
    bias: torch.Tensor | None,
    scale: float,
    softcap: float | None,
    left: int | None,
    right: int | None,
    top_left: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the result and ``lse``. A packed batch has the shape ``(1, heads, total, head_dim)``."""
    check_arguments(q, k, v, cu_q, cu_k, sinks, slopes, bias)
    options = Options(scale, softcap, left, right, top_left)
    out, lse = outputs(q, v, cu_q is not None)
    q, k, v = map(served, (q, k, v))
    launch(attention_kernel, (q, k, v), (out, lse), (out,), cu_q, cu_k, slopes, bias, options, sinks=(sinks,))
    return out, lse


def attention_backward(
    grad: torch.Tensor | None,
    grad_lse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    cu_q: torch.Tensor | None,
    cu_k: torch.Tensor | None,
    sinks: torch.Tensor | None,
    slopes: torch.Tensor | None,
    bias: torch.Tensor | None,
    scale: float,
    softcap: float | None,
    left: int | None,
    right: int | None,
    top_left: bool,
) -> list[torch.Tensor]:
    """Return the gradients of ``q``, ``k`` and ``v``, and of sinks if there are such."""
    packed = cu_q is not None
    grads = [like(x, packed) for x in (q, k, v)]
    if not q.numel():
        return [each.zero_() for each in grads] + ([] if sinks is None else [torch.zeros_like(sinks)])
    options = Options(scale, softcap, left, right, top_left)
    grad = torch.zeros_like(out) if grad is None else grad
    grad_lse = None if grad_lse is None else grad_lse.contiguous().resolve_neg()
    loaded = tuple(map(served, (q, k, v, grad)))
    delta, lse2 = torch.empty_like(lse), torch.empty_like(lse)
    others = cu_q, cu_k, slopes, bias, options
    grad_q, grad_k, grad_v = grads
    launch(grad_q_kernel, loaded, (out, lse, grad_lse, delta, lse2, grad_q), (out, grad_q), *others)
    launch(grad_k_v_kernel, loaded, (lse2, delta, grad_k, grad_v), (grad_k, grad_v), *others)
    if sinks is not None:
        share = torch.exp(sinks.to(lse.dtype)[:, None] - lse)  # of each query's weights: (batch, heads, queries)
        grads.append(-(share * delta).sum((0, 2)).to(sinks.dtype))
    return grads


def launch(kernel, loaded, others, strided, cu_q, cu_k, slopes, bias, options: Options, sinks=()) -> None:
    """Start a program of ``kernel`` for each tile that there may be, of queries or of keys, of each head.

    Args:
        loaded: ``q``, ``k``, ``v``, and for the backward the gradient of the result.
        others: What the kernel takes next; ``strided`` are those of which it wants the strides.
    """
    q, k, v, *_ = loaded
    (batch, heads, queries, head_dim), (kv_heads, keys), value_dim = q.shape, k.shape[1:3], v.shape[3]
    blocks = blocks_of(head_dim), blocks_of(value_dim)
    described = min(head_dim, value_dim) > 32 and has_tma(q.device) and all(map(can_be_described, loaded))
    tile = default_tile(kernel, q.dtype, *map(sum, blocks), described)
    if kernel is grad_k_v_kernel:
        rows, block, programs = keys, tile["BLOCK_K"], batch * kv_heads
    else:
        rows, block, programs = queries, tile["BLOCK_Q"], batch * heads
    sequences = 1 if cu_q is None else len(cu_q) - 1
    tiles = triton.cdiv(rows, block) if cu_q is None else most_tiles(rows, sequences, block)
    programs *= tiles
    if programs >= 2**31:  # CUDA's limit along one axis
        raise ValueError(f"{tuple(q.shape)} takes {programs} programs; 2**31 - 1 is the limit: split the batch")
    if not programs:
        return
    strides = [x.stride()[:3] for x in (*loaded, *strided)]
    more = [None] * len(loaded)
    if described:
        heights = tile["BLOCK_Q"], tile["BLOCK_K"], tile["BLOCK_K"], tile["BLOCK_Q"]
        columns = blocks[0], blocks[0], blocks[1], blocks[1]
        sizes = list(zip(loaded, heights, columns, strict=False))
        loaded = [describe(x, height, pieces[0]) for x, height, pieces in sizes]
        more = [describe(x, height, pieces[1]) if len(pieces) > 1 else None for x, height, pieces in sizes]
    scale, softcap, left, right, top_left = options
    added = slopes is not None or bias is not None
    with torch.cuda.device_of(q):  # Triton launches on the current device, which need not be that of the tensors
        kernel[(programs,)](
            *loaded, *more, *others, *strides, cu_q, cu_k, *sinks, slopes,
            0 if slopes is None or slopes.ndim == 1 else slopes.stride(0),
            bias, (0, 0, 0, 0) if bias is None else bias.expand(batch, heads, queries, keys).stride(),
            sequences, heads, heads // kv_heads, queries, keys, tiles, left, right,
            TOP_LEFT=top_left, SCALE=scale, SOFTCAP=softcap, LATER=scale > 0 and softcap is None and not added,
            DESCRIBED=described, COMPUTE=tl.float64 if q.dtype == torch.float64 else tl.float32,
            HEAD_DIM=head_dim, VALUE_DIM=value_dim, HEAD_BLOCKS=blocks[0], VALUE_BLOCKS=blocks[1],
            SEQUENCES=triton.next_power_of_2(sequences + 1), **tile,
        )  # fmt: skip
# --8<-- [end:launches]


def outputs(q: torch.Tensor, v: torch.Tensor, packed: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return room for the result and ``lse``."""
    out = like(q, packed, v.shape[3])
    return out, q.new_empty(q.shape[:3], dtype=torch.float64 if q.dtype == torch.float64 else torch.float32)


def like(x: torch.Tensor, packed: bool, width: int | None = None) -> torch.Tensor:
    """Return room like ``x``, contiguous; if it is packed, with the heads of a row side by side."""
    batch, heads, rows, columns = x.shape
    columns = columns if width is None else width
    if packed:
        return x.new_empty((batch, rows, heads, columns)).transpose(1, 2)
    return x.new_empty((batch, heads, rows, columns))


def served(x: torch.Tensor) -> torch.Tensor:
    """Return ``x``, copied if a row's elements are not adjacent in memory, or a tile's rows lie 2³¹ apart."""
    near = (x.stride(3) == 1 or x.shape[3] == 1) and abs(x.stride(2)) < 2**31 // 256
    return (x if near else x.contiguous()).resolve_neg()


def blocks_of(width: int) -> tuple[int, ...]:
    """Return the columns of a tile, in one piece or two: powers of two, of at least 16 for the matrix units.

    >>> blocks_of(64), blocks_of(80), blocks_of(100), blocks_of(192)
    ((64,), (64, 16), (128,), (128, 64))
    """
    whole = max(16, triton.next_power_of_2(width))
    half, rest = whole // 2, max(16, triton.next_power_of_2(width - whole // 2))
    return (half, rest) if whole > 64 and rest < half else (whole,)


def most_tiles(rows: int, sequences: int, block: int) -> int:
    """Return the most tiles that sequences have: each, and the rows after the last one, may end in a partial tile.

    >>> most_tiles(100, sequences=3, block=16)  # as many as 1, 1 and 1 row have, and 97 after them
    10
    """
    return min(rows, rows // block + sequences + 1)


# --8<-- [start:describe]
def describe(x: torch.Tensor, rows: int, columns: int) -> TensorDescriptor:
    """Describe all heads to the TMA, and a tile: so many rows of one head, with zeros beyond the last column."""
    # torch leaves the stride of an axis of 1 as it happens to be
    strides = [stride if size > 1 else columns for size, stride in zip(x.shape, x.stride(), strict=True)]
    return TensorDescriptor(x, list(x.shape), strides, [1, 1, rows, columns])


def can_be_described(x: torch.Tensor) -> bool:
    """Return whether the TMA can load ``x``: 16 bits, and rows at multiples of 16 bytes, each in a place of its own.

    >>> q = torch.zeros(1, 10, 2, 65, dtype=torch.float16)[..., :64].transpose(1, 2)
    >>> can_be_described(q), can_be_described(q.contiguous())
    (False, True)
    """
    steps = [stride * x.itemsize for size, stride in zip(x.shape[:3], x.stride()[:3], strict=True) if size > 1]
    fits = all(step % 16 == 0 and 0 < step < 2**40 for step in steps)
    return x.itemsize == 2 and x.numel() > 0 and x.data_ptr() % 16 == 0 and fits


@functools.cache
def has_tma(device: torch.device) -> bool:
    """Return whether to use descriptors: on Hopper, for which their tiles were chosen, and in the interpreter."""
    if device.type == "cpu":
        return True
    return torch.version.hip is None and torch.cuda.get_device_capability(device)[0] == 9
# --8<-- [end:describe]


def default_tile(
    kernel, dtype: torch.dtype, head_columns: int, value_columns: int, described: bool = False
) -> dict[str, int]:
    """Return queries and keys of a tile, and how to compile for it, as measured on an H200.

    >>> default_tile(attention_kernel, torch.bfloat16, 128, 128, described=True)
    {'BLOCK_Q': 128, 'BLOCK_K': 64, 'num_warps': 4, 'num_stages': 2}
    """
    widest, forward = max(head_columns, value_columns), kernel is attention_kernel
    if dtype == torch.float64:
        tile = 16, 16, 4, 1
    elif dtype == torch.float32:
        tile = (32, 32, 8, 2) if widest <= 64 else (32, 16, 8, 2) if forward else (16, 16, 8, 2)
    elif described:
        tile = described_tile(kernel, widest, head_columns + value_columns)
    elif value_columns < min(head_columns, 64):
        tile = 32, 32, 4, 2  # in larger ones, Triton 3.6 makes wrong results and reads foreign memory (on an H200)
    elif widest > 64:
        tile = (128, 64, 8, 2) if forward else (64, 64, 8, 2) if kernel is grad_q_kernel else (32, 64, 8, 2)
    else:
        tile = (128, 64, 4, 3) if forward else (64, 64, 4, 3) if kernel is grad_q_kernel else (32, 128, 8, 3)
    return dict(zip(("BLOCK_Q", "BLOCK_K", "num_warps", "num_stages"), tile, strict=True))


def described_tile(kernel, widest: int, columns: int) -> tuple[int, int, int, int]:
    """Return a tile that the TMA loads: what its rows leave room for, of registers and of shared memory.

    Args:
        widest: The columns of a head or of a value, whichever has more.
        columns: Those of both.
    """
    if kernel is attention_kernel:
        if widest <= 128:
            return (64, 64, 4, 3) if widest <= 64 else (128, 64, 4, 3) if widest < 128 else (128, 64, 4, 2)
        return (128, 64, 8, 3) if columns <= 384 else (128, 64, 8, 2)
    if kernel is grad_q_kernel:
        if widest < 128:
            return 64, 64, 4, 3
        return (128, 64, 8, 3) if columns <= 320 else (64, 64, 4, 3) if columns <= 384 else (128, 32, 8, 3)
    if widest <= 128:
        return (64, 64, 4, 3) if widest < 128 else (64, 64, 4, 2)
    return (32, 64, 4, 3) if columns <= 320 else (32, 64, 4, 2) if columns <= 384 else (64, 64, 8, 2)


# --8<-- [start:function]
class Attention(torch.autograd.Function):
    """Tie both directions together. Saved: q, k, v, the result and a number for each query."""

    @staticmethod
    def forward(q, k, v, cu_q, cu_k, sinks, slopes, bias, options):
        return attention_forward(q, k, v, cu_q, cu_k, sinks, slopes, bias, *options)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.options = inputs
        keep(ctx, tensors, output)

    @staticmethod
    def backward(ctx, grad, grad_lse):
        return *gradients(ctx, grad, grad_lse, AttentionBackward.apply), None

    @staticmethod
    def vmap(info, in_dims, *inputs):
        raise NotImplementedError(
            "attention is not mapped by torch.vmap; it takes a batch, so call it with q (batch, heads, queries, "
            "head_dim)"
        )


class AttentionBackward(torch.autograd.Function):
    """Refuse a second gradient. As a function of its own it also serves ``torch.func.grad`` and ``vjp``."""

    @staticmethod
    def forward(*inputs):
        return tuple(attention_backward(*inputs))

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("attention has no gradient of its gradient; call it without create_graph=True")

    vmap = Attention.vmap
# --8<-- [end:function]


def keep(ctx, tensors, output) -> None:
    """Save what the backward needs."""
    q, k, v, *others = tensors
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(q, k, v, *output, *others)


def gradients(ctx, grad, grad_lse, backward) -> list[torch.Tensor | None]:
    """Return the gradients of ``q``, ``k``, ``v``, ``cu_q``, ``cu_k``, sinks, slopes and bias."""
    found = list(backward(grad, grad_lse, *ctx.saved_tensors, *ctx.options))
    of_sinks = found[3] if len(found) > 3 else None
    return [*found[:3], None, None, of_sinks, None, None]


# The same for torch.compile, which does not look into a custom op


@torch.library.custom_op("triton_by_example_library::attention", mutates_args=())
def attention_op(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_q: torch.Tensor | None,
    cu_k: torch.Tensor | None,
    sinks: torch.Tensor | None,
    slopes: torch.Tensor | None,
    bias: torch.Tensor | None,
    scale: float,
    softcap: float | None,
    left: int | None,
    right: int | None,
    top_left: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    return attention_forward(q, k, v, cu_q, cu_k, sinks, slopes, bias, scale, softcap, left, right, top_left)


@torch.library.custom_op("triton_by_example_library::attention_backward", mutates_args=())
def attention_backward_op(
    grad: torch.Tensor | None,
    grad_lse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    cu_q: torch.Tensor | None,
    cu_k: torch.Tensor | None,
    sinks: torch.Tensor | None,
    slopes: torch.Tensor | None,
    bias: torch.Tensor | None,
    scale: float,
    softcap: float | None,
    left: int | None,
    right: int | None,
    top_left: bool,
) -> list[torch.Tensor]:
    return attention_backward(
        grad, grad_lse, q, k, v, out, lse, cu_q, cu_k, sinks, slopes, bias, scale, softcap, left, right, top_left
    )  # fmt: skip


@attention_op.register_fake
def _(q, k, v, cu_q, *_):
    return outputs(q, v, cu_q is not None)


@attention_backward_op.register_fake
def _(grad, grad_lse, q, k, v, out, lse, cu_q, cu_k, sinks, *_):
    found = [like(x, cu_q is not None) for x in (q, k, v)]
    return found if sinks is None else [*found, sinks.new_empty(sinks.shape)]


def setup_op_context(ctx, inputs, output):
    tensors, ctx.options = inputs[:8], inputs[8:]
    keep(ctx, tensors, output)


def attention_op_backward(ctx, grad, grad_lse):
    return *gradients(ctx, grad, grad_lse, attention_backward_op), *[None] * len(Options._fields)


attention_op.register_autograd(attention_op_backward, setup_context=setup_op_context)


# --8<-- [start:host]
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: tuple[int | None, int | None] = (None, None),
    top_left: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Return ``softmax(scale * q @ kᵀ) @ v`` of each head; it has gradients for ``q``, ``k``, ``v`` and ``sinks``.

    As torch's ``scaled_dot_product_attention``: no option, but ``causal=True, top_left=True`` for ``is_causal=True``.

    Args:
        q: ``(batch, heads, queries, head_dim)`` on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``;
            head_dim at most ``WIDEST``. The elements of a row are neighbors in memory, heads and rows may lie anywhere,
            as after ``.transpose(1, 2)``; what lies otherwise is copied. Under autocast, ``q``, ``k`` and ``v`` are
            rounded to its dtype first, as by torch's own function.
        k: ``(batch, kv_heads, keys, head_dim)``, likewise. heads is a multiple of kv_heads, and ``heads // kv_heads``
            heads in a row share a head of ``k`` and ``v``.
        v: ``(batch, kv_heads, keys, value_dim)``, likewise.
        causal: Whether a query sees no key that is later than it: the same as a window with ``right`` 0.
        window: ``(left, right)``: how many keys before and after its own place a query sees, beside that one. None, or
            -1, for all of them.
        top_left: Whether query 0 has the place of key 0. Else the last query has the place of the last key, as in
            flash-attention since 2.1. It matters if there are not as many queries as keys.
        scale: Of the products; ``head_dim ** -0.5`` unless told. Kernels are compiled for each that is used, and for
            each ``softcap``.
        softcap: Bounds scores: ``softcap * tanh(score / softcap)``. None, or 0, for none.
        sinks: ``(heads,)`` of one of ``DTYPES``: a score of each head that is added to those of every query, and has no
            value, so that weights add up to less than 1.
        alibi_slopes: ``(heads,)`` or ``(batch, heads)``: of each score, slope times the distance between query and key
            is taken off. It gets no gradient.
        bias: Of a shape that broadcasts to ``(batch, heads, queries, keys)``, added to the scores after the softcap; it
            is not copied. -inf hides a key. It gets no gradient.
        return_lse: Whether to return ``lse``, too.

    Returns:
        A new tensor ``(batch, heads, queries, value_dim)`` of the dtype of ``q``, contiguous, computed in float32, or
        in float64 for float64, with the weights rounded to the dtype of ``v`` before they meet it. With ``return_lse``
        also the logarithm of the sum of ``exp(score)`` and of ``exp(sink)``, ``(batch, heads, queries)``, in float32 or
        float64; it has gradients, too. A query that sees no key gets zeros and, without a sink, a ``lse`` of -inf.
        What the window hides from a query may be anything, also NaN or inf; what the bias hides must be finite. A query
        that sees a value which is not finite gets NaN. Gradients are contiguous and the same in every run. The kernel
        may still be running when the result is returned.

    Raises:
        ValueError: An argument is something that the kernels cannot serve.
        NotImplementedError: It is called under ``torch.vmap``.
        RuntimeError: The gradient of a gradient is asked for.

    >>> q = k = torch.zeros(1, 1, 4, 16)
    >>> v = torch.arange(4.0).view(1, 1, 4, 1).expand(1, 1, 4, 16)
    >>> attention(q, k, v, causal=True)[0, 0, :, 0]
    tensor([0.0000, 0.5000, 1.0000, 1.5000])
    >>> attention(q, k, v, window=(1, 0))[0, 0, :, 0]
    tensor([0.0000, 0.5000, 1.5000, 2.5000])
    """
    check_ranks(4, "(batch, heads, rows, width)", q=q, k=k, v=v)
    longest = max(q.shape[2], k.shape[2])
    options = options_of(q, longest, causal, window, top_left, scale, softcap)
    out, lse = _attention(q, k, v, None, None, sinks, alibi_slopes, bias, options)
    return (out, lse) if return_lse else out


def attention_variable(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    *,
    causal: bool = False,
    window: tuple[int | None, int | None] = (None, None),
    top_left: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Return the attention of each sequence by itself, of many that are packed one after another.

    All that is not said here is as in :func:`attention`.

    Args:
        q: ``(total_q, heads, head_dim)``.
        k: ``(total_k, kv_heads, head_dim)``.
        v: ``(total_k, kv_heads, value_dim)``.
        cu_seqlens_q: ``(sequences + 1,)``, int32 or int64, on the device of ``q``: sequence i has the rows from
            ``cu_seqlens_q[i]`` to ``cu_seqlens_q[i + 1]``; it may have none. The first number is taken as 0, and no
            number may be less than the one before. The values stay on the GPU, so nobody checks that; wrong ones make
            wrong results, but nothing outside of the tensors is read or written.
        cu_seqlens_k: Of the same length, for ``k`` and ``v``.

    Returns:
        A new contiguous tensor ``(total_q, heads, value_dim)``; with ``return_lse`` also ``lse`` ``(heads, total_q)``.
        Rows after the last sequence see nothing. They may be anything, as may be what another sequence holds.

    >>> q = k = torch.zeros(5, 1, 16)
    >>> v = torch.arange(5.0).view(5, 1, 1).expand(5, 1, 16)
    >>> lengths = torch.tensor([0, 2, 5])  # rows 0 and 1; rows 2, 3 and 4
    >>> attention_variable(q, k, v, lengths, lengths, causal=True)[:, 0, 0]
    tensor([0.0000, 0.5000, 2.0000, 2.5000, 3.0000])
    """
    check_ranks(3, "(rows, heads, width)", q=q, k=k, v=v)
    longest = max(len(q), len(k))
    options = options_of(q, longest, causal, window, top_left, scale, softcap)
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    out, lse = _attention(q, k, v, cu_seqlens_q, cu_seqlens_k, sinks, alibi_slopes, None, options)
    out, lse = out.squeeze(0).transpose(0, 1), lse.squeeze(0)  # whose gradients are views, too
    return (out, lse) if return_lse else out


def _attention(q, k, v, cu_q, cu_k, sinks, slopes, bias, options):
    device = q.device.type
    if torch.is_autocast_enabled(device):
        q, k, v = (x.to(torch.get_autocast_dtype(device)) if x.dtype != torch.float64 else x for x in (q, k, v))
    for name, x in {"alibi_slopes": slopes, "bias": bias}.items():
        if x is not None and x.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} gets no gradient here; pass {name}.detach() if it needs none")
    if torch.compiler.is_compiling():
        return attention_op(q, k, v, cu_q, cu_k, sinks, slopes, bias, *options)
    return Attention.apply(q, k, v, cu_q, cu_k, sinks, slopes, bias, options)
# --8<-- [end:host]


def options_of(q, longest, causal, window, top_left, scale, softcap) -> Options:
    """Return the options as the kernels take them; what hides nothing is None."""
    try:
        left, right = (None if each is None else operator.index(each) for each in window)
    except (TypeError, ValueError):
        raise ValueError(f"window must be (left, right), whole numbers or None; got {window!r}") from None
    if any(each is not None and each < -1 for each in (left, right)):
        raise ValueError(f"window must be of numbers from 0 on, or None or -1 for all keys; got {window!r}")
    if causal:
        right = 0
    left, right = (None if each in (None, -1) or each >= longest else each for each in (left, right))
    scale = max(q.shape[-1], 1) ** -0.5 if scale is None else as_float("scale", scale)
    softcap = None if softcap is None else as_float("softcap", softcap) or None
    if softcap is not None and softcap < 0:
        raise ValueError(f"softcap must be above 0, or None or 0 for none; got {softcap}")
    return Options(scale, softcap, left, right, bool(top_left))


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
def check_ranks(axes: int, meaning: str, **tensors: torch.Tensor) -> None:
    for name, x in tensors.items():
        if x.ndim != axes:
            raise ValueError(f"{name} must be {meaning}; got the shape {tuple(x.shape)}")


def check_arguments(q, k, v, cu_q, cu_k, sinks, slopes, bias) -> None:
    """Raise ``ValueError`` for arguments that the kernels would compute wrongly or not at all."""
    named = {"q": q, "k": k, "v": v, "cu_seqlens_q": cu_q, "cu_seqlens_k": cu_k}
    named |= {"sinks": sinks, "alibi_slopes": slopes, "bias": bias}
    for name, x in named.items():
        if x is None:
            continue
        if x.layout != torch.strided:
            raise ValueError(f"{name} is {x.layout}; pass {name}.to_dense()")
        if x.device != q.device:
            raise ValueError(f"q is on {q.device} and {name} on {x.device}; move them to one device")
        if name.startswith("cu_"):
            if x.ndim != 1 or not len(x) or x.dtype not in (torch.int32, torch.int64) or not x.is_contiguous():
                raise ValueError(
                    f"{name} must be int32 or int64, contiguous, of one axis with a number or more; got {x.dtype}, "
                    f"shape {tuple(x.shape)}, strides {x.stride()}"
                )
        elif x.dtype not in DTYPES:
            hint = "; pass torch.where(mask, 0.0, -math.inf)" if x.dtype == torch.bool else ""
            raise ValueError(f"{name} is {x.dtype}; use one of {', '.join(map(str, DTYPES))}{hint}")
    if not q.dtype == k.dtype == v.dtype:
        raise ValueError(f"q, k and v are {q.dtype}, {k.dtype} and {v.dtype}; cast them to one, or use torch.autocast")
    (batch, heads, queries, head_dim), (kv_batch, kv_heads, keys, kv_head_dim) = q.shape, k.shape
    if (batch, head_dim) != (kv_batch, kv_head_dim):
        raise ValueError(f"q and k must have the same batch and head_dim; got {tuple(q.shape)} and {tuple(k.shape)}")
    if v.shape[:3] != k.shape[:3]:
        raise ValueError(f"v must have the shape of k but for its width; got {tuple(v.shape)} and {tuple(k.shape)}")
    if heads and (not kv_heads or heads % kv_heads):
        raise ValueError(f"the {heads} heads of q must be a multiple of the {kv_heads} of k and v")
    for name, width in {"head_dim": head_dim, "value_dim": v.shape[3]}.items():
        if not 1 <= width <= WIDEST:
            raise ValueError(f"{name} {width} is not supported; 1 to {WIDEST} are")
    if max(queries, keys) > LONGEST:
        raise ValueError(f"{queries} queries and {keys} keys are too many: at most 2**29 are served")
    if cu_q is not None and len(cu_q) != len(cu_k):
        raise ValueError(f"cu_seqlens_q has {len(cu_q)} numbers and cu_seqlens_k {len(cu_k)}: not as many sequences")
    if cu_q is not None and len(cu_q) - 1 > MOST_SEQUENCES:
        raise ValueError(f"{len(cu_q) - 1} sequences are too many for one launch, which serves {MOST_SEQUENCES}")
    if sinks is not None and (sinks.shape != (heads,) or not sinks.is_contiguous()):
        raise ValueError(f"sinks must be contiguous, of the shape ({heads},); got {tuple(sinks.shape)}")
    if slopes is not None and (tuple(slopes.shape) not in ((heads,), (batch, heads)) or slopes.stride(-1) != 1):
        raise ValueError(
            f"alibi_slopes must be of the shape ({heads},) or ({batch}, {heads}), a row's numbers adjacent in memory; "
            f"got {tuple(slopes.shape)}, strides {slopes.stride()}"
        )
    if bias is not None:
        shape = batch, heads, queries, keys
        missing = bias.ndim > 4 or any(
            b not in (1, s) for b, s in zip(reversed(bias.shape), reversed(shape), strict=False)
        )  # fmt: skip
        if missing:
            raise ValueError(f"bias must broadcast to {shape}; got {tuple(bias.shape)}")
    interpreted = not isinstance(attention_kernel, triton.JITFunction)
    if q.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"q is on {q.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if q.dtype == torch.bfloat16 and interpreted:
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")
# --8<-- [end:check]


# --8<-- [start:in_torch]
def in_torch(
    q, k, v, *, causal=False, window=(None, None), top_left=False, scale=None, softcap=None, sinks=None,
    alibi_slopes=None, bias=None,
):  # fmt: skip
    """Compute result and ``lse`` by operations of torch, with all scores and a mask of who sees what."""
    heads, queries, keys = q.shape[1], q.shape[2], k.shape[2]
    k, v = (x.repeat_interleave(heads // max(x.shape[1], 1), dim=1) for x in (k, v))
    place = torch.arange(queries, device=q.device)[:, None] + (0 if top_left else keys - queries)
    distance = place - torch.arange(keys, device=q.device)
    left, right = window[0], 0 if causal else window[1]
    seen = torch.ones_like(distance, dtype=torch.bool)
    if left is not None:
        seen &= distance <= left
    if right is not None:
        seen &= -right <= distance
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if alibi_slopes is not None:
        scores = scores - alibi_slopes[..., None, None] * distance.abs()
    if bias is not None:
        scores = scores + bias
    scores = scores.masked_fill(~seen, -math.inf)
    lse = scores.logsumexp(-1) if keys else scores.sum(-1) - math.inf
    if sinks is not None:
        lse = torch.logaddexp(lse, sinks[:, None])
    weights = torch.exp(scores - lse.masked_fill(lse == -math.inf, 0)[..., None])
    return weights @ v, lse
# --8<-- [end:in_torch]


def main():
    device = "cuda" if isinstance(attention_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)
    options = {"device": device, "dtype": torch.float64}

    print("## options")
    wide = [torch.randn(1, *shape, **options) for shape in ((4, 20, 40), (2, 24, 40), (2, 24, 24))]
    sinks, slopes = torch.randn(4, **options), torch.rand(4, **options)
    cases = {
        "two heads share one of k and v": {},
        "causal, from the bottom right": {"causal": True},
        "causal, from the top left": {"causal": True, "top_left": True},
        "a window, 5 back and 2 ahead": {"window": (5, 2)},
        "softcap": {"softcap": 2.0},
        "sinks": {"sinks": sinks.requires_grad_()},
        "ALiBi": {"causal": True, "alibi_slopes": slopes},
        "a bias for all heads": {"bias": torch.randn(20, 24, **options)},
        "a window, a softcap and sinks": {"window": (7, 0), "softcap": 2.0, "sinks": sinks},
    }
    for name, given in cases.items():
        tensors = [x.requires_grad_() for x in (*wide, given.get("sinks")) if x is not None]
        found = attention(*wide, **given, return_lse=True)
        wanted = in_torch(*wide, **given)
        grads = [torch.autograd.grad((out**2).sum() + lse.sum(), tensors) for out, lse in (found, wanted)]
        same = all(map(torch.allclose, (*found, *grads[0]), (*wanted, *grads[1])))
        print(f"{name}: result, lse and gradients", "as by torch" if same else "NOT as by torch")

    print("## what is hidden may be anything")
    # --8<-- [start:hidden]
    q, k, v = (torch.randn(1, 1, 6, 16, device=device) for _ in range(3))
    k[:, :, 5] = v[:, :, 5] = math.nan
    for each, out in {
        "ours": attention(q, k, v, causal=True),
        "torch's": torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
    }.items():
        print(f"{each}, NaN for the queries:", *out.isnan().any(-1)[0, 0].nonzero()[:, 0].tolist())
    # --8<-- [end:hidden]


if __name__ == "__main__":
    main()
