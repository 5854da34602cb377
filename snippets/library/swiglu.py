# SPDX-License-Identifier: Apache-2.0
"""SwiGLU and its relatives, ``activation(gate) * up``, with gradients and the options that models ask for.

The lesson ``fusion/swiglu.py`` derives it and has the plain kernels. With all options, as in gpt-oss::

    gate, up = gate + gate_bias, up + up_bias
    gate, up = min(gate, limit), clamp(up, -limit, limit)
    out = activation(gate) * (up + up_offset)

    silu: x * sigmoid(alpha * x)      gelu: x * Phi(x)                       relu: max(x, 0)
    sigmoid: 1 / (1 + exp(-x))        gelu_tanh: gelu, approximated          relu2: max(x, 0)**2
                                                                             identity: x
Backward, 0 where the limit was beyond::

    grad_gate = grad * (up + up_offset) * slope       slope = the activation's derivative
    grad_up = grad * activation(gate)
    grad_bias = sums of both over the rows

- :func:`swiglu`, :func:`glu`: of two tensors, of the halves of one, or of its even and odd columns
- :func:`activate`: the activation alone, such as the squared ReLU of a layer without a gate

Each element is computed by itself, and a bias' gradient is added in an order that only the shapes decide, so equal
inputs give equal bits. Traffic, in elements for each of the result: forward 2 read and 1 written, backward 3 read and 2
written; a bias and its gradient add nothing to speak of.
Source: Noam Shazeer, *GLU Variants Improve Transformer*, 2020; OpenAI, *gpt-oss*, 2025; David So and others, *Primer*
(squared ReLU), 2021.

Run it on a GPU with ``python swiglu.py``, or with ``TRITON_INTERPRET=1 python swiglu.py`` in the interpreter.
"""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
ACTIVATIONS = ("silu", "gelu", "gelu_tanh", "relu", "relu2", "sigmoid", "identity")
BLOCK_SIZE = 1024  # elements of a tile
PER_WARP = 256  # of them: 8 a thread, which are 16 bytes in 16 bits
PROGRAMS = 132 * 16  # of a backward that adds up a bias' gradient; as many on every GPU, so that sums come out alike


# --8<-- [start:kernels]
@triton.jit
def glu_kernel(
    gate_ptr,
    up_ptr,
    gate_bias_ptr,
    up_bias_ptr,
    out_ptr,
    rows,
    columns,
    blocks,
    gate_stride,
    up_stride,
    ACTIVATION: tl.constexpr,
    ALPHA: tl.constexpr,
    LIMIT: tl.constexpr,
    UP_OFFSET: tl.constexpr,
    INTERLEAVED: tl.constexpr,
    GATE_SECOND: tl.constexpr,
    COMPUTE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    UNIT: tl.constexpr,
):
    """Compute one tile of the result.

    Parameters:
        gate_ptr, up_ptr: ``(rows, columns)``, rows ``stride * UNIT`` apart. If ``INTERLEAVED``, ``gate_ptr`` is
            ``(rows, 2 * columns)`` and holds both; otherwise ``up_ptr`` is None where there is only an activation.
        gate_bias_ptr, up_bias_ptr: ``(columns,)``, likewise, or None.
        out_ptr: ``(rows, columns)``, contiguous.
        columns, gate_stride, up_stride: Divided by ``UNIT``, which tells the compiler what divides them.
        blocks: Tiles side by side in a row.
        LIMIT: The largest number that the activation and ``up`` may see, or None.
        GATE_SECOND: Whether the gate is the second of an interleaved pair.
        COMPUTE: The dtype to compute in.
    """
    columns = tl.cast(columns, tl.int64) * UNIT
    tile, start = place(blocks, BLOCK_COLUMNS)
    row = tile * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)[:, None]
    gate, up = load_both(
        gate_ptr, up_ptr, row, rows, gate_stride, up_stride, start, columns,
        INTERLEAVED, GATE_SECOND, COMPUTE, BLOCK_ROWS, BLOCK_COLUMNS, UNIT,
    )  # fmt: skip
    if gate_bias_ptr is not None:
        gate_bias, up_bias = load_bias(
            gate_bias_ptr, up_bias_ptr, start, columns, INTERLEAVED, GATE_SECOND, COMPUTE, BLOCK_COLUMNS
        )  # fmt: skip
        gate, up = gate + gate_bias, up + up_bias
    if LIMIT is not None:
        gate, up = below(gate, LIMIT), -below(-below(up, LIMIT), LIMIT)
    out, _ = activate_and_slope(gate, ACTIVATION, ALPHA)
    if INTERLEAVED or up_ptr is not None:
        out *= up + UP_OFFSET
    column = start + tl.arange(0, BLOCK_COLUMNS)[None, :]
    tl.store(out_ptr + row * columns + column, out, mask=(row < rows) & (column < columns))


@triton.jit
def glu_backward_kernel(
    grad_ptr,
    gate_ptr,
    up_ptr,
    gate_bias_ptr,
    up_bias_ptr,
    grad_gate_ptr,
    grad_up_ptr,
    partial_gate_ptr,
    partial_up_ptr,
    rows,
    columns,
    blocks,
    tiles,
    grad_stride,
    gate_stride,
    up_stride,
    out_stride,
    partial_stride,
    ACTIVATION: tl.constexpr,
    ALPHA: tl.constexpr,
    LIMIT: tl.constexpr,
    UP_OFFSET: tl.constexpr,
    INTERLEAVED: tl.constexpr,
    GATE_SECOND: tl.constexpr,
    COMPUTE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    UNIT: tl.constexpr,
):
    """Compute the gradients of ``tiles`` tiles, one below the other, and add up what they give to those of the bias.

    Parameters, beside those of :func:`glu_kernel`:
        grad_ptr: The gradient of the result, ``(rows, columns)``.
        grad_gate_ptr, grad_up_ptr: As ``gate_ptr`` and ``up_ptr``, rows ``out_stride * UNIT`` apart.
        partial_gate_ptr, partial_up_ptr: As the bias, ``(programs below each other, columns)`` of the dtype
            ``COMPUTE``, or None; rows ``partial_stride * UNIT`` apart.
    """
    columns = tl.cast(columns, tl.int64) * UNIT
    program, start = place(blocks, BLOCK_COLUMNS)
    column = start + tl.arange(0, BLOCK_COLUMNS)[None, :]
    if gate_bias_ptr is not None:
        gate_bias, up_bias = load_bias(
            gate_bias_ptr, up_bias_ptr, start, columns, INTERLEAVED, GATE_SECOND, COMPUTE, BLOCK_COLUMNS
        )  # fmt: skip
    partial_gate = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), COMPUTE)
    partial_up = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), COMPUTE)
    for tile in range(program * tiles, program * tiles + tiles):
        row = tl.cast(tile, tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)[:, None]
        mask = (row < rows) & (column < columns)
        grad = tl.load(grad_ptr + row * grad_stride * UNIT + column, mask=mask, other=0).to(COMPUTE)
        gate, up = load_both(
            gate_ptr, up_ptr, row, rows, gate_stride, up_stride, start, columns,
            INTERLEAVED, GATE_SECOND, COMPUTE, BLOCK_ROWS, BLOCK_COLUMNS, UNIT,
        )  # fmt: skip
        if gate_bias_ptr is not None:
            gate, up = gate + gate_bias, up + up_bias
        seen_gate, seen_up = gate, up
        if LIMIT is not None:
            seen_gate, seen_up = below(gate, LIMIT), -below(-below(up, LIMIT), LIMIT)
        activated, slope = activate_and_slope(seen_gate, ACTIVATION, ALPHA)
        grad_gate, grad_up = grad * slope, grad * activated
        if INTERLEAVED or up_ptr is not None:
            grad_gate *= seen_up + UP_OFFSET
        if LIMIT is not None:
            grad_gate = tl.where(gate <= LIMIT, grad_gate, 0)
            grad_up = tl.where((up >= -LIMIT) & (up <= LIMIT), grad_up, 0)
        if partial_gate_ptr is not None:
            partial_gate += grad_gate
            partial_up += grad_up
        store_both(
            grad_gate_ptr, grad_up_ptr, row, rows, out_stride, start, columns, grad_gate, grad_up,
            INTERLEAVED, GATE_SECOND, BLOCK_COLUMNS, UNIT,
        )  # fmt: skip
    if partial_gate_ptr is not None:
        store_both(
            partial_gate_ptr, partial_up_ptr, tl.zeros((1, 1), tl.int64) + program, program + 1, partial_stride,
            start, columns, tl.sum(partial_gate, axis=0, keep_dims=True), tl.sum(partial_up, axis=0, keep_dims=True),
            INTERLEAVED, GATE_SECOND, BLOCK_COLUMNS, UNIT,
        )  # fmt: skip


@triton.jit
def place(blocks, BLOCK_COLUMNS: tl.constexpr):
    """Return which of the programs below each other this one is, and its first column."""
    program = tl.program_id(axis=0)
    return (program // blocks).to(tl.int64), (program % blocks).to(tl.int64) * BLOCK_COLUMNS


@triton.jit
def below(x, LIMIT: tl.constexpr):
    return tl.where(x > LIMIT, LIMIT, x)  # a NaN stays


@triton.jit
def activate_and_slope(x, ACTIVATION: tl.constexpr, ALPHA: tl.constexpr):
    """Return the activation of ``x``, and its derivative."""
    if ACTIVATION == "silu":
        p = tl.sigmoid(ALPHA * x)
        out, slope = x * p, p + ALPHA * x * p * (1 - p)
    elif ACTIVATION == "gelu":
        p = 0.5 + 0.5 * tl.erf(x * 0.7071067811865476)  # sqrt(1/2)
        out, slope = x * p, p + x * 0.3989422804014327 * tl.exp(-0.5 * x * x)  # sqrt(1/2/pi)
    elif ACTIVATION == "gelu_tanh":
        p = tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))  # 2 * sqrt(2/pi)
        out, slope = x * p, p + x * 1.5957691216057308 * (1 + 0.134145 * x * x) * p * (1 - p)
    elif ACTIVATION == "relu":
        out, slope = tl.where(x < 0, 0, x), tl.where(x > 0, 1.0, 0.0)
    elif ACTIVATION == "relu2":
        positive = tl.where(x < 0, 0, x)
        out, slope = positive * positive, 2 * positive
    elif ACTIVATION == "sigmoid":
        out = tl.sigmoid(x)
        slope = out * (1 - out)
    else:
        out, slope = x, tl.full(x.shape, 1, x.dtype)
    return out, slope


@triton.jit
def load_both(
    gate_ptr, up_ptr, row, rows, gate_stride, up_stride, start, columns,
    INTERLEAVED: tl.constexpr, GATE_SECOND: tl.constexpr, COMPUTE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    """Return a tile of gate and up; twice the gate, where there is no up."""
    if INTERLEAVED:
        column = 2 * start + tl.arange(0, 2 * BLOCK_COLUMNS)[None, :]
        mask = (row < rows) & (column < 2 * columns)
        x = tl.load(gate_ptr + row * gate_stride * UNIT + column, mask=mask, other=0).to(COMPUTE)
        gate, up = tl.split(tl.reshape(x, (BLOCK_ROWS, BLOCK_COLUMNS, 2)))
        if GATE_SECOND:
            gate, up = up, gate
    else:
        column = start + tl.arange(0, BLOCK_COLUMNS)[None, :]
        mask = (row < rows) & (column < columns)
        gate = tl.load(gate_ptr + row * gate_stride * UNIT + column, mask=mask, other=0).to(COMPUTE)
        up = gate
        if up_ptr is not None:
            up = tl.load(up_ptr + row * up_stride * UNIT + column, mask=mask, other=0).to(COMPUTE)
    return gate, up


@triton.jit
def load_bias(
    gate_bias_ptr, up_bias_ptr, start, columns,
    INTERLEAVED: tl.constexpr, GATE_SECOND: tl.constexpr, COMPUTE: tl.constexpr, BLOCK_COLUMNS: tl.constexpr,
):  # fmt: skip
    """Return what is added to each row of gate and up."""
    return load_both(
        gate_bias_ptr, up_bias_ptr, tl.zeros((1, 1), tl.int64), 1, 0, 0, start, columns,
        INTERLEAVED, GATE_SECOND, COMPUTE, 1, BLOCK_COLUMNS, 1,
    )  # fmt: skip


@triton.jit
def store_both(
    gate_ptr, up_ptr, row, rows, stride, start, columns, gate, up,
    INTERLEAVED: tl.constexpr, GATE_SECOND: tl.constexpr, BLOCK_COLUMNS: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    """Store a tile of the gradients of gate and up, as they are loaded."""
    if INTERLEAVED:
        column = 2 * start + tl.arange(0, 2 * BLOCK_COLUMNS)[None, :]
        both = tl.interleave(up, gate) if GATE_SECOND else tl.interleave(gate, up)
        tl.store(gate_ptr + row * stride * UNIT + column, both, mask=(row < rows) & (column < 2 * columns))
    else:
        column = start + tl.arange(0, BLOCK_COLUMNS)[None, :]
        mask = (row < rows) & (column < columns)
        tl.store(gate_ptr + row * stride * UNIT + column, gate, mask=mask)
        if up_ptr is not None:
            tl.store(up_ptr + row * stride * UNIT + column, up, mask=mask)
# --8<-- [end:kernels]


class Options(NamedTuple):
    """Hold what is computed, and how gate and up lie in one tensor: None, there is no up, or as two tensors."""

    activation: str
    alpha: float
    limit: float | None
    up_offset: float
    packed: str | None  # "halves", "interleaved", or None
    gate_second: bool


# --8<-- [start:launches]
def glu_forward(
    gate: torch.Tensor,
    up: torch.Tensor | None,
    bias: torch.Tensor | None,
    activation: str,
    alpha: float,
    limit: float | None,
    up_offset: float,
    packed: str | None,
    gate_second: bool,
) -> torch.Tensor:
    """Return the activation of ``gate``, times ``up`` where there is such."""
    options = Options(activation, alpha, limit, up_offset, packed, gate_second)
    check_arguments(gate, up, bias, options)
    out = result_of(gate, up, packed)
    if not out.numel():
        return out
    rows, biases = [as_rows(x) for x in parts(gate, up, options)], bias_parts(bias, up, options)
    cut = Tiles.of(out.shape, rows, bias is None)
    with torch.cuda.device_of(gate):  # Triton launches on the current device, which need not be that of the tensors
        glu_kernel[(cut.below * cut.blocks,)](
            *rows, *biases, out, cut.rows, cut.columns // cut.unit, cut.blocks, *cut.strides,
            **constants(out, options), **cut.options(),
        )  # fmt: skip
    return out


def glu_backward(
    grad: torch.Tensor,
    gate: torch.Tensor,
    up: torch.Tensor | None,
    bias: torch.Tensor | None,
    needs_bias: bool,
    activation: str,
    alpha: float,
    limit: float | None,
    up_offset: float,
    packed: str | None,
    gate_second: bool,
) -> list[torch.Tensor]:
    """Return the gradients of ``gate``, of ``up`` where there is such, and of the bias where it is needed."""
    options = Options(activation, alpha, limit, up_offset, packed, gate_second)
    grads = [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (gate, up) if x is not None]
    if not gate.numel():
        return [*grads, torch.zeros_like(bias)] if needs_bias else grads
    rows = [as_rows(x) for x in (grad, *parts(gate, up, options))]
    outs = [as_rows(x) for x in parts(*grads, *[None] * (2 - len(grads)), options)]
    cut = Tiles.of(grad.shape, [*rows, outs[0]], bias is None, needs_bias)
    below, tiles = cut.below, 1
    partial, partials = None, (None, None)
    if needs_bias:
        tiles = triton.cdiv(cut.below, max(PROGRAMS // cut.blocks, 1))
        below = triton.cdiv(cut.below, tiles)
        partial = torch.empty((below, *bias.shape), dtype=wide(grad.dtype), device=bias.device)
        partials = bias_parts(partial, up, options)
    with torch.cuda.device_of(gate):
        glu_backward_kernel[(below * cut.blocks,)](
            *rows, *bias_parts(bias, up, options), *outs, *partials,
            cut.rows, cut.columns // cut.unit, cut.blocks, tiles, *cut.strides,
            bias.shape[0] // cut.unit if needs_bias else 0,
            **constants(grad, options), **cut.options(),
        )  # fmt: skip
    return [*grads, partial.sum(dim=0).to(bias.dtype)] if needs_bias else grads


class Tiles(NamedTuple):
    """Hold how rows and columns are cut into tiles, one or more for each program."""

    rows: int
    columns: int
    strides: list[int]
    unit: int
    block_rows: int
    block_columns: int
    per_warp: int

    @classmethod
    def of(cls, shape, tensors, flat: bool, sums: bool = False) -> "Tiles":
        """Cut a result of this shape.

        Args:
            flat: Whether it may be one row of all elements, if nothing lies between the rows of any tensor.
            sums: Whether each element's gradients are added up, too. That takes registers, so a thread gets fewer.
        """
        columns, rows = shape[-1], shape[:-1].numel()
        block_size, per_warp = (BLOCK_SIZE // 2, PER_WARP // 2) if sums else (BLOCK_SIZE, PER_WARP)
        if flat and all(x.stride(0) == x.shape[1] for x in tensors if x is not None):
            rows, columns = 1, rows * columns
        strides = [0 if x is None or rows == 1 else x.stride(0) for x in tensors]
        # The compiler loads 16 bytes at a time only if it knows what divides all; it looks for multiples of 16 alone.
        unit = math.gcd(8, columns, *strides)
        block_columns = min(block_size, triton.next_power_of_2(columns))
        block_rows = min(block_size // block_columns, triton.next_power_of_2(rows))
        return cls(rows, columns, [stride // unit for stride in strides], unit, block_rows, block_columns, per_warp)

    @property
    def blocks(self) -> int:
        """Return the number of tiles side by side."""
        return triton.cdiv(self.columns, self.block_columns)

    @property
    def below(self) -> int:
        """Return the number of tiles below each other."""
        return triton.cdiv(self.rows, self.block_rows)

    def options(self) -> dict[str, int]:
        return {
            "BLOCK_ROWS": self.block_rows, "BLOCK_COLUMNS": self.block_columns, "UNIT": self.unit,
            "num_warps": max(1, self.block_rows * self.block_columns // self.per_warp),
        }  # fmt: skip


def constants(result: torch.Tensor, options: Options) -> dict[str, object]:
    return {
        "ACTIVATION": options.activation, "ALPHA": options.alpha, "LIMIT": options.limit,
        "UP_OFFSET": options.up_offset, "INTERLEAVED": options.packed == "interleaved",
        "GATE_SECOND": options.gate_second,
        "COMPUTE": tl.float64 if result.dtype == torch.float64 else tl.float32,
    }  # fmt: skip
# --8<-- [end:launches]


def wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def result_of(gate: torch.Tensor, up: torch.Tensor | None, packed: str | None) -> torch.Tensor:
    """Return room for the result."""
    columns = gate.shape[-1] // (2 if packed else 1)
    dtype = gate.dtype if up is None else torch.promote_types(gate.dtype, up.dtype)
    return gate.new_empty((*gate.shape[:-1], columns), dtype=dtype)


def parts(x: torch.Tensor, up: torch.Tensor | None, options: Options) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return gate and up as the kernel reads them, without a copy."""
    if up is not None or options.packed != "halves":
        return x, up
    halves = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return halves[::-1] if options.gate_second else halves


def bias_parts(bias, up, options) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Return the same of ``bias``, which holds that of two tensors as halves."""
    if bias is None:
        return None, None
    bias = bias.resolve_neg().contiguous()
    return parts(bias, None, options if up is None else options._replace(packed="halves"))


def as_rows(x: torch.Tensor | None) -> torch.Tensor | None:
    """Return ``(rows, columns)``, a row's elements adjacent in memory; copied if it does not lie so."""
    if x is None:
        return None
    x = x.resolve_neg().reshape(-1, x.shape[-1])
    return x if x.stride(1) == 1 or x.shape[1] == 1 else x.contiguous()


# --8<-- [start:function]
class GLU(torch.autograd.Function):
    """Tie both directions together. Saved: gate, up and bias."""

    @staticmethod
    def forward(gate, up, bias, options):
        return glu_forward(gate, up, bias, *options)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.options = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx, grad):
        return *gradients(ctx, grad, GLUBackward.apply), None

    @staticmethod
    def vmap(info, in_dims, *inputs):
        raise NotImplementedError(
            "a gated activation is not mapped by torch.vmap; it takes any leading dimensions, so call it with all of"
            " them, (..., columns)"
        )


class GLUBackward(torch.autograd.Function):
    """Refuse a second gradient. As a function of its own it also serves ``torch.func.grad`` and ``vjp``."""

    @staticmethod
    def forward(*inputs):
        return tuple(glu_backward(*inputs))

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("a gated activation has no gradient of its gradient; call it without create_graph=True")

    vmap = GLU.vmap
# --8<-- [end:function]


def gradients(ctx, grad, backward) -> list[torch.Tensor | None]:
    """Return the gradients of ``gate``, ``up`` and the bias."""
    gate, up, bias = ctx.saved_tensors
    needs_bias = ctx.needs_input_grad[2]
    found = list(backward(grad, gate, up, bias, needs_bias, *ctx.options))
    return [found.pop(0), None if up is None else found.pop(0), found.pop(0) if needs_bias else None]


# The same for torch.compile, which does not look into a custom op


@torch.library.custom_op("triton_by_example_library::glu", mutates_args=())
def glu_op(
    gate: torch.Tensor,
    up: torch.Tensor | None,
    bias: torch.Tensor | None,
    activation: str,
    alpha: float,
    limit: float | None,
    up_offset: float,
    packed: str | None,
    gate_second: bool,
) -> torch.Tensor:
    return glu_forward(gate, up, bias, activation, alpha, limit, up_offset, packed, gate_second)


@torch.library.custom_op("triton_by_example_library::glu_backward", mutates_args=())
def glu_backward_op(
    grad: torch.Tensor,
    gate: torch.Tensor,
    up: torch.Tensor | None,
    bias: torch.Tensor | None,
    needs_bias: bool,
    activation: str,
    alpha: float,
    limit: float | None,
    up_offset: float,
    packed: str | None,
    gate_second: bool,
) -> list[torch.Tensor]:
    options = activation, alpha, limit, up_offset, packed, gate_second
    return glu_backward(grad, gate, up, bias, needs_bias, *options)


@glu_op.register_fake
def _(gate, up, bias, activation, alpha, limit, up_offset, packed, gate_second):
    return result_of(gate, up, packed)


@glu_backward_op.register_fake
def _(grad, gate, up, bias, needs_bias, *_):
    return [each.new_empty(each.shape) for each in (gate, up, bias if needs_bias else None) if each is not None]


def setup_op_context(ctx, inputs, output):
    *tensors, ctx.options = *inputs[:3], Options(*inputs[3:])
    ctx.save_for_backward(*tensors)


def glu_op_backward(ctx, grad):
    return *gradients(ctx, grad, glu_backward_op), *[None] * len(Options._fields)


glu_op.register_autograd(glu_op_backward, setup_context=setup_op_context)


# --8<-- [start:host]
def glu(
    gate: torch.Tensor,
    up: torch.Tensor | None = None,
    activation: str = "silu",
    *,
    bias: torch.Tensor | None = None,
    alpha: float = 1.0,
    limit: float | None = None,
    up_offset: float = 0.0,
    interleaved: bool = False,
    gate_second: bool = False,
) -> torch.Tensor:
    """Return ``activation(gate) * (up + up_offset)``, rounded once; it has gradients for all tensors.

    As gpt-oss: ``glu(x, bias=bias, alpha=1.702, limit=7.0, up_offset=1.0, interleaved=True)``.

    Args:
        gate: ``(..., columns)`` on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``. It is copied, in the
            forward and again in the backward, unless the elements of a row are neighbors in memory, and the rows lie
            evenly apart. Without ``up``: ``(..., 2 * columns)``, gate and up in one tensor, whose gradient is one
            tensor, too.
        up: Of the shape of ``gate``, in any mixture of ``DTYPES`` but float64, which goes with float64 only.
        activation: One of ``ACTIVATIONS``.
        bias: ``(2 * columns,)``, added to gate and up as one tensor of both holds them: to two tensors, the gate's half
            first. Of one of ``DTYPES``, likewise.
        alpha: By which silu multiplies what its sigmoid sees; with 1.702 it is also called *quick GELU*. This and the
            next two are numbers of Python or NumPy, or of a tensor on the CPU. Kernels are compiled for each.
        limit: No gate above it and no ``up`` beyond ``-limit`` and ``limit`` gets through: they are clamped, behind the
            bias. None: all do.
        up_offset: Added to ``up`` behind that.
        interleaved: Whether one tensor holds the gate in its even columns and up in its odd ones, and not in halves.
        gate_second: Whether it holds the gate in its second half, or its odd columns.

    Returns:
        A new contiguous tensor ``(..., columns)`` of the dtype of ``gate``, also under autocast; of two dtypes, of that
        which torch promotes them to. It is computed in float32, or in float64 for float64. So are the gradients, which
        have the dtypes of what they belong to; they are deterministic. The kernel may still be running when it is
        returned.

    Raises:
        ValueError: An argument is something that the kernels cannot serve.
        NotImplementedError: It is called under ``torch.vmap``.
        RuntimeError: The gradient of a gradient is asked for.

    >>> glu(torch.tensor([2.0, 0.0, -2.0]), torch.tensor([3.0, 3.0, 3.0]))
    tensor([ 5.2848,  0.0000, -0.7152])
    >>> x = torch.tensor([9.0, 3.0, -1.0, -9.0], requires_grad=True)
    >>> glu(x, activation="relu", limit=7.0, interleaved=True).sum().backward()  # relu(7) * 3, relu(-1) * -7
    >>> x.grad
    tensor([0., 7., -0., 0.])
    """
    packed = ("interleaved" if interleaved else "halves") if up is None else None
    if up is not None and (interleaved or gate_second):
        raise ValueError("interleaved and gate_second say how one tensor holds gate and up; here are two tensors")
    return apply(gate, up, bias, activation, alpha, limit, up_offset, packed, bool(gate_second))


def swiglu(
    gate: torch.Tensor,
    up: torch.Tensor | None = None,
    *,
    bias: torch.Tensor | None = None,
    alpha: float = 1.0,
    limit: float | None = None,
    up_offset: float = 0.0,
    interleaved: bool = False,
    gate_second: bool = False,
) -> torch.Tensor:
    """Return ``silu(gate) * up``; all else is as in :func:`glu`.

    >>> swiglu(torch.tensor([2.0, 0.0, 3.0, 5.0]))
    tensor([5.2848, 0.0000])
    """
    return glu(
        gate, up, "silu", bias=bias, alpha=alpha, limit=limit, up_offset=up_offset, interleaved=interleaved,
        gate_second=gate_second,
    )  # fmt: skip


def activate(
    x: torch.Tensor,
    activation: str,
    *,
    bias: torch.Tensor | None = None,
    alpha: float = 1.0,
    limit: float | None = None,
) -> torch.Tensor:
    """Return ``activation(x + bias)``, for layers without a gate; ``bias`` is ``(columns,)``. All else as :func:`glu`.

    >>> activate(torch.tensor([3.0, -3.0]), "relu2")
    tensor([9., 0.])
    """
    return apply(x, None, bias, activation, alpha, limit, 0.0, None, False)
# --8<-- [end:host]


def apply(gate, up, bias, activation, alpha, limit, up_offset, packed, gate_second):
    limit = None if limit is None else as_float("limit", limit)
    options = Options(
        activation, as_float("alpha", alpha), limit, as_float("up_offset", up_offset), packed, gate_second
    )  # fmt: skip
    if torch.compiler.is_compiling():
        return glu_op(gate, up, bias, *options)
    return GLU.apply(gate, up, bias, options)


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


def check_arguments(
    gate: torch.Tensor, up: torch.Tensor | None, bias: torch.Tensor | None, options: Options
) -> None:  # fmt: skip
    """Raise ``ValueError`` for arguments that the kernels would compute wrongly or not at all."""
    named = {"gate": gate, "up": up, "bias": bias}
    given = {name: tensor for name, tensor in named.items() if tensor is not None}
    for name, tensor in given.items():
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} is {tensor.layout}; pass {name}.to_dense()")
        if tensor.device != gate.device:
            raise ValueError(f"gate is on {gate.device} and {name} on {tensor.device}; move them to one device")
        if tensor.dtype not in DTYPES:
            supported = ", ".join(map(str, DTYPES))
            raise ValueError(f"{name} is {tensor.dtype}, which is not supported; use one of {supported}")
        if (tensor.dtype == torch.float64) != (gate.dtype == torch.float64):
            raise ValueError(f"gate is {gate.dtype} and {name} {tensor.dtype}; float64 goes with float64 only")
    if options.activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}; got {options.activation!r}")
    if options.alpha != 1 and options.activation != "silu":
        raise ValueError(f"alpha is an option of silu; got {options.alpha} for {options.activation}")
    if options.limit is not None and not options.limit >= 0:
        raise ValueError(f"limit must be 0 or more, or None; got {options.limit}")
    if not gate.ndim:
        raise ValueError("gate must have a dimension or more, the last being the columns; got a single number")
    if options.packed and gate.shape[-1] % 2:
        raise ValueError(f"one tensor of gate and up must be (..., 2 * columns); got the shape {tuple(gate.shape)}")
    if up is not None and up.shape != gate.shape:
        raise ValueError(f"up must have the shape of gate, {tuple(gate.shape)}; got {tuple(up.shape)}")
    width = gate.shape[-1] * (1 if up is None else 2)
    if bias is not None and bias.shape != (width,):
        raise ValueError(f"bias must be ({width},) for gate {tuple(gate.shape)}; got {tuple(bias.shape)}")
    if gate.shape[:-1].numel() * triton.cdiv(gate.shape[-1], BLOCK_SIZE) > 2**31 - 1:  # CUDA's limit along one axis
        raise ValueError(f"gate {tuple(gate.shape)} has too many rows for one launch; split it")
    interpreted = not isinstance(glu_kernel, triton.JITFunction)
    if gate.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(
            f"gate is on {gate.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}"
        )
    if interpreted and any(each.dtype == torch.bfloat16 for each in given.values()):
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")


def in_torch(
    gate, up=None, activation="silu", *, bias=None, alpha=1.0, limit=None, up_offset=0.0, interleaved=False,
    gate_second=False, gated=True,
):  # fmt: skip
    """Return what :func:`glu` computes, or without ``gated`` :func:`activate`, in the dtype of its arguments."""
    F = torch.nn.functional
    function = {
        "silu": lambda x: x * torch.sigmoid(alpha * x), "gelu": F.gelu, "relu": F.relu, "sigmoid": torch.sigmoid,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "relu2": lambda x: F.relu(x).square(),
        "identity": lambda x: x,
    }[activation]  # fmt: skip
    clamp = (lambda x, least: x) if limit is None else (lambda x, least: x.clamp(least, limit))
    if up is not None:
        gate = torch.cat([gate, up], dim=-1)
    x = gate if bias is None else gate + bias
    if not gated:
        return function(clamp(x, None))
    gate, up = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, dim=-1)
    gate, up = (up, gate) if gate_second else (gate, up)
    return function(clamp(gate, None)) * (clamp(up, limit and -limit) + up_offset)


def main():
    device = "cuda" if isinstance(glu_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)
    options = {"device": device, "dtype": torch.float64, "requires_grad": True}

    print("## options")
    x, bias = torch.randn(7, 10, **options), torch.randn(10, **options)
    gate, up = torch.randn(7, 5, **options), torch.randn(7, 5, **options)
    like_gpt_oss = {"gate": x, "bias": bias, "alpha": 1.702, "limit": 0.5, "up_offset": 1.0, "interleaved": True}
    cases = {"as gpt-oss": like_gpt_oss, "bias, two tensors": {"gate": gate, "up": up, "bias": bias}}
    for activation in ACTIVATIONS:
        cases[f"{activation}, two tensors"] = {"gate": gate, "up": up, "activation": activation}
    for gate_second in (False, True):
        order = "up, gate" if gate_second else "gate, up"
        for interleaved in (False, True):
            how = "interleaved" if interleaved else "halves"
            cases[f"{order}, {how}"] = {"gate": x, "interleaved": interleaved, "gate_second": gate_second}
    for activation in ("relu2", "gelu_tanh"):
        cases[f"{activation} alone, bias"] = {"gate": x, "bias": bias, "activation": activation, "gated": False}
    for name, given in cases.items():
        tensors = [each for each in given.values() if isinstance(each, torch.Tensor)]
        ours = given | {}
        function = glu if ours.pop("gated", True) else activate
        first = ours.pop("gate")
        outs = function(first, **ours), in_torch(**given)
        grads = [torch.autograd.grad((out**2).sum(), tensors) for out in outs]
        same = all(map(torch.allclose, (outs[0], *grads[0]), (outs[1], *grads[1])))
        print(f"{name}: result and gradients", "as by torch" if same else "NOT as by torch")

    print("## the limit of gpt-oss")
    # --8<-- [start:limit]
    pairs = torch.tensor([[9.0, 2.0], [-9.0, 2.0], [2.0, 9.0], [2.0, -9.0]], **options)
    out = glu(pairs, alpha=1.702, limit=7.0, up_offset=1.0, interleaved=True)
    (grads,) = torch.autograd.grad(out.sum(), pairs)
    # --8<-- [end:limit]
    print("gate   up       out   gradients of both")
    for numbers in torch.cat([pairs, out, grads], dim=1).tolist():
        gate, up, *others = (round(each, 3) + 0.0 for each in numbers)  # 0.0 makes -0.0 a zero
        print(f"{gate:4.0f} {up:4.0f} ", *(f"{each:8.3f}" for each in others))


if __name__ == "__main__":
    main()
