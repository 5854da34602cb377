# SPDX-License-Identifier: Apache-2.0
"""Attention, ``softmax(scale * q @ kᵀ) @ v``, tile by tile: no matrix of scores is stored.

A program holds a tile of queries and goes through the keys, a tile at a time. It keeps the maximum of the scores so
far, the sum of their weights and the weighted sum of values, and rescales the two sums when the maximum grows (*online
softmax*). It stores the result and one number for each query, ``lse = log2(sum(exp(scores)))``, from which the backward
(``attention_backward.py``) computes the weights again.

On a Hopper GPU, tiles come by tensor descriptors, if q, k and v lie as the TMA wants it, and else by pointers.

- :func:`attention`: the function to call, without a gradient
- :func:`can_be_described`: whether the TMA can load a tensor

``snippets/library/attention.py`` is the file to copy into a model: gradients, packed sequences, a sliding window, every
``head_dim``, softcap, sinks, ``torch.compile`` and more.

Shapes: ``q``, result ``(batch, heads, queries, head_dim)``; ``k``, ``v`` ``(batch, kv_heads, keys, head_dim)``.
Traffic, in elements: ``q`` is read once and the result written once; each tile of queries reads the ``k`` and ``v``
that it sees.
Source: Milakov and Gimelshein, *Online normalizer calculation for softmax*, 2018; Dao, *FlashAttention-2*, 2023.

Run it on a GPU with ``python attention.py``, or with ``TRITON_INTERPRET=1 python attention.py`` in the interpreter.
"""

import functools
import math

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
HEAD_DIMS = (16, 32, 64, 128)
DESCRIBED_HEAD_DIMS = (64, 128)  # of those, what tensor descriptors were tried for
LONGEST = 2**30  # queries or keys, so that a row beyond the last one is still counted in 32 bits
LOG2E = tl.constexpr(math.log2(math.e))  # for exp2 in place of exp


# --8<-- [start:helpers]
@triton.jit
def rows_of(
    ptr,
    strides,
    batch,
    head,
    first,
    rows,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Return pointers to a head's rows from ``first`` on, and which there are."""
    stride_batch, stride_head, stride_row = strides
    ptr += tl.cast(batch, tl.int64) * stride_batch
    ptr += tl.cast(head, tl.int64) * stride_head
    ptr += tl.cast(first, tl.int64) * stride_row
    down, right = tl.arange(0, HEIGHT)[:, None], tl.arange(0, WIDTH)[None, :]
    return ptr + (down * stride_row + right), down < rows - first


# --8<-- [start:load_rows]
@triton.jit
def load_rows(
    source,
    strides,
    batch,
    head,
    first,
    rows,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    DESCRIBED: tl.constexpr,
):
    """Load a head's tile from row ``first`` on, with zeros past the end."""
    if DESCRIBED:
        tile = source.load([batch, head, first, 0]).reshape(HEIGHT, WIDTH)
    else:
        ptrs, inside = rows_of(
            source, strides, batch, head, first, rows, HEIGHT, WIDTH
        )
        tile = tl.load(ptrs, mask=inside, other=0.0)
    return tile
# --8<-- [end:load_rows]


@triton.jit
def store_rows(
    ptr,
    strides,
    batch,
    head,
    first,
    rows,
    tile,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    ptrs, inside = rows_of(
        ptr, strides, batch, head, first, rows, HEIGHT, WIDTH
    )  # fmt: skip
    tl.store(ptrs, tile, mask=inside)  # rounded to the tensor's dtype


@triton.jit
def visible(query, key, queries, keys, CAUSAL: tl.constexpr):
    seen = key < keys
    if CAUSAL:  # the last query sees the last key
        seen = seen & (key <= query + (keys - queries))
    return seen


# --8<-- [start:keys_of]
@triton.jit
def keys_of(
    first,
    queries,
    keys,
    CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Return where the tiles of keys end that a tile of queries sees wholly,
    and where those end that it sees in part."""
    whole, last = keys // BLOCK_K * BLOCK_K, keys
    if CAUSAL:  # the first query sees the fewest keys, the last one the most
        first_sees = tl.maximum(0, first + 1 + (keys - queries))
        whole = tl.minimum(whole, first_sees // BLOCK_K * BLOCK_K)
        last = tl.minimum(keys, first + BLOCK_Q + (keys - queries))
    return whole, last
# --8<-- [end:keys_of]
# --8<-- [end:helpers]


# --8<-- [start:kernel]
# --8<-- [start:attend]
@triton.jit
def attend(
    q,
    k_source,
    v_source,
    k_strides,
    v_strides,
    batch,
    head,
    first,
    queries,
    keys,
    SCALE: tl.constexpr,
    CAUSAL: tl.constexpr,
    DESCRIBED: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Return the result of a tile of queries, and ``lse`` of each."""
    FACTOR: tl.constexpr = SCALE * LOG2E
    maximum = tl.full((BLOCK_Q,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_Q,), tl.float32)
    accumulator = tl.zeros((BLOCK_Q, HEAD_DIM), tl.float32)
    # --8<-- [start:split]
    whole, last = keys_of(first, queries, keys, CAUSAL, BLOCK_Q, BLOCK_K)
    for MASKED in tl.static_range(2):
        start, end = (whole, last) if MASKED else (0, whole)
        # --8<-- [end:split]
        # --8<-- [start:loop]
        for begin in range(start, end, BLOCK_K):
            k = load_rows(
                k_source, k_strides, batch, head, begin, keys,
                BLOCK_K, HEAD_DIM, DESCRIBED,
            )  # fmt: skip
            score = tl.dot(q, k.T, input_precision="ieee")
            if MASKED:
                query = first + tl.arange(0, BLOCK_Q)[:, None]
                key = begin + tl.arange(0, BLOCK_K)[None, :]
                seen = visible(query, key, queries, keys, CAUSAL)
                score = tl.where(seen, score, -float("inf"))
            new_maximum = tl.maximum(maximum, tl.max(score, axis=1) * FACTOR)
            # All scores are -inf so far: -inf - 0, not -inf - -inf, a NaN.
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
    # --8<-- [start:end]
    # No key, or all scores -inf: out is 0, and so is exp2(score - lse).
    none = total == 0.0
    total = tl.where(none, 1.0, total)
    lse = tl.where(none, float("inf"), maximum + tl.log2(total))
    return accumulator / total[:, None], lse
    # --8<-- [end:end]
# --8<-- [end:attend]


# The same code for all lengths.
@triton.jit(do_not_specialize=["heads", "group", "queries", "keys"])
def attention_kernel(
    q_source,
    k_source,
    v_source,
    out_ptr,
    lse_ptr,
    q_strides,
    k_strides,
    v_strides,
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
    """Compute the result, and ``lse``, of a tile of queries of one head.

    Parameters:
        q_source, k_source, v_source: ``(batch, heads or heads // group, rows,
            HEAD_DIM)``, as pointers, or if ``DESCRIBED`` as descriptors of
            tiles of ``BLOCK_Q`` or ``BLOCK_K`` rows.
        lse_ptr: ``(batch, heads, queries)``, float32, contiguous.
        q_strides, k_strides, v_strides, out_strides: Of batch, head and row,
            in elements; the elements of a row are neighbors.
        group: How many heads of ``q`` share a head of ``k`` and ``v``.
        SCALE: Of the scores, above 0.
        CAUSAL: Whether a query sees only keys that are no later.
        BLOCK_Q, BLOCK_K: Queries and keys of a tile, powers of two.
    """
    # --8<-- [start:begin]
    tiles = tl.cdiv(queries, BLOCK_Q)
    tile = tl.program_id(axis=0) % tiles
    pair = tl.program_id(axis=0) // tiles
    if CAUSAL:  # the last tile sees the most keys, so it begins first
        tile = tiles - 1 - tile
    first, batch, head = tile * BLOCK_Q, pair // heads, pair % heads
    q = load_rows(
        q_source, q_strides, batch, head, first, queries,
        BLOCK_Q, HEAD_DIM, DESCRIBED,
    )  # fmt: skip
    out, lse = attend(
        q, k_source, v_source, k_strides, v_strides, batch, head // group,
        first, queries, keys,
        SCALE, CAUSAL, DESCRIBED, HEAD_DIM, BLOCK_Q, BLOCK_K,
    )  # fmt: skip
    store_rows(
        out_ptr, out_strides, batch, head, first, queries, out,
        BLOCK_Q, HEAD_DIM,
    )  # fmt: skip
    query = first + tl.arange(0, BLOCK_Q)
    lse_ptr += pair.to(tl.int64) * queries
    tl.store(lse_ptr + query, lse, mask=query < queries)
    # --8<-- [end:begin]
# --8<-- [end:kernel]


# --8<-- [start:forward]
def forward(
    q, k, v, scale: float, causal: bool, described: bool | None = None
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return the result, and ``lse`` of each query, which is inf if it sees no key."""
    check_arguments(scale, q=q, k=k, v=v)
    q, k, v = map(served, (q, k, v))
    batch, heads, queries, head_dim = q.shape
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    if described is None:
        described = use_descriptors(q, k, v)
    tile = default_tile(q.dtype, head_dim, described)
    programs = triton.cdiv(queries, tile["BLOCK_Q"]) * heads * batch
    launch(attention_kernel, programs, (q, k, v), (out, lse), out, scale, causal, described, tile)
    return out, lse


def launch(kernel, programs: int, loaded, others, result, scale: float, causal: bool, described: bool, tile) -> None:
    """Start ``kernel``, which takes ``loaded``: q, k, v and, in the backward, grad; ``others``; and strides."""
    (_, heads, queries, head_dim), (_, kv_heads, keys, _) = loaded[0].shape, loaded[1].shape
    if programs >= 2**31:  # CUDA's limit along one axis
        raise ValueError(f"{tuple(loaded[0].shape)} takes {programs} programs, of 2**31 - 1 at most; split the batch")
    if not programs:
        return
    strides = [x.stride()[:3] for x in (*loaded, result)]
    if described:
        heights = (tile["BLOCK_Q"], tile["BLOCK_K"], tile["BLOCK_K"], tile["BLOCK_Q"])[: len(loaded)]
        loaded = [describe(x, height) for x, height in zip(loaded, heights, strict=True)]
    with torch.cuda.device_of(result):  # Triton launches on the current device, which need not be that of the tensors
        kernel[(programs,)](
            *loaded,
            *others,
            *strides,
            heads,
            heads // kv_heads,
            queries,
            keys,
            SCALE=scale,
            CAUSAL=causal,
            DESCRIBED=described,
            HEAD_DIM=head_dim,
            **tile,
        )


def served(x: torch.Tensor) -> torch.Tensor:
    """Return ``x``, copied if a row's elements are not adjacent in memory, or a tile's rows lie 2³¹ apart."""
    near = x.stride(3) == 1 and abs(x.stride(2)) < 2**31 // 256
    return (x if near else x.contiguous()).resolve_neg()
# --8<-- [end:forward]


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
def use_descriptors(*tensors: torch.Tensor) -> bool:
    x = tensors[0]
    return x.shape[3] in DESCRIBED_HEAD_DIMS and has_tma(x.device) and all(map(can_be_described, tensors))


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
def default_tile(dtype: torch.dtype, head_dim: int, described: bool) -> dict[str, int]:
    """Return queries and keys of a tile, and how to compile for it. By Triton 3.9 nothing spills on a Hopper GPU.

    >>> default_tile(torch.bfloat16, 128, described=True)
    {'BLOCK_Q': 128, 'BLOCK_K': 64, 'num_warps': 4, 'num_stages': 2}
    """
    wide = head_dim > 64
    if dtype == torch.float32:
        return tile_of(32, 16 if wide else 32, warps=8, stages=2)
    if not described:
        return tile_of(128, 64, warps=8 if wide else 4, stages=2 if wide else 3)
    if wide:
        return tile_of(128, 64, warps=4, stages=2)
    # 168 registers for each thread, so that three programs fit on a multiprocessor
    return tile_of(128, 64, warps=4, stages=3) | {"maxnreg": 168}


def tile_of(queries: int, keys: int, warps: int, stages: int) -> dict[str, int]:
    return {"BLOCK_Q": queries, "BLOCK_K": keys, "num_warps": warps, "num_stages": stages}
# --8<-- [end:tiles]


# --8<-- [start:host]
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> torch.Tensor:
    """Return ``softmax(scale * q @ kᵀ) @ v`` of each head.

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
        scale: Of the scores, above 0; ``head_dim ** -0.5`` unless told. Each value is compiled anew.

    Returns:
        A new contiguous tensor of the shape and dtype of ``q``, computed in float32, with the weights rounded to the
        dtype of ``v`` before they meet it; the same bits in every run. A query that sees no key, or whose scores are
        all -inf, gets zeros, as from torch's ``scaled_dot_product_attention``. What a query does not see must still be
        finite. The kernel may still be running when the result is returned.

    Raises:
        ValueError: If an argument is something the kernel can't serve, such as a tensor that requires a gradient.

    >>> q = k = torch.zeros(1, 1, 2, 16)
    >>> v = torch.arange(2.0).view(1, 1, 2, 1).expand(1, 1, 2, 16)
    >>> attention(q, k, v, causal=True)[0, 0, :, 0]
    tensor([0.0000, 0.5000])
    """
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        raise ValueError(
            "q, k or v requires a gradient, which attention_backward.py and library/attention.py have; for the result"
            " alone use torch.no_grad()"
        )
    return forward(q, k, v, q.shape[-1] ** -0.5 if scale is None else float(scale), bool(causal))[0]
# --8<-- [end:host]


# --8<-- [start:check]
def check_arguments(scale: float, **tensors: torch.Tensor) -> None:
    """Raise ``ValueError`` for arguments that the kernels would get wrong, or can't serve at all."""
    q, k = tensors["q"], tensors["k"]
    for name, x in tensors.items():
        like = "k" if name in ("k", "v") else "q"
        if x.layout != torch.strided:
            raise ValueError(f"{name} is {x.layout}; pass {name}.to_dense()")
        if x.ndim != 4 or x.shape != tensors[like].shape:
            shape = f"of the shape of {like}, {tuple(tensors[like].shape)}" if name != like else "4 dimensions"
            raise ValueError(f"{name} must be (batch, heads, rows, head_dim), {shape}; got {tuple(x.shape)}")
        if x.dtype != q.dtype or x.device != q.device:
            raise ValueError(
                f"q and {name} must have one dtype and device; got {q.dtype} on {q.device}, {x.dtype} on {x.device}"
            )
    (batch, heads, queries, head_dim), (kv_batch, kv_heads, keys, kv_head_dim) = q.shape, k.shape
    if (batch, head_dim) != (kv_batch, kv_head_dim):
        raise ValueError(f"q and k must have the same batch and head_dim; got {tuple(q.shape)} and {tuple(k.shape)}")
    if heads and (not kv_heads or heads % kv_heads):
        raise ValueError(f"the {heads} heads of q must be a multiple of the {kv_heads} of k and v")
    if head_dim not in HEAD_DIMS:
        raise ValueError(f"head_dim must be one of {HEAD_DIMS}; got {head_dim}, which library/attention.py may serve")
    if max(queries, keys) > LONGEST:
        raise ValueError(f"{queries} queries and {keys} keys are too many: at most 2**30 are served")
    if not scale > 0:  # the kernels take the largest score before they scale
        raise ValueError(f"scale must be above 0; got {scale}, which library/attention.py serves")
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


def shown(out: torch.Tensor) -> str:
    return " ".join(f"{value:.4f}" for value in out[0, 0, :, 0].tolist())


def main():
    device = "cuda" if isinstance(attention_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)

    print("## causal")
    q, k = torch.zeros(1, 1, 3, 16, device=device), torch.zeros(1, 1, 5, 16, device=device)
    v = torch.arange(1.0, 6, device=device).view(1, 1, 5, 1).expand(1, 1, 5, 16).contiguous()
    print("3 queries, 5 keys:", shown(attention(q, k, v, causal=True)))
    print("is_causal of torch:", shown(torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)))
    q = q.repeat(1, 1, 2, 1)[:, :, :5]
    print("5 queries, 3 keys:", shown(attention(q, k[:, :, :3], v[:, :, :3], causal=True)))

    print("## as torch")
    for heads, kv_heads, length, head_dim, dtype, tolerance in (
        (2, 2, 100, 16, torch.float32, 1e-4),
        (2, 1, 150, 64, torch.float16, 1e-2),  # by descriptors
    ):
        q = torch.randn(1, heads, length, head_dim).to(device, dtype)
        k, v = torch.randn(2, 1, kv_heads, length, head_dim).to(device, dtype)
        found, wanted = (function(q, k, v, causal=True) for function in (attention, in_torch))
        alike = torch.allclose(found, wanted, rtol=tolerance, atol=tolerance)
        print(f"{heads} heads on {kv_heads}, {length} keys, {dtype}: {alike}")


if __name__ == "__main__":
    main()
