# SPDX-License-Identifier: Apache-2.0
"""Attention with a sliding window, sinks and softcap: three places in a loop over tiles of keys.

With ``place = query + keys - queries``, so that the last query stands at the last key, and ``distance = place - key``::

    score = scale * q @ kᵀ                        # softcap: softcap * tanh(score / softcap)
    seen = distance < window and distance >= 0    # not causal: abs(distance) < window
    weight = exp(score) / (sum(exp(score)) + exp(sink))
    out = weight @ v

Tiles of keys that no query of a tile sees are never visited, and tiles that all of them see have no mask.
``fusion/attention.py`` derives the loop, and lends its loads, stores and tiles.

- :func:`window_attention`: the function to call, without a gradient

``snippets/library/attention.py`` is the file to copy into a model: the same with gradients, ``torch.compile``, packed
sequences, ALiBi, every ``head_dim`` and more.

Shapes: ``q``, result ``(batch, heads, queries, head_dim)``; ``k``, ``v`` ``(batch, kv_heads, keys, head_dim)``;
``sinks`` ``(heads,)``.
Traffic, in elements: ``q`` is read once and the result written once; each tile of queries reads those tiles of ``k``
and ``v`` of which one of its queries sees a key.
Source: Beltagy and others, *Longformer*, 2020 (windows); Xiao and others, *Efficient Streaming Language Models with
Attention Sinks*, 2024; Gemma Team, *Gemma 2*, 2024 (softcap).

Run it on a GPU with ``python window_attention.py``, or with ``TRITON_INTERPRET=1 python window_attention.py`` in the
interpreter.
"""

import math

import torch
import triton
import triton.language as tl

from snippets.fusion import attention as plain
from snippets.fusion.attention import load_rows, store_rows

LOG2E = tl.constexpr(math.log2(math.e))  # for exp2 in place of exp
COUNTS = ["heads", "group", "queries", "keys", "left", "right"]  # the same code for all of them


# --8<-- [start:tiles_seen]
@triton.jit
def tiles_seen(
    first,
    queries,
    keys,
    left,
    right,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Return four keys: where the tiles begin that a tile of queries sees,
    where those begin and end that need no mask, and where the keys end."""
    place = first + (keys - queries)  # of the first query, among the keys
    last = place + BLOCK_Q - 1
    # The first query sees furthest back, the last one furthest ahead.
    start = tl.maximum(place - left, 0) // BLOCK_K * BLOCK_K
    end = tl.maximum(tl.minimum(last + right + 1, keys), 0)
    # All queries see what the last one sees on the left, and the first one
    # on the right.
    whole = tl.cdiv(tl.maximum(last - left, 0), BLOCK_K) * BLOCK_K
    whole_end = tl.minimum(tl.maximum(place + right + 1, 0), keys)
    whole = tl.minimum(whole, end)
    whole_end = tl.maximum(whole, whole_end // BLOCK_K * BLOCK_K)
    return start, whole, whole_end, end
# --8<-- [end:tiles_seen]


# --8<-- [start:visible]
@triton.jit
def visible(query, key, queries, keys, left, right):
    distance = query + (keys - queries) - key
    return (key < keys) & (distance <= left) & (distance >= -right)
# --8<-- [end:visible]


# --8<-- [start:attend]
@triton.jit
def attend(
    maximum,
    total,
    accumulator,
    q,
    edges,
    k_source,
    v_source,
    k_strides,
    v_strides,
    batch,
    head,
    first,
    queries,
    keys,
    left,
    right,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    DESCRIBED: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Go through the keys from ``edges[0]`` to ``edges[3]``, without a mask
    from ``edges[1]`` to ``edges[2]``."""
    FACTOR: tl.constexpr = SCALE * LOG2E if SOFTCAP is None else LOG2E
    # --8<-- [start:loop]
    for part in tl.static_range(3):
        for begin in range(edges[part], edges[part + 1], BLOCK_K):
            k = load_rows(
                k_source, k_strides, batch, head, begin, keys,
                BLOCK_K, HEAD_DIM, DESCRIBED,
            )  # fmt: skip
            score = tl.dot(q, k.T, input_precision="ieee")
            if SOFTCAP is not None:
                score = SOFTCAP * tanh(score * (SCALE / SOFTCAP))
            if part != 1:
                query = first + tl.arange(0, BLOCK_Q)[:, None]
                key = begin + tl.arange(0, BLOCK_K)[None, :]
                seen = visible(query, key, queries, keys, left, right)
                score = tl.where(seen, score, -float("inf"))
            # From here on it is plain attention.
            new_maximum = tl.maximum(maximum, tl.max(score, axis=1) * FACTOR)
            shift = tl.where(new_maximum == -float("inf"), 0.0, new_maximum)
            rescale = tl.exp2(maximum - shift)
            weight = tl.exp2(score * FACTOR - shift[:, None])
            total = total * rescale + tl.sum(weight, axis=1)
            accumulator = accumulator * rescale[:, None]
            v = load_rows(
                v_source, v_strides, batch, head, begin, keys,
                BLOCK_K, HEAD_DIM, DESCRIBED,
            )  # fmt: skip
            accumulator = tl.dot(
                weight.to(v.dtype), v, accumulator, input_precision="ieee"
            )
            maximum = new_maximum
    # --8<-- [end:loop]
    return total, accumulator


# --8<-- [start:tanh]
@triton.jit
def tanh(x):
    return 1 - 2 / (1 + tl.exp2(x * (2 * LOG2E)))
# --8<-- [end:tanh]
# --8<-- [end:attend]


# --8<-- [start:kernel]
@triton.jit(do_not_specialize=COUNTS)
def window_attention_kernel(
    q_source,
    k_source,
    v_source,
    out_ptr,
    sinks_ptr,
    q_strides,
    k_strides,
    v_strides,
    out_strides,
    heads,
    group,
    queries,
    keys,
    left,
    right,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    DESCRIBED: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Compute the result of a tile of queries of one head.

    Parameters, beside those of ``fusion/attention.py``:
        sinks_ptr: A score without a value for each head, or None.
        left, right: How many keys before and after its place a query sees.
        SOFTCAP: What no score passes, or None.
    """
    tiles = tl.cdiv(queries, BLOCK_Q)
    # The last tile sees the most keys, so it begins first.
    tile = tiles - 1 - tl.program_id(axis=0) % tiles
    pair = tl.program_id(axis=0) // tiles
    first, batch, head = tile * BLOCK_Q, pair // heads, pair % heads
    q = load_rows(
        q_source, q_strides, batch, head, first, queries,
        BLOCK_Q, HEAD_DIM, DESCRIBED,
    )  # fmt: skip
    # --8<-- [start:begin]
    maximum = tl.full((BLOCK_Q,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_Q,), tl.float32)
    if sinks_ptr is not None:  # a score that is there before all others
        sink = tl.load(sinks_ptr + head).to(tl.float32) * LOG2E
        maximum = tl.full((BLOCK_Q,), sink, tl.float32)
        total = tl.full((BLOCK_Q,), 1.0, tl.float32)
    # --8<-- [end:begin]
    accumulator = tl.zeros((BLOCK_Q, HEAD_DIM), tl.float32)
    edges = tiles_seen(
        first, queries, keys, left, right, BLOCK_Q, BLOCK_K
    )  # fmt: skip
    total, accumulator = attend(
        maximum, total, accumulator, q, edges,
        k_source, v_source, k_strides, v_strides, batch, head // group,
        first, queries, keys, left, right,
        SCALE, SOFTCAP, DESCRIBED, HEAD_DIM, BLOCK_Q, BLOCK_K,
    )  # fmt: skip
    # No key is seen: out is 0.
    out = accumulator / tl.where(total == 0.0, 1.0, total)[:, None]
    store_rows(
        out_ptr, out_strides, batch, head, first, queries, out,
        BLOCK_Q, HEAD_DIM,
    )  # fmt: skip
# --8<-- [end:kernel]


# --8<-- [start:host]
def window_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    window: int | None = None,
    causal: bool = True,
    sinks: torch.Tensor | None = None,
    softcap: float | None = None,
    scale: float | None = None,
) -> torch.Tensor:
    """Return ``softmax(scale * q @ kᵀ) @ v`` of each head, over the keys in a window.

    Args:
        q: ``(batch, heads, queries, head_dim)`` on a GPU (in the interpreter: on the CPU), of one of float16, bfloat16
            and float32; head_dim 16, 32, 64 or 128. Rows and heads may lie anywhere, as after ``.transpose(1, 2)``;
            where the elements of a row are no neighbors, it is copied.
        k: ``(batch, kv_heads, keys, head_dim)``, likewise; heads is a multiple of kv_heads.
        v: Of the shape of ``k``.
        window: A query sees the keys at a distance below it: with ``causal`` the last ``window``, its own among them.
            None for all; 0 for none. As Mistral's ``sliding_window``; flash-attn's ``window_size`` is one less. Each
            window runs the same code.
        causal: Whether a query sees only keys that are no later. The last query stands at the last key.
        sinks: ``(heads,)``, floating; for each head a score, not scaled, that takes its share of the weight and has no
            value. None for none.
        softcap: What scores come close to and never pass, above 0. None for no such. Each value is compiled anew, as is
            each ``scale``.
        scale: Of the scores, above 0; ``head_dim ** -0.5`` unless told.

    Returns:
        A new contiguous tensor of the shape and dtype of ``q``, computed in float32, with the weights rounded to the
        dtype of ``v``; the same bits in every run. A query that sees no key gets zeros. Keys and values that a query
        does not see must still be finite. The kernel may still be running when the result is returned.

    Raises:
        ValueError: If an argument is something the kernel can't serve, such as a tensor that requires a gradient.

    >>> q = k = torch.zeros(1, 1, 4, 16)
    >>> v = torch.arange(4.0).view(1, 1, 4, 1).expand(1, 1, 4, 16)
    >>> window_attention(q, k, v, window=2)[0, 0, :, 0]  # means of two values
    tensor([0.0000, 0.5000, 1.5000, 2.5000])
    """
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
    plain.check_arguments(scale, q=q, k=k, v=v)
    window, softcap = check_options(q, window, softcap, sinks)
    given = [x for x in (q, k, v, sinks) if x is not None]
    if torch.is_grad_enabled() and any(x.requires_grad for x in given):
        raise ValueError(
            "q, k, v or sinks requires a gradient, which library/attention.py has; for the result alone use"
            " torch.no_grad()"
        )
    q, k, v = map(plain.served, (q, k, v))
    sinks = None if sinks is None else sinks.contiguous().resolve_neg()
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    left, right = reach(window, causal, q.shape[2] + k.shape[2])
    launch(window_attention_kernel, q, k, v, out, sinks, left, right, scale, softcap)
    return out


def reach(window: int | None, causal: bool, most: int) -> tuple[int, int]:
    """Return how many keys a query sees before its place, and how many after it.

    >>> reach(3, True, most=16), reach(3, False, most=16), reach(None, True, most=16)
    ((2, 0), (2, 2), (15, 0))
    """
    left = (most if window is None else min(window, most)) - 1
    return left, 0 if causal else left


def launch(kernel, q, k, v, out, sinks, left: int, right: int, scale: float, softcap: float | None) -> None:
    """Start ``kernel``, a program for each tile of queries of each head."""
    (batch, heads, queries, head_dim), (kv_heads, keys) = q.shape, k.shape[1:3]
    described = plain.use_descriptors(q, k, v)
    tile = plain.default_tile(q.dtype, head_dim, described)
    programs = triton.cdiv(queries, tile["BLOCK_Q"]) * heads * batch
    if programs >= 2**31:  # CUDA's limit along one axis
        raise ValueError(f"{tuple(q.shape)} takes {programs} programs, of 2**31 - 1 at most; split the batch")
    if not programs:
        return
    strides = [x.stride()[:3] for x in (q, k, v, out)]
    if described:
        heights = tile["BLOCK_Q"], tile["BLOCK_K"], tile["BLOCK_K"]
        q, k, v = (plain.describe(x, height) for x, height in zip((q, k, v), heights, strict=True))
    with torch.cuda.device_of(out):  # Triton launches on the current device, which need not be that of the tensors
        kernel[(programs,)](
            q,
            k,
            v,
            out,
            sinks,
            *strides,
            heads,
            heads // kv_heads,
            queries,
            keys,
            left,
            right,
            SCALE=scale,
            SOFTCAP=softcap,
            DESCRIBED=described,
            HEAD_DIM=head_dim,
            **tile,
        )


def check_options(q: torch.Tensor, window, softcap, sinks) -> tuple[int | None, float | None]:
    """Return window and softcap as numbers. Raise ``ValueError`` for what can't be served."""
    if window is not None and not (hasattr(window, "__index__") and window >= 0):
        raise ValueError(f"window must be None, or a whole number from 0; got {window!r}")
    if softcap is not None and not 0 < float(softcap) < math.inf:
        raise ValueError(f"softcap must be None, or finite and above 0; got {softcap!r}")
    if sinks is not None and sinks.layout != torch.strided:
        raise ValueError(f"sinks is {sinks.layout}; pass sinks.to_dense()")
    served = sinks is None or (sinks.shape == q.shape[1:2] and sinks.device == q.device and sinks.is_floating_point())
    if not served:
        raise ValueError(
            f"sinks must be floating, ({q.shape[1]},), a number for each head, on {q.device};"
            f" got {sinks.dtype}, {tuple(sinks.shape)}, on {sinks.device}"
        )
    return window, None if softcap is None else float(softcap)
# --8<-- [end:host]


def in_torch(q, k, v, window=None, causal=True, sinks=None, softcap=None, scale=None):
    """Compute the same by operations of torch, in float64."""
    (heads, queries, head_dim), keys = q.shape[1:], k.shape[2]
    q, k, v = (x.double().repeat_interleave(heads // max(x.shape[1], 1), dim=1) for x in (q, k, v))
    scores = q @ k.mT * (head_dim**-0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    place = torch.arange(queries, device=q.device)[:, None] + keys - queries
    distance = place - torch.arange(keys, device=q.device)
    left, right = reach(window, causal, queries + keys)
    scores = scores.masked_fill((distance > left) | (distance < -right), -math.inf)
    if sinks is not None:
        sink = sinks.double().view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, sink], dim=3)
    weights = scores.softmax(dim=3).nan_to_num(0.0)[..., :keys]  # NaN where nothing is seen
    return weights @ v


def main():
    device = "cuda" if isinstance(window_attention_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)
    shown = lambda out: " ".join(f"{value:.2f}" for value in out[0, 0, :, 0].tolist())

    print("## window")
    q = k = torch.zeros(1, 1, 8, 16, device=device)
    v = torch.arange(1.0, 9, device=device).view(1, 1, 8, 1).expand(1, 1, 8, 16).contiguous()
    print("values:     ", shown(v))
    for window in (8, 3, 1, 0):
        print(f"window of {window}:", shown(window_attention(q, k, v, window=window)))

    print("## sink")
    print("no sink:    ", shown(window_attention(q, k, v, window=3)))
    for sink in (0.0, 3.0):
        found = window_attention(q, k, v, window=3, sinks=torch.tensor([sink], device=device))
        print(f"sink of {sink:.0f}:  ", shown(found))

    print("## as torch")
    for heads, kv_heads, queries, keys, options in (
        (2, 2, 100, 100, {"window": 17}),
        (4, 2, 90, 130, {"window": 40, "softcap": 2.0}),
        (4, 1, 100, 100, {"window": 33, "sinks": torch.randn(4)}),
        (2, 2, 60, 60, {"window": 9, "causal": False}),
    ):
        q = torch.randn(1, heads, queries, 32).to(device)
        k, v = torch.randn(2, 1, kv_heads, keys, 32).to(device)
        options = {name: x.to(device) if isinstance(x, torch.Tensor) else x for name, x in options.items()}
        wanted = in_torch(q, k, v, **options).float()
        alike = torch.allclose(window_attention(q, k, v, **options), wanted, rtol=1e-4, atol=1e-4)
        print(f"{', '.join(options)}: {alike}")


if __name__ == "__main__":
    main()
