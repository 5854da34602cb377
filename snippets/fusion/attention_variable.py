# SPDX-License-Identifier: Apache-2.0
"""Attention over sequences of many lengths, packed one after another, without padding: forward and backward.

The rows of all sequences lie in one tensor; ``cu_seqlens``, the running sum of their lengths, says where each begins.
A program holds a tile of queries of one sequence and goes through the keys of that sequence. It is told the number of
its tile, among the tiles of all sequences, and looks up in ``cu_seqlens`` which one that is. So the host needs to know
no length, and does not wait for the GPU. Loops and formulas are those of ``attention.py``.

- :func:`attention_variable`: the function to call; it has a gradient, and works under ``torch.compile``

Shapes: ``q``, result ``(total_q, heads, head_dim)``; ``k``, ``v`` ``(total_k, kv_heads, head_dim)``;
``cu_seqlens_q``, ``cu_seqlens_k`` ``(sequences + 1,)``, int32, as ``flash_attn_varlen_func`` and
``torch.nn.attention.varlen.varlen_attn`` take them.
Traffic, in elements: that of ``attention.py`` for each sequence, and each program reads ``cu_seqlens_q`` or ``_k``.
Nothing is added up by atomics, so every run gives the same bits.
Source: Dao, *FlashAttention-2*, 2023, whose code has such a function.

Run it on a GPU with ``python attention_variable.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.fusion.attention import (
    DTYPES,
    HEAD_DIMS,
    LONGEST,
    add_to_grad_k_v,
    add_to_grad_q,
    as_float,
    attend,
    attention_kernel,
    check_scale,
    default_tile,
    dtype_inside,
    grad_k_v_kernel,
    grad_q_kernel,
    in_torch,
    keys_of,
    load_rows,
    store_rows,
)

MOST_SEQUENCES = 4096  # each program goes through all of their beginnings


# --8<-- [start:find]
@triton.jit
def tile_of(
    cu_ptr, sequences, total, tile, BLOCK: tl.constexpr,
    SEQUENCES: tl.constexpr
):  # fmt: skip
    """Return a tile's sequence, its begin and length, and the first row.

    What follows the last sequence counts as one more, with the number
    ``sequences``. If there is no such tile, all four are 0.
    """
    sequence = tl.arange(0, SEQUENCES)
    begin = tl.load(
        cu_ptr + sequence, mask=(sequence > 0) & (sequence <= sequences),
        other=0
    )  # fmt: skip
    end = tl.load(
        cu_ptr + sequence + 1, mask=sequence < sequences, other=total
    )  # fmt: skip
    # stays inside, whatever cu_seqlens says
    begin, end = tl.maximum(begin, 0), tl.minimum(tl.maximum(end, 0), total)
    length = tl.where(sequence <= sequences, end - begin, 0)
    tiles = tl.cdiv(tl.maximum(length, 0), BLOCK)
    # 64 bits, because wrong lengths may add up to anything
    before = tl.cumsum(tl.cast(tiles, tl.int64), axis=0) - tiles
    # true for at most one sequence
    here = (before <= tile) & (tile < before + tiles)
    first = tl.cast(
        tile - tl.sum(tl.where(here, before, 0), axis=0), tl.int32
    ) * BLOCK  # fmt: skip
    length = tl.sum(tl.where(here, length, 0), axis=0)
    sequence = tl.sum(tl.where(here, sequence, 0), axis=0)
    return (
        sequence, tl.sum(tl.where(here, begin, 0), axis=0), length,
        tl.where(length > 0, first, 0)
    )  # fmt: skip


@triton.jit
def rows_of_sequence(cu_ptr, sequence, sequences, total):
    """Return where the other rows of a sequence begin, and their number."""
    is_one = sequence < sequences
    begin = tl.maximum(
        tl.load(cu_ptr + sequence, mask=is_one & (sequence > 0), other=0), 0
    )  # fmt: skip
    end = tl.minimum(
        tl.maximum(tl.load(cu_ptr + sequence + 1, mask=is_one, other=0), 0),
        total
    )  # fmt: skip
    return begin, tl.where(is_one, tl.maximum(end - begin, 0), 0)


# --8<-- [end:find]


@triton.jit
def head_at(ptr, begin, stride_row, head, stride_head):
    return ptr + tl.cast(begin, tl.int64) * stride_row + tl.cast(head, tl.int64) * stride_head


# --8<-- [start:kernel]
@triton.jit(do_not_specialize=[
    "sequences", "total_q", "total_k", "heads", "group", "tiles"
])  # fmt: skip
def variable_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, cu_q_ptr, cu_k_ptr,
    q_row, q_head, k_row, k_head, v_row, v_head, out_row, out_head,
    sequences, total_q, total_k, heads, group, tiles,
    SCALE: tl.constexpr, CAUSAL: tl.constexpr, COMPUTE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    SEQUENCES: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # times log2(e), for exp2 instead of exp
    FACTOR: tl.constexpr = SCALE * 1.4426950408889634
    head, tile = (
        tl.program_id(axis=0) // tiles, tl.program_id(axis=0) % tiles
    )  # fmt: skip
    # if causal, the last tile of a sequence sees most keys: it begins first
    tile = tiles - 1 - tile
    sequence, begin_q, queries, first = tile_of(
        cu_q_ptr, sequences, total_q, tile, BLOCK_Q, SEQUENCES
    )  # fmt: skip
    if first < queries:
        begin_k, keys = rows_of_sequence(
            cu_k_ptr, sequence, sequences, total_k
        )  # fmt: skip
        q_ptr = head_at(q_ptr, begin_q, q_row, head, q_head)
        k_ptr = head_at(k_ptr, begin_k, k_row, head // group, k_head)
        v_ptr = head_at(v_ptr, begin_k, v_row, head // group, v_head)
        out_ptr = head_at(out_ptr, begin_q, out_row, head, out_head)
        # --8<-- [start:as_before]
        q = load_rows(q_ptr, q_row, 0, 0, first, queries, BLOCK_Q, HEAD_DIM)
        maximum = tl.full((BLOCK_Q,), -float("inf"), COMPUTE)
        total = tl.zeros((BLOCK_Q,), COMPUTE)
        accumulator = tl.zeros((BLOCK_Q, HEAD_DIM), COMPUTE)
        whole, last = keys_of(
            first, queries, keys, CAUSAL, BLOCK_Q, BLOCK_K
        )  # fmt: skip
        maximum, total, accumulator = attend(  # MASKED=False
            maximum, total, accumulator, q, k_ptr, v_ptr, k_row, v_row,
            0, 0, first, 0, whole, queries, keys,
            FACTOR, CAUSAL, False, False, COMPUTE, HEAD_DIM,
            BLOCK_Q, BLOCK_K,
        )  # fmt: skip
        maximum, total, accumulator = attend(  # MASKED=True
            maximum, total, accumulator, q, k_ptr, v_ptr, k_row, v_row,
            0, 0, first, whole, last, queries, keys,
            FACTOR, CAUSAL, True, False, COMPUTE, HEAD_DIM,
            BLOCK_Q, BLOCK_K,
        )  # fmt: skip
        # no key, or all scores -inf: out is 0, and so is exp(score - lse)
        none = total == 0.0
        total = tl.where(none, 1.0, total)
        lse = tl.where(
            none, float("inf"), maximum / 1.4426950408889634 + tl.log(total)
        )  # fmt: skip
        store_rows(
            out_ptr, out_row, first, queries, accumulator / total[:, None],
            BLOCK_Q, HEAD_DIM
        )  # fmt: skip
        # --8<-- [end:as_before]
        query = first + tl.arange(0, BLOCK_Q)
        tl.store(
            lse_at(lse_ptr, begin_q, queries, heads, head) + query, lse,
            mask=query < queries
        )  # fmt: skip


@triton.jit
def lse_at(ptr, begin_q, queries, heads, head):
    """Return where a sequence's numbers begin, head by head."""
    return (
        ptr
        + tl.cast(begin_q, tl.int64) * heads
        + tl.cast(head, tl.int64) * queries
    )  # fmt: skip


# --8<-- [end:kernel]


# --8<-- [start:grad_q]
@triton.jit(do_not_specialize=[
    "sequences", "total_q", "total_k", "heads", "group", "tiles"
])  # fmt: skip
def variable_grad_q_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, out_ptr, lse_ptr, delta_ptr, lse2_ptr, grad_q_ptr, cu_q_ptr, cu_k_ptr,
    q_row, q_head, k_row, k_head, v_row, v_head, grad_row, grad_head, out_row, out_head, grad_q_row, grad_q_head,
    sequences, total_q, total_k, heads, group, tiles,
    SCALE: tl.constexpr, CAUSAL: tl.constexpr, COMPUTE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    SEQUENCES: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    FACTOR: tl.constexpr = SCALE * 1.4426950408889634
    head, tile = (
        tl.program_id(axis=0) // tiles, tl.program_id(axis=0) % tiles
    )  # fmt: skip
    tile = tiles - 1 - tile
    sequence, begin_q, queries, first = tile_of(
        cu_q_ptr, sequences, total_q, tile, BLOCK_Q, SEQUENCES
    )  # fmt: skip
    if first < queries:
        begin_k, keys = rows_of_sequence(
            cu_k_ptr, sequence, sequences, total_k
        )  # fmt: skip
        q_ptr = head_at(q_ptr, begin_q, q_row, head, q_head)
        k_ptr = head_at(k_ptr, begin_k, k_row, head // group, k_head)
        v_ptr = head_at(v_ptr, begin_k, v_row, head // group, v_head)
        grad_ptr = head_at(grad_ptr, begin_q, grad_row, head, grad_head)
        out_ptr = head_at(out_ptr, begin_q, out_row, head, out_head)
        grad_q_ptr = head_at(grad_q_ptr, begin_q, grad_q_row, head, grad_q_head)
        q = load_rows(q_ptr, q_row, 0, 0, first, queries, BLOCK_Q, HEAD_DIM)
        grad = load_rows(grad_ptr, grad_row, 0, 0, first, queries, BLOCK_Q, HEAD_DIM)
        out = load_rows(out_ptr, out_row, 0, 0, first, queries, BLOCK_Q, HEAD_DIM).to(COMPUTE)
        query = first + tl.arange(0, BLOCK_Q)
        lse = tl.load(
            lse_at(lse_ptr, begin_q, queries, heads, head) + query, mask=query < queries, other=float("inf")
        )
        delta, lse2 = tl.sum(grad.to(COMPUTE) * out, axis=1), lse * 1.4426950408889634
        # the next kernel needs both
        tl.store(lse_at(delta_ptr, begin_q, queries, heads, head) + query, delta, mask=query < queries)
        tl.store(lse_at(lse2_ptr, begin_q, queries, heads, head) + query, lse2, mask=query < queries)
        whole, last = keys_of(
            first, queries, keys, CAUSAL, BLOCK_Q, BLOCK_K
        )  # fmt: skip
        grad_q = tl.zeros((BLOCK_Q, HEAD_DIM), COMPUTE)
        grad_q = add_to_grad_q(
            grad_q, q, grad, lse2, delta, k_ptr, v_ptr, k_row, v_row, 0, 0, first, 0, whole, queries, keys,
            FACTOR, CAUSAL, False, False, COMPUTE, HEAD_DIM,
            BLOCK_Q, BLOCK_K,
        )  # fmt: skip
        grad_q = add_to_grad_q(
            grad_q, q, grad, lse2, delta, k_ptr, v_ptr, k_row, v_row, 0, 0, first, whole, last, queries, keys,
            FACTOR, CAUSAL, True, False, COMPUTE, HEAD_DIM,
            BLOCK_Q, BLOCK_K,
        )  # fmt: skip
        store_rows(grad_q_ptr, grad_q_row, first, queries, grad_q * SCALE, BLOCK_Q, HEAD_DIM)


# --8<-- [end:grad_q]


# --8<-- [start:grad_kv]
@triton.jit(do_not_specialize=[
    "sequences", "total_q", "total_k", "heads", "group", "tiles"
])  # fmt: skip
def variable_grad_k_v_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, lse2_ptr, delta_ptr, grad_k_ptr, grad_v_ptr, cu_q_ptr, cu_k_ptr,
    q_row, q_head, k_row, k_head, v_row, v_head, grad_row, grad_head, grad_k_row, grad_k_head,
    sequences, total_q, total_k, heads, group, tiles,
    SCALE: tl.constexpr, CAUSAL: tl.constexpr, COMPUTE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    SEQUENCES: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    FACTOR: tl.constexpr = SCALE * 1.4426950408889634
    kv_head, tile = tl.program_id(axis=0) // tiles, tl.program_id(axis=0) % tiles
    sequence, begin_k, keys, begin = tile_of(cu_k_ptr, sequences, total_k, tile, BLOCK_K, SEQUENCES)
    if begin < keys:
        begin_q, queries = rows_of_sequence(cu_q_ptr, sequence, sequences, total_q)
        q_ptr = head_at(q_ptr, begin_q, q_row, 0, q_head)
        grad_ptr = head_at(grad_ptr, begin_q, grad_row, 0, grad_head)
        k_ptr = head_at(k_ptr, begin_k, k_row, kv_head, k_head)
        v_ptr = head_at(v_ptr, begin_k, v_row, kv_head, v_head)
        grad_k_ptr = head_at(grad_k_ptr, begin_k, grad_k_row, kv_head, grad_k_head)
        grad_v_ptr = head_at(grad_v_ptr, begin_k, grad_k_row, kv_head, grad_k_head)
        lse2_ptr = lse_at(lse2_ptr, begin_q, queries, heads, 0)
        delta_ptr = lse_at(delta_ptr, begin_q, queries, heads, 0)
        k = load_rows(k_ptr, k_row, 0, 0, begin, keys, BLOCK_K, HEAD_DIM)
        v = load_rows(v_ptr, v_row, 0, 0, begin, keys, BLOCK_K, HEAD_DIM)
        grad_k = tl.zeros((BLOCK_K, HEAD_DIM), COMPUTE)
        grad_v = tl.zeros((BLOCK_K, HEAD_DIM), COMPUTE)
        batch = tl.full((), 0, tl.int32)  # all pointers are of this sequence already
        whole = 0
        if CAUSAL:  # from the tile of the first query that sees a key of this tile to that where all are seen
            start = tl.maximum(0, begin - (keys - queries)) // BLOCK_Q * BLOCK_Q
            whole = tl.cdiv(tl.maximum(0, begin + BLOCK_K - 1 - (keys - queries)), BLOCK_Q) * BLOCK_Q
            whole = tl.minimum(whole, queries)
            grad_k, grad_v = add_to_grad_k_v(  # MASKED=True
                grad_k, grad_v, k, v, q_ptr, grad_ptr, lse2_ptr, delta_ptr, q_head, q_row, grad_head, grad_row,
                batch, heads, kv_head * group, group, begin, start, whole, queries, keys,
                FACTOR, True, False, COMPUTE, HEAD_DIM, BLOCK_Q, BLOCK_K,
            )  # fmt: skip
        grad_k, grad_v = add_to_grad_k_v(  # MASKED=False
            grad_k, grad_v, k, v, q_ptr, grad_ptr, lse2_ptr, delta_ptr, q_head, q_row, grad_head, grad_row,
            batch, heads, kv_head * group, group, begin, whole, queries, queries, keys,
            FACTOR, False, False, COMPUTE, HEAD_DIM, BLOCK_Q, BLOCK_K,
        )  # fmt: skip
        store_rows(grad_k_ptr, grad_k_row, begin, keys, grad_k * SCALE, BLOCK_K, HEAD_DIM)
        store_rows(grad_v_ptr, grad_k_row, begin, keys, grad_v, BLOCK_K, HEAD_DIM)


# --8<-- [end:grad_kv]


# --8<-- [start:launches]
def forward(q, k, v, cu_q, cu_k, scale: float, causal: bool, tile=None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the result, and ``lse`` of each query, a sequence after the other and in it head by head."""
    check_arguments(cu_q, cu_k, q=q, k=k, v=v)
    check_scale(scale)
    q, k, v = map(served, (q, k, v))
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[0] * q.shape[1], dtype=dtype_inside(q), device=q.device)
    launch(variable_kernel, (q, k, v), (out, lse), (out,), cu_q, cu_k, scale, causal, tile)
    return out, lse


def backward(grad, q, k, v, out, lse, cu_q, cu_k, scale: float, causal: bool, tile=None) -> tuple[torch.Tensor, ...]:
    """Return the gradients of ``q``, ``k`` and ``v``."""
    check_arguments(cu_q, cu_k, q=q, k=k, v=v, grad=grad)
    check_scale(scale)
    loaded = q, k, v, grad = tuple(map(served, (q, k, v, grad)))
    grad_q, grad_k, grad_v = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    if not q.numel():
        return grad_q, grad_k.zero_(), grad_v.zero_()
    delta, lse2 = torch.empty_like(lse), torch.empty_like(lse)
    options = cu_q, cu_k, scale, causal, tile
    launch(variable_grad_q_kernel, loaded, (out, lse, delta, lse2, grad_q), (out, grad_q), *options)
    launch(variable_grad_k_v_kernel, loaded, (lse2, delta, grad_k, grad_v), (grad_k,), *options)
    return grad_q, grad_k, grad_v


def launch(kernel, loaded, others, strided, cu_q, cu_k, scale: float, causal: bool, tile=None) -> None:
    """Start a program of ``kernel`` for each tile that there may be, of each head."""
    q, k, *_ = loaded  # and v, and for the backward pass grad
    (total_q, heads, head_dim), (total_k, kv_heads, _) = q.shape, k.shape
    like = {variable_kernel: attention_kernel, variable_grad_q_kernel: grad_q_kernel}.get(kernel, grad_k_v_kernel)
    tile = tile or default_tile(like, q.dtype, head_dim)
    over_keys = kernel is variable_grad_k_v_kernel
    sequences = len(cu_q) - 1
    rows, block = (total_k, tile["BLOCK_K"]) if over_keys else (total_q, tile["BLOCK_Q"])
    tiles = most_tiles(rows, sequences, block)
    programs = tiles * (kv_heads if over_keys else heads)
    if programs >= 2**31:  # CUDA's limit along one axis
        raise ValueError(f"{tuple(q.shape)} takes {programs} programs; 2**31 - 1 is the limit: split the heads")
    if not programs:
        return
    strides = [stride for x in (*loaded, *strided) for stride in x.stride()[:2]]
    compute = tl.float64 if q.dtype == torch.float64 else tl.float32
    with torch.cuda.device_of(q):  # Triton launches on the current device, which need not be that of the tensors
        kernel[(programs,)](
            *loaded, *others, cu_q, cu_k, *strides, sequences, total_q, total_k, heads, heads // kv_heads, tiles,
            SCALE=scale, CAUSAL=causal, COMPUTE=compute, HEAD_DIM=head_dim,
            SEQUENCES=triton.next_power_of_2(sequences + 1), **tile,
        )  # fmt: skip


def most_tiles(rows: int, sequences: int, block: int) -> int:
    """Return the most tiles that sequences have: each, and the rows after the last one, may end in a partial tile.

    >>> most_tiles(100, sequences=3, block=16)  # as many as 1, 1 and 1 row have, and 97 after them
    10
    """
    return min(rows, rows // block + sequences + 1)


def served(x: torch.Tensor) -> torch.Tensor:
    """Return ``x``, copied if a row's elements are not adjacent in memory, or a tile's rows lie 2³¹ apart."""
    near = x.stride(2) == 1 and abs(x.stride(0)) < 2**31 // 256
    return (x if near else x.contiguous()).resolve_neg()


# --8<-- [end:launches]


# --8<-- [start:function]
class AttentionVariable(torch.autograd.Function):
    @staticmethod
    def forward(q, k, v, cu_q, cu_k, scale, causal):
        return forward(q, k, v, cu_q, cu_k, scale, causal)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *saved, ctx.scale, ctx.causal = inputs
        ctx.save_for_backward(*saved[:3], *output, *saved[3:])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        if torch.is_grad_enabled():  # as under create_graph=True
            raise RuntimeError(
                "attention_variable has no gradient of its gradient, so it refuses create_graph=True, and"
                " torch.func.grad and vjp, which always ask for it; use torch.autograd.grad"
            )
        return *backward(grad, *ctx.saved_tensors, ctx.scale, ctx.causal), *[None] * 4


# --8<-- [end:function]


@torch.library.custom_op("triton_by_example::attention_variable", mutates_args=())
def attention_variable_op(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_q: torch.Tensor, cu_k: torch.Tensor,
    scale: float, causal: bool,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    return forward(q, k, v, cu_q, cu_k, scale, causal)


@torch.library.custom_op("triton_by_example::attention_variable_backward", mutates_args=())
def attention_variable_backward_op(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, lse: torch.Tensor,
    cu_q: torch.Tensor, cu_k: torch.Tensor, scale: float, causal: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    return backward(grad, q, k, v, out, lse, cu_q, cu_k, scale, causal)


@attention_variable_op.register_fake
def _(q, k, v, cu_q, cu_k, scale, causal):
    return q.new_empty(q.shape), q.new_empty(q.shape[0] * q.shape[1], dtype=dtype_inside(q))


@attention_variable_backward_op.register_fake
def _(grad, q, k, v, out, lse, cu_q, cu_k, scale, causal):
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


attention_variable_op.register_autograd(
    lambda ctx, grad, _: (
        *attention_variable_backward_op(grad, *ctx.saved_tensors, ctx.scale, ctx.causal), *[None] * 4,
    ),
    setup_context=AttentionVariable.setup_context,
)  # fmt: skip


# --8<-- [start:host]
def attention_variable(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens_q: torch.Tensor, cu_seqlens_k: torch.Tensor,
    *, causal: bool = False, scale: float | None = None,
) -> torch.Tensor:  # fmt: skip
    """Return ``softmax(scale * q @ kᵀ) @ v`` of each head of each sequence; it has a gradient for q, k and v.

    Args:
        q: ``(total_q, heads, head_dim)`` on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``; head_dim one
            of ``HEAD_DIMS``. The elements of a row are neighbors in memory, rows and heads may lie anywhere, as after
            ``qkv.unbind(1)``; what lies otherwise is copied.
        k: ``(total_k, kv_heads, head_dim)``, likewise. heads is a multiple of kv_heads, and ``heads // kv_heads``
            heads in a row share a head of ``k`` and ``v``.
        v: Of the shape of ``k``.
        cu_seqlens_q: ``(sequences + 1,)``, int32, on the device of ``q``: the lengths of all sequences before each.
            Sequence i has the rows from ``cu_seqlens_q[i]`` to ``cu_seqlens_q[i + 1]``; it may have none. The first
            number is taken as 0, and no number may be less than the one before. The values stay on the GPU, so nobody
            checks that; wrong ones make wrong results, but nothing outside of the tensors is read or written.
        cu_seqlens_k: Of the same length, for ``k`` and ``v``.
        causal: Whether a query sees only keys that are no later. The last query and the last key of a sequence are of
            the same time (the mask is aligned to the bottom right, as in flash-attention since 2.1), so ``query`` sees
            ``key <= query + keys - queries``.
        scale: Of the scores; ``head_dim ** -0.5`` unless told. Each value is compiled anew.

    Returns:
        A new contiguous tensor of the shape and dtype of ``q``, computed in float32 (in float64 for float64), with the
        weights rounded to the dtype of ``v`` before they meet it. A query that sees no key, or whose scores are all
        -inf, gets zeros, and gradients of zero; so do rows after the last sequence. What a query does not see must
        still be finite, as must rows after the last sequence. The gradients are contiguous and the same in every run.
        ``q``, ``k``, ``v``, the result and a number for each query are kept for the backward. The kernel may still be
        running when the result is returned.

    Raises:
        ValueError: If an argument is something the kernels can't serve.
        RuntimeError: In the backward, under ``create_graph=True``: there is no gradient of the gradient.

    >>> q = k = torch.zeros(5, 1, 16)
    >>> v = torch.arange(5.0).view(5, 1, 1).expand(5, 1, 16)
    >>> lengths = torch.tensor([0, 2, 5], dtype=torch.int32)  # rows 0 and 1; rows 2, 3 and 4
    >>> attention_variable(q, k, v, lengths, lengths, causal=True)[:, 0, 0]
    tensor([0.0000, 0.5000, 2.0000, 2.5000, 3.0000])
    """
    scale = q.shape[-1] ** -0.5 if scale is None else as_float("scale", scale)
    if scale <= 0:  # the kernels take the largest score before they scale
        q, scale = (-q, -scale) if scale < 0 else (0 * q, 1.0)
    arguments = q, k, v, cu_seqlens_q, cu_seqlens_k, scale, bool(causal)
    if torch.compiler.is_compiling():
        return attention_variable_op(*arguments)[0]
    return AttentionVariable.apply(*arguments)[0]


# --8<-- [end:host]


# --8<-- [start:check]
def check_arguments(cu_q: torch.Tensor, cu_k: torch.Tensor, **tensors: torch.Tensor) -> None:
    """Raise ``ValueError`` for arguments that the kernels would get wrong, or can't serve at all."""
    q, k = tensors["q"], tensors["k"]
    for name, x in tensors.items():
        if x.ndim != 3:
            raise ValueError(f"{name} must be (rows, heads, head_dim); got the shape {tuple(x.shape)}")
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
    (total_q, heads, head_dim), (total_k, kv_heads, kv_head_dim) = q.shape, k.shape
    if head_dim != kv_head_dim:
        raise ValueError(f"q and k must have the same head_dim; got {tuple(q.shape)} and {tuple(k.shape)}")
    if heads and (not kv_heads or heads % kv_heads):
        raise ValueError(f"the {heads} heads of q must be a multiple of the {kv_heads} of k and v")
    if head_dim not in HEAD_DIMS:
        raise ValueError(f"head_dim {head_dim} is not supported; use one of {', '.join(map(str, HEAD_DIMS))}")
    if max(total_q, total_k) > LONGEST:
        raise ValueError(f"{total_q} queries and {total_k} keys are too many: at most 2**30 are served")
    if q.dtype not in DTYPES:
        raise ValueError(f"dtype {q.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    for name, cu in {"cu_seqlens_q": cu_q, "cu_seqlens_k": cu_k}.items():
        if cu.ndim != 1 or not len(cu) or cu.dtype != torch.int32 or not cu.is_contiguous() or cu.device != q.device:
            raise ValueError(
                f"{name} must be int32, contiguous, of one axis with a number or more, and on {q.device}; got "
                f"{cu.dtype}, shape {tuple(cu.shape)}, strides {cu.stride()}, on {cu.device}"
            )
    if len(cu_q) != len(cu_k):
        raise ValueError(f"cu_seqlens_q has {len(cu_q)} numbers and cu_seqlens_k {len(cu_k)}: not as many sequences")
    if len(cu_q) - 1 > MOST_SEQUENCES:
        raise ValueError(f"{len(cu_q) - 1} sequences are too many for one launch, which serves {MOST_SEQUENCES}")
    interpreted = not isinstance(variable_kernel, triton.JITFunction)
    if q.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"q is on {q.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if q.dtype == torch.bfloat16 and interpreted:
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")


# --8<-- [end:check]


def by_sequence(q, k, v, cu_seqlens_q, cu_seqlens_k, causal=False, scale=None):
    """Compute the same by torch, sequence by sequence. Queries that see no key, and rows after the last, get zeros."""
    out = torch.zeros_like(q)
    of_q, of_k = ([0, *cu.tolist()[1:]] for cu in (cu_seqlens_q, cu_seqlens_k))
    for i in range(len(of_q) - 1):
        queries, keys = slice(of_q[i], of_q[i + 1]), slice(of_k[i], of_k[i + 1])
        count, of = queries.stop - queries.start, keys.stop - keys.start
        blind = max(0, count - of) if causal else 0 if of else count  # the first ones see no key
        rows = slice(queries.start + blind, queries.stop)
        one = (x.transpose(0, 1)[None] for x in (q[rows], k[keys], v[keys]))
        out[rows] = in_torch(*one, causal=causal, scale=scale)[0].transpose(0, 1)
    return out


# --8<-- [start:toy]
@triton.jit
def toy_kernel(cu_ptr, out_ptr, sequences, total, tile, BLOCK: tl.constexpr, SEQUENCES: tl.constexpr):
    sequence, begin, length, first = tile_of(cu_ptr, sequences, total, tile, BLOCK, SEQUENCES)
    tl.store(out_ptr, sequence)
    tl.store(out_ptr + 1, begin)
    tl.store(out_ptr + 2, length)
    tl.store(out_ptr + 3, first)


def toy(device) -> list[tuple[int, ...]]:
    """Return sequences of 3, 0 and 6 rows, and a row after the last, in tiles of 4: what each program finds."""
    cu, found = torch.tensor([0, 3, 3, 9], dtype=torch.int32, device=device), []
    for tile in range(most_tiles(10, sequences=3, block=4)):
        out = torch.empty(4, dtype=torch.int32, device=device)
        toy_kernel[(1,)](cu, out, 3, 10, tile, BLOCK=4, SEQUENCES=4)
        found.append(tuple(out.tolist()))
    return found


def drawn(found: list[tuple[int, ...]], rows: int, block: int) -> list[str]:
    """Return a line for each program: the rows that it has, by the number of their sequence."""
    lines = []
    for sequence, begin, length, first in found:
        mine = range(begin + first, begin + min(first + block, length))
        lines.append(" ".join(str(sequence) if row in mine else "." for row in range(rows)))
    return lines


# --8<-- [end:toy]


def with_gradients(function, inputs, grad) -> list[torch.Tensor]:
    out = function(*inputs)
    return [out, *torch.autograd.grad(out, inputs, grad)]


def main():
    device = "cuda" if isinstance(variable_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)

    print("## which program has which rows")
    for tile, line in enumerate(drawn(toy(device), rows=10, block=4)):
        print(f"program {tile}: {line}")

    print("## three sequences")
    q, k = torch.zeros(5, 1, 16, device=device), torch.zeros(6, 1, 16, device=device)
    v = torch.arange(1.0, 7, device=device).view(6, 1, 1).expand(6, 1, 16)
    cu_q, cu_k = (torch.tensor(cu, dtype=torch.int32, device=device) for cu in ([0, 2, 2, 5], [0, 1, 3, 6]))
    for causal in (False, True):
        out = attention_variable(q, k, v, cu_q, cu_k, causal=causal)
        print("causal:  " if causal else "all keys:", " ".join(f"{value:.1f}" for value in out[:, 0, 0].tolist()))

    print("## as torch")
    # --8<-- [start:gradcheck]
    options = {"dtype": torch.float64, "device": device, "requires_grad": True}
    q, k, v = (torch.randn(total, heads, 16, **options) for total, heads in ((5, 2), (6, 1), (6, 1)))
    causal = lambda q, k, v: attention_variable(q, k, v, cu_q, cu_k, causal=True)
    print("gradcheck:", torch.autograd.gradcheck(causal, (q, k, v), fast_mode=True))
    # --8<-- [end:gradcheck]
    lengths = torch.tensor([0, 40, 41, 41, 90], dtype=torch.int32, device=device)
    q, grad = torch.randn(2, 90, 2, 32, device=device)
    k, v = torch.randn(2, 90, 1, 32, device=device)
    inputs = [x.requires_grad_() for x in (q, k, v)]
    ours = lambda q, k, v: attention_variable(q, k, v, lengths, lengths, causal=True)
    compiled = torch.compile(ours, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    wanted = with_gradients(lambda q, k, v: by_sequence(q, k, v, lengths, lengths, causal=True), inputs, grad)
    for name, function in {"attention_variable": ours, "compiled": compiled}.items():
        found = with_gradients(function, inputs, grad)
        same = all(torch.allclose(a, b, rtol=1e-4, atol=1e-4) for a, b in zip(found, wanted, strict=True))
        print(f"{name}, 4 sequences of 40, 1, 0 and 49 rows:", same)


if __name__ == "__main__":
    main()
