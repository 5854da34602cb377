# SPDX-License-Identifier: Apache-2.0
"""RMS norm and layer norm of each row, with gradients; RMS norm also of a sum, as a transformer's residual needs it.

With ``n`` columns, ``x_hat`` being the normalized row::

    RMS norm:    x_hat = x * rrms            rrms = 1 / sqrt(sum(x**2) / n + eps)
                 out = x_hat * (weight + offset)
    layer norm:  x_hat = (x - mean) * rstd   rstd = 1 / sqrt(sum((x - mean)**2) / n + eps)
                 out = x_hat * weight + bias

Backward, with ``g = grad * (weight + offset)``::

    RMS norm:    grad_x = rrms * (g - x_hat * mean(g * x_hat))
    layer norm:  grad_x = rstd * (g - x_hat * mean(g * x_hat) - mean(g))
    both:        grad_weight = sum over the rows of grad * x_hat;    grad_bias = sum over the rows of grad

A program takes a whole row. Forward, it stores one number (layer norm: two) for the backward. Backward, a fixed number
of programs shares the rows; each adds up its own for ``grad_weight``, and a second kernel adds those sums, always in
one order: equal inputs give equal bits.

- :func:`rms_norm`, :func:`layer_norm`: the functions to call; they have gradients, and work under ``torch.compile``
- :func:`add_rms_norm`: ``x + residual`` and its RMS norm

Shapes: ``x``, ``residual``, results ``(..., columns)``, at most ``MOST_COLUMNS``; ``weight``, ``bias`` ``(columns,)``.
Traffic, in elements for each of ``x``: forward 1 read and 1 written, backward 2 read and 1 written; with the sum,
forward 2 and 2, backward 3 and 1. And backward, for each column and each of ``grad_weight`` and ``grad_bias``, a sum
a program, written and read.
Source: Biao Zhang and Rico Sennrich, *Root Mean Square Layer Normalization*, 2019; Jimmy Lei Ba and others, *Layer
Normalization*, 2016. The gradients are derived on the page.

Run it on a GPU with ``python norms.py``, or with ``TRITON_INTERPRET=1 python norms.py`` in the interpreter.
"""

import functools
import math

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
MOST_COLUMNS = 2**14  # the backward of a longer row does not fit into a program's registers (on sm_90)


# --8<-- [start:kernel]
@triton.jit
def rms_norm_kernel(
    x_ptr, weight_ptr, out_ptr, rrms_ptr, columns, x_stride,
    EPS: tl.constexpr, OFFSET: tl.constexpr, ROUND_FIRST: tl.constexpr,
    COMPUTE: tl.constexpr, BLOCK_SIZE: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    columns *= UNIT
    row = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK_SIZE)
    mask = column < columns
    x_row = x_ptr + row * x_stride * UNIT
    x = tl.load(x_row + column, mask=mask, other=0).to(COMPUTE)
    weight = tl.load(weight_ptr + column, mask=mask).to(COMPUTE) + OFFSET
    rrms = tl.rsqrt(tl.sum(x * x, axis=0) / columns + EPS)
    x_hat = x * rrms
    if ROUND_FIRST:
        x_hat = x_hat.to(out_ptr.dtype.element_ty).to(COMPUTE)
    tl.store(out_ptr + row * columns + column, x_hat * weight, mask=mask)
    tl.store(rrms_ptr + row, rrms)
# --8<-- [end:kernel]


# --8<-- [start:add_kernel]
@triton.jit
def add_rms_norm_kernel(
    x_ptr, residual_ptr, weight_ptr, out_ptr, total_ptr, rrms_ptr,
    columns, x_stride, residual_stride,
    EPS: tl.constexpr, OFFSET: tl.constexpr, ROUND_FIRST: tl.constexpr,
    COMPUTE: tl.constexpr, BLOCK_SIZE: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    columns *= UNIT
    row = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK_SIZE)
    mask = column < columns
    # --8<-- [start:add]
    x_row = x_ptr + row * x_stride * UNIT
    residual_row = residual_ptr + row * residual_stride * UNIT
    x = tl.load(x_row + column, mask=mask, other=0).to(COMPUTE)
    residual = tl.load(residual_row + column, mask=mask, other=0).to(COMPUTE)
    total = (x + residual).to(total_ptr.dtype.element_ty)
    tl.store(total_ptr + row * columns + column, total, mask=mask)
    x = total.to(COMPUTE)
    # --8<-- [end:add]
    weight = tl.load(weight_ptr + column, mask=mask).to(COMPUTE) + OFFSET
    rrms = tl.rsqrt(tl.sum(x * x, axis=0) / columns + EPS)
    x_hat = x * rrms
    if ROUND_FIRST:
        x_hat = x_hat.to(out_ptr.dtype.element_ty).to(COMPUTE)
    tl.store(out_ptr + row * columns + column, x_hat * weight, mask=mask)
    tl.store(rrms_ptr + row, rrms)
# --8<-- [end:add_kernel]


# --8<-- [start:backward_kernel]
@triton.jit
def rms_norm_backward_kernel(
    grad_ptr, grad_total_ptr, x_ptr, weight_ptr, rrms_ptr,
    grad_x_ptr, partial_ptr,
    rows, columns, grad_stride, grad_total_stride, x_stride,
    OFFSET: tl.constexpr, ROUND_FIRST: tl.constexpr, COMPUTE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr, UNIT: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    columns *= UNIT
    program = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK_SIZE)
    mask = column < columns
    partial = tl.zeros((BLOCK_SIZE,), COMPUTE)
    for row in tl.range(
        program, rows, tl.num_programs(axis=0), num_stages=STAGES
    ):
        row = tl.cast(row, tl.int64)  # the interpreter's is an int
        grad_row = grad_ptr + row * grad_stride * UNIT
        x_row = x_ptr + row * x_stride * UNIT
        grad = tl.load(grad_row + column, mask=mask, other=0).to(COMPUTE)
        x = tl.load(x_row + column, mask=mask, other=0).to(COMPUTE)
        weight = tl.load(weight_ptr + column, mask=mask, other=0)
        weight = weight.to(COMPUTE) + OFFSET
        rrms = tl.load(rrms_ptr + row)
        x_hat = x * rrms
        seen = x_hat  # by the weight
        if ROUND_FIRST:
            seen = x_hat.to(grad_x_ptr.dtype.element_ty).to(COMPUTE)
        partial += grad * seen
        g = grad * weight
        grad_x = rrms * (g - x_hat * (tl.sum(g * x_hat, axis=0) / columns))
        if grad_total_ptr is not None:
            total_row = grad_total_ptr + row * grad_total_stride * UNIT
            grad_x += tl.load(total_row + column, mask=mask).to(COMPUTE)
        tl.store(grad_x_ptr + row * columns + column, grad_x, mask=mask)
    tl.store(partial_ptr + program * columns + column, partial, mask=mask)
# --8<-- [end:backward_kernel]


# --8<-- [start:sum_kernel]
@triton.jit
def sum_partials_kernel(
    partial_ptr, out_ptr, partials, columns, COMPUTE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr,
):  # fmt: skip
    first_column = tl.program_id(axis=0) * BLOCK_COLUMNS
    column = first_column + tl.arange(0, BLOCK_COLUMNS)
    total = tl.zeros((BLOCK_COLUMNS,), COMPUTE)
    for first in range(0, partials, BLOCK_ROWS):
        row = first + tl.arange(0, BLOCK_ROWS)
        mask = (row < partials)[:, None] & (column < columns)
        offsets = row[:, None] * columns + column
        tile = tl.load(partial_ptr + offsets, mask=mask, other=0)
        total += tl.sum(tile, axis=0)
    tl.store(out_ptr + column, total, mask=column < columns)
# --8<-- [end:sum_kernel]


# --8<-- [start:layer_kernel]
@triton.jit
def layer_norm_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, mean_ptr, rstd_ptr, columns, x_stride,
    EPS: tl.constexpr, COMPUTE: tl.constexpr, BLOCK_SIZE: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    columns *= UNIT
    row = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK_SIZE)
    mask = column < columns
    x_row = x_ptr + row * x_stride * UNIT
    x = tl.load(x_row + column, mask=mask, other=0).to(COMPUTE)
    # --8<-- [start:variance]
    mean = tl.sum(x, axis=0) / columns
    centered = tl.where(mask, x - mean, 0)
    rstd = tl.rsqrt(tl.sum(centered * centered, axis=0) / columns + EPS)
    # --8<-- [end:variance]
    out = centered * rstd * tl.load(weight_ptr + column, mask=mask).to(COMPUTE)
    if bias_ptr is not None:
        out += tl.load(bias_ptr + column, mask=mask).to(COMPUTE)
    tl.store(out_ptr + row * columns + column, out, mask=mask)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
# --8<-- [end:layer_kernel]


# --8<-- [start:layer_backward_kernel]
@triton.jit
def layer_norm_backward_kernel(
    grad_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, grad_x_ptr, partial_weight_ptr, partial_bias_ptr,
    rows, columns, grad_stride, x_stride,
    COMPUTE: tl.constexpr, BLOCK_SIZE: tl.constexpr, UNIT: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    columns *= UNIT
    program = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK_SIZE)
    mask = column < columns
    partial_weight = tl.zeros((BLOCK_SIZE,), COMPUTE)
    partial_bias = tl.zeros((BLOCK_SIZE,), COMPUTE)
    for row in tl.range(program, rows, tl.num_programs(axis=0), num_stages=STAGES):
        row = tl.cast(row, tl.int64)  # the interpreter's is an int
        grad_row = grad_ptr + row * grad_stride * UNIT
        x_row = x_ptr + row * x_stride * UNIT
        grad = tl.load(grad_row + column, mask=mask, other=0).to(COMPUTE)
        x = tl.load(x_row + column, mask=mask, other=0).to(COMPUTE)
        weight = tl.load(weight_ptr + column, mask=mask, other=0).to(COMPUTE)
        rstd = tl.load(rstd_ptr + row)
        x_hat = (x - tl.load(mean_ptr + row)) * rstd
        partial_weight += grad * x_hat
        partial_bias += grad
        g = grad * weight  # 0 in lanes that are off, so what x_hat is there does not matter
        along, across = tl.sum(g * x_hat, axis=0) / columns, tl.sum(g, axis=0) / columns
        tl.store(grad_x_ptr + row * columns + column, rstd * (g - x_hat * along - across), mask=mask)
    tl.store(partial_weight_ptr + program * columns + column, partial_weight, mask=mask)
    if partial_bias_ptr is not None:
        tl.store(partial_bias_ptr + program * columns + column, partial_bias, mask=mask)
# --8<-- [end:layer_backward_kernel]


# --8<-- [start:forward]
def rms_norm_forward(
    x: torch.Tensor, weight: torch.Tensor, eps: float, offset: float, round_first: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    check_arguments(x=x, weight=weight)
    out, rrms = like(x), of_each_row(x)
    if x.numel():
        x_rows = as_rows(x)
        with torch.cuda.device_of(x):  # Triton launches on the current device, which need not be that of x
            rms_norm_kernel[(len(x_rows),)](
                x_rows, without_gaps(weight), out, rrms, *in_units(x_rows),
                EPS=eps, OFFSET=offset, ROUND_FIRST=round_first, **settings(x_rows),
            )  # fmt: skip
    return out, rrms
# --8<-- [end:forward]


def add_rms_norm_forward(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float, offset: float, round_first: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    check_arguments(x=x, weight=weight, residual=residual)
    out, total, rrms = like(x), like(x), of_each_row(x)
    if x.numel():
        given = as_rows(x), as_rows(residual)
        with torch.cuda.device_of(x):
            add_rms_norm_kernel[(len(given[0]),)](
                *given, without_gaps(weight), out, total, rrms, *in_units(*given),
                EPS=eps, OFFSET=offset, ROUND_FIRST=round_first, **settings(*given),
            )  # fmt: skip
    return out, total, rrms


# --8<-- [start:backward]
def rms_norm_backward(
    grad: torch.Tensor, grad_total: torch.Tensor | None, x: torch.Tensor, weight: torch.Tensor, rrms: torch.Tensor,
    offset: float, round_first: bool,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    grad_x, partial = rms_norm_backward_rows(grad, grad_total, x, weight, rrms, offset, round_first)
    return grad_x, sum_partials(partial, weight.dtype)


def rms_norm_backward_rows(grad, grad_total, x, weight, rrms, offset, round_first, programs=None):
    """Return the gradient of ``x``, and what each program has added up for that of ``weight``."""
    added = {} if grad_total is None else {"grad_total": grad_total}
    check_arguments(x=x, weight=weight, grad=grad, **added)
    grad_x, partial = like(x), of_each_program(x, programs)
    if x.numel():
        grad, x, total = as_rows(grad), as_rows(x), as_rows(added.get("grad_total", grad))
        loads = [grad, x, weight, *added.values()]
        with torch.cuda.device_of(x):
            rms_norm_backward_kernel[(len(partial),)](
                grad, total if added else None, x, without_gaps(weight), without_gaps(rrms), grad_x, partial,
                len(x), *in_units(grad, total, x),
                OFFSET=offset, ROUND_FIRST=round_first, **backward_settings(grad, total, x, loads=loads),
            )  # fmt: skip
    return grad_x, partial
# --8<-- [end:backward]


# --8<-- [start:sum]
def sum_partials(partial: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the sum of the rows, in an order that only their number decides."""
    partials, columns = partial.shape
    out = torch.empty(columns, dtype=dtype, device=partial.device)
    if columns:
        with torch.cuda.device_of(partial):
            sum_partials_kernel[(triton.cdiv(columns, 32),)](
                partial, out, partials, columns, COMPUTE=computed_in(partial), BLOCK_ROWS=64, BLOCK_COLUMNS=32
            )
    return out
# --8<-- [end:sum]


def layer_norm_forward(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    check_arguments(x=x, weight=weight, **({} if bias is None else {"bias": bias}))
    out, mean, rstd = like(x), of_each_row(x), of_each_row(x)
    if x.numel():
        x_rows, bias = as_rows(x), None if bias is None else without_gaps(bias)
        with torch.cuda.device_of(x):
            layer_norm_kernel[(len(x_rows),)](
                x_rows, without_gaps(weight), bias, out, mean, rstd, *in_units(x_rows), EPS=eps, **settings(x_rows)
            )
    return out, mean, rstd


def layer_norm_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor,
    has_bias: bool, programs: int | None = None,
) -> list[torch.Tensor]:  # fmt: skip
    """Return the gradients of ``x``, of ``weight`` and, if there is one, of ``bias``."""
    check_arguments(x=x, weight=weight, grad=grad)
    grad_x, partial, partial_bias = like(x), of_each_program(x, programs), None
    if has_bias:
        partial_bias = of_each_program(x, programs)
    if x.numel():
        grad, x = as_rows(grad), as_rows(x)
        with torch.cuda.device_of(x):
            layer_norm_backward_kernel[(len(partial),)](
                grad, x, *map(without_gaps, (weight, mean, rstd)), grad_x, partial, partial_bias,
                len(x), *in_units(grad, x), **backward_settings(grad, x, loads=[grad, x, weight], sums=2),
            )  # fmt: skip
    partials = [partial, partial_bias] if has_bias else [partial]
    return [grad_x, *(sum_partials(each, weight.dtype) for each in partials)]


# --8<-- [start:layout]
def as_rows(x: torch.Tensor) -> torch.Tensor:
    """Return ``(rows, columns)``, a row's elements adjacent in memory; copied if it does not lie so."""
    x = x.resolve_neg().reshape(-1, x.shape[-1])
    return x if x.stride(1) == 1 else x.contiguous()


def without_gaps(x: torch.Tensor) -> torch.Tensor:
    return x.resolve_neg().contiguous()


def like(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def of_each_row(x: torch.Tensor) -> torch.Tensor:
    """Return room for a number of each row, in the dtype that the kernels compute in."""
    return torch.empty(x.shape[:-1], dtype=wide(x.dtype), device=x.device)


def of_each_program(x: torch.Tensor, programs: int | None) -> torch.Tensor:
    """Return room for a row of sums of each program of a backward; there are no more programs than rows."""
    programs = min(x.shape[:-1].numel(), programs or programs_for(x.shape[-1]))
    return torch.empty((programs, x.shape[-1]), dtype=wide(x.dtype), device=x.device)


def programs_for(columns: int) -> int:
    """Return how many programs of a backward share the rows.

    It is the same on every GPU, for another number adds up in another order.
    """
    return min(max(2**20 // triton.next_power_of_2(max(columns, 1)), 128), 512)


def wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def computed_in(x: torch.Tensor) -> tl.dtype:
    return tl.float64 if x.dtype == torch.float64 else tl.float32


def unit_of(*rows: torch.Tensor) -> int:
    """Return the largest power of two up to 8 that divides columns and strides.

    The compiler loads 16 bytes at a time only if it knows this: by itself it looks for multiples of 16 alone.
    """
    return math.gcd(8, rows[0].shape[1], *(each.stride(0) for each in rows))


def in_units(*rows: torch.Tensor) -> list[int]:
    """Return columns and strides as the kernels take them."""
    unit = unit_of(*rows)
    return [number // unit for number in (rows[0].shape[1], *(each.stride(0) for each in rows))]


def settings(*rows: torch.Tensor) -> dict:
    """Return the options to compile with. A warp has 512 elements, or more in a row that is longer than 8,192."""
    block = triton.next_power_of_2(rows[0].shape[1])
    return {
        "COMPUTE": computed_in(rows[0]),
        "BLOCK_SIZE": block,
        "UNIT": unit_of(*rows),
        "num_warps": min(max(block // 512, 1), 16),
    }


def backward_settings(*rows: torch.Tensor, loads: list[torch.Tensor], sums: int = 1) -> dict:
    """Return the same for a backward, which loads the next rows while it computes one, as far as there is room.

    Args:
        loads: What is loaded at a time: rows, and the weight, which may be of a wider dtype.
        sums: How many are kept for each column.
    """
    options = settings(*rows)
    block = options["BLOCK_SIZE"]
    room = shared_memory(rows[0].device) - 1024  # that much for sums over the warps
    ahead = room // (block * sum(each.element_size() for each in loads))
    options["STAGES"] = min(1 + ahead, 3)
    if block > 2**13 and sums == 1 and not torch.version.hip:  # AMD's warps have 64 threads, and a program 1024
        options["num_warps"] = 32
    elif block > 2**13:
        options["STAGES"] = 1  # the sums fill the registers
    return options


@functools.cache
def shared_memory(device: torch.device) -> int:
    """Return the bytes of shared memory that a program may have."""
    if device.type != "cuda":
        return 232_448  # an H200's
    return getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 2**16)
# --8<-- [end:layout]


def no_second_gradient(name: str) -> None:
    if torch.is_grad_enabled():  # as under create_graph=True
        raise RuntimeError(
            f"{name} has no gradient of its gradient, so it refuses create_graph=True, and torch.func.grad and vjp,"
            " which always ask for it; use torch.autograd.grad"
        )


# --8<-- [start:function]
class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(x, weight, eps, offset, round_first):
        return rms_norm_forward(x, weight, eps, offset, round_first)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, _, *ctx.options = inputs
        _, rrms = output
        ctx.save_for_backward(x, weight, rrms)
        ctx.mark_non_differentiable(rrms)

    @staticmethod
    def backward(ctx, grad, _):
        no_second_gradient("rms_norm")
        grads = rms_norm_backward(
            grad, None, *ctx.saved_tensors, *ctx.options
        )
        return *grads, None, None, None
# --8<-- [end:function]


# --8<-- [start:add_function]
class AddRMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(x, residual, weight, eps, offset, round_first):
        return add_rms_norm_forward(x, residual, weight, eps, offset, round_first)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, _, weight, _, *ctx.options = inputs
        _, total, rrms = output
        ctx.save_for_backward(total, weight, rrms)
        ctx.mark_non_differentiable(rrms)

    @staticmethod
    def backward(ctx, grad, grad_total, _):
        no_second_gradient("add_rms_norm")
        grad_sum, grad_weight = rms_norm_backward(grad, grad_total, *ctx.saved_tensors, *ctx.options)
        return grad_sum, grad_sum, grad_weight, None, None, None
# --8<-- [end:add_function]


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(x, weight, bias, eps):
        return layer_norm_forward(x, weight, bias, eps)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, bias, _ = inputs
        _, mean, rstd = output
        ctx.has_bias = bias is not None
        ctx.save_for_backward(x, weight, mean, rstd)
        ctx.mark_non_differentiable(mean, rstd)

    @staticmethod
    def backward(ctx, grad, *_):
        no_second_gradient("layer_norm")
        grads = layer_norm_backward(grad, *ctx.saved_tensors, ctx.has_bias)
        return *grads, *[None] * (4 - len(grads))


# The same for torch.compile, which looks into no custom op


@torch.library.custom_op("triton_by_example::rms_norm", mutates_args=())
def rms_norm_op(
    x: torch.Tensor, weight: torch.Tensor, eps: float, offset: float, round_first: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    return rms_norm_forward(x, weight, eps, offset, round_first)


@torch.library.custom_op("triton_by_example::add_rms_norm", mutates_args=())
def add_rms_norm_op(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float, offset: float, round_first: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return add_rms_norm_forward(x, residual, weight, eps, offset, round_first)


@torch.library.custom_op("triton_by_example::rms_norm_backward", mutates_args=())
def rms_norm_backward_op(
    grad: torch.Tensor, grad_total: torch.Tensor | None, x: torch.Tensor, weight: torch.Tensor, rrms: torch.Tensor,
    offset: float, round_first: bool,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    return rms_norm_backward(grad, grad_total, x, weight, rrms, offset, round_first)


@torch.library.custom_op("triton_by_example::layer_norm", mutates_args=())
def layer_norm_op(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return layer_norm_forward(x, weight, bias, eps)


@torch.library.custom_op("triton_by_example::layer_norm_backward", mutates_args=())
def layer_norm_backward_op(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor, has_bias: bool
) -> list[torch.Tensor]:
    return layer_norm_backward(grad, x, weight, mean, rstd, has_bias)


rms_norm_op.register_fake(lambda x, *_: (x.new_empty(x.shape), of_each_row(x)))
add_rms_norm_op.register_fake(lambda x, *_: (x.new_empty(x.shape), x.new_empty(x.shape), of_each_row(x)))
layer_norm_op.register_fake(lambda x, *_: (x.new_empty(x.shape), of_each_row(x), of_each_row(x)))


@rms_norm_backward_op.register_fake
def _(grad, grad_total, x, weight, *_):
    return x.new_empty(x.shape), weight.new_empty(weight.shape)


@layer_norm_backward_op.register_fake
def _(grad, x, weight, mean, rstd, has_bias):
    return [x.new_empty(x.shape), *(weight.new_empty(weight.shape) for _ in range(1 + has_bias))]


def rms_norm_op_backward(ctx, grad, _):
    return *rms_norm_backward_op(grad, None, *ctx.saved_tensors, *ctx.options), None, None, None


def add_rms_norm_op_backward(ctx, grad, grad_total, _):
    grad_sum, grad_weight = rms_norm_backward_op(grad, grad_total, *ctx.saved_tensors, *ctx.options)
    return grad_sum, grad_sum, grad_weight, None, None, None


def layer_norm_op_backward(ctx, grad, *_):
    grads = layer_norm_backward_op(grad, *ctx.saved_tensors, ctx.has_bias)
    return *grads, *[None] * (4 - len(grads))


rms_norm_op.register_autograd(rms_norm_op_backward, setup_context=RMSNorm.setup_context)
add_rms_norm_op.register_autograd(add_rms_norm_op_backward, setup_context=AddRMSNorm.setup_context)
layer_norm_op.register_autograd(layer_norm_op_backward, setup_context=LayerNorm.setup_context)


def as_float(name: str, value) -> float:
    """Return a number of Python or NumPy, or of a tensor on the CPU, as Python's ``float``."""
    if isinstance(value, float):
        return value
    try:
        if isinstance(value, str) or getattr(value, "is_cuda", False):  # the host would wait for the GPU
            raise TypeError
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        default = "; for torch's default pass torch.finfo(x.dtype).eps" if name == "eps" and value is None else ""
        raise ValueError(f"{name} must be a number, not on a GPU; got {value!r}{default}") from None


# --8<-- [start:host]
def rms_norm(
    x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6, *, offset: float = 0.0, round_first: bool = False
) -> torch.Tensor:
    """Return ``x / sqrt(mean(x**2) + eps) * (weight + offset)`` for each row; it has gradients for both tensors.

    As torch's ``rms_norm``: neither option. As Llama: ``round_first=True``. As Gemma: ``offset=1``.

    Args:
        x: ``(..., columns)`` on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``, with at most
            ``MOST_COLUMNS`` columns. It is copied, in the forward and again in the backward, unless the elements of a
            row are neighbors in memory, and the rows lie evenly apart.
        weight: ``(columns,)``, of the dtype of ``x`` or float32.
        eps: Added to the mean of the squares; a number, for None is refused. Kernels are compiled for each that is
            used, and each ``offset``.
        offset: Added to the weight.
        round_first: Whether the normalized row is rounded to the dtype of ``x`` before it is multiplied by the weight.

    Returns:
        A new contiguous tensor of the shape and dtype of ``x``, computed in float32, or in float64 for float64. So are
        the gradients, which have the dtypes of ``x`` and ``weight``; they are deterministic. ``x``, ``weight`` and a
        number for each row are kept for the backward. The kernel may still be running when it is returned.

    Raises:
        ValueError: An argument is something that the kernels cannot serve.
        RuntimeError: In the backward, under ``create_graph=True``: there is no gradient of the gradient.

    >>> x = torch.tensor([[1.0, 2.0, 2.0, 4.0, 10.0]], requires_grad=True)
    >>> out = rms_norm(x, torch.ones(5), eps=0.0)
    >>> out.detach()
    tensor([[0.2000, 0.4000, 0.4000, 0.8000, 2.0000]])
    >>> out[0, 4].backward()
    >>> x.grad
    tensor([[-0.0160, -0.0320, -0.0320, -0.0640,  0.0400]])
    """
    apply = rms_norm_op if torch.compiler.is_compiling() else RMSNorm.apply
    out, _ = apply(x, weight, as_float("eps", eps), as_float("offset", offset), round_first)
    return out


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6, *,
    offset: float = 0.0, round_first: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return ``rms_norm(x + residual, weight, …)`` and ``x + residual``, by one kernel.

    The sum is rounded to the dtype of ``x`` before it is normalized, so that all is as by the two operations, and is
    kept for the backward in place of ``x`` and ``residual``. ``residual`` is of the shape, dtype and device of ``x``;
    all else is as in :func:`rms_norm`.

    >>> x = torch.tensor([[1.0, 1.0, 1.0, 2.0, 5.0]])
    >>> add_rms_norm(x, x - torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0]), torch.ones(5), eps=0.0)[1]
    tensor([[ 1.,  2.,  2.,  4., 10.]])
    """
    apply = add_rms_norm_op if torch.compiler.is_compiling() else AddRMSNorm.apply
    out, total, _ = apply(x, residual, weight, as_float("eps", eps), as_float("offset", offset), round_first)
    return out, total


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, eps: float = 1e-5
) -> torch.Tensor:  # fmt: skip
    """Return ``(x - mean(x)) / sqrt(variance(x) + eps) * weight + bias`` for each row, as torch's ``layer_norm`` does.

    ``bias`` is None, or of the shape and dtype of ``weight``; two numbers are kept for each row. All else is as in
    :func:`rms_norm`.

    >>> layer_norm(torch.tensor([[2.0, 4.0, 5.0, 6.0, 8.0]]), torch.ones(5), torch.zeros(5), eps=0.0)
    tensor([[-1.5000, -0.5000,  0.0000,  0.5000,  1.5000]])
    """
    apply = layer_norm_op if torch.compiler.is_compiling() else LayerNorm.apply
    out, _, _ = apply(x, weight, bias, as_float("eps", eps))
    return out
# --8<-- [end:host]


# --8<-- [start:check]
def check_arguments(*, x: torch.Tensor, weight: torch.Tensor, **others: torch.Tensor) -> None:
    """Raise ``ValueError`` for arguments that the kernels would compute wrongly or not at all."""
    if not x.ndim:
        raise ValueError("x must have a dimension or more, the last being the columns; got a single number")
    if weight is None:
        raise ValueError("weight is None; pass torch.ones(x.shape[-1], dtype=x.dtype, device=x.device)")
    for name, tensor in {"x": x, "weight": weight, **others}.items():
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} is {tensor.layout}; pass {name}.to_dense()")
        if tensor.device != x.device:
            raise ValueError(f"x is on {x.device} and {name} on {tensor.device}; move them to one device")
    columns = x.shape[-1]
    if weight.shape != (columns,) or weight.dtype not in (x.dtype, torch.float32):
        raise ValueError(
            f"weight must have the shape ({columns},), a number for each column of x, and the dtype of x or float32;"
            f" got {tuple(weight.shape)} {weight.dtype} for x {tuple(x.shape)} {x.dtype}"
        )
    for name, tensor in others.items():
        to, model = ("weight", weight) if name == "bias" else ("x", x)
        if tensor.shape != model.shape or tensor.dtype != model.dtype:
            raise ValueError(
                f"{to} and {name} must have the same shape and dtype; got {tuple(model.shape)} {model.dtype}"
                f" and {tuple(tensor.shape)} {tensor.dtype}"
            )
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    if columns > MOST_COLUMNS:
        raise ValueError(
            f"a row has {columns} columns, at most {MOST_COLUMNS} are served: one program holds a whole row in its"
            " registers; a longer one needs a loop over blocks"
        )
    if x.shape[:-1].numel() > 2**31 - 1:  # CUDA's limit of programs along one axis
        raise ValueError(f"{x.shape[:-1].numel()} rows are too many for one launch; split x")
    interpreted = not isinstance(rms_norm_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if interpreted and torch.bfloat16 in (x.dtype, weight.dtype):
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")
# --8<-- [end:check]


# --8<-- [start:llama]
def as_llama(x, weight, eps=1e-6):
    wide = x.float()
    rrms = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * (wide * rrms).to(x.dtype)
# --8<-- [end:llama]


# --8<-- [start:gemma]
def as_gemma(x, weight, eps=1e-6):
    wide = x.float()
    rrms = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (wide * rrms * (1.0 + weight.float())).to(x.dtype)
# --8<-- [end:gemma]


# --8<-- [start:in_torch]
def in_torch(x, weight, eps=1e-6, offset=0.0):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * (weight + offset)
# --8<-- [end:in_torch]


# --8<-- [start:toy]
def toy(device):
    """Return three rows of five, a weight, and a gradient that comes back."""
    x = torch.tensor([[1.0, 2.0, 2.0, 4.0, 10.0], [10.0, 20.0, 20.0, 40.0, 100.0], [5.0, 5.0, 5.0, 5.0, 5.0]])
    weight = torch.tensor([1.0, 1.0, 1.0, 2.0, 0.5])
    grad = torch.tensor([[0.0, 0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0, 0.0]])
    return [each.to(device) for each in (x, weight, grad)]
# --8<-- [end:toy]


# --8<-- [start:by_hand]
def by_hand(x: list[float], weight: list[float], grad: list[float]) -> dict[str, float]:
    """Return each step for the last element of a row, forward and then backward."""
    square = sum(value**2 for value in x) / len(x)
    rms = math.sqrt(square)
    x_hat = [value / rms for value in x]
    g = [a * b for a, b in zip(grad, weight, strict=True)]
    along = sum(a * b for a, b in zip(g, x_hat, strict=True)) / len(x)
    return {
        "mean of the squares": square,
        "rms": rms,
        "x_hat": x_hat[-1],
        "out": x_hat[-1] * weight[-1],
        "g": g[-1],
        "mean of g * x_hat": along,
        "grad_x": (g[-1] - x_hat[-1] * along) / rms,
        "grad_x, the fourth": (g[-2] - x_hat[-2] * along) / rms,
    }
# --8<-- [end:by_hand]


def as_torch(function, reference, inputs: list[torch.Tensor], grad: torch.Tensor, tolerance=1e-5) -> bool:
    """Return whether the result of ``function`` and the gradients of ``inputs`` are those of ``reference``."""
    found, wanted = ([out := each(*inputs), *torch.autograd.grad(out, inputs, grad)] for each in (function, reference))
    return all(torch.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in zip(found, wanted, strict=True))


def shown(values: torch.Tensor, digits=3) -> str:
    rounded = [round(value, digits) + 0.0 for value in values.flatten().tolist()]  # + 0.0: no "-0.000"
    return " ".join(f"{value:{digits + 4}.{digits}f}" for value in rounded)


def main():
    device = "cuda" if isinstance(rms_norm_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## RMS norm")
    x, weight, grad = toy(device)
    out, rrms = rms_norm_forward(x, weight, 0.0, 0.0, False)
    for i in range(3):
        print(f"row {i}, x:  ", shown(x[i], 1))
        print(f"row {i}, out:", shown(out[i], 1), f"  rms: {1 / rrms[i].item():.0f}")

    print("## its backward")
    grad_x, partial = rms_norm_backward_rows(grad, None, x, weight, rrms, 0.0, False, programs=2)
    for i in range(3):
        print(f"row {i}, grad:  ", shown(grad[i], 4))
        print(f"row {i}, grad_x:", shown(grad_x[i], 4))
    for program in range(2):
        print(f"sum of program {program}:", shown(partial[program], 0))
    print("grad_weight:     ", shown(sum_partials(partial, weight.dtype), 0))

    print("## by hand")
    for name, value in by_hand(*(each[0].tolist() for each in (x, weight[None], grad))).items():
        print(f"{name}: {value:.4g}")

    print("## layer norm")
    x = torch.tensor([[2.0, 4.0, 5.0, 6.0, 8.0]], device=device)
    print("x:  ", shown(x))
    print("out:", shown(layer_norm(x, torch.ones_like(x[0]), eps=0.0)))

    print("## cast order")
    x, weight, _ = (each.half() for each in toy(device))
    exact = in_torch(x.double(), 3 * torch.ones_like(weight).double(), eps=0.0)
    first, last = (rms_norm(x, 3 * torch.ones_like(weight), 0.0, round_first=each) for each in (True, False))
    for name, values in {"exact": exact, "round, multiply": first, "multiply, round": last}.items():
        print(f"{name:15}:", shown(values[0, :4], 6))
    random = torch.Generator().manual_seed(0)
    x = torch.randn(8, 4096, generator=random).to(device).half()
    weight = (1 + 0.3 * torch.randn(4096, generator=random)).to(device).half()
    first, last = (rms_norm(x, weight, round_first=each) for each in (True, False))
    exact = in_torch(x.double(), weight.double())
    error = lambda out: (out.double() - exact).abs().mean().item()
    print(f"percent of 8 x 4096 elements that differ: {100 * (first != last).float().mean().item():.0f}")
    print(f"mean error, of the first for each of the second: {error(first) / error(last):.1f}")
    same = lambda out, wanted: (out != wanted).float().mean().item() < 1e-3
    print("as in Llama:", same(rms_norm(x, weight, round_first=True), as_llama(x, weight)))
    print("as in Gemma:", same(rms_norm(x, weight, offset=1.0), as_gemma(x, weight)))

    print("## gradients")
    # --8<-- [start:gradcheck]
    options = {"dtype": torch.float64, "device": device, "requires_grad": True}
    x, residual = torch.randn(2, 5, **options), torch.randn(2, 5, **options)
    weight, bias = torch.randn(5, **options), torch.randn(5, **options)
    gradcheck = torch.autograd.gradcheck
    print("rms_norm, gradcheck:", gradcheck(rms_norm, (x, weight)))
    print("add_rms_norm, gradcheck:", gradcheck(add_rms_norm, (x, residual, weight)))
    print("layer_norm, gradcheck:", gradcheck(layer_norm, (x, weight, bias)))
    # --8<-- [end:gradcheck]
    # fullgraph: an error if the compiler has to stop and leave a part to Python
    compiled = torch.compile(rms_norm, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    for name, function in {"rms_norm": rms_norm, "compiled": compiled}.items():
        x, grad = torch.randn(2, 64, 781).to(device)
        inputs = [x.requires_grad_(), torch.randn(781).to(device).requires_grad_()]
        print(f"64 x 781, {name}, as torch:", as_torch(function, in_torch, inputs, grad, tolerance=1e-4))
    print("most columns:", MOST_COLUMNS)
    print("programs for 4096 columns:", programs_for(4096))


if __name__ == "__main__":
    main()
