# SPDX-License-Identifier: Apache-2.0
"""RMS norm and layer norm with gradients, and the same of a sum ``x + residual``, with the options that models ask for.

The lesson ``fusion/norms.py`` derives the formulas, and has the plain RMS norm. With ``x_hat`` the normalized row::

    RMS norm:    x_hat = x * rstd            rstd = 1 / sqrt(mean(x**2) + eps)
    layer norm:  x_hat = (x - mean) * rstd   rstd = 1 / sqrt(mean((x - mean)**2) + eps)
    both:        out = x_hat * (weight + offset) + bias

Backward, with ``g = grad * (weight + offset)``; RMS norm leaves out the last term::

    grad_x = rstd * (g - x_hat * mean(g * x_hat) - mean(g))
    grad_weight = sum of grad * x_hat;  grad_bias = sum of grad, both over the rows

- :func:`rms_norm`, :func:`layer_norm`: with or without weight and bias, for rows of any length
- :func:`add_rms_norm`, :func:`add_layer_norm`: the norm of ``x + residual``, and that sum, by one kernel

Sums are added in an order that only the shapes decide, so equal inputs give equal bits.
Traffic, in elements for each of ``x``: forward 1 read and 1 written, backward 2 read and 1 written; with a residual
forward 2 and 2, backward 3 and 1. Rows longer than ``HELD`` are read once more forward, and twice more backward.
Source: Biao Zhang and Rico Sennrich, *Root Mean Square Layer Normalization*, 2019; Jimmy Lei Ba and others, *Layer
Normalization*, 2016; B. P. Welford's and T. F. Chan's way to merge the variances of blocks.

Run it on a GPU with ``python norms.py``, or with ``TRITON_INTERPRET=1 python norms.py`` in the interpreter.
"""

import functools
import inspect
import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
HELD = 2**14  # the longest row that a program keeps in its registers
LONG_BLOCK = 2**12  # elements of a longer row that are loaded at a time
CROWDED = 2**13  # beyond this, registers have no room for what is loaded ahead, nor for a weight beside two sums


# --8<-- [start:kernels]
@triton.jit
def norm_kernel(
    x_ptr,
    residual_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    total_ptr,
    mean_ptr,
    rstd_ptr,
    tokens,
    heads,
    columns,
    x_stride,
    residual_stride,
    LAYER: tl.constexpr,
    EPS: tl.constexpr,
    OFFSET: tl.constexpr,
    ROUND_OFFSET: tl.constexpr,
    ROUND_FIRST: tl.constexpr,
    COMPUTE: tl.constexpr,
    TOKENS: tl.constexpr,
    BLOCK: tl.constexpr,
    UNIT: tl.constexpr,
):
    """Normalize one head's rows of ``TOKENS`` tokens. Row ``token * heads + head`` of ``x`` belongs to a head.

    Parameters:
        x_ptr, residual_ptr: ``(tokens * heads, columns)``, rows ``stride * UNIT`` apart; ``residual_ptr`` may be None.
        weight_ptr, bias_ptr: ``(heads, columns)``, contiguous, or None.
        out_ptr, total_ptr: Like ``x``, contiguous. ``total_ptr`` gets ``x + residual``, rounded to its own dtype.
        mean_ptr, rstd_ptr: ``(tokens * heads,)`` of the dtype ``COMPUTE``; ``mean_ptr`` is None for an RMS norm.
        columns, x_stride, residual_stride: Divided by ``UNIT``, which tells the compiler what divides them.
        LAYER: Whether the mean is subtracted.
        ROUND_OFFSET: Whether ``weight + OFFSET`` is rounded to the dtype of the weight.
        ROUND_FIRST: Whether ``x_hat`` is rounded to the dtype of the result before it is multiplied by the weight.
        BLOCK: A power of two, no less than the columns.
    """
    columns *= UNIT
    head = tl.program_id(axis=0) % heads
    token = tl.program_id(axis=0) // heads * TOKENS + tl.arange(0, TOKENS)[:, None]
    row = token.to(tl.int64) * heads + head
    column = tl.arange(0, BLOCK)[None, :]
    mask = (token < tokens) & (column < columns)
    # --8<-- [start:add]
    x_row = x_ptr + row * x_stride * UNIT
    x = load_wide(x_row + column, mask, COMPUTE)
    if residual_ptr is not None:
        residual_row = residual_ptr + row * residual_stride * UNIT
        x += load_wide(residual_row + column, mask, COMPUTE)
        x = x.to(total_ptr.dtype.element_ty).to(COMPUTE)
        tl.store(total_ptr + row * columns + column, x, mask=mask)
    # --8<-- [end:add]
    # --8<-- [start:mean]
    if LAYER:
        mean = tl.sum(x, axis=1, keep_dims=True) / columns
        x = tl.where(mask, x - mean, 0)
        tl.store(mean_ptr + row, mean, mask=token < tokens)
    # --8<-- [end:mean]
    rstd = tl.rsqrt(tl.sum(x * x, axis=1, keep_dims=True) / columns + EPS)
    tl.store(rstd_ptr + row, rstd, mask=token < tokens)
    x_hat = x * rstd
    if ROUND_FIRST:
        x_hat = x_hat.to(out_ptr.dtype.element_ty).to(COMPUTE)
    if weight_ptr is not None:
        x_hat *= load_weight(weight_ptr + head * columns + column, column < columns, OFFSET, ROUND_OFFSET, COMPUTE)
    if bias_ptr is not None:
        x_hat += load_wide(bias_ptr + head * columns + column, column < columns, COMPUTE)
    tl.store(out_ptr + row * columns + column, x_hat, mask=mask)


@triton.jit
def load_wide(ptrs, mask, COMPUTE: tl.constexpr):
    return tl.load(ptrs, mask=mask, other=0).to(COMPUTE)


@triton.jit
def load_weight(ptrs, mask, OFFSET: tl.constexpr, ROUND_OFFSET: tl.constexpr, COMPUTE: tl.constexpr):
    weight = tl.load(ptrs, mask=mask, other=0)
    total = weight.to(COMPUTE) + OFFSET
    if ROUND_OFFSET:
        total = total.to(weight.dtype).to(COMPUTE)
    return total


@triton.jit
def norm_backward_kernel(
    grad_ptr,
    grad_total_ptr,
    x_ptr,
    weight_ptr,
    mean_ptr,
    rstd_ptr,
    grad_x_ptr,
    grad_residual_ptr,
    partial_weight_ptr,
    partial_bias_ptr,
    tokens,
    heads,
    columns,
    grad_stride,
    grad_total_stride,
    x_stride,
    LAYER: tl.constexpr,
    OFFSET: tl.constexpr,
    ROUND_OFFSET: tl.constexpr,
    ROUND_FIRST: tl.constexpr,
    COMPUTE: tl.constexpr,
    TOKENS: tl.constexpr,
    BLOCK: tl.constexpr,
    UNIT: tl.constexpr,
    STAGES: tl.constexpr,
    HOLD: tl.constexpr,
):
    """Compute the gradients of one head's rows, and add up what they give to those of its weight and bias.

    Parameters, beside those of :func:`norm_kernel`:
        grad_ptr, grad_total_ptr: Gradients of the result and, or None, of the sum ``x + residual``.
        x_ptr: What was normalized: ``x``, or that sum.
        grad_x_ptr, grad_residual_ptr: Like ``x``, contiguous; the second is None unless its dtype is another one.
        partial_weight_ptr, partial_bias_ptr: ``(programs, heads, columns)`` of the dtype ``COMPUTE``, or None.
        STAGES: How many tiles are in flight: the one that is computed, and those that are loaded ahead.
        HOLD: Whether the weight is kept in registers. Else it is loaded again for each tile.
    """
    columns *= UNIT
    head = tl.program_id(axis=0) % heads
    program = tl.program_id(axis=0) // heads
    programs = tl.num_programs(axis=0) // heads
    column = tl.arange(0, BLOCK)[None, :]
    if weight_ptr is not None and HOLD:
        weight = load_weight(weight_ptr + head * columns + column, column < columns, OFFSET, ROUND_OFFSET, COMPUTE)
    partial_weight = tl.zeros((TOKENS, BLOCK), COMPUTE)
    partial_bias = tl.zeros((TOKENS, BLOCK), COMPUTE)
    for tile in tl.range(program, tl.cdiv(tokens, TOKENS), programs, num_stages=STAGES):
        token = tile * TOKENS + tl.arange(0, TOKENS)[:, None]
        row = token.to(tl.int64) * heads + head
        mask = (token < tokens) & (column < columns)
        grad = load_wide(grad_ptr + row * grad_stride * UNIT + column, mask, COMPUTE)
        x = load_wide(x_ptr + row * x_stride * UNIT + column, mask, COMPUTE)
        if weight_ptr is not None and not HOLD:
            weight = load_weight(weight_ptr + head * columns + column, column < columns, OFFSET, ROUND_OFFSET, COMPUTE)
        if LAYER:
            x -= tl.load(mean_ptr + row, mask=token < tokens, other=0)
        rstd = tl.load(rstd_ptr + row, mask=token < tokens, other=0)
        x_hat = x * rstd
        seen = x_hat  # by the weight
        if ROUND_FIRST:
            seen = x_hat.to(grad_x_ptr.dtype.element_ty).to(COMPUTE)
        if partial_weight_ptr is not None:
            partial_weight += grad * seen
        if partial_bias_ptr is not None:
            partial_bias += grad
        if weight_ptr is not None:
            grad *= weight
        along = tl.sum(grad * x_hat, axis=1, keep_dims=True) / columns
        if LAYER:  # both sums before the rest, which needs fewer registers
            across = tl.sum(grad, axis=1, keep_dims=True) / columns
            grad_x = rstd * (grad - x_hat * along - across)
        else:
            grad_x = rstd * (grad - x_hat * along)
        if grad_total_ptr is not None:
            grad_x += load_wide(grad_total_ptr + row * grad_total_stride * UNIT + column, mask, COMPUTE)
        tl.store(grad_x_ptr + row * columns + column, grad_x, mask=mask)
        if grad_residual_ptr is not None:
            tl.store(grad_residual_ptr + row * columns + column, grad_x, mask=mask)
    partial = (program.to(tl.int64) * heads + head) * columns + column
    if partial_weight_ptr is not None:
        tl.store(partial_weight_ptr + partial, tl.sum(partial_weight, axis=0, keep_dims=True), mask=column < columns)
    if partial_bias_ptr is not None:
        tl.store(partial_bias_ptr + partial, tl.sum(partial_bias, axis=0, keep_dims=True), mask=column < columns)
# --8<-- [end:kernels]


# --8<-- [start:long]
@triton.jit
def long_norm_kernel(
    x_ptr,
    residual_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    total_ptr,
    mean_ptr,
    rstd_ptr,
    heads,
    columns,
    x_stride,
    residual_stride,
    LAYER: tl.constexpr,
    EPS: tl.constexpr,
    OFFSET: tl.constexpr,
    ROUND_OFFSET: tl.constexpr,
    ROUND_FIRST: tl.constexpr,
    COMPUTE: tl.constexpr,
    BLOCK: tl.constexpr,
    UNIT: tl.constexpr,
):
    """Normalize one row of any length, a block at a time: once for mean and variance, once more for the result.

    Parameters: as of :func:`norm_kernel`, but ``BLOCK`` is less than the columns.
    """
    columns *= UNIT
    row = tl.program_id(axis=0).to(tl.int64)
    head = tl.program_id(axis=0) % heads
    x_row, total_row = x_ptr + row * x_stride * UNIT, total_ptr
    residual_row = residual_ptr
    if residual_ptr is not None:
        residual_row = residual_ptr + row * residual_stride * UNIT
        total_row = total_ptr + row * columns
    mean = tl.zeros((1,), COMPUTE)
    square = tl.zeros((1,), COMPUTE)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = load_sum(x_row, residual_row, total_row, column, columns, COMPUTE)
        if LAYER:  # merge mean and variance of this block with those of the blocks before it
            count = tl.minimum(columns - start, BLOCK)
            block_mean = tl.sum(x, axis=0, keep_dims=True) / count
            x = tl.where(column < columns, x - block_mean, 0)
            share = count / (start + count).to(COMPUTE)
            square += start * share * (block_mean - mean) * (block_mean - mean)
            mean += share * (block_mean - mean)
        square += tl.sum(x * x, axis=0, keep_dims=True)
    rstd = tl.rsqrt(square / columns + EPS)
    if LAYER:
        tl.store(mean_ptr + row + tl.arange(0, 1), mean)
    tl.store(rstd_ptr + row + tl.arange(0, 1), rstd)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = load_sum(x_row, residual_row, total_row, column, columns, COMPUTE)
        if residual_ptr is not None:
            tl.store(total_row + column, x, mask=column < columns)
        x_hat = (x - mean) * rstd
        if ROUND_FIRST:
            x_hat = x_hat.to(out_ptr.dtype.element_ty).to(COMPUTE)
        if weight_ptr is not None:
            x_hat *= load_weight(weight_ptr + head * columns + column, column < columns, OFFSET, ROUND_OFFSET, COMPUTE)
        if bias_ptr is not None:
            x_hat += load_wide(bias_ptr + head * columns + column, column < columns, COMPUTE)
        tl.store(out_ptr + row * columns + column, x_hat, mask=column < columns)


@triton.jit
def load_sum(x_row, residual_row, total_row, column, columns, COMPUTE: tl.constexpr):
    x = load_wide(x_row + column, column < columns, COMPUTE)
    if residual_row is not None:
        x += load_wide(residual_row + column, column < columns, COMPUTE)
        x = x.to(total_row.dtype.element_ty).to(COMPUTE)
    return x


@triton.jit
def long_norm_backward_kernel(
    grad_ptr,
    grad_total_ptr,
    x_ptr,
    weight_ptr,
    mean_ptr,
    rstd_ptr,
    grad_x_ptr,
    grad_residual_ptr,
    heads,
    columns,
    grad_stride,
    grad_total_stride,
    x_stride,
    LAYER: tl.constexpr,
    OFFSET: tl.constexpr,
    ROUND_OFFSET: tl.constexpr,
    COMPUTE: tl.constexpr,
    BLOCK: tl.constexpr,
    UNIT: tl.constexpr,
):
    """Compute the gradient of one row of any length: once through it for the two sums, once more for the result.

    Parameters: as of :func:`norm_backward_kernel`.
    """
    columns *= UNIT
    row = tl.program_id(axis=0).to(tl.int64)
    weight_row = weight_ptr
    if weight_ptr is not None:
        weight_row = weight_ptr + tl.program_id(axis=0) % heads * columns
    grad_row, x_row = grad_ptr + row * grad_stride * UNIT, x_ptr + row * x_stride * UNIT
    rstd = tl.load(rstd_ptr + row)
    mean = tl.zeros((1,), COMPUTE)
    if LAYER:
        mean += tl.load(mean_ptr + row)
    along = tl.zeros((BLOCK,), COMPUTE)
    across = tl.zeros((BLOCK,), COMPUTE)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        g, x_hat = load_backward(
            grad_row, x_row, weight_row, mean, rstd, column, columns, OFFSET, ROUND_OFFSET, COMPUTE
        )  # fmt: skip
        along += g * x_hat
        across += g
    along_mean = tl.sum(along, axis=0) / columns
    across_mean = tl.sum(across, axis=0) / columns
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        mask = column < columns
        g, x_hat = load_backward(
            grad_row, x_row, weight_row, mean, rstd, column, columns, OFFSET, ROUND_OFFSET, COMPUTE
        )  # fmt: skip
        grad_x = g - x_hat * along_mean
        if LAYER:
            grad_x -= across_mean
        grad_x *= rstd
        if grad_total_ptr is not None:
            grad_x += load_wide(grad_total_ptr + row * grad_total_stride * UNIT + column, mask, COMPUTE)
        tl.store(grad_x_ptr + row * columns + column, grad_x, mask=mask)
        if grad_residual_ptr is not None:
            tl.store(grad_residual_ptr + row * columns + column, grad_x, mask=mask)


@triton.jit
def load_backward(
    grad_row, x_row, weight_row, mean, rstd, column, columns,
    OFFSET: tl.constexpr, ROUND_OFFSET: tl.constexpr, COMPUTE: tl.constexpr,
):  # fmt: skip
    mask = column < columns
    grad = load_wide(grad_row + column, mask, COMPUTE)
    if weight_row is not None:
        grad *= load_weight(weight_row + column, mask, OFFSET, ROUND_OFFSET, COMPUTE)
    return grad, (load_wide(x_row + column, mask, COMPUTE) - mean) * rstd


@triton.jit
def long_weight_kernel(
    grad_ptr,
    x_ptr,
    mean_ptr,
    rstd_ptr,
    partial_weight_ptr,
    partial_bias_ptr,
    tokens,
    heads,
    columns,
    grad_stride,
    x_stride,
    LAYER: tl.constexpr,
    ROUND_FIRST: tl.constexpr,
    DTYPE: tl.constexpr,
    COMPUTE: tl.constexpr,
    BLOCK: tl.constexpr,
    UNIT: tl.constexpr,
):
    """Add up, for a block of columns of one head, what some of the rows give to the gradients of weight and bias.

    Parameters, beside those of :func:`norm_backward_kernel`:
        DTYPE: That of ``x``.
    """
    columns *= UNIT
    column = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    head = tl.program_id(axis=1) % heads
    program = tl.program_id(axis=1) // heads
    programs = tl.num_programs(axis=1) // heads
    mask = column < columns
    partial_weight = tl.zeros((BLOCK,), COMPUTE)
    partial_bias = tl.zeros((BLOCK,), COMPUTE)
    for token in range(program, tokens, programs):
        row = tl.cast(token, tl.int64) * heads + head
        grad = load_wide(grad_ptr + row * grad_stride * UNIT + column, mask, COMPUTE)
        partial_bias += grad
        if partial_weight_ptr is not None:
            x_hat = load_wide(x_ptr + row * x_stride * UNIT + column, mask, COMPUTE)
            if LAYER:
                x_hat -= tl.load(mean_ptr + row)
            x_hat *= tl.load(rstd_ptr + row)
            if ROUND_FIRST:
                x_hat = x_hat.to(DTYPE).to(COMPUTE)
            partial_weight += grad * x_hat
    partial = (program.to(tl.int64) * heads + head) * columns + column
    if partial_weight_ptr is not None:
        tl.store(partial_weight_ptr + partial, partial_weight, mask=mask)
    if partial_bias_ptr is not None:
        tl.store(partial_bias_ptr + partial, partial_bias, mask=mask)
# --8<-- [end:long]


@triton.jit
def sum_partials_kernel(
    partial_ptr,
    out_ptr,
    partials,
    columns,
    COMPUTE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
):
    """Add up the rows of ``partial`` ``(partials, columns)``, always in the same order."""
    column = tl.program_id(axis=0) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    total = tl.zeros((BLOCK_COLUMNS,), COMPUTE)
    for first in range(0, partials, BLOCK_ROWS):
        row = (first + tl.arange(0, BLOCK_ROWS))[:, None]
        mask = (row < partials) & (column < columns)
        total += tl.sum(tl.load(partial_ptr + row.to(tl.int64) * columns + column, mask=mask, other=0), axis=0)
    tl.store(out_ptr + column, total, mask=column < columns)


class Options(NamedTuple):
    """Hold what a norm is: whether the mean is subtracted, and how the weight is applied."""

    layer: bool
    eps: float
    offset: float
    round_offset: bool
    round_first: bool


# --8<-- [start:launches]
def norm_forward(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    layer: bool,
    eps: float,
    offset: float,
    round_offset: bool,
    round_first: bool,
) -> list[torch.Tensor]:
    """Return the result, ``rstd`` and, where there are such, the mean and the sum ``x + residual``."""
    given, how = (x, residual, weight, bias), (layer, eps, offset, round_offset, round_first)
    key = *map(layout, given), *how
    plan = PLANS.get(key)
    if plan is None:
        check_arguments(*given)
    out, rstd, *others = outputs(x, residual, layer)
    mean = others[0] if layer else None
    total = None if residual is None else others[-1]
    if x.numel():
        read = given
        if plan is None or plan.copied:
            rows = [None if each is None else as_rows(each) for each in (x, residual)]
            read = *rows, contiguous(weight), contiguous(bias)
        if plan is None:
            copied = any(a is not None and a.data_ptr() != b.data_ptr() for a, b in zip(given, read, strict=True))
            plan = remember(key, prepare(*read, heads_of(x, weight, bias), copied, *how))
        with torch.cuda.device_of(x):  # Triton launches on the current device, which need not be that of x
            plan.launch.run(*read, out, total, mean, rstd, *plan.numbers)
    return [out, rstd, *others]


class Plan(NamedTuple):
    """Hold what stays the same from call to call with such tensors."""

    launch: "Launch"
    numbers: tuple[int, ...]  # behind the tensors
    copied: bool  # whether tensors are copied first, since the kernels cannot read them where they lie


def prepare(rows, residual_rows, weight, bias, heads, copied, layer, eps, offset, round_offset, round_first) -> Plan:
    unit, sizes = in_units(rows, residual_rows)
    options = {
        "LAYER": layer, "EPS": eps, "OFFSET": offset, "ROUND_OFFSET": round_offset, "ROUND_FIRST": round_first,
        "COMPUTE": computed_in(rows), "UNIT": unit,
    }  # fmt: skip
    if rows.shape[1] > HELD:
        options |= {"BLOCK": LONG_BLOCK, "num_warps": 8}
        return Plan(Launch(long_norm_kernel, len(rows), options), (heads, *sizes), copied)
    tile, tokens = tile_of(rows.shape[1], layer), len(rows) // heads
    programs = triton.cdiv(tokens, tile["TOKENS"]) * heads
    return Plan(Launch(norm_kernel, programs, options | tile), (tokens, heads, *sizes), copied)


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

    # --8<-- [start:run]
    def run(self, *given) -> None:
        if self.compiled is None:
            self.compiled = self.kernel[self.grid](*given, **self.options)
        else:
            self.compiled[self.grid](*given, *self.constants)
    # --8<-- [end:run]


PLANS = {}  # by the layouts of tensors, and by options. What is found here has passed all checks


def layout(x: torch.Tensor | None):
    """Return all of a tensor that decides how a kernel is launched, or whether it is refused; not its numbers."""
    if x is None or x.layout != torch.strided:
        return x if x is None else x.layout
    # --8<-- [start:layout]
    aligned = x.data_ptr() % 16 == 0
    return x.shape, x.stride(), x.dtype, x.device, aligned, x.is_neg()
    # --8<-- [end:layout]


def remember(key: tuple, plan: Plan) -> Plan:
    if len(PLANS) >= 4096:  # shapes that never end, such as of texts of all lengths, must not fill the memory
        PLANS.clear()
    PLANS[key] = plan
    return plan


def norm_backward(
    grad: torch.Tensor,
    grad_total: torch.Tensor | None,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor | None,
    rstd: torch.Tensor,
    dtype: torch.dtype,
    needs_weight: bool,
    needs_bias: bool,
    offset: float,
    round_offset: bool,
    round_first: bool,
) -> list[torch.Tensor]:
    """Return the gradients of ``x``, of a residual of another dtype, and of weight and bias where they are needed.

    Args:
        x: What was normalized: ``x``, or the sum ``x + residual``, which has the dtype of the residual.
        dtype: That of ``x`` itself.
    """
    grad_x = torch.empty(x.shape, dtype=dtype, device=x.device)
    grad_residual = torch.empty_like(grad_x, dtype=x.dtype) if dtype != x.dtype else None
    needed = [(weight, needs_weight and weight is not None), (bias, needs_bias and bias is not None)]
    heads = heads_of(x, weight, bias)
    long = x.shape[-1] > HELD
    if long:
        tile = {"BLOCK": LONG_BLOCK, "num_warps": 8}
    else:
        tile = backward_tile(x.device, x.shape[-1], [grad, grad_total, x])
    tokens = x.shape[:-1].numel() // heads
    programs = max(1, min(programs_for(x.shape[-1], heads), triton.cdiv(tokens, tile.get("TOKENS", 1))))
    shape = programs, heads * x.shape[-1]
    new = torch.empty if x.numel() else torch.zeros  # no program runs for an empty tensor
    partials = [new(shape, dtype=wide(x.dtype), device=x.device) if wanted else None for _, wanted in needed]
    if x.numel():
        loads = as_rows(grad), None if grad_total is None else as_rows(grad_total), as_rows(x)
        weight = contiguous(weight)
        unit, (columns, *strides) = in_units(*loads)
        options = {"LAYER": mean is not None, "COMPUTE": computed_in(x), "UNIT": unit}
        scale = {"OFFSET": offset, "ROUND_OFFSET": round_offset}
        with torch.cuda.device_of(x):
            if long:
                long_norm_backward_kernel[(len(loads[0]),)](
                    *loads, weight, mean, rstd, grad_x, grad_residual, heads, columns, *strides,
                    **options, **scale, **tile,
                )  # fmt: skip
                if partials != [None, None]:
                    long_weight_kernel[(triton.cdiv(x.shape[-1], LONG_BLOCK), programs * heads)](
                        loads[0], loads[2], mean, rstd, *partials, tokens, heads, columns, strides[0], strides[2],
                        **options, ROUND_FIRST=round_first, DTYPE=tl_dtype(dtype), **tile,
                    )  # fmt: skip
            else:
                hold = tile["BLOCK"] <= CROWDED or None in partials
                norm_backward_kernel[(programs * heads,)](
                    *loads, weight, mean, rstd, grad_x, grad_residual, *partials, tokens, heads, columns, *strides,
                    **options, **scale, ROUND_FIRST=round_first, HOLD=hold, **tile,
                )  # fmt: skip
    grads = [grad_x] if grad_residual is None else [grad_x, grad_residual]
    sums = zip(needed, partials, strict=True)
    return grads + [sum_partials(part, given) for (given, wanted), part in sums if wanted]


def sum_partials(partial: torch.Tensor, model: torch.Tensor) -> torch.Tensor:
    """Return the sum of the rows of ``partial`` in the shape and dtype of ``model``."""
    out = torch.empty(model.shape, dtype=model.dtype, device=model.device)
    if not model.numel():
        return out
    partials, columns = partial.shape
    with torch.cuda.device_of(partial):
        sum_partials_kernel[(triton.cdiv(columns, 32),)](
            partial, out, partials, columns, COMPUTE=computed_in(partial), BLOCK_ROWS=64, BLOCK_COLUMNS=32
        )
    return out
# --8<-- [end:launches]


def outputs(x: torch.Tensor, residual: torch.Tensor | None, layer: bool) -> list[torch.Tensor]:
    """Return room for the result, ``rstd``, and where there are such the mean and the sum."""
    stats = [x.new_empty(x.shape[:-1], dtype=wide(x.dtype)) for _ in range(2 if layer else 1)]
    like = functools.partial(torch.empty_like, memory_format=torch.contiguous_format)
    return [like(x), *stats, *([] if residual is None else [like(residual)])]


def as_rows(x: torch.Tensor) -> torch.Tensor:
    """Return ``(rows, columns)``, a row's elements adjacent in memory; copied if it does not lie so."""
    x = x.resolve_neg().reshape(-1, x.shape[-1])
    return x if x.stride(1) == 1 else x.contiguous()


def contiguous(x: torch.Tensor | None) -> torch.Tensor | None:
    return None if x is None else x.resolve_neg().contiguous()


def heads_of(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> int:
    """Return how many rows in turn have a weight, or a bias, of their own."""
    given = [each for each in (weight, bias) if each is not None]
    return x.shape[-2] if given and given[0].ndim == 2 else 1


def in_units(*rows: torch.Tensor | None) -> tuple[int, list[int]]:
    """Return the largest power of two up to 8 that divides columns and strides, and these divided by it.

    The compiler loads 16 bytes at a time only if it knows this: by itself it looks for multiples of 16 alone.
    """
    numbers = [rows[0].shape[1], *(0 if each is None else each.stride(0) for each in rows)]
    unit = math.gcd(8, *numbers)
    return unit, [number // unit for number in numbers]


def tile_of(columns: int, layer: bool) -> dict[str, int]:
    """Return how many tokens a program of the forward takes, and the options to compile with, as measured on an H200.

    Short rows, as of one head, share a program of 1,024 elements.
    """
    block = triton.next_power_of_2(max(columns, 1))
    tokens = max(1024 // block, 1)
    return {"TOKENS": tokens, "BLOCK": block, "num_warps": min(max(tokens * block // 512, 1), 8 if layer else 16)}


def backward_tile(device: torch.device, columns: int, loads: list[torch.Tensor | None]) -> dict[str, int]:
    """Return the same for a backward, which loads the next tile while it computes one, as far as there is room.

    Args:
        loads: What is loaded at a time.
    """
    block = triton.next_power_of_2(max(columns, 1))
    tokens = max(2048 // block, 1)
    elements = tokens * block
    room = shared_memory(device) - 1024  # that much for sums over the warps
    stages = 1 + room // (elements * sum(each.element_size() for each in loads if each is not None))
    return {
        "TOKENS": tokens,
        "BLOCK": block,
        "num_warps": min(elements // (2048 if block <= 512 else 1024), 16),
        "STAGES": 1 if block > CROWDED else min(stages, 3),
    }


@functools.cache
def shared_memory(device: torch.device) -> int:
    """Return the bytes of shared memory that a program may have."""
    if device.type != "cuda":
        return 232_448  # an H200's
    return getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 2**16)


def programs_for(columns: int, heads: int) -> int:
    """Return how many programs of a backward share a head's rows: as many on every GPU, so that sums come out alike.

    An H200 has 132 multiprocessors, and has room for several programs of shorter rows on each.
    """
    programs = min(max(132 * 2**13 // triton.next_power_of_2(max(columns, 1)), 132), 528)
    return max(programs // heads, 1)


def wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def computed_in(x: torch.Tensor) -> tl.dtype:
    return tl_dtype(wide(x.dtype))


def tl_dtype(dtype: torch.dtype) -> tl.dtype:
    return getattr(tl, str(dtype).removeprefix("torch."))


# --8<-- [start:function]
class Norm(torch.autograd.Function):
    """Tie both directions together. Saved: what was normalized, the weight, and one or two numbers a row."""

    @staticmethod
    def forward(x, residual, weight, bias, options):
        return tuple(norm_forward(x, residual, weight, bias, *options))

    # torch asks for it in each call, and without this works it out anew
    forward.__func__.__signature__ = inspect.signature(forward.__func__)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, residual, weight, bias, ctx.options = inputs
        keep(ctx, x, residual, weight, bias, list(output))
        ctx.mark_non_differentiable(*output[1 : 3 if ctx.options.layer else 2])

    @staticmethod
    def backward(ctx, grad, *grads):
        return *gradients(ctx, grad, grads, NormBackward.apply), None

    @staticmethod
    def vmap(info, in_dims, *inputs):
        raise NotImplementedError(
            "a norm is not mapped by torch.vmap; it takes any leading dimensions, so call it with x (..., columns)"
        )


class NormBackward(torch.autograd.Function):
    """Refuse a second gradient. As a function of its own it also serves ``torch.func.grad`` and ``vjp``."""

    @staticmethod
    def forward(*inputs):
        return tuple(norm_backward(*inputs))

    forward.__func__.__signature__ = inspect.signature(forward.__func__)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("a norm has no gradient of its gradient; call it without create_graph=True")

    vmap = Norm.vmap
# --8<-- [end:function]


def keep(ctx, x, residual, weight, bias, output: list[torch.Tensor]) -> None:
    """Save what the backward needs."""
    _, rstd, *others = output
    ctx.set_materialize_grads(False)
    ctx.dtype, ctx.has_residual = x.dtype, residual is not None
    mean = others[0] if ctx.options.layer else None
    ctx.save_for_backward(x if residual is None else others[-1], weight, bias, mean, rstd)


def gradients(ctx, grad, grads, backward) -> list[torch.Tensor | None]:
    """Return the gradients of ``x``, ``residual``, ``weight`` and ``bias``."""
    x, weight, bias, mean, rstd = ctx.saved_tensors
    grad_total = grads[-1] if ctx.has_residual else None
    grad = torch.zeros(x.shape, dtype=ctx.dtype, device=x.device) if grad is None else grad
    _, _, needs_weight, needs_bias, *_ = ctx.needs_input_grad
    _, _, *scale = ctx.options
    inputs = grad, grad_total, x, weight, bias, mean, rstd, ctx.dtype, needs_weight, needs_bias
    found = list(backward(*inputs, *scale))
    grad_x = found.pop(0)
    grad_residual = None
    if ctx.has_residual:
        grad_residual = grad_x if x.dtype == ctx.dtype else found.pop(0)
    of_weight = found.pop(0) if needs_weight else None
    return [grad_x, grad_residual, of_weight, found.pop(0) if needs_bias else None]


# The same for torch.compile, which does not look into a custom op


@torch.library.custom_op("triton_by_example_library::norm", mutates_args=())
def norm_op(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    layer: bool,
    eps: float,
    offset: float,
    round_offset: bool,
    round_first: bool,
) -> list[torch.Tensor]:
    return norm_forward(x, residual, weight, bias, layer, eps, offset, round_offset, round_first)


@torch.library.custom_op("triton_by_example_library::norm_backward", mutates_args=())
def norm_backward_op(
    grad: torch.Tensor,
    grad_total: torch.Tensor | None,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor | None,
    rstd: torch.Tensor,
    dtype: torch.dtype,
    needs_weight: bool,
    needs_bias: bool,
    offset: float,
    round_offset: bool,
    round_first: bool,
) -> list[torch.Tensor]:
    return norm_backward(
        grad, grad_total, x, weight, bias, mean, rstd, dtype, needs_weight, needs_bias,
        offset, round_offset, round_first,
    )  # fmt: skip


@norm_op.register_fake
def _(x, residual, weight, bias, layer, *_):
    return outputs(x, residual, layer)


@norm_backward_op.register_fake
def _(grad, grad_total, x, weight, bias, mean, rstd, dtype, needs_weight, needs_bias, *_):
    grads = [x.new_empty(x.shape, dtype=each) for each in dict.fromkeys((dtype, x.dtype))]
    sums = [each.new_empty(each.shape) for each, needs in ((weight, needs_weight), (bias, needs_bias)) if needs]
    return grads + sums


def setup_op_context(ctx, inputs, output):
    x, residual, weight, bias, *options = inputs
    ctx.options = Options(*options)
    keep(ctx, x, residual, weight, bias, output)


def norm_op_backward(ctx, grads):
    grad, *others = grads
    return *gradients(ctx, grad, others, norm_backward_op), *[None] * len(Options._fields)


norm_op.register_autograd(norm_op_backward, setup_context=setup_op_context)


# --8<-- [start:host]
def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    eps: float | None = None,
    *,
    bias: torch.Tensor | None = None,
    offset: float = 0.0,
    round_offset: bool = False,
    round_first: bool = False,
) -> torch.Tensor:
    """Return ``x / sqrt(mean(x**2) + eps) * (weight + offset) + bias`` for each row; it has gradients for all tensors.

    As torch's ``rms_norm``: no option. As Llama: ``round_first=True``. As Gemma: ``offset=1``.

    Args:
        x: ``(..., columns)`` on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``. It is copied, in the
            forward and again in the backward, unless the elements of a row are neighbors in memory, and the rows lie
            evenly apart.
        weight: ``(columns,)``; or ``(heads, columns)`` for ``x`` ``(..., heads, columns)``, a weight for each head; or
            None, for ones. Of one of ``DTYPES``, in any mixture with ``x``; float64 goes with float64 only.
        eps: Added to the mean of the squares: a number, of Python, NumPy or a tensor on the CPU; or None, for
            ``torch.finfo(x.dtype).eps``. Kernels are compiled for each that is used, and for each ``offset``.
        bias: Of the shape of ``weight``, or None.
        offset: Added to the weight, in float32. That matters: near 1, bfloat16 has steps of 1/128, so a weight near 0
            that is stored without the 1 keeps digits that ``1 + weight`` in bfloat16 would lose.
        round_offset: Whether ``weight + offset`` is rounded to the dtype of the weight, as by models that add in it.
        round_first: Whether the normalized row is rounded to the dtype of ``x`` before it is multiplied by the weight.

    Returns:
        A new contiguous tensor of the shape and dtype of ``x``, also under autocast, computed in float32, or in float64
        for float64. So are the gradients, which have the dtypes of what they belong to; they are deterministic. The
        kernel may still be running when it is returned.

    Raises:
        ValueError: An argument is something that the kernels cannot serve.
        NotImplementedError: It is called under ``torch.vmap``.
        RuntimeError: The gradient of a gradient is asked for.

    >>> x = torch.tensor([[1.0, 2.0, 2.0, 4.0, 10.0]], requires_grad=True)
    >>> out = rms_norm(x, eps=0.0)
    >>> out.detach()
    tensor([[0.2000, 0.4000, 0.4000, 0.8000, 2.0000]])
    >>> out[0, 4].backward()
    >>> x.grad
    tensor([[-0.0160, -0.0320, -0.0320, -0.0640,  0.0400]])
    """
    return _norm(x, None, weight, bias, False, eps, offset, round_offset, round_first)[0]


def add_rms_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor | None = None,
    eps: float | None = None,
    *,
    bias: torch.Tensor | None = None,
    offset: float = 0.0,
    round_offset: bool = False,
    round_first: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``rms_norm(x + residual, weight, …)`` and ``x + residual``, by one kernel.

    ``residual`` has the shape and device of ``x`` and one of ``DTYPES``. The sum gets its dtype, and is rounded to it
    before it is normalized; with float32, a residual stream keeps its precision through a model in bfloat16. The sum is
    kept for the backward in place of ``x`` and ``residual``. All else is as in :func:`rms_norm`.

    >>> x = torch.tensor([[1.0, 1.0, 1.0, 2.0, 5.0]])
    >>> add_rms_norm(x, x - torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0]), eps=0.0)[1]
    tensor([[ 1.,  2.,  2.,  4., 10.]])
    """
    out, *_, total = _norm(x, residual, weight, bias, False, eps, offset, round_offset, round_first)
    return out, total


def layer_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float | None = 1e-5,
    *,
    offset: float = 0.0,
    round_offset: bool = False,
    round_first: bool = False,
) -> torch.Tensor:
    """Return ``(x - mean(x)) / sqrt(variance(x) + eps) * (weight + offset) + bias`` for each row.

    With no option it is torch's ``layer_norm``. All else is as in :func:`rms_norm`.

    >>> layer_norm(torch.tensor([[2.0, 4.0, 5.0, 6.0, 8.0]]), eps=0.0)
    tensor([[-1.5000, -0.5000,  0.0000,  0.5000,  1.5000]])
    """
    return _norm(x, None, weight, bias, True, eps, offset, round_offset, round_first)[0]


def add_layer_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float | None = 1e-5,
    *,
    offset: float = 0.0,
    round_offset: bool = False,
    round_first: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``layer_norm(x + residual, weight, bias, …)`` and ``x + residual``, as :func:`add_rms_norm` does.

    >>> x = torch.tensor([[1.0, 2.0, 3.0, 4.0, 4.0]])
    >>> add_layer_norm(x, x + torch.tensor([0.0, 0.0, -1.0, -2.0, 0.0]), eps=0.0)[0]
    tensor([[-1.5000, -0.5000,  0.0000,  0.5000,  1.5000]])
    """
    out, *_, total = _norm(x, residual, weight, bias, True, eps, offset, round_offset, round_first)
    return out, total


def _norm(x, residual, weight, bias, layer, eps, offset, round_offset, round_first):
    eps = torch.finfo(x.dtype).eps if eps is None and x.dtype in DTYPES else as_float("eps", eps)
    options = Options(layer, eps, as_float("offset", offset), bool(round_offset), bool(round_first))
    if torch.compiler.is_compiling():
        return norm_op(x, residual, weight, bias, *options)
    if not seen_by_autograd(x, residual, weight, bias):
        return norm_forward(x, residual, weight, bias, *options)
    return Norm.apply(x, residual, weight, bias, options)
# --8<-- [end:host]


def seen_by_autograd(*tensors: torch.Tensor | None) -> bool:
    """Return whether a call must go through ``Function.apply``, which takes the host longer than all else together.

    It must where a gradient is recorded, and where ``torch.func`` or a forward-mode gradient is at work.
    """
    # --8<-- [start:seen]
    needed = (x.requires_grad for x in tensors if x is not None)
    return (
        torch._C._are_functorch_transforms_active()
        or torch.autograd.forward_ad._current_level >= 0
        or (torch.is_grad_enabled() and any(needed))
    )
    # --8<-- [end:seen]


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
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
) -> None:
    """Raise ``ValueError`` for arguments that the kernels would compute wrongly or not at all."""
    if not x.ndim:
        raise ValueError("x must have a dimension or more, the last being the columns; got a single number")
    named = {"x": x, "residual": residual, "weight": weight, "bias": bias}
    given = {name: tensor for name, tensor in named.items() if tensor is not None}
    for name, tensor in given.items():
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} is {tensor.layout}; pass {name}.to_dense()")
        if tensor.device != x.device:
            raise ValueError(f"x is on {x.device} and {name} on {tensor.device}; move them to one device")
        if tensor.dtype not in DTYPES:
            supported = ", ".join(map(str, DTYPES))
            raise ValueError(f"{name} is {tensor.dtype}, which is not supported; use one of {supported}")
        if (tensor.dtype == torch.float64) != (x.dtype == torch.float64):
            raise ValueError(f"x is {x.dtype} and {name} {tensor.dtype}; float64 goes with float64 only")
    if residual is not None and residual.shape != x.shape:
        raise ValueError(f"residual must have the shape of x, {tuple(x.shape)}; got {tuple(residual.shape)}")
    shapes = {tuple(x.shape[-1:]), tuple(x.shape[-2:])}
    for name in ("weight", "bias"):
        if name in given and tuple(given[name].shape) not in shapes:
            raise ValueError(
                f"{name} must have the shape {tuple(x.shape[-1:])}, or {tuple(x.shape[-2:])} for one to each head; got"
                f" {tuple(given[name].shape)} for x {tuple(x.shape)}"
            )
    if weight is not None and bias is not None and weight.shape != bias.shape:
        raise ValueError(f"bias must have the shape of weight, {tuple(weight.shape)}; got {tuple(bias.shape)}")
    if x.shape[:-1].numel() > 2**31 - 1:  # CUDA's limit of programs along one axis
        raise ValueError(f"{x.shape[:-1].numel()} rows are too many for one launch; split x")
    interpreted = not isinstance(norm_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if interpreted and any(each.dtype == torch.bfloat16 for each in given.values()):
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")


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


def in_torch(x, weight=None, bias=None, *, residual=None, layer=False, eps=1e-6, offset=0.0):
    """Return what a norm computes, and the sum, in the dtype of its arguments."""
    total = x if residual is None else x + residual
    centered = total - total.mean(-1, keepdim=True) if layer else total
    out = centered * torch.rsqrt(centered.square().mean(-1, keepdim=True) + eps)
    if weight is not None:
        out = out * (weight + offset)
    return out if bias is None else out + bias, total


def main():
    device = "cuda" if isinstance(norm_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)
    options = {"device": device, "dtype": torch.float64, "requires_grad": True}

    print("## options")
    x, residual = torch.randn(3, 2, 5, **options), torch.randn(3, 2, 5, **options)
    weight, bias = torch.randn(5, **options), torch.randn(5, **options)
    heads = torch.randn(2, 5, **options)
    long = torch.randn(2, HELD + 1, **options)
    cases = {
        "rms_norm, no weight": (rms_norm, {"x": x}),
        "rms_norm, weight and bias": (rms_norm, {"x": x, "weight": weight, "bias": bias}),
        "rms_norm, weight + 1": (rms_norm, {"x": x, "weight": weight, "offset": 1.0}),
        "rms_norm, a weight for each head": (rms_norm, {"x": x, "weight": heads}),
        "rms_norm, a row of 16,385": (rms_norm, {"x": long}),
        "add_rms_norm": (add_rms_norm, {"x": x, "residual": residual, "weight": weight}),
        "layer_norm": (layer_norm, {"x": x, "weight": weight, "bias": bias}),
        "layer_norm, bias alone": (layer_norm, {"x": x, "bias": bias}),
        "add_layer_norm": (add_layer_norm, {"x": x, "residual": residual, "weight": weight, "bias": bias}),
    }
    for name, (function, given) in cases.items():
        layer = "layer" in function.__name__
        tensors = [each for each in given.values() if isinstance(each, torch.Tensor)]
        found = function(**given, eps=1e-6)
        found = found if isinstance(found, tuple) else (found,)
        wanted = in_torch(**given, layer=layer)[: len(found)]
        grads = [torch.autograd.grad(sum((each**2).sum() for each in outs), tensors) for outs in (found, wanted)]
        same = all(map(torch.allclose, (*found, *grads[0]), (*wanted, *grads[1])))
        print(f"{name}: result and gradients", "as by torch" if same else "NOT as by torch")

    print("## layer norm")
    x = torch.tensor([[2.0, 4.0, 5.0, 6.0, 8.0]], device=device)
    for name, values in {"x": x, "out": layer_norm(x, eps=0.0)}.items():
        print(f"{name + ':':4}", " ".join(f"{value:7.3f}" for value in values[0].tolist()))

    print("## cast order")
    x = torch.tensor([[1.0, 2.0, 2.0, 4.0, 10.0]], device=device).half()
    threes = torch.full_like(x[0], 3)
    exact = in_torch(x.double(), threes.double(), eps=0.0)[0]
    first, last = (rms_norm(x, threes, 0.0, round_first=each) for each in (True, False))
    for name, values in {"exact": exact, "round, multiply": first, "multiply, round": last}.items():
        print(f"{name:15}:", " ".join(f"{value:10.6f}" for value in values[0, :4].tolist()))
    random = torch.Generator().manual_seed(0)
    x = torch.randn(8, 4096, generator=random).to(device).half()
    weight = (1 + 0.3 * torch.randn(4096, generator=random)).to(device).half()
    first, last = (rms_norm(x, weight, 1e-6, round_first=each) for each in (True, False))
    exact = in_torch(x.double(), weight.double())[0]
    error = lambda out: (out.double() - exact).abs().mean().item()
    print(f"percent of 8 x 4096 elements that differ: {100 * (first != last).float().mean().item():.0f}")
    print(f"mean error, of the first for each of the second: {error(first) / error(last):.1f}")
    same = lambda out, wanted: (out != wanted).float().mean().item() < 1e-3
    print("as in Llama:", same(first, as_llama(x, weight)))
    print("as in Gemma:", same(rms_norm(x, weight, 1e-6, offset=1.0), as_gemma(x, weight)))

    print("## where the 1 is added")
    # --8<-- [start:offset]
    x = torch.ones(1, 4, dtype=torch.float16, device=device)
    weight = torch.tensor([0.0001, 0.0004, 0.0006, 0.001], device=device).half()
    for round_offset in (False, True):
        out = rms_norm(x.float(), weight, eps=0.0, offset=1.0, round_offset=round_offset)
        print("rounded:" if round_offset else "float32:", *(f"{each:.6f}" for each in out[0].tolist()))
    # --8<-- [end:offset]


if __name__ == "__main__":
    main()
