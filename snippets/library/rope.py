# SPDX-License-Identifier: Apache-2.0
"""Rotary position embedding (RoPE) of queries and keys by one kernel, with gradients and what models ask for beside.

The lesson ``fusion/rope.py`` derives it and has the plain kernel. Of each head the first ``2 * half`` columns are taken
in pairs, and each pair is turned by an angle that grows with the token's position; the columns behind them stay::

    first_out = first * cos - second * sin
    second_out = second * cos + first * sin

*Half-split*, pair ``i`` is the columns ``i`` and ``i + half``, as in Llama; *interleaved*, the columns ``2 * i`` and
``2 * i + 1``, as in GPT-J. The backward is the same kernel with ``-sin``, whatever the tables hold, for it is the
transpose; it needs neither queries nor keys, so nothing of them is kept.

- :func:`rope`: the function to call; it has gradients of any order, and works under ``torch.compile``
- :func:`rope_tables`: cos and sin of all angles

Traffic, in elements for each of ``q`` and ``k``: 1 read and 1 written, forward as backward; in place, only the columns
that are turned. A row of each table is read by all heads of a token.
Each pair is computed by itself, so equal inputs give equal bits.
Source: Jianlin Su and others, *RoFormer: Enhanced Transformer with Rotary Position Embedding*, 2021; sections:
Peng Wang and others, *Qwen2-VL*, 2024.

Run it on a GPU with ``python rope.py``, or with ``TRITON_INTERPRET=1 python rope.py`` in the interpreter.
"""

import inspect
import math
import operator
import textwrap
from typing import NamedTuple

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
REPEATED = (None, "halves", "neighbors")
PAIRS = 1024  # of a program
PER_WARP = 256  # of them: 8 a thread, which are twice 16 bytes in 16 bits


# --8<-- [start:kernels]
@triton.jit(do_not_specialize=["offset"])  # which grows by 1 with each token that a model writes
def rope_kernel(
    q_ptr,
    k_ptr,
    q_out_ptr,
    k_out_ptr,
    cos_ptr,
    sin_ptr,
    positions_ptr,
    offsets_ptr,
    all_tokens,
    tokens,
    q_heads,
    k_heads,
    half,
    rest,
    length,
    offset,
    q_strides,
    k_strides,
    q_out_strides,
    k_out_strides,
    table_strides,
    positions_strides,
    offsets_stride,
    INTERLEAVED: tl.constexpr,
    INVERSE: tl.constexpr,
    SECTIONS: tl.constexpr,
    IN_TURNS: tl.constexpr,
    COMPUTE: tl.constexpr,
    TABLE_STEP: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
    BLOCK_REST: tl.constexpr,
    UNIT: tl.constexpr,
):
    """Turn ``BLOCK_ROWS`` heads of tokens: the first programs take those of queries, the others those of keys.

    Parameters:
        q_ptr, k_ptr, q_out_ptr, k_out_ptr: ``(batch, tokens, heads, head_dim)``, their strides in that order, columns
            side by side. The results may be the queries and keys themselves.
        cos_ptr, sin_ptr: ``(planes, batch, length, half)``, of equal strides; pairs are ``TABLE_STEP`` apart.
        positions_ptr: ``(planes, batch, tokens)``, or None for 0, 1, 2 …
        offsets_ptr: ``(batch,)``, or None. It and ``offset`` are added to the positions.
        all_tokens: Those of the whole batch.
        half, rest: Pairs of a head, and columns that stay, both divided by ``UNIT``.
        q_strides, k_strides, q_out_strides, k_out_strides, table_strides: Divided by ``UNIT``, which tells the compiler
            what divides them.
        INVERSE: Whether to turn by the opposite angles.
        SECTIONS: How many pairs take their angle from each plane; or None, where there is one plane.
        IN_TURNS: Whether the planes take turns (0, 1, 2, 0, 1, 2, …) and do not follow one another.
        BLOCK_HALF, BLOCK_REST: Powers of two, no less than pairs and columns; ``BLOCK_REST`` is 0 if nothing is copied.
    """
    block = tl.program_id(axis=0)
    q_blocks = tl.cdiv(all_tokens * q_heads, BLOCK_ROWS)
    if block < q_blocks:
        turn_rows(
            q_ptr, q_out_ptr, q_strides, q_out_strides, block, all_tokens * q_heads, q_heads,
            cos_ptr, sin_ptr, positions_ptr, offsets_ptr, tokens, half, rest, length, offset,
            table_strides, positions_strides, offsets_stride,
            INTERLEAVED, INVERSE, SECTIONS, IN_TURNS, COMPUTE, TABLE_STEP, BLOCK_ROWS, BLOCK_HALF, BLOCK_REST, UNIT,
        )  # fmt: skip
    else:
        turn_rows(
            k_ptr, k_out_ptr, k_strides, k_out_strides, block - q_blocks, all_tokens * k_heads, k_heads,
            cos_ptr, sin_ptr, positions_ptr, offsets_ptr, tokens, half, rest, length, offset,
            table_strides, positions_strides, offsets_stride,
            INTERLEAVED, INVERSE, SECTIONS, IN_TURNS, COMPUTE, TABLE_STEP, BLOCK_ROWS, BLOCK_HALF, BLOCK_REST, UNIT,
        )  # fmt: skip


@triton.jit
def turn_rows(
    x_ptr, out_ptr, x_strides, out_strides, block, rows, heads,
    cos_ptr, sin_ptr, positions_ptr, offsets_ptr, tokens, half, rest, length, offset,
    table_strides, positions_strides, offsets_stride,
    INTERLEAVED: tl.constexpr, INVERSE: tl.constexpr, SECTIONS: tl.constexpr, IN_TURNS: tl.constexpr,
    COMPUTE: tl.constexpr, TABLE_STEP: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_HALF: tl.constexpr, BLOCK_REST: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    """Turn the heads of one block of rows; a row is one head of one token."""
    half *= UNIT
    row = block * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)[:, None]
    head, token = (row % heads).to(tl.int64), row // heads
    batch, token = (token // tokens).to(tl.int64), (token % tokens).to(tl.int64)
    x_row = x_ptr + row_start(batch, token, head, x_strides) * UNIT
    out_row = out_ptr + row_start(batch, token, head, out_strides) * UNIT
    pair = tl.arange(0, BLOCK_HALF)[None, :]
    mask = (row < rows) & (pair < half)

    plane = plane_of(pair, SECTIONS, IN_TURNS)
    position = offset + token
    if positions_ptr is not None:
        at = row_start(plane, batch, token, positions_strides)
        position = offset + tl.load(positions_ptr + at, mask=row < rows, other=0).to(tl.int64)
    if offsets_ptr is not None:
        position += tl.load(offsets_ptr + batch * offsets_stride, mask=row < rows, other=0).to(tl.int64)
    known = mask & (position >= 0) & (position < length)
    angle = row_start(plane, batch, position, table_strides) * UNIT + pair * TABLE_STEP
    cos = tl.load(cos_ptr + angle, mask=known, other=float("nan")).to(COMPUTE)
    sin = tl.load(sin_ptr + angle, mask=known, other=float("nan")).to(COMPUTE)
    if INVERSE:
        sin = -sin

    if INTERLEAVED:
        column = tl.arange(0, 2 * BLOCK_HALF)[None, :]
        both = (row < rows) & (column < 2 * half)
        x = tl.load(x_row + column, mask=both).to(COMPUTE)
        first, second = tl.split(tl.reshape(x, (BLOCK_ROWS, BLOCK_HALF, 2)))
        tl.store(out_row + column, tl.interleave(*turn(first, second, cos, sin)), mask=both)
    else:
        first = tl.load(x_row + pair, mask=mask).to(COMPUTE)
        second = tl.load(x_row + half + pair, mask=mask).to(COMPUTE)
        first, second = turn(first, second, cos, sin)
        tl.store(out_row + pair, first, mask=mask)
        tl.store(out_row + half + pair, second, mask=mask)
    if BLOCK_REST:
        column = tl.arange(0, BLOCK_REST)[None, :]
        stays = (row < rows) & (column < rest * UNIT)
        tl.store(out_row + 2 * half + column, tl.load(x_row + 2 * half + column, mask=stays), mask=stays)


@triton.jit
def turn(first, second, cos, sin):
    return first * cos - second * sin, second * cos + first * sin


@triton.jit
def row_start(i, j, k, strides):
    return i * strides[0] + j * strides[1] + k * strides[2]


@triton.jit
def plane_of(pair, SECTIONS: tl.constexpr, IN_TURNS: tl.constexpr):
    """Return the plane that each pair takes its angle from."""
    plane = tl.zeros((1, 1), tl.int64)
    if SECTIONS is not None:
        end = 0
        for i in tl.static_range(1, len(SECTIONS)):
            if IN_TURNS:
                mine = (pair % len(SECTIONS) == i) & (pair < SECTIONS[i] * len(SECTIONS))
            else:
                end += SECTIONS[i - 1]
                mine = pair >= end
            plane = tl.where(mine, i, plane)
    return plane
# --8<-- [end:kernels]


class Options(NamedTuple):
    """Hold how pairs are taken and where their angles are."""

    offset: int
    interleaved: bool
    inverse: bool
    sections: list[int] | None
    in_turns: bool
    heads_first: bool


# --8<-- [start:launch]
def rotate(
    q: torch.Tensor,
    k: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None,
    offsets: torch.Tensor | None,
    offset: int,
    interleaved: bool,
    inverse: bool,
    sections: list[int] | None,
    in_turns: bool,
    heads_first: bool,
    in_place: bool = False,
    pairs: int = PAIRS,
) -> list[torch.Tensor]:
    """Return queries and keys, turned; ``in_place`` they are written over. Tables hold a number for each pair."""
    given = q, k, cos, sin, positions, offsets
    how = interleaved, inverse, None if sections is None else tuple(sections), in_turns, heads_first
    key = (
        *map(layout, given), *how, pairs, cos.requires_grad or sin.requires_grad, -(2**31) <= offset < 2**31,
        in_place, in_place and k is not None and q.data_ptr() == k.data_ptr(),
    )  # fmt: skip
    plan = PLANS.get(key)
    if plan is None or not plan.least <= offset <= plan.most:
        check_arguments(*given, offset, sections, in_turns, heads_first, in_place)
    xs = [q] if k is None else [q, k]
    outs = xs if in_place else [room_for(x) for x in xs]
    if not any(x.numel() for x in xs):
        return outs
    read, written = xs, outs
    if plan is None or plan.copied:
        read = [x if x.stride(-1) == 1 else x.contiguous() for x in (each.resolve_neg() for each in xs)]
        written = read if in_place else outs
        cos, sin = alike(cos, sin)
    if plan is None:
        copied = any(a is not b for a, b in zip((*xs, *given[2:4]), (*read, cos, sin), strict=True))
        plan = remember(key, prepare(read, written, cos, sin, positions, offsets, *how, pairs, copied))
    with torch.cuda.device_of(q):  # Triton launches on the current device, which need not be that of q
        plan.launch.run(
            read[0], read[-1], written[0], written[-1], cos, sin, positions, offsets, *plan.sizes, offset,
            *plan.strides,
        )  # fmt: skip
    for x, out in zip(outs, written, strict=True):
        if out is not x:  # it was copied, as its columns do not lie side by side
            x.copy_(out)
    return outs


class Plan(NamedTuple):
    """Hold what stays the same from call to call with such tensors."""

    launch: "Launch"
    sizes: tuple[int, ...]  # before the offset
    strides: tuple  # behind it
    copied: bool  # whether tensors are copied first, since the kernel cannot read them where they lie
    least: float  # offset that is served
    most: float


def prepare(
    read, written, cos, sin, positions, offsets, interleaved, inverse, sections, in_turns, heads_first, pairs, copied
) -> Plan:
    rows, out_rows = [as_rows(x, heads_first) for x in read], [as_rows(x, heads_first) for x in written]
    batches, tokens, _, head_dim = rows[0].shape
    heads = [x.shape[2] for x in rows] + [0] * (2 - len(rows))
    half = cos.shape[-1]
    rest = 0 if read is written else head_dim - 2 * half
    block_half, block_rest = triton.next_power_of_2(half), triton.next_power_of_2(rest) if rest else 0
    most = max(batches * tokens * max(heads), 1)
    block_rows = min(max(pairs // max(block_half, block_rest // 2), 1), triton.next_power_of_2(most))

    strides = [x.stride()[:3] for x in (rows[0], rows[-1], out_rows[0], out_rows[-1])]
    strides.append(padded(cos, sections is not None and positions is None))
    # The compiler loads 16 bytes at a time only if it knows what divides all; it looks for multiples of 16 alone.
    unit = math.gcd(8, half, rest, *(stride for each in strides for stride in each))
    strides = [tuple(stride // unit for stride in each) for each in strides]
    positions_strides = (0, 0, 0)
    if positions is not None:
        positions_strides = padded(positions[..., None], sections is not None)
    options = {
        "INTERLEAVED": interleaved, "INVERSE": inverse, "SECTIONS": sections, "IN_TURNS": in_turns,
        "COMPUTE": tl.float64 if read[0].dtype == torch.float64 else tl.float32,
        "TABLE_STEP": cos.stride(-1) if half > 1 else 1,
        "BLOCK_ROWS": block_rows, "BLOCK_HALF": block_half, "BLOCK_REST": block_rest, "UNIT": unit,
        "num_warps": min(max(block_rows * max(block_half, block_rest // 2) // PER_WARP, 1), 16),
    }  # fmt: skip
    anywhere = positions is not None or offsets is not None
    programs = sum(triton.cdiv(batches * tokens * each, block_rows) for each in heads)
    return Plan(
        Launch(rope_kernel, programs, options),
        (batches * tokens, tokens, *heads, half // unit, rest // unit, cos.shape[-2]),
        (*strides, positions_strides, offsets.stride(0) if offsets is not None and offsets.ndim else 0),
        copied,
        *((-math.inf, math.inf) if anywhere else (0, cos.shape[-2] - tokens)),
    )


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


def room_for(x: torch.Tensor) -> torch.Tensor:
    """Return a new tensor that lies in memory as ``x`` does, or contiguous, unless columns were side by side."""
    out = torch.empty_like(x)
    return out if out.stride(-1) == 1 else torch.empty(x.shape, dtype=x.dtype, device=x.device)


def as_rows(x: torch.Tensor, heads_first: bool) -> torch.Tensor:
    """Return a view ``(batch, tokens, heads, head_dim)``."""
    x = x if x.ndim == 4 else x[None]
    return x.transpose(1, 2) if heads_first else x


def alike(cos: torch.Tensor, sin: torch.Tensor) -> list[torch.Tensor]:
    """Return both as the kernel reads them, with equal strides; copied if they have others."""
    cos, sin = cos.resolve_neg(), sin.resolve_neg()
    return [cos, sin] if cos.stride() == sin.stride() else [cos.contiguous(), sin.contiguous()]


def padded(x: torch.Tensor, planes: bool) -> tuple[int, int, int]:
    """Return the strides of planes, batch and positions of ``(…, positions, columns)``, 0 where there is no such."""
    strides = [0 if size == 1 else stride for size, stride in zip(x.shape[:-1], x.stride()[:-1], strict=True)]
    first = [strides.pop(0)] if planes else [0]
    return *first, *[0] * (2 - len(strides)), *strides
# --8<-- [end:launch]


MAPPED = "rope is not mapped by torch.vmap; it takes a batch, so call it with q (batch, tokens, heads, head_dim)"


# --8<-- [start:function]
class RoPE(torch.autograd.Function):
    """Turn queries and keys. The gradient is turned back by the same function, so it has a gradient, too."""

    @staticmethod
    def forward(q, k, cos, sin, positions, offsets, options):
        return tuple(rotate(q, k, cos, sin, positions, offsets, *options))

    # torch asks for it in each call, and without this works it out anew
    forward.__func__.__signature__ = inspect.signature(forward.__func__)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *_, ctx.options = inputs
        ctx.save_for_backward(*inputs[2:6])

    @staticmethod
    def backward(ctx, grad_q, grad_k=None):
        options = ctx.options._replace(inverse=not ctx.options.inverse)
        grads = turned(grad_q, grad_k, ctx.saved_tensors, options)
        return *grads, *[None] * (7 - len(grads))

    @staticmethod
    def vmap(info, in_dims, *inputs):
        raise NotImplementedError(MAPPED)


class RoPEInPlace(RoPE):
    """Turn one tensor in place: of a function with two results, torch lets neither write over a view."""

    @staticmethod
    def forward(x, cos, sin, positions, offsets, options):
        return rotate(x, None, cos, sin, positions, offsets, *options, in_place=True)[0]

    forward.__func__.__signature__ = inspect.signature(forward.__func__)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, *tables, ctx.options = inputs
        ctx.mark_dirty(x)
        ctx.save_for_backward(*tables)

    @staticmethod
    def backward(ctx, grad):
        options = ctx.options._replace(inverse=not ctx.options.inverse)
        return *turned(grad, None, ctx.saved_tensors, options), *[None] * 5
# --8<-- [end:function]


# The same for torch.compile, which does not look into a custom op


@torch.library.custom_op("triton_by_example_library::rope", mutates_args=())
def rope_op(
    q: torch.Tensor,
    k: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None,
    offsets: torch.Tensor | None,
    offset: int,
    interleaved: bool,
    inverse: bool,
    sections: list[int] | None,
    in_turns: bool,
    heads_first: bool,
) -> list[torch.Tensor]:
    options = offset, interleaved, inverse, sections, in_turns, heads_first
    return rotate(q, k, cos, sin, positions, offsets, *options)


@rope_op.register_fake
def _(q, k, *_):
    return [room_for(x) for x in (q, k) if x is not None]


def setup_op_context(ctx, inputs, output):
    ctx.options = Options(*inputs[6:])
    ctx.save_for_backward(*inputs[2:6])


def rope_op_backward(ctx, grads):
    options = ctx.options._replace(inverse=not ctx.options.inverse)
    grad_q, grad_k = grads if len(grads) == 2 else (*grads, None)
    grads = rope_op(grad_q, grad_k, *ctx.saved_tensors, *options)
    return *grads, *[None] * (12 - len(grads))


rope_op.register_autograd(rope_op_backward, setup_context=setup_op_context)


@torch.library.custom_op("triton_by_example_library::rope_in_place", mutates_args=("q", "k"))
def rope_in_place_op(
    q: torch.Tensor,
    k: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None,
    offsets: torch.Tensor | None,
    offset: int,
    interleaved: bool,
    inverse: bool,
    sections: list[int] | None,
    in_turns: bool,
    heads_first: bool,
) -> None:
    options = offset, interleaved, inverse, sections, in_turns, heads_first
    rotate(q, k, cos, sin, positions, offsets, *options, in_place=True)


# --8<-- [start:host]
def rope(
    q: torch.Tensor,
    k: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None = None,
    *,
    offset: int | torch.Tensor = 0,
    interleaved: bool = False,
    repeated: str | None = None,
    sections: list[int] | None = None,
    in_turns: bool = False,
    heads_first: bool = False,
    in_place: bool = False,
    inverse: bool = False,
) -> tuple[torch.Tensor, torch.Tensor] | torch.Tensor:
    """Return ``q`` and ``k``, each pair of columns turned by the angle of its token's position.

    Args:
        q: ``(batch, tokens, heads, head_dim)`` or ``(tokens, heads, head_dim)`` on a GPU (in the interpreter: on the
            CPU), of one of ``DTYPES``. Any strides are served; it is copied only if the elements of a head are not
            neighbors in memory. So slices of one tensor for queries, keys and values are fine.
        k: As ``q``; it may have another number of heads, and another dtype, but float64 goes with float64 only. Or
            None: then ``q`` alone is turned and returned.
        cos: ``(positions, half)``, a number for each pair; or ``(batch, tokens, half)``, for the tokens of each
            sequence (a batch of 1 is for all). Of one of ``DTYPES``; it gets no gradient. Where ``2 * half`` is less
            than ``head_dim``, the columns behind those stay as they are.
        sin: Of the shape and dtype of ``cos``.
        positions: Of each token, ``(tokens,)`` or ``(batch, tokens)``, of one of ``INTEGERS``. They are not looked at
            before the kernel runs: one that is not in the tables makes its token NaN. None: 0, 1, 2 …
        offset: Is added to the positions; when decoding, the number of tokens before the first. A number of Python or
            NumPy; or a tensor, ``()`` or ``(batch,)``, which the host does not look at.
        interleaved: Whether pairs are neighbors, as in GPT-J, and not half a turned part apart, as in Llama.
        repeated: How a table of ``2 * half`` columns holds each number twice: ``"halves"``, as transformers pass them,
            or ``"neighbors"``. Only the first of both is read.
        sections: For each plane of positions (time, height, width) how many pairs take their angle from it; their sum
            is ``half``. The planes are a first dimension of ``positions``; or of ``cos`` and ``sin``, without
            ``positions``.
        in_turns: Whether pair 0 belongs to the first plane, pair 1 to the second, and so on in turns, as in Qwen3-VL. A
            plane that has no pair left leaves its turns to the first.
        heads_first: Whether ``q`` and ``k`` are ``(batch, heads, tokens, head_dim)`` or ``(heads, tokens, head_dim)``.
            Nothing is copied for that.
        in_place: Whether ``q`` and ``k`` are written over, and returned. Where a gradient is asked for, they take one
            launch each.
        inverse: Whether to turn by the opposite angles, which undoes it.

    Returns:
        Tensors of the shapes and dtypes of ``q`` and ``k``, also under autocast, computed in float32, or in float64 for
        float64; new ones lie in memory as ``q`` and ``k`` do, without their gaps. So do the gradients, which are
        deterministic. Of the arguments, only tables, ``positions`` and ``offset`` are kept for the backward. The kernel
        may still be running when they are returned.

    Raises:
        ValueError: An argument is something that the kernel cannot serve.
        NotImplementedError: It is called under ``torch.vmap``.

    >>> cos, sin = torch.tensor([[1.0], [0.0]]), torch.tensor([[0.0], [1.0]])  # position 1 is turned by 90 degrees
    >>> q = torch.tensor([[[3.0, 4.0, 7.0]], [[3.0, 4.0, 7.0]]])
    >>> rope(q, None, cos, sin).squeeze()
    tensor([[ 3.,  4.,  7.],
            [-4.,  3.,  7.]])
    """
    if repeated not in REPEATED:
        raise ValueError(f'repeated must be None, "halves" or "neighbors"; got {repeated!r}')
    if repeated and (cos.shape[-1] % 2 or sin.shape[-1] % 2):
        raise ValueError(f"tables that hold each number twice have an even width; got {cos.shape[-1]}")
    if repeated == "halves":
        cos, sin = (table[..., : table.shape[-1] // 2] for table in (cos, sin))
    elif repeated:
        cos, sin = cos[..., ::2], sin[..., ::2]
    offsets = None
    if isinstance(offset, torch.Tensor) and (offset.device == q.device or offset.ndim):
        offset, offsets = 0, offset
    options = Options(
        as_int("offset", offset), bool(interleaved), bool(inverse),
        None if sections is None else [as_int("sections", each) for each in sections],
        bool(in_turns), bool(heads_first),
    )  # fmt: skip
    tables = cos, sin, positions, offsets
    outs = turned_in_place(q, k, tables, options) if in_place else turned(q, k, tables, options)
    return outs[0] if k is None else tuple(outs)


def turned(q, k, tables, options):
    if torch.compiler.is_compiling():
        return rope_op(q, k, *tables, *options)
    if not seen_by_autograd(q, k):
        return rotate(q, k, *tables, *options)
    return RoPE.apply(q, k, *tables, options)


def turned_in_place(q, k, tables, options):
    xs = [q] if k is None else [q, k]
    learns = torch.is_grad_enabled() and any(x.requires_grad for x in xs)
    learns = learns or torch.autograd.forward_ad._current_level >= 0
    if torch.compiler.is_compiling():
        if learns:
            return [x.copy_(out) for x, out in zip(xs, rope_op(q, k, *tables, *options), strict=True)]
        rope_in_place_op(q, k, *tables, *options)
    elif learns:
        return [RoPEInPlace.apply(x, *tables, options) for x in xs]
    else:
        try:
            for each in (*xs, *tables):
                each is not None and each.data_ptr()
        except RuntimeError as error:  # tensors that torch.vmap maps have no address
            raise NotImplementedError(MAPPED) from error
        rotate(q, k, *tables, *options, in_place=True)
        torch.autograd.graph.increment_version(xs)  # so that autograd notices if it still needs what was there
    return xs


def rope_tables(
    positions: int, width: int, base: float = 10000.0, *, dtype: torch.dtype = torch.float32, device=None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cos and sin ``(positions, width / 2)`` of ``t * base ** (-2 * i / width)``, for :func:`rope`.

    Angles are computed in float64, and rounded when they are cos and sin. ``width`` counts the columns that are turned.

    >>> rope_tables(2, 4, base=100.0)[0]
    tensor([[1.0000, 1.0000],
            [0.5403, 0.9950]])
    """
    turns = base ** -(torch.arange(0, width, 2, dtype=torch.float64, device=device) / width)
    angles = torch.arange(positions, dtype=torch.float64, device=device)[:, None] * turns
    return angles.cos().to(dtype), angles.sin().to(dtype)
# --8<-- [end:host]


def seen_by_autograd(*tensors: torch.Tensor | None) -> bool:
    """Return whether a call must go through ``Function.apply``, which takes the host longer than all else together.

    It must where a gradient is recorded, and where ``torch.func`` or a forward-mode gradient is at work.
    """
    needed = (x.requires_grad for x in tensors if x is not None)
    return (
        torch._C._are_functorch_transforms_active()
        or torch.autograd.forward_ad._current_level >= 0
        or (torch.is_grad_enabled() and any(needed))
    )


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


def check_arguments(q, k, cos, sin, positions, offsets, offset, sections, in_turns, heads_first, in_place) -> None:
    """Raise ``ValueError`` for arguments that the kernel would compute wrongly or not at all."""
    named = {"q": q, "k": k, "cos": cos, "sin": sin, "positions": positions, "offset": offsets}
    given = {name: tensor for name, tensor in named.items() if tensor is not None}
    for name, tensor in given.items():
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} is {tensor.layout}; pass {name}.to_dense()")
        if tensor.device != q.device:
            raise ValueError(f"q is on {q.device} and {name} on {tensor.device}; move them to one device")
        known = INTEGERS if name in ("positions", "offset") else DTYPES
        if tensor.dtype not in known:
            supported = ", ".join(map(str, known))
            raise ValueError(f"{name} is {tensor.dtype}, which is not supported; use one of {supported}")
    heads_at = -3 if heads_first else -2
    if q.ndim not in (3, 4):
        order = "heads, tokens" if heads_first else "tokens, heads"
        raise ValueError(f"q must be (batch, {order}, head_dim) or ({order}, head_dim); got {tuple(q.shape)}")
    if k is not None:
        sizes = [(*x.shape[:heads_at], *x.shape[heads_at + 1 :], x.ndim) for x in (q, k)]
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"q and k must have the same shape, but for the number of heads; got {tuple(q.shape)} and"
                f" {tuple(k.shape)}"
            )
        if (q.dtype == torch.float64) != (k.dtype == torch.float64):
            raise ValueError(f"q is {q.dtype} and k {k.dtype}; float64 goes with float64 only")
    tokens = q.shape[-2] if heads_first else q.shape[-3]
    check_tables(q, cos, sin, sections, in_turns, positions)
    check_positions(q, cos, tokens, sections, positions, offsets, offset)
    rows = q.shape[:-1].numel() + (0 if k is None else k.shape[:-1].numel())
    if rows > 2**31 - 2 * PAIRS:
        raise ValueError(f"q and k have {rows} heads of tokens, too many for one launch; split them")
    if q.shape[-1] > 2**15:
        raise ValueError(f"a head has {q.shape[-1]} columns, at most {2**15} are served: a program holds it whole")
    if in_place:
        check_writable(q, k)
    interpreted = not isinstance(rope_kernel, triton.JITFunction)
    if q.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"q is on {q.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if interpreted and any(each.dtype == torch.bfloat16 for each in given.values()):
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")


def check_tables(q, cos, sin, sections, in_turns, positions) -> None:
    batch, width, half = q.shape[0] if q.ndim == 4 else 1, q.shape[-1], cos.shape[-1] if cos.ndim else 0
    planes = () if sections is None or positions is not None else (len(sections),)
    known = [(*planes, *batches) for batches in ((), (1,), (batch,))]
    if cos.ndim < 2 or tuple(cos.shape[:-2]) not in known:
        first = "planes, " if planes else ""
        raise ValueError(
            f"cos must be ({first}positions, half) or ({first}{batch}, positions, half) for q {tuple(q.shape)}"
            f"{f' and {len(sections)} sections' if planes else ''}; got {tuple(cos.shape)}"
        )
    if not 0 < 2 * half <= width:
        raise ValueError(
            f"cos has {half} columns, one for each pair, so it turns {2 * half} columns of a head, and q has {width};"
            f' if the tables hold each number twice, pass repeated="halves"'
        )
    if cos.shape != sin.shape or cos.dtype != sin.dtype:
        raise ValueError(
            f"cos and sin must have the same shape and dtype; got {tuple(cos.shape)} {cos.dtype} and"
            f" {tuple(sin.shape)} {sin.dtype}"
        )
    for name, table in (("cos", cos), ("sin", sin)):
        if table.requires_grad:
            raise ValueError(f"{name} requires a gradient, which is not computed; pass {name}.detach()")
    if sections is not None and (min(sections, default=-1) < 0 or sum(sections) != half):
        raise ValueError(f"sections must be numbers of pairs, {half} in all; got {sections}")
    if in_turns:
        for i, wanted in enumerate(sections or ()):
            if i and wanted > len(range(i, half, len(sections))):
                raise ValueError(
                    f"sections[{i}] is {wanted}; where {len(sections)} planes take turns, it has"
                    f" {len(range(i, half, len(sections)))} of {half} pairs"
                )


def check_positions(q, cos, tokens, sections, positions, offsets, offset) -> None:
    batch = q.shape[0] if q.ndim == 4 else 1
    if positions is not None:
        planes = () if sections is None else (len(sections),)
        known = [(*planes, *batches, tokens) for batches in ((), (1,), (batch,))]
        if tuple(positions.shape) not in known:
            raise ValueError(
                f"positions must be {known[0]} or {known[2]} for q {tuple(q.shape)}"
                f"{f' and {len(sections)} sections' if planes else ''}; got {tuple(positions.shape)}"
            )
    if offsets is not None and offsets.shape not in ((), (batch,)):
        raise ValueError(f"offset must be a number, or a tensor () or ({batch},); got {tuple(offsets.shape)}")
    if positions is None and offsets is None and not 0 <= offset <= cos.shape[-2] - tokens:
        raise ValueError(
            f"cos and sin have {cos.shape[-2]} positions, from 0; got {tokens} tokens from the position {offset}"
        )


def check_writable(q, k) -> None:
    for name, x in (("q", q), ("k", k)):
        if x is not None and any(size > 1 and stride == 0 for size, stride in zip(x.shape, x.stride(), strict=True)):
            raise ValueError(f"{name} is expanded, so it cannot be written over; pass {name}.contiguous()")
    if k is not None and q.numel() and q.data_ptr() == k.data_ptr():
        raise ValueError("q and k begin at the same place in memory, so they cannot be written over; clone one")


def in_torch(
    q, k, cos, sin, positions=None, *, offset=0, interleaved=False, repeated=None, sections=None, in_turns=False,
    heads_first=False, inverse=False,
):  # fmt: skip
    """Return what :func:`rope` computes, in the dtype of its arguments."""
    if repeated:
        cos, sin = (x.chunk(2, -1)[0] if repeated == "halves" else x[..., ::2] for x in (cos, sin))
    tokens = q.shape[-2 if heads_first else -3]
    batch = q.shape[0] if q.ndim == 4 else 1
    here = torch.arange(tokens, device=q.device) if positions is None else positions
    here = here + (offset[..., None] if isinstance(offset, torch.Tensor) else offset)
    cos, sin = (angles_of(table, here, batch, positions, sections, in_turns) for table in (cos, sin))
    cos, sin = (x if q.ndim == 4 else x[0] for x in (cos, -sin if inverse else sin))
    cos, sin = (x.unsqueeze(-3 if heads_first else -2) for x in (cos, sin))
    return tuple(turned_in_torch(x, cos, sin, interleaved) for x in (q, k) if x is not None)


def angles_of(table, positions, batch, given, sections, in_turns):
    """Return a table's numbers for each token, ``(batch, tokens, half)``."""
    planes = 1 if sections is None else len(sections)
    if sections is None or given is not None:
        table = table.expand(planes, *table.shape)
    if sections is None or given is None:
        positions = positions.expand(planes, *positions.shape)
    table = (table if table.ndim == 4 else table[:, None]).expand(-1, batch, -1, -1)
    positions = (positions if positions.ndim == 3 else positions[:, None]).expand(-1, batch, -1).long()
    table, positions = (x.flatten(0, 1) for x in (table, positions))
    found = table[torch.arange(len(table))[:, None], positions].unflatten(0, (planes, batch))
    if sections is None:
        return found[0]
    plane = torch.arange(planes).repeat_interleave(torch.tensor(sections))
    if in_turns:
        pair = torch.arange(table.shape[-1])
        plane = torch.where(pair < planes * torch.tensor(sections)[pair % planes], pair % planes, 0)
    return torch.stack([found[p, ..., i] for i, p in enumerate(plane.tolist())], dim=-1)


def turned_in_torch(x, cos, sin, interleaved):
    width = 2 * cos.shape[-1]
    part, rest = x[..., :width], x[..., width:]
    first, second = (part[..., ::2], part[..., 1::2]) if interleaved else part.chunk(2, dim=-1)
    pair = first * cos - second * sin, second * cos + first * sin
    part = torch.stack(pair, dim=-1).flatten(-2) if interleaved else torch.cat(pair, dim=-1)
    return torch.cat([part, rest], dim=-1)


def main():
    device = "cuda" if isinstance(rope_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)
    double = {"device": device, "dtype": torch.float64}

    print("## options")
    q, k = torch.randn(2, 5, 3, 12, **double), torch.randn(2, 5, 1, 12, **double)
    cos, sin = rope_tables(16, 12, **double)
    part = {"cos": cos[:, :4], "sin": sin[:, :4]}
    whole = {"cos": cos, "sin": sin}
    twice = {name: table[:5].repeat(2, 1, 2) for name, table in whole.items()}
    positions = torch.randint(16, (2, 5), device=device)
    planes = torch.randint(16, (3, 2, 5), device=device)
    cases = {
        "half-split": whole,
        "interleaved": {"interleaved": True, **whole},
        "8 of 12 columns": part,
        "tables as transformers pass them": {"repeated": "halves", **twice},
        "positions": {"positions": positions, **whole},
        "an offset for each sequence": {"offset": torch.tensor([3, 8], device=device), **whole},
        "three planes of positions": {"positions": planes, "sections": [2, 3, 1], **whole},
        "three planes in turns": {"positions": planes, "sections": [3, 2, 1], "in_turns": True, **whole},
        "heads before tokens": {"heads_first": True, **whole},
    }
    for name, options in cases.items():
        order = (lambda x: x.transpose(1, 2)) if options.get("heads_first") else (lambda x: x)
        inputs = [order(x).detach().requires_grad_() for x in (q, k)]
        grads = [torch.randn_like(x) for x in inputs]
        found, wanted = (
            [*(outs := each(*inputs, **options)), *torch.autograd.grad(outs, inputs, grads)]
            for each in (rope, in_torch)
        )
        there = rope(*(x.detach().clone() for x in inputs), in_place=True, **options)
        back = rope(*(x.clone() for x in there), inverse=True, **options)
        same = all(map(torch.allclose, (*found, *there, *back), (*wanted, *wanted[:2], *inputs)))
        print(f"{name}: result, gradients, in place and back", "as by torch" if same else "NOT as by torch")

    print("## which pairs")
    # --8<-- [start:pairs]
    x = torch.arange(1.0, 9.0, device=device).view(1, 1, 8)
    quarter = {half: (torch.zeros(1, half, device=device), torch.ones(1, half, device=device)) for half in (4, 2)}
    for half, (cos, sin) in quarter.items():
        for interleaved in (False, True):
            out = rope(x, None, cos, sin, interleaved=interleaved)
            name = f"{'interleaved' if interleaved else 'half-split'}, {2 * half} of 8 columns:"
            print(f"{name:28}", *(f"{each:3.0f}" for each in out.flatten().tolist()))
    # --8<-- [end:pairs]

    print("## a table that holds each number twice")
    cos, sin = (table.repeat(1, 2) for table in quarter[4])
    try:
        rope(x, None, cos, sin)
    except ValueError as error:
        print(textwrap.fill(str(error), 76))
    print(rope(x, None, cos, sin, repeated="halves").flatten().tolist())


if __name__ == "__main__":
    main()
