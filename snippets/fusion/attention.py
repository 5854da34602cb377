# SPDX-License-Identifier: Apache-2.0
"""Attention, ``softmax(scale * q @ kᵀ) @ v``, tile by tile: no matrix of scores is stored, forward or backward.

A program holds a tile of queries and goes through the keys, a tile at a time. It keeps the maximum of the scores so
far, the sum of their weights and the weighted sum of values, and rescales the two sums when the maximum grows (*online
softmax*). It stores the result and one number for each query, ``lse = log(sum(exp(scores)))``. From that the backward
computes the probabilities ``p = exp(scores - lse)`` again::

    delta = sum(grad * out)                 # for each query
    grad_scores = p * (grad @ vᵀ - delta)
    grad_q = scale * grad_scores @ k
    grad_k = scale * grad_scoresᵀ @ q
    grad_v = pᵀ @ grad

On a Hopper GPU, tiles come by tensor descriptors, if q, k, v and grad lie as the TMA wants it, and else by pointers.

- :func:`attention`: the function to call; it has a gradient, and works under ``torch.compile``
- :func:`can_be_described`: whether the TMA can load a tensor

Shapes: ``q``, result ``(batch, heads, queries, head_dim)``; ``k``, ``v`` ``(batch, kv_heads, keys, head_dim)``.
Traffic, in elements: ``q`` is read once and the result written once; each tile of queries reads the ``k`` and ``v``
that it sees. Backward: ``q``, ``out`` and ``grad`` once, ``k`` and ``v`` by each tile of queries; then ``k`` and ``v``
once, ``q`` and ``grad`` by each tile of keys; the three gradients are written once. Nothing is added up by atomics, so
every run gives the same bits.
Source: Milakov and Gimelshein, *Online normalizer calculation for softmax*, 2018; Dao, *FlashAttention-2*, 2023.

Run it on a GPU with ``python attention.py``, or with ``TRITON_INTERPRET=1 python attention.py`` in the interpreter.
"""

import functools

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
HEAD_DIMS = (16, 32, 64, 128)
DESCRIBED_HEAD_DIMS = (64, 128)  # of those, what tensor descriptors were tried for
LONGEST = 2**30  # queries or keys, so that a row beyond the last one is still counted in 32 bits


# --8<-- [start:online]
@triton.jit
def online_softmax_kernel(
    score_ptr, value_ptr, out_ptr, n, BLOCK: tl.constexpr
):
    maximum, total, accumulator = -float("inf"), 0.0, 0.0
    for begin in range(0, n, BLOCK):
        offsets = begin + tl.arange(0, BLOCK)
        score = tl.load(
            score_ptr + offsets, mask=offsets < n, other=-float("inf")
        )
        value = tl.load(value_ptr + offsets, mask=offsets < n, other=0.0)
        new_maximum = tl.maximum(maximum, tl.max(score, axis=0))
        rescale = tl.exp(maximum - new_maximum)
        weight = tl.exp(score - new_maximum)
        total = total * rescale + tl.sum(weight, axis=0)
        accumulator = accumulator * rescale + tl.sum(weight * value, axis=0)
        maximum = new_maximum
    tl.store(out_ptr, maximum)
    tl.store(out_ptr + 1, total)
    tl.store(out_ptr + 2, accumulator)
# --8<-- [end:online]


# --8<-- [start:helpers]
@triton.jit
def head_of(source, stride_batch, stride_head, batch, head, DESCRIBED: tl.constexpr = False):
    """Return where a head begins. A descriptor covers all heads, so there each load names the head."""
    if not DESCRIBED:
        source += batch.to(tl.int64) * stride_batch + tl.cast(head, tl.int64) * stride_head
    return source


@triton.jit
def rows_of(ptr, stride, first, rows, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    down, right = tl.arange(0, HEIGHT)[:, None], tl.arange(0, WIDTH)[None, :]
    begin = tl.cast(first, tl.int64) * stride
    return ptr + begin + (down * stride + right), down < rows - first


# --8<-- [start:load_rows]
@triton.jit
def load_rows(
    source,
    stride,
    batch,
    head,
    first,
    rows,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    DESCRIBED: tl.constexpr = False,
):
    """Load a head's tile from row ``first``, with zeros past the end."""
    if DESCRIBED:
        tile = source.load([batch, head, first, 0]).reshape(HEIGHT, WIDTH)
    else:
        ptrs, inside = rows_of(source, stride, first, rows, HEIGHT, WIDTH)
        tile = tl.load(ptrs, mask=inside, other=0.0)
    return tile
# --8<-- [end:load_rows]


@triton.jit
def store_rows(ptr, stride, first, rows, tile, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    ptrs, inside = rows_of(ptr, stride, first, rows, HEIGHT, WIDTH)
    tl.store(ptrs, tile, mask=inside)  # rounded to the tensor's dtype


@triton.jit
def visible(
    first, begin, queries, keys,
    CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Return which keys of a tile each query of another tile may see."""
    query = first + tl.arange(0, BLOCK_Q)[:, None]
    key = begin + tl.arange(0, BLOCK_K)[None, :]
    seen = key < keys
    if CAUSAL:  # the last query sees the last key
        seen = seen & (key <= query + (keys - queries))
    return seen


# --8<-- [start:keys_of]
@triton.jit
def keys_of(
    first, queries, keys,
    CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Return where the tiles of keys end that a tile of queries sees wholly, and where those end that it sees in part.
    """
    whole, last = keys // BLOCK_K * BLOCK_K, keys
    if CAUSAL:  # the first query sees the fewest keys, the last one the most
        first_sees = tl.maximum(0, first + 1 + (keys - queries))
        whole = tl.minimum(whole, first_sees // BLOCK_K * BLOCK_K)
        last = tl.minimum(keys, first + BLOCK_Q + (keys - queries))
    return whole, last
# --8<-- [end:keys_of]
# --8<-- [end:helpers]


# --8<-- [start:kernel]
@triton.jit
def attend(
    maximum, total, accumulator, q, k_source, v_source, k_row, v_row, batch, head, first, start, end, queries, keys,
    FACTOR: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr, DESCRIBED: tl.constexpr, COMPUTE: tl.constexpr,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Continue with the keys from ``start`` to ``end``."""
    # --8<-- [start:loop]
    for begin in range(start, end, BLOCK_K):
        k = load_rows(
            k_source, k_row, batch, head, begin, keys, BLOCK_K, HEAD_DIM,
            DESCRIBED,
        )
        score = tl.dot(q, k.T, input_precision="ieee")
        if MASKED:
            seen = visible(
                first, begin, queries, keys, CAUSAL, BLOCK_Q, BLOCK_K
            )
            score = tl.where(seen, score, -float("inf"))
        new_maximum = tl.maximum(maximum, tl.max(score, axis=1) * FACTOR)
        # all scores are -inf so far: -inf - 0, not -inf - -inf, which is NaN
        shift = tl.where(new_maximum == -float("inf"), 0.0, new_maximum)
        rescale = tl.exp2(maximum - shift)
        weight = tl.exp2(score * FACTOR - shift[:, None])
        total = total * rescale + tl.sum(weight, axis=1)
        accumulator = accumulator * rescale[:, None]
        v = load_rows(
            v_source, v_row, batch, head, begin, keys, BLOCK_K, HEAD_DIM,
            DESCRIBED,
        )
        accumulator = tl.dot(
            weight.to(v.dtype), v, accumulator,
            input_precision="ieee", out_dtype=COMPUTE,
        )  # fmt: skip
        maximum = new_maximum
    # --8<-- [end:loop]
    return maximum, total, accumulator


@triton.jit(do_not_specialize=["heads", "group", "queries", "keys"])  # the same code for all lengths
def attention_kernel(
    q_source, k_source, v_source, out_ptr, lse_ptr,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    out_batch, out_head, out_row,
    heads, group, queries, keys, SCALE: tl.constexpr, CAUSAL: tl.constexpr, DESCRIBED: tl.constexpr,
    COMPUTE: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    FACTOR: tl.constexpr = SCALE * 1.4426950408889634  # log2(e), for exp2 in place of exp
    # --8<-- [start:begin]
    tiles = tl.cdiv(queries, BLOCK_Q)
    tile, pair = tl.program_id(axis=0) % tiles, tl.program_id(axis=0) // tiles
    if CAUSAL:  # the last tile sees the most keys, so it begins first
        tile = tiles - 1 - tile
    first, batch, head = tile * BLOCK_Q, pair // heads, pair % heads
    kv_head = head // group
    q_source = head_of(q_source, q_batch, q_head, batch, head, DESCRIBED)
    k_source = head_of(k_source, k_batch, k_head, batch, kv_head, DESCRIBED)
    v_source = head_of(v_source, v_batch, v_head, batch, kv_head, DESCRIBED)
    out_ptr = head_of(out_ptr, out_batch, out_head, batch, head)
    q = load_rows(
        q_source, q_row, batch, head, first, queries, BLOCK_Q, HEAD_DIM,
        DESCRIBED,
    )
    maximum = tl.full((BLOCK_Q,), -float("inf"), COMPUTE)
    total = tl.zeros((BLOCK_Q,), COMPUTE)
    accumulator = tl.zeros((BLOCK_Q, HEAD_DIM), COMPUTE)
    # --8<-- [end:begin]
    # --8<-- [start:split]
    whole, last = keys_of(first, queries, keys, CAUSAL, BLOCK_Q, BLOCK_K)
    maximum, total, accumulator = attend(  # MASKED=False
        maximum, total, accumulator, q, k_source, v_source, k_row, v_row,
        batch, kv_head, first, 0, whole, queries, keys,
        FACTOR, CAUSAL, False, DESCRIBED, COMPUTE, HEAD_DIM, BLOCK_Q, BLOCK_K,
    )  # fmt: skip
    maximum, total, accumulator = attend(  # MASKED=True
        maximum, total, accumulator, q, k_source, v_source, k_row, v_row,
        batch, kv_head, first, whole, last, queries, keys,
        FACTOR, CAUSAL, True, DESCRIBED, COMPUTE, HEAD_DIM, BLOCK_Q, BLOCK_K,
    )  # fmt: skip
    # --8<-- [end:split]
    # --8<-- [start:end]
    # No key, or all scores -inf: out is 0, and so is exp(score - lse).
    none = total == 0.0
    total = tl.where(none, 1.0, total)
    lse = tl.where(
        none, float("inf"), maximum / 1.4426950408889634 + tl.log(total)
    )
    out = accumulator / total[:, None]
    store_rows(out_ptr, out_row, first, queries, out, BLOCK_Q, HEAD_DIM)
    query = first + tl.arange(0, BLOCK_Q)
    tl.store(
        lse_ptr + pair.to(tl.int64) * queries + query, lse,
        mask=query < queries,
    )
    # --8<-- [end:end]
# --8<-- [end:kernel]


# --8<-- [start:grad_q]
@triton.jit
def add_to_grad_q(
    grad_q, q, grad, lse2, delta, k_source, v_source, k_row, v_row, batch, head, first, start, end, queries, keys,
    FACTOR: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr, DESCRIBED: tl.constexpr, COMPUTE: tl.constexpr,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Add what the keys from ``start`` to ``end`` contribute to the gradient of q."""
    # --8<-- [start:grad_q_loop]
    for begin in range(start, end, BLOCK_K):
        k = load_rows(
            k_source, k_row, batch, head, begin, keys, BLOCK_K, HEAD_DIM, DESCRIBED
        )  # fmt: skip
        v = load_rows(
            v_source, v_row, batch, head, begin, keys, BLOCK_K, HEAD_DIM, DESCRIBED
        )  # fmt: skip
        score = tl.dot(q, k.T, input_precision="ieee")
        if MASKED:
            seen = visible(first, begin, queries, keys, CAUSAL, BLOCK_Q, BLOCK_K)
            score = tl.where(seen, score, -float("inf"))
        p = tl.exp2(score * FACTOR - lse2[:, None])
        grad_p = tl.dot(grad, v.T, input_precision="ieee")
        grad_score = p * (grad_p - delta[:, None])
        grad_q = tl.dot(
            grad_score.to(k.dtype), k, grad_q,
            input_precision="ieee", out_dtype=COMPUTE,
        )
    # --8<-- [end:grad_q_loop]
    return grad_q


@triton.jit(do_not_specialize=["heads", "group", "queries", "keys"])
def grad_q_kernel(
    q_source, k_source, v_source, grad_source, out_ptr, lse_ptr, delta_ptr, lse2_ptr, grad_q_ptr,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row, grad_batch, grad_head, grad_row,
    out_batch, out_head, out_row, grad_q_batch, grad_q_head, grad_q_row,
    heads, group, queries, keys, SCALE: tl.constexpr, CAUSAL: tl.constexpr, DESCRIBED: tl.constexpr,
    COMPUTE: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    FACTOR: tl.constexpr = SCALE * 1.4426950408889634
    tiles = tl.cdiv(queries, BLOCK_Q)
    tile, pair = tl.program_id(axis=0) % tiles, tl.program_id(axis=0) // tiles
    if CAUSAL:
        tile = tiles - 1 - tile
    first, batch, head = tile * BLOCK_Q, pair // heads, pair % heads
    kv_head = head // group
    q_source = head_of(q_source, q_batch, q_head, batch, head, DESCRIBED)
    k_source = head_of(k_source, k_batch, k_head, batch, kv_head, DESCRIBED)
    v_source = head_of(v_source, v_batch, v_head, batch, kv_head, DESCRIBED)
    grad_source = head_of(grad_source, grad_batch, grad_head, batch, head, DESCRIBED)
    out_ptr = head_of(out_ptr, out_batch, out_head, batch, head)
    grad_q_ptr = head_of(grad_q_ptr, grad_q_batch, grad_q_head, batch, head)
    q = load_rows(q_source, q_row, batch, head, first, queries, BLOCK_Q, HEAD_DIM, DESCRIBED)
    grad = load_rows(grad_source, grad_row, batch, head, first, queries, BLOCK_Q, HEAD_DIM, DESCRIBED)
    # --8<-- [start:delta]
    out = load_rows(out_ptr, out_row, batch, head, first, queries, BLOCK_Q, HEAD_DIM).to(COMPUTE)
    query = first + tl.arange(0, BLOCK_Q)
    number = pair.to(tl.int64) * queries + query
    lse = tl.load(lse_ptr + number, mask=query < queries, other=float("inf"))
    delta, lse2 = tl.sum(grad.to(COMPUTE) * out, axis=1), lse * 1.4426950408889634
    tl.store(delta_ptr + number, delta, mask=query < queries)  # the next kernel needs both
    tl.store(lse2_ptr + number, lse2, mask=query < queries)
    # --8<-- [end:delta]
    whole, last = keys_of(first, queries, keys, CAUSAL, BLOCK_Q, BLOCK_K)
    grad_q = tl.zeros((BLOCK_Q, HEAD_DIM), COMPUTE)
    grad_q = add_to_grad_q(
        grad_q, q, grad, lse2, delta, k_source, v_source, k_row, v_row, batch, kv_head, first, 0, whole,
        queries, keys, FACTOR, CAUSAL, False, DESCRIBED, COMPUTE, HEAD_DIM, BLOCK_Q, BLOCK_K,
    )  # fmt: skip
    grad_q = add_to_grad_q(
        grad_q, q, grad, lse2, delta, k_source, v_source, k_row, v_row, batch, kv_head, first, whole, last,
        queries, keys, FACTOR, CAUSAL, True, DESCRIBED, COMPUTE, HEAD_DIM, BLOCK_Q, BLOCK_K,
    )  # fmt: skip
    store_rows(grad_q_ptr, grad_q_row, first, queries, grad_q * SCALE, BLOCK_Q, HEAD_DIM)
# --8<-- [end:grad_q]


# --8<-- [start:grad_kv]
@triton.jit
def add_to_grad_k_v(
    grad_k, grad_v, k, v, q_source, grad_source, lse2_ptr, delta_ptr, q_head, q_row, grad_head, grad_row,
    batch, heads, first_head, group, begin, start, end, queries, keys,
    FACTOR: tl.constexpr, MASKED: tl.constexpr, DESCRIBED: tl.constexpr, COMPUTE: tl.constexpr,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Add what the queries from ``start`` to ``end`` contribute, of each head of a group in turn, in one loop."""
    # --8<-- [start:grad_kv_loop]
    tiles = tl.cdiv(end - start, BLOCK_Q)
    for step in range(0, group * tiles):
        head, first = first_head + step // tiles, start + step % tiles * BLOCK_Q
        q_here = head_of(q_source, 0, q_head, batch, head, DESCRIBED)
        grad_here = head_of(grad_source, 0, grad_head, batch, head, DESCRIBED)
        q = load_rows(
            q_here, q_row, batch, head, first, queries, BLOCK_Q, HEAD_DIM,
            DESCRIBED,
        )
        grad = load_rows(
            grad_here, grad_row, batch, head, first, queries, BLOCK_Q,
            HEAD_DIM, DESCRIBED,
        )
        query = first + tl.arange(0, BLOCK_Q)
        number = (batch * heads + head).to(tl.int64) * queries + query
        lse2 = tl.load(
            lse2_ptr + number, mask=query < queries, other=float("inf")
        )
        delta = tl.load(delta_ptr + number, mask=query < queries, other=0.0)
        score_t = tl.dot(k, q.T, input_precision="ieee")
        if MASKED:
            key = begin + tl.arange(0, BLOCK_K)[:, None]
            seen = key <= query[None, :] + (keys - queries)
            score_t = tl.where(seen, score_t, -float("inf"))
        p_t = tl.exp2(score_t * FACTOR - lse2[None, :])
        grad_p_t = tl.dot(v, grad.T, input_precision="ieee")
        grad_v = tl.dot(
            p_t.to(grad.dtype), grad, grad_v,
            input_precision="ieee", out_dtype=COMPUTE,
        )
        grad_score_t = p_t * (grad_p_t - delta[None, :])
        grad_k = tl.dot(
            grad_score_t.to(q.dtype), q, grad_k,
            input_precision="ieee", out_dtype=COMPUTE,
        )
    # --8<-- [end:grad_kv_loop]
    return grad_k, grad_v


@triton.jit(do_not_specialize=["heads", "group", "queries", "keys"])
def grad_k_v_kernel(
    q_source, k_source, v_source, grad_source, lse2_ptr, delta_ptr, grad_k_ptr, grad_v_ptr,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    grad_batch, grad_head, grad_row, grad_k_batch, grad_k_head, grad_k_row,
    heads, group, queries, keys, SCALE: tl.constexpr, CAUSAL: tl.constexpr, DESCRIBED: tl.constexpr,
    COMPUTE: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    FACTOR: tl.constexpr = SCALE * 1.4426950408889634
    # --8<-- [start:grad_kv_begin]
    tiles, kv_heads = tl.cdiv(keys, BLOCK_K), heads // group
    begin, pair = tl.program_id(axis=0) % tiles * BLOCK_K, tl.program_id(axis=0) // tiles
    batch, kv_head = pair // kv_heads, pair % kv_heads
    q_source = head_of(q_source, q_batch, q_head, batch, 0, DESCRIBED)
    grad_source = head_of(grad_source, grad_batch, grad_head, batch, 0, DESCRIBED)
    k_source = head_of(k_source, k_batch, k_head, batch, kv_head, DESCRIBED)
    v_source = head_of(v_source, v_batch, v_head, batch, kv_head, DESCRIBED)
    grad_k_ptr = head_of(grad_k_ptr, grad_k_batch, grad_k_head, batch, kv_head)
    grad_v_ptr = head_of(grad_v_ptr, grad_k_batch, grad_k_head, batch, kv_head)
    k = load_rows(k_source, k_row, batch, kv_head, begin, keys, BLOCK_K, HEAD_DIM, DESCRIBED)
    v = load_rows(v_source, v_row, batch, kv_head, begin, keys, BLOCK_K, HEAD_DIM, DESCRIBED)
    grad_k = tl.zeros((BLOCK_K, HEAD_DIM), COMPUTE)
    grad_v = tl.zeros((BLOCK_K, HEAD_DIM), COMPUTE)
    # --8<-- [end:grad_kv_begin]
    # --8<-- [start:grad_kv_split]
    whole = 0
    if CAUSAL:  # from the tile of the first query that sees a key of this tile to that where all are seen
        start = tl.maximum(0, begin - (keys - queries)) // BLOCK_Q * BLOCK_Q
        whole = tl.cdiv(tl.maximum(0, begin + BLOCK_K - 1 - (keys - queries)), BLOCK_Q) * BLOCK_Q
        whole = tl.minimum(whole, queries)
        grad_k, grad_v = add_to_grad_k_v(  # MASKED=True
            grad_k, grad_v, k, v, q_source, grad_source, lse2_ptr, delta_ptr, q_head, q_row, grad_head, grad_row,
            batch, heads, kv_head * group, group, begin, start, whole, queries, keys,
            FACTOR, True, DESCRIBED, COMPUTE, HEAD_DIM, BLOCK_Q, BLOCK_K,
        )  # fmt: skip
    grad_k, grad_v = add_to_grad_k_v(  # MASKED=False
        grad_k, grad_v, k, v, q_source, grad_source, lse2_ptr, delta_ptr, q_head, q_row, grad_head, grad_row,
        batch, heads, kv_head * group, group, begin, whole, queries, queries, keys,
        FACTOR, False, DESCRIBED, COMPUTE, HEAD_DIM, BLOCK_Q, BLOCK_K,
    )  # fmt: skip
    # --8<-- [end:grad_kv_split]
    # what lies after the last key, finite or not, is in rows that are not stored
    store_rows(grad_k_ptr, grad_k_row, begin, keys, grad_k * SCALE, BLOCK_K, HEAD_DIM)
    store_rows(grad_v_ptr, grad_k_row, begin, keys, grad_v, BLOCK_K, HEAD_DIM)
# --8<-- [end:grad_kv]


# --8<-- [start:launches]
def forward(
    q, k, v, scale: float, causal: bool, tile=None, described: bool | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the result, and ``lse`` of each query: ``log(sum(exp(scores)))``, or inf if it sees no key."""
    check_arguments(q=q, k=k, v=v)
    check_scale(scale)
    q, k, v = map(served, (q, k, v))
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=dtype_inside(q), device=q.device)
    launch(attention_kernel, (q, k, v), (out, lse), (out,), "queries", scale, causal, tile, described)
    return out, lse


def backward(
    grad, q, k, v, out, lse, scale: float, causal: bool, tile=None, described: bool | None = None
) -> tuple[torch.Tensor, ...]:
    """Return the gradients of ``q``, ``k`` and ``v``. The first kernel stores ``delta`` and ``lse * log2(e)``, which
    the second loads."""
    check_arguments(q=q, k=k, v=v, grad=grad)
    check_scale(scale)
    loaded = q, k, v, grad = tuple(map(served, (q, k, v, grad)))
    grad_q, grad_k, grad_v = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    if not q.numel():
        return grad_q, grad_k.zero_(), grad_v.zero_()
    delta, lse2 = torch.empty_like(lse), torch.empty_like(lse)
    options = scale, causal, tile, described
    launch(grad_q_kernel, loaded, (out, lse, delta, lse2, grad_q), (out, grad_q), "queries", *options)
    launch(grad_k_v_kernel, loaded, (lse2, delta, grad_k, grad_v), (grad_k,), "keys", *options)
    return grad_q, grad_k, grad_v
# --8<-- [end:launches]


# --8<-- [start:launch]
def launch(
    kernel, loaded, others, strided, over: str, scale: float, causal: bool, tile=None, described: bool | None = None
) -> None:
    """Start a program of ``kernel`` for each tile of queries of each head, or of keys of each head of ``k``."""
    q, k, *_ = loaded  # and v, and for the backward pass grad
    (batch, heads, queries, head_dim), (kv_heads, keys) = q.shape, k.shape[1:3]
    if described is None:
        described = head_dim in DESCRIBED_HEAD_DIMS and has_tma(q.device) and all(map(can_be_described, loaded))
    tile = tile or default_tile(kernel, q.dtype, head_dim, described)
    block_q, block_k = tile["BLOCK_Q"], tile["BLOCK_K"]
    tiles = triton.cdiv(queries, block_q) * heads if over == "queries" else triton.cdiv(keys, block_k) * kv_heads
    if tiles * batch >= 2**31:  # CUDA's limit along one axis
        raise ValueError(f"{tuple(q.shape)} takes {tiles * batch} programs; 2**31 - 1 is the limit: split the batch")
    if not tiles * batch * heads:
        return  # nothing to launch
    strides = [stride for x in (*loaded, *strided) for stride in x.stride()[:3]]
    if described:
        heights = block_q, block_k, block_k, block_q
        loaded = [describe(x, height) for x, height in zip(loaded, heights[: len(loaded)], strict=True)]
    compute = tl.float64 if q.dtype == torch.float64 else tl.float32
    with torch.cuda.device_of(q):  # Triton launches on the current device, which need not be that of the tensors
        kernel[(tiles * batch,)](
            *loaded, *others, *strides, heads, heads // kv_heads, queries, keys,
            SCALE=scale, CAUSAL=causal, DESCRIBED=described, COMPUTE=compute, HEAD_DIM=head_dim, **tile,
        )  # fmt: skip


def served(x: torch.Tensor) -> torch.Tensor:
    """Return ``x``, copied if a row's elements are not adjacent in memory, or a tile's rows lie 2³¹ apart."""
    near = x.stride(3) == 1 and abs(x.stride(2)) < 2**31 // 256
    return (x if near else x.contiguous()).resolve_neg()


def dtype_inside(x: torch.Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32
# --8<-- [end:launch]


# --8<-- [start:describe]
def describe(x: torch.Tensor, rows: int) -> TensorDescriptor:
    """Describe all heads to the TMA, with tiles of ``rows`` rows."""
    axes = zip(x.shape, x.stride(), strict=True)
    # the stride of an axis of size 1 can be anything
    strides = [stride if size > 1 else x.shape[3] for size, stride in axes]
    return TensorDescriptor(
        x, list(x.shape), strides, [1, 1, rows, x.shape[3]]
    )
# --8<-- [end:describe]


# --8<-- [start:choose]
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
# --8<-- [end:choose]


# --8<-- [start:tiles]
def default_tile(kernel, dtype: torch.dtype, head_dim: int, described: bool = False) -> dict[str, int]:
    """Return queries and keys of a tile, and how to compile for it. By Triton 3.9 nothing spills on a Hopper GPU.

    >>> default_tile(attention_kernel, torch.bfloat16, 128, described=True)
    {'BLOCK_Q': 128, 'BLOCK_K': 64, 'num_warps': 4, 'num_stages': 2}
    """
    wide = head_dim > 64
    if dtype == torch.float64:
        tile = 16, 16, 4, 1
    elif dtype == torch.float32:
        tile = (32, 32, 8, 2) if not wide else (32, 16, 8, 2) if kernel is attention_kernel else (16, 16, 8, 2)
    elif kernel is attention_kernel:
        tile = (128, 64, 4, 2 if wide else 3) if described or not wide else (128, 64, 8, 2)
    elif kernel is grad_q_kernel:
        tile = (128, 64, 8, 3) if described and wide else (64, 64, 8, 2) if wide else (64, 64, 4, 3)
    elif described:
        tile = (64, 64, 4, 2) if wide else (32, 128, 4, 3)
    else:
        tile = (32, 64, 8, 2) if wide else (32, 128, 8, 3)
    named = dict(zip(("BLOCK_Q", "BLOCK_K", "num_warps", "num_stages"), tile, strict=True))
    if described and not wide and kernel is attention_kernel:
        named["maxnreg"] = 168  # registers of a thread, so that three programs fit on a multiprocessor
    return named
# --8<-- [end:tiles]


# --8<-- [start:function]
class Attention(torch.autograd.Function):
    @staticmethod
    def forward(q, k, v, scale, causal):
        return forward(q, k, v, scale, causal)

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, k, v, ctx.scale, ctx.causal = inputs
        ctx.save_for_backward(q, k, v, *output)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        if torch.is_grad_enabled():  # as under create_graph=True
            raise RuntimeError(
                "attention has no gradient of its gradient, so it refuses create_graph=True, and torch.func.grad"
                " and vjp, which always ask for it; use torch.autograd.grad"
            )
        return *backward(grad, *ctx.saved_tensors, ctx.scale, ctx.causal), None, None
# --8<-- [end:function]


# --8<-- [start:op]
@torch.library.custom_op("triton_by_example::attention", mutates_args=())
def attention_op(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    return forward(q, k, v, scale, causal)


@torch.library.custom_op("triton_by_example::attention_backward", mutates_args=())
def attention_backward_op(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    out: torch.Tensor, lse: torch.Tensor, scale: float, causal: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    return backward(grad, q, k, v, out, lse, scale, causal)


@attention_op.register_fake
def _(q, k, v, scale, causal):
    return q.new_empty(q.shape), q.new_empty(q.shape[:3], dtype=dtype_inside(q))


@attention_backward_op.register_fake
def _(grad, q, k, v, out, lse, scale, causal):
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


attention_op.register_autograd(
    lambda ctx, grad, _: (*attention_backward_op(grad, *ctx.saved_tensors, ctx.scale, ctx.causal), None, None),
    setup_context=Attention.setup_context,
)
# --8<-- [end:op]


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


# --8<-- [start:host]
def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """Return ``softmax(scale * q @ kᵀ) @ v`` of each head; it has a gradient for ``q``, ``k`` and ``v``.

    Args:
        q: ``(batch, heads, queries, head_dim)`` on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``;
            head_dim one of ``HEAD_DIMS``. The elements of a row are neighbors in memory, heads and rows may lie
            anywhere, as after ``.transpose(1, 2)``; what lies otherwise is copied.
        k: ``(batch, kv_heads, keys, head_dim)``, likewise. heads is a multiple of kv_heads, and ``heads // kv_heads``
            heads in a row share a head of ``k`` and ``v``.
        v: Of the shape of ``k``.
        causal: Whether a query sees only keys that are no later. The last query and the last key are of the same time
            (the mask is aligned to the bottom right), so ``query`` sees ``key <= query + keys - queries``. For unequal
            lengths ``is_causal`` of torch's ``scaled_dot_product_attention`` is aligned to the top left instead.
        scale: Of the scores; ``head_dim ** -0.5`` unless told. Each value is compiled anew.

    Returns:
        A new contiguous tensor of the shape and dtype of ``q``, computed in float32 (in float64 for float64), with the
        weights rounded to the dtype of ``v`` before they meet it. A query that sees no key, or whose scores are all
        -inf, gets zeros, as from torch's ``scaled_dot_product_attention``, and gradients of zero. What a query does not
        see must still be finite. The gradients are contiguous and the same in every run. ``q``, ``k``, ``v``, the
        result and a number for each query are kept for the backward. The kernel may still be running when the result is
        returned.

    Raises:
        ValueError: If an argument is something the kernels can't serve.
        RuntimeError: In the backward, under ``create_graph=True``: there is no gradient of the gradient.

    >>> q = k = torch.zeros(1, 1, 2, 16)
    >>> v = torch.arange(2.0).view(1, 1, 2, 1).expand(1, 1, 2, 16)
    >>> attention(q, k, v, causal=True)[0, 0, :, 0]
    tensor([0.0000, 0.5000])
    """
    scale = q.shape[-1] ** -0.5 if scale is None else as_float("scale", scale)
    if scale <= 0:  # the kernels take the largest score before they scale
        q, scale = (-q, -scale) if scale < 0 else (0 * q, 1.0)
    if torch.compiler.is_compiling():
        return attention_op(q, k, v, scale, bool(causal))[0]
    return Attention.apply(q, k, v, scale, bool(causal))[0]
# --8<-- [end:host]


# --8<-- [start:check]
def check_scale(scale: float) -> None:
    if scale <= 0:
        raise ValueError(f"the kernels want a scale above 0; got {scale}, which attention() can take")


def check_arguments(**tensors: torch.Tensor) -> None:
    """Raise ``ValueError`` for arguments that the kernels would get wrong, or can't serve at all."""
    q, k = tensors["q"], tensors["k"]
    for name, x in tensors.items():
        if x.ndim != 4:
            raise ValueError(f"{name} must be (batch, heads, rows, head_dim); got the shape {tuple(x.shape)}")
        if x.dtype != q.dtype or x.device != q.device:
            raise ValueError(
                f"q and {name} must have the same dtype and device; got {q.dtype} on {q.device} and {x.dtype} on "
                f"{x.device}"
            )
        if x.layout != torch.strided:
            raise ValueError(f"{name} is {x.layout}; pass {name}.to_dense()")
        like = "k" if name in ("k", "v") else "q"
        if x.shape != tensors[like].shape:
            raise ValueError(
                f"{name} must have the shape of {like}, {tuple(tensors[like].shape)}; got {tuple(x.shape)}"
            )  # fmt: skip
    (batch, heads, queries, head_dim), (kv_batch, kv_heads, keys, kv_head_dim) = q.shape, k.shape
    if (batch, head_dim) != (kv_batch, kv_head_dim):
        raise ValueError(
            f"q and k must have the same batch and head_dim; got {tuple(q.shape)} and {tuple(k.shape)}"
        )  # fmt: skip
    if heads and (not kv_heads or heads % kv_heads):
        raise ValueError(f"the {heads} heads of q must be a multiple of the {kv_heads} of k and v")
    if head_dim not in HEAD_DIMS:
        raise ValueError(f"head_dim {head_dim} is not supported; use one of {', '.join(map(str, HEAD_DIMS))}")
    if max(queries, keys) > LONGEST:
        raise ValueError(f"{queries} queries and {keys} keys are too many: at most 2**30 are served")
    if q.dtype not in DTYPES:
        raise ValueError(f"dtype {q.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    interpreted = not isinstance(attention_kernel, triton.JITFunction)
    if q.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"q is on {q.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if q.dtype == torch.bfloat16 and interpreted:
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")
# --8<-- [end:check]


def in_torch(q, k, v, causal=False, scale=None):
    """Compute attention by operations of torch. A query that sees no key gets NaN."""
    heads, queries, head_dim = q.shape[1:]
    kv_heads, keys = k.shape[1:3]
    scale = head_dim**-0.5 if scale is None else scale
    k, v = (x.repeat_interleave(heads // kv_heads, dim=1) for x in (k, v))
    later = torch.ones(queries, keys, dtype=torch.bool, device=q.device).triu(keys - queries + 1)
    # --8<-- [start:in_torch]
    scores = q @ k.mT
    scores = scores * scale
    if causal:
        scores = scores.masked_fill(later, -float("inf"))
    weights = scores.softmax(dim=-1)
    return weights @ v
    # --8<-- [end:in_torch]


# --8<-- [start:toy]
def toy(device):
    """Return the scores of one query with twelve keys, and a value of each key."""
    scores = torch.tensor([1.0, 3, 2, 0, 2, 5, 4, 1, 3, 0, 4, 2], device=device)
    return scores, torch.arange(1.0, 13, device=device)


def state(scores, values, n: int, block: int) -> list[float]:
    """Return maximum, sum and weighted sum of values after the first ``n`` scores, in tiles of ``block``."""
    out = torch.empty(3, device=scores.device)
    online_softmax_kernel[(1,)](scores, values, out, n, BLOCK=block)
    return out.tolist()
# --8<-- [end:toy]


def same(found, wanted, tolerance: float) -> bool:
    return all(torch.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in zip(found, wanted, strict=True))


def with_gradients(function, inputs, grad, **options) -> list[torch.Tensor]:
    out = function(*inputs, **options)
    return [out, *torch.autograd.grad(out, inputs, grad)]


def main():
    device = "cuda" if isinstance(attention_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)

    print("## online softmax")
    scores, values = toy(device)
    print("scores:", *(f"{score:.0f}" for score in scores.tolist()))
    print("values:", *(f"{value:.0f}" for value in values.tolist()))
    for n in range(4, 13, 4):
        maximum, total, accumulator = state(scores, values, n, block=4)
        print(f"after {n}, maximum: {maximum:.0f}")
        print(f"after {n}, sum: {total:.4f}")
        print(f"after {n}, accumulator: {accumulator:.4f}")
    print(f"result: {accumulator / total:.4f}")
    print(f"torch: {scores.softmax(0) @ values:.4f}")

    print("## causal")
    q, k = torch.zeros(1, 1, 3, 16, device=device), torch.zeros(1, 1, 5, 16, device=device)
    v = torch.arange(1.0, 6, device=device).view(1, 1, 5, 1).expand(1, 1, 5, 16).contiguous()
    print("3 queries, 5 keys:", shown(attention(q, k, v, causal=True)))
    print("is_causal of torch:", shown(torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)))
    q = q.repeat(1, 1, 2, 1)[:, :, :5]
    print("5 queries, 3 keys:", shown(attention(q, k[:, :, :3], v[:, :, :3], causal=True)))

    print("## as torch")
    # --8<-- [start:gradcheck]
    options = {"dtype": torch.float64, "device": device, "requires_grad": True}
    q = torch.randn(1, 2, 3, 16, **options)
    k, v = (torch.randn(1, 1, 5, 16, **options) for _ in range(2))
    causal = lambda q, k, v: attention(q, k, v, causal=True)
    print("gradcheck:", torch.autograd.gradcheck(causal, (q, k, v), fast_mode=True))
    # --8<-- [end:gradcheck]
    for heads, kv_heads, length, head_dim, dtype, tolerance in (
        (2, 2, 100, 16, torch.float32, 1e-4),
        (2, 1, 150, 64, torch.float16, 1e-2),  # by descriptors
    ):  # fmt: skip
        q, grad = torch.randn(2, 1, heads, length, head_dim).to(device, dtype)
        k, v = torch.randn(2, 1, kv_heads, length, head_dim).to(device, dtype)
        inputs = [x.requires_grad_() for x in (q, k, v)]
        compiled = torch.compile(attention, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
        for name, function in {"attention": attention, "compiled": compiled}.items():
            found, wanted = (with_gradients(each, inputs, grad, causal=True) for each in (function, in_torch))
            print(f"{name}, {heads} heads on {kv_heads}, {length} keys, {dtype}:", same(found, wanted, tolerance))


    print("## what a descriptor can describe")
    # --8<-- [start:layouts]
    q = torch.zeros(4, 16, 100, 64, dtype=torch.float16, device=device)  # batch, heads, queries, head_dim
    tensors = {
        "contiguous": q,
        "(batch, queries, heads, head_dim), transposed": q.transpose(1, 2).contiguous().transpose(1, 2),
        "one of three, as x.chunk(3, dim=3) makes them": q.repeat(1, 1, 1, 3).chunk(3, dim=3)[1],
        "rows of 65, the last one not used": torch.nn.functional.pad(q, (0, 1))[..., :64],
        "a head for all, by expand": q[:, :1].expand(4, 16, 100, 64),
        "float32": q.float(),
    }
    for name, x in tensors.items():
        print(f"{name}:", "descriptors" if can_be_described(x) else "pointers")
    # --8<-- [end:layouts]


def shown(out: torch.Tensor) -> str:
    return " ".join(f"{value:.4f}" for value in out[0, 0, :, 0].tolist())


if __name__ == "__main__":
    main()
