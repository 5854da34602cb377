# SPDX-License-Identifier: Apache-2.0
"""Rotary position embedding (RoPE) of queries and keys, with gradients: one kernel for both, forward and backward.

A head's columns are taken in pairs, and pair ``i`` of token ``t`` is turned by an angle::

    angle = t * base ** (-2 * i / head_dim)

    first_out = first * cos(angle) - second * sin(angle)
    second_out = second * cos(angle) + first * sin(angle)

Pair ``i`` is the columns ``i`` and ``i + head_dim / 2``: half-split, as in GPT-NeoX and Llama. The backward turns the
incoming gradient by ``-angle``, so it needs neither queries nor keys, and nothing of them is kept.

``snippets/library/rope.py`` is the file to copy into a model: interleaved pairs, positions, a part of the columns, in
place, ``torch.compile`` and more.

Traffic, in elements for each of ``q`` and ``k``: 1 read and 1 written, forward as backward. A row of each table is read
by all heads of a token.
Each pair is computed by itself, so equal inputs give equal bits.
Source: Jianlin Su and others, *RoFormer: Enhanced Transformer with Rotary Position Embedding*, 2021.

Run it on a GPU with ``python rope.py``, or with ``TRITON_INTERPRET=1 python rope.py`` in the interpreter.
"""

import functools

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
PAIRS = 1024  # of a program
PER_WARP = 256  # of them: 8 a thread, which are twice 16 bytes in 16 bits


# --8<-- [start:turn]
@triton.jit
def turn(first, second, cos, sin):
    return first * cos - second * sin, second * cos + first * sin
# --8<-- [end:turn]


# --8<-- [start:rows]
@triton.jit
def turn_rows(
    x_ptr, out_ptr, cos_ptr, sin_ptr,
    block, rows, tokens, heads, half,
    batch_stride, token_stride, head_stride,
    INVERSE: tl.constexpr, COMPUTE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_HALF: tl.constexpr,
):  # fmt: skip
    """Turn a block of rows of ``x``; a row is a head of a token."""
    # --8<-- [start:place]
    row = block * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    token, head = row // heads, (row % heads).to(tl.int64)
    batch, token = (token // tokens).to(tl.int64), (token % tokens).to(tl.int64)
    # --8<-- [end:place]
    # --8<-- [start:tables]
    pair = tl.arange(0, BLOCK_HALF)
    mask = (row < rows)[:, None] & (pair < half)
    angles = token[:, None] * half + pair
    cos = tl.load(cos_ptr + angles, mask=mask).to(COMPUTE)
    sin = tl.load(sin_ptr + angles, mask=mask).to(COMPUTE)
    if INVERSE:
        sin = -sin
    # --8<-- [end:tables]
    # --8<-- [start:pairs]
    x_row = batch * batch_stride + token * token_stride + head * head_stride
    x_row = x_ptr + x_row[:, None]
    out_row = out_ptr + (row.to(tl.int64) * half * 2)[:, None]
    first = tl.load(x_row + pair, mask=mask).to(COMPUTE)
    second = tl.load(x_row + half + pair, mask=mask).to(COMPUTE)
    first, second = turn(first, second, cos, sin)
    tl.store(out_row + pair, first, mask=mask)
    tl.store(out_row + half + pair, second, mask=mask)
    # --8<-- [end:pairs]
# --8<-- [end:rows]


# --8<-- [start:kernel]
@triton.jit
def rope_kernel(
    q_ptr,
    k_ptr,
    q_out_ptr,
    k_out_ptr,
    cos_ptr,
    sin_ptr,
    all_tokens,
    tokens,
    q_heads,
    k_heads,
    half,
    q_batch_stride,
    q_token_stride,
    q_head_stride,
    k_batch_stride,
    k_token_stride,
    k_head_stride,
    INVERSE: tl.constexpr,
    COMPUTE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
):
    """Turn queries in the first programs, and keys in the rest.

    Parameters:
        q_ptr: ``(batches, tokens, q_heads, 2 * half)``; the elements of a
            head are neighbors, all else is as far apart as the strides say.
        k_ptr: Likewise, with ``k_heads``.
        q_out_ptr: Like ``q``, contiguous; ``k_out_ptr`` like ``k``.
        cos_ptr: ``(tokens or more, half)``, contiguous; so is ``sin_ptr``.
        all_tokens: Those of all batches.
        INVERSE: Whether to turn back.
        COMPUTE: The dtype to compute in.
        BLOCK_ROWS: Heads of tokens that a program takes, a power of two.
        BLOCK_HALF: A power of two, no less than ``half``.
    """
    # --8<-- [start:both]
    block = tl.program_id(axis=0)
    q_rows, k_rows = all_tokens * q_heads, all_tokens * k_heads
    q_blocks = tl.cdiv(q_rows, BLOCK_ROWS)
    if block < q_blocks:
        turn_rows(
            q_ptr, q_out_ptr, cos_ptr, sin_ptr,
            block, q_rows, tokens, q_heads, half,
            q_batch_stride, q_token_stride, q_head_stride,
            INVERSE, COMPUTE, BLOCK_ROWS, BLOCK_HALF,
        )  # fmt: skip
    else:
        turn_rows(
            k_ptr, k_out_ptr, cos_ptr, sin_ptr,
            block - q_blocks, k_rows, tokens, k_heads, half,
            k_batch_stride, k_token_stride, k_head_stride,
            INVERSE, COMPUTE, BLOCK_ROWS, BLOCK_HALF,
        )  # fmt: skip
    # --8<-- [end:both]
# --8<-- [end:kernel]


# --8<-- [start:launch]
def rotate(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    inverse: bool,
    pairs: int = PAIRS,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Turn queries and keys; by the opposite angles if ``inverse``."""
    check_arguments(q, k, cos, sin)
    outs = [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k)]
    if not (q.numel() or k.numel()):
        return tuple(outs)
    given = [each.resolve_neg() if each.ndim == 4 else each.resolve_neg()[None] for each in (q, k)]
    given = [x if x.stride(-1) == 1 else x.contiguous() for x in given]
    batches, tokens, _, head_dim = given[0].shape
    heads = [x.shape[2] for x in given]
    block_half = triton.next_power_of_2(head_dim // 2)
    most = max(batches * tokens * max(heads), 1)
    block_rows = min(max(pairs // block_half, 1), triton.next_power_of_2(most))
    programs = sum(triton.cdiv(batches * tokens * each, block_rows) for each in heads)
    with torch.cuda.device_of(q):  # Triton launches on the current device, which need not be that of q
        rope_kernel[(programs,)](
            *given,
            *outs,
            cos.resolve_neg().contiguous(),
            sin.resolve_neg().contiguous(),
            batches * tokens,
            tokens,
            *heads,
            head_dim // 2,
            *given[0].stride()[:3],
            *given[1].stride()[:3],
            INVERSE=inverse,
            COMPUTE=tl.float64 if q.dtype == torch.float64 else tl.float32,
            BLOCK_ROWS=block_rows,
            BLOCK_HALF=block_half,
            num_warps=min(max(block_rows * block_half // PER_WARP, 1), 16),
        )
    return tuple(outs)
# --8<-- [end:launch]


# --8<-- [start:function]
class RoPE(torch.autograd.Function):
    @staticmethod
    def forward(q, k, cos, sin, inverse):
        return rotate(q, k, cos, sin, inverse)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, _, *tables, ctx.inverse = inputs
        ctx.save_for_backward(*tables)

    @staticmethod
    def backward(ctx, grad_q, grad_k):
        cos, sin = ctx.saved_tensors
        grads = RoPE.apply(grad_q, grad_k, cos, sin, not ctx.inverse)
        return *grads, None, None, None
# --8<-- [end:function]


# --8<-- [start:host]
def rope(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return ``q`` and ``k``, each pair of columns turned by the angle of its token's position: 0, 1, 2, …

    Args:
        q: ``(batch, tokens, heads, head_dim)`` or ``(tokens, heads, head_dim)`` on a GPU (in the interpreter: on the
            CPU), of one of ``DTYPES``; ``head_dim`` is even. Any strides are served; it is copied only if the elements
            of a head are not neighbors in memory. So ``x.transpose(1, 2)`` of ``(batch, heads, tokens, head_dim)`` is
            fine, and so are slices of one tensor for queries, keys and values.
        k: As ``q``; it may have another number of heads.
        cos: ``(positions, head_dim / 2)``, float32 or the dtype of ``q``; see :func:`rope_tables`. It gets no gradient.
            Later tokens of a sequence: pass ``cos[start:]`` and ``sin[start:]``.
        sin: Of the shape and dtype of ``cos``.

    Returns:
        New contiguous tensors of the shapes and dtype of ``q`` and ``k``, computed in float32, or in float64 for
        float64. So are the gradients, which are contiguous, too, and deterministic. Only the tables are kept for the
        backward pass. The kernel may still be running when they are returned.

    Raises:
        ValueError: If an argument is something the kernel can't serve.

    >>> cos, sin = torch.tensor([[1.0], [0.0]]), torch.tensor([[0.0], [1.0]])  # position 1 is turned by 90 degrees
    >>> q = torch.tensor([[[3.0, 4.0]], [[3.0, 4.0]]])
    >>> rope(q, q, cos, sin)[0].squeeze()
    tensor([[ 3.,  4.],
            [-4.,  3.]])
    """
    return RoPE.apply(q, k, cos, sin, False)


def rope_tables(
    positions: int, head_dim: int, base: float = 10000.0, *, dtype: torch.dtype = torch.float32, device=None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cos and sin ``(positions, head_dim / 2)`` of ``t * base ** (-2 * i / head_dim)``, for :func:`rope`.

    Angles are computed in float64, and rounded when they are cos and sin; see the page for what a coarser one does.

    >>> rope_tables(2, 4, base=100.0)[0]
    tensor([[1.0000, 1.0000],
            [0.5403, 0.9950]])
    """
    turns = base ** -(torch.arange(0, head_dim, 2, dtype=torch.float64, device=device) / head_dim)
    angles = torch.arange(positions, dtype=torch.float64, device=device)[:, None] * turns
    return angles.cos().to(dtype), angles.sin().to(dtype)
# --8<-- [end:host]


# --8<-- [start:check]
def check_arguments(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    """Raise ``ValueError`` for arguments that the kernel would get wrong, or can't serve at all."""
    for name, tensor in {"q": q, "k": k, "cos": cos, "sin": sin}.items():
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} is {tensor.layout}; pass {name}.to_dense()")
        if tensor.device != q.device:
            raise ValueError(f"q is on {q.device} and {name} on {tensor.device}; move them to one device")
    if q.ndim not in (3, 4) or q.shape[-1] % 2 or not q.shape[-1]:
        raise ValueError(
            f"q must be (batch, tokens, heads, head_dim) or (tokens, heads, head_dim), with an even head_dim; got"
            f" {tuple(q.shape)}"
        )
    if k.dtype != q.dtype or k.ndim != q.ndim or (*k.shape[:-2], k.shape[-1]) != (*q.shape[:-2], q.shape[-1]):
        raise ValueError(
            f"q and k must be equal in dtype and shape, but for the number of heads; got {tuple(q.shape)} {q.dtype} and"
            f" {tuple(k.shape)} {k.dtype}"
        )
    if q.dtype not in DTYPES:
        raise ValueError(f"dtype {q.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    tokens, half = q.shape[-3], q.shape[-1] // 2
    for name, table in {"cos": cos, "sin": sin}.items():
        if table.ndim != 2 or table.shape[1] != half or table.dtype not in (q.dtype, torch.float32):
            raise ValueError(
                f"{name} must be (positions, {half}), a number for each pair of a head, of the dtype of q or float32;"
                f" got {tuple(table.shape)} {table.dtype} for q {tuple(q.shape)} {q.dtype}"
            )
        if table.requires_grad:
            raise ValueError(f"{name} requires a gradient, which is not computed; pass {name}.detach()")
    if cos.shape != sin.shape or cos.dtype != sin.dtype:
        raise ValueError(
            f"cos and sin must have the same shape and dtype; got {tuple(cos.shape)} {cos.dtype} and"
            f" {tuple(sin.shape)} {sin.dtype}"
        )
    if tokens > len(cos):
        raise ValueError(f"cos and sin have {len(cos)} positions, for {tokens} tokens")
    if q.shape[:-2].numel() * (q.shape[-2] + k.shape[-2]) > 2**31 - 2 * PAIRS:
        raise ValueError(f"q {tuple(q.shape)} and k {tuple(k.shape)} have too many heads of tokens; split them")
    if half > 2**14:
        raise ValueError(f"a head has {2 * half} columns, at most {2**15} are served: a program holds it in registers")
    interpreted = not isinstance(rope_kernel, triton.JITFunction)
    if q.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"q is on {q.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if interpreted and torch.bfloat16 in (q.dtype, cos.dtype):
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")
# --8<-- [end:check]


# --8<-- [start:in_torch]
def in_torch(q, k, cos, sin):
    cos, sin = (table[: q.shape[-3], None] for table in (cos, sin))  # for all heads of a token
    return turned(q, cos, sin), turned(k, cos, sin)


def turned(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
# --8<-- [end:in_torch]


# --8<-- [start:toy]
def toy(device):
    """Return tokens of one head with four columns; pair 0 turns by 90 degrees a position, pair 1 by 36.87."""
    x = torch.tensor([[[1.0, 5.0, 2.0, 10.0]]], device=device).repeat(3, 1, 1)
    cos = torch.tensor([[1.0, 1.0], [0.0, 0.8], [-1.0, 0.28]], device=device)
    sin = torch.tensor([[0.0, 0.0], [1.0, 0.6], [0.0, 0.96]], device=device)
    return x, cos, sin
# --8<-- [end:toy]


def shown(values: torch.Tensor, digits: int = 1) -> str:
    return " ".join(f"{value + 0.0:{digits + 5}.{digits}f}" for value in values.flatten().tolist())


def main():
    device = "cuda" if isinstance(rope_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## three tokens")
    x, cos, sin = toy(device)
    q = torch.cat([x, 10 * x], dim=1)
    out, out_k = rotate(q, x, cos, sin, inverse=False, pairs=8)
    for i in range(3):
        print(f"position {i}:", shown(out[i, 0]), "  length:", f"{out[i, 0].norm().item():.3f}")

    print("## scores")
    scores = out_k[:, 0] @ out_k[:, 0].T
    print("key at        ", *(f"{i:6}" for i in range(3)))
    for i in range(3):
        print(f"query at {i}:   ", shown(scores[i]))

    print("## there and back")
    back, _ = rotate(out, out_k, cos, sin, inverse=True)
    print("turned back, as before:", torch.allclose(back, q, atol=1e-6))

    print("## gradients")
    torch.manual_seed(0)
    # --8<-- [start:gradcheck]
    options = {"dtype": torch.float64, "device": device, "requires_grad": True}
    q, k = torch.randn(2, 2, 4, **options), torch.randn(2, 1, 4, **options)
    cos, sin = rope_tables(2, 4, dtype=torch.float64, device=device)
    function = functools.partial(rope, cos=cos, sin=sin)
    once = torch.autograd.gradcheck(function, (q, k))
    twice = torch.autograd.gradgradcheck(function, (q, k), fast_mode=True)
    print(f"gradcheck: {once}, of the gradient: {twice}")
    # --8<-- [end:gradcheck]
    cos, sin = rope_tables(64, 120, device=device)
    inputs = [torch.randn(2, 17, heads, 120).to(device).requires_grad_() for heads in (5, 2)]
    grads = [torch.randn(each.shape).to(device) for each in inputs]
    found, wanted = (
        [*(outs := each(*inputs, cos[40:], sin[40:])), *torch.autograd.grad(outs, inputs, grads)]
        for each in (rope, in_torch)
    )
    same = all(torch.allclose(a, b, rtol=1e-5, atol=1e-5) for a, b in zip(found, wanted, strict=True))
    print(f"17 tokens from 40, heads of 120, as torch: {same}")


if __name__ == "__main__":
    main()
