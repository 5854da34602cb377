# SPDX-License-Identifier: Apache-2.0
"""Attention with its gradients: two kernels that compute the scores again, of which the forward stored none.

The forward is that of ``attention.py``. From the number that it keeps of each query, ``lse = log2(sum(exp(scores)))``,
the backward computes the weights again, as probabilities ``p = exp2(scores * log2(e) - lse)``::

    delta = sum(grad * out)                 # for each query
    grad_scores = p * (grad @ vᵀ - delta)
    grad_q = scale * grad_scores @ k
    grad_k = scale * grad_scoresᵀ @ q
    grad_v = pᵀ @ grad

One kernel goes over tiles of queries and makes ``grad_q``; the other, over tiles of keys, makes ``grad_k`` and
``grad_v``. Each program owns what it stores, so nothing is added up by atomics, and every run gives the same bits.

- :func:`attention`: the function to call; it has a gradient

``snippets/library/attention.py`` is the file to copy into a model.

Traffic, in elements: ``q``, ``out`` and ``grad`` once, ``k`` and ``v`` by each tile of queries; then ``k`` and ``v``
once, ``q`` and ``grad`` by each tile of keys; the three gradients are written once.
Source: Dao, *FlashAttention-2*, 2023.

Run it on a GPU with ``python attention_backward.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import functools

import torch
import triton
import triton.language as tl

from snippets.fusion.attention import (
    LOG2E,
    check_arguments,
    forward,
    in_torch,
    keys_of,
    launch,
    load_rows,
    served,
    store_rows,
    tile_of,
    use_descriptors,
    visible,
)


# --8<-- [start:grad_q]
@triton.jit(do_not_specialize=["heads", "group", "queries", "keys"])
def grad_q_kernel(
    q_source,
    k_source,
    v_source,
    grad_source,
    out_ptr,
    lse_ptr,
    delta_ptr,
    grad_q_ptr,
    q_strides,
    k_strides,
    v_strides,
    grad_strides,
    out_strides,
    heads,
    group,
    queries,
    keys,
    SCALE: tl.constexpr,
    CAUSAL: tl.constexpr,
    DESCRIBED: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Compute the gradient of a tile of queries of one head, and ``delta``.

    Parameters, beside those of ``attention_kernel``:
        grad_source: The gradient of the result, given as ``q_source`` is.
        out_ptr: The result; it and ``grad_q`` have the strides
            ``out_strides``.
        delta_ptr: Like ``lse``; the next kernel needs it.
    """
    FACTOR: tl.constexpr = SCALE * LOG2E
    tiles = tl.cdiv(queries, BLOCK_Q)
    tile = tl.program_id(axis=0) % tiles
    pair = tl.program_id(axis=0) // tiles
    if CAUSAL:
        tile = tiles - 1 - tile
    first, batch, head = tile * BLOCK_Q, pair // heads, pair % heads
    kv_head = head // group
    q = load_rows(
        q_source, q_strides, batch, head, first, queries,
        BLOCK_Q, HEAD_DIM, DESCRIBED,
    )  # fmt: skip
    grad = load_rows(
        grad_source, grad_strides, batch, head, first, queries,
        BLOCK_Q, HEAD_DIM, DESCRIBED,
    )  # fmt: skip
    # --8<-- [start:delta]
    out = load_rows(
        out_ptr, out_strides, batch, head, first, queries,
        BLOCK_Q, HEAD_DIM, False,
    )  # fmt: skip
    delta = tl.sum(grad.to(tl.float32) * out.to(tl.float32), axis=1)
    query = first + tl.arange(0, BLOCK_Q)
    number = pair.to(tl.int64) * queries + query
    tl.store(delta_ptr + number, delta, mask=query < queries)
    lse = tl.load(
        lse_ptr + number, mask=query < queries, other=float("inf")
    )  # fmt: skip
    # --8<-- [end:delta]
    grad_q = tl.zeros((BLOCK_Q, HEAD_DIM), tl.float32)
    whole, last = keys_of(first, queries, keys, CAUSAL, BLOCK_Q, BLOCK_K)
    for MASKED in tl.static_range(2):
        start, end = (whole, last) if MASKED else (0, whole)
        # --8<-- [start:grad_q_loop]
        for begin in range(start, end, BLOCK_K):
            k = load_rows(
                k_source, k_strides, batch, kv_head, begin, keys,
                BLOCK_K, HEAD_DIM, DESCRIBED,
            )  # fmt: skip
            v = load_rows(
                v_source, v_strides, batch, kv_head, begin, keys,
                BLOCK_K, HEAD_DIM, DESCRIBED,
            )  # fmt: skip
            score = tl.dot(q, k.T, input_precision="ieee")
            if MASKED:
                key = begin + tl.arange(0, BLOCK_K)[None, :]
                seen = visible(query[:, None], key, queries, keys, CAUSAL)
                score = tl.where(seen, score, -float("inf"))
            p = tl.exp2(score * FACTOR - lse[:, None])
            grad_p = tl.dot(grad, v.T, input_precision="ieee")
            grad_score = p * (grad_p - delta[:, None])
            grad_q = tl.dot(
                grad_score.to(k.dtype), k, grad_q, input_precision="ieee"
            )
        # --8<-- [end:grad_q_loop]
    store_rows(
        grad_q_ptr, out_strides, batch, head, first, queries, grad_q * SCALE,
        BLOCK_Q, HEAD_DIM,
    )  # fmt: skip
# --8<-- [end:grad_q]


# --8<-- [start:queries_of]
@triton.jit
def queries_of(
    begin,
    queries,
    keys,
    CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Return from where on queries see a part of a tile of keys, and from
    where on they see all of it."""
    start, whole = 0, 0
    if CAUSAL:
        first = begin - (keys - queries)  # that sees the first key
        start = tl.maximum(0, first) // BLOCK_Q * BLOCK_Q
        whole = tl.cdiv(tl.maximum(0, first + BLOCK_K - 1), BLOCK_Q) * BLOCK_Q
        whole = tl.minimum(whole, queries)
    return start, whole
# --8<-- [end:queries_of]


# --8<-- [start:grad_kv]
@triton.jit(do_not_specialize=["heads", "group", "queries", "keys"])
def grad_k_v_kernel(
    q_source,
    k_source,
    v_source,
    grad_source,
    lse_ptr,
    delta_ptr,
    grad_k_ptr,
    grad_v_ptr,
    q_strides,
    k_strides,
    v_strides,
    grad_strides,
    out_strides,
    heads,
    group,
    queries,
    keys,
    SCALE: tl.constexpr,
    CAUSAL: tl.constexpr,
    DESCRIBED: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Compute the gradients of a tile of keys and values of one head.

    Parameters, beside those of ``grad_q_kernel``:
        grad_k_ptr, grad_v_ptr: Like ``k``, of the strides ``out_strides``.
    """
    FACTOR: tl.constexpr = SCALE * LOG2E
    tiles, kv_heads = tl.cdiv(keys, BLOCK_K), heads // group
    begin = tl.program_id(axis=0) % tiles * BLOCK_K
    pair = tl.program_id(axis=0) // tiles
    batch, kv_head = pair // kv_heads, pair % kv_heads
    k = load_rows(
        k_source, k_strides, batch, kv_head, begin, keys,
        BLOCK_K, HEAD_DIM, DESCRIBED,
    )  # fmt: skip
    v = load_rows(
        v_source, v_strides, batch, kv_head, begin, keys,
        BLOCK_K, HEAD_DIM, DESCRIBED,
    )  # fmt: skip
    grad_k = tl.zeros((BLOCK_K, HEAD_DIM), tl.float32)
    grad_v = tl.zeros((BLOCK_K, HEAD_DIM), tl.float32)
    start, whole = queries_of(begin, queries, keys, CAUSAL, BLOCK_Q, BLOCK_K)
    for WHOLE in tl.static_range(2):
        here, end = (whole, queries) if WHOLE else (start, whole)
        # --8<-- [start:grad_kv_loop]
        tiles = tl.cdiv(end - here, BLOCK_Q)
        for step in range(0, group * tiles):
            head = kv_head * group + step // tiles
            first = here + step % tiles * BLOCK_Q
            q = load_rows(
                q_source, q_strides, batch, head, first, queries,
                BLOCK_Q, HEAD_DIM, DESCRIBED,
            )  # fmt: skip
            grad = load_rows(
                grad_source, grad_strides, batch, head, first, queries,
                BLOCK_Q, HEAD_DIM, DESCRIBED,
            )  # fmt: skip
            query = first + tl.arange(0, BLOCK_Q)
            number = (batch * heads + head).to(tl.int64) * queries + query
            lse = tl.load(
                lse_ptr + number, mask=query < queries, other=float("inf")
            )
            delta = tl.load(delta_ptr + number, mask=query < queries, other=0)
            score_t = tl.dot(k, q.T, input_precision="ieee")
            if not WHOLE:
                key = begin + tl.arange(0, BLOCK_K)[:, None]
                seen = key <= query[None, :] + (keys - queries)
                score_t = tl.where(seen, score_t, -float("inf"))
            p_t = tl.exp2(score_t * FACTOR - lse[None, :])
            grad_p_t = tl.dot(v, grad.T, input_precision="ieee")
            grad_v = tl.dot(
                p_t.to(grad.dtype), grad, grad_v, input_precision="ieee"
            )
            grad_score_t = p_t * (grad_p_t - delta[None, :])
            grad_k = tl.dot(
                grad_score_t.to(q.dtype), q, grad_k, input_precision="ieee"
            )
        # --8<-- [end:grad_kv_loop]
    # what lies after the last key, finite or not, is in rows not stored
    store_rows(
        grad_k_ptr, out_strides, batch, kv_head, begin, keys, grad_k * SCALE,
        BLOCK_K, HEAD_DIM,
    )  # fmt: skip
    store_rows(
        grad_v_ptr, out_strides, batch, kv_head, begin, keys, grad_v,
        BLOCK_K, HEAD_DIM,
    )  # fmt: skip
# --8<-- [end:grad_kv]


# --8<-- [start:backward]
def backward(
    grad, q, k, v, out, lse, scale: float, causal: bool, described: bool | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of ``q``, ``k`` and ``v``."""
    check_arguments(scale, q=q, k=k, v=v, grad=grad)
    loaded = q, k, v, grad = tuple(map(served, (q, k, v, grad)))
    grad_q, grad_k, grad_v = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    if not q.numel():
        return grad_q, grad_k.zero_(), grad_v.zero_()
    delta = torch.empty_like(lse)
    (batch, heads, queries, head_dim), (_, kv_heads, keys, _) = q.shape, k.shape
    if described is None:
        described = use_descriptors(*loaded)
    options = scale, causal, described
    tile = grad_q_tile(q.dtype, head_dim, described)
    programs = triton.cdiv(queries, tile["BLOCK_Q"]) * heads * batch
    launch(grad_q_kernel, programs, loaded, (out, lse, delta, grad_q), grad_q, *options, tile)
    tile = grad_k_v_tile(q.dtype, head_dim, described)
    programs = triton.cdiv(keys, tile["BLOCK_K"]) * kv_heads * batch
    launch(grad_k_v_kernel, programs, loaded, (lse, delta, grad_k, grad_v), grad_k, *options, tile)
    return grad_q, grad_k, grad_v
# --8<-- [end:backward]


# --8<-- [start:tiles]
def grad_q_tile(dtype: torch.dtype, head_dim: int, described: bool) -> dict[str, int]:
    wide = head_dim > 64
    if dtype == torch.float32:
        return tile_of(16, 16, warps=8, stages=2) if wide else tile_of(32, 32, warps=8, stages=2)
    if not wide:
        return tile_of(64, 64, warps=4, stages=3)
    return tile_of(128, 64, warps=8, stages=3) if described else tile_of(64, 64, warps=8, stages=2)


def grad_k_v_tile(dtype: torch.dtype, head_dim: int, described: bool) -> dict[str, int]:
    wide = head_dim > 64
    if dtype == torch.float32:
        return grad_q_tile(dtype, head_dim, described)
    if described:
        return tile_of(64, 64, warps=4, stages=2) if wide else tile_of(32, 128, warps=4, stages=3)
    return tile_of(32, 64, warps=8, stages=2) if wide else tile_of(32, 128, warps=8, stages=3)
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


# --8<-- [start:host]
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> torch.Tensor:
    """Return what ``attention`` of ``attention.py`` does, with a gradient for ``q``, ``k`` and ``v``.

    The gradients are contiguous and the same in every run. A query that sees no key gets one of zeros. ``q``, ``k``,
    ``v``, the result and a number for each query are kept for the backward.

    Raises:
        ValueError: If an argument is something the kernels can't serve.
        RuntimeError: In the backward, under ``create_graph=True``: there is no gradient of the gradient.

    >>> q, k, v = torch.ones(3, 1, 1, 2, 16).unbind()
    >>> attention(q, k, v.requires_grad_(), causal=True).sum().backward()
    >>> v.grad[0, 0, :, 0]
    tensor([1.5000, 0.5000])
    """
    return Attention.apply(q, k, v, q.shape[-1] ** -0.5 if scale is None else float(scale), bool(causal))[0]
# --8<-- [end:host]


def with_gradients(function, inputs, grad) -> list[torch.Tensor]:
    out = function(*inputs)
    return [out, *torch.autograd.grad(out, inputs, grad)]


def main():
    device = "cuda" if isinstance(grad_q_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)

    print("## as torch")
    for heads, kv_heads, length, head_dim, dtype, tolerance in (
        (2, 2, 100, 16, torch.float32, 1e-4),
        (2, 1, 150, 64, torch.float16, 1e-2),  # by descriptors
    ):
        q, grad = torch.randn(2, 1, heads, length, head_dim).to(device, dtype)
        k, v = torch.randn(2, 1, kv_heads, length, head_dim).to(device, dtype)
        inputs = [x.requires_grad_() for x in (q, k, v)]
        found, wanted = (
            with_gradients(functools.partial(function, causal=True), inputs, grad) for function in (attention, in_torch)
        )
        for name, a, b in zip(("result", "grad_q", "grad_k", "grad_v"), found, wanted, strict=True):
            alike = torch.allclose(a, b, rtol=tolerance, atol=tolerance)
            print(f"{heads} heads on {kv_heads}, {length} keys, {dtype}, {name}: {alike}")


if __name__ == "__main__":
    main()
