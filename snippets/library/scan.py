# SPDX-License-Identifier: Apache-2.0
"""Running sums, products, maxima and minima, and the linear recurrence ``h = a * h + x``, with the options of models.

The lesson ``fusion/scan.py`` derives them. Along one dimension, from its first step to its last, or ``reverse``::

    recurrence:      h[t] = a[t] * h[t - 1] + x[t]    from h = initial, or 0
    cumsum:          the same with a = 1              cumprod:  the same with x = 0, from 1
    cummax, cummin:  h[t] = max(h[t - 1], x[t]), min(h[t - 1], x[t])

So one kernel serves the first three; what is 1 or 0 is not read. Backward, all are recurrences in the other direction::

    h:        grad_h[t] = grad[t] + a[t + 1] * grad_h[t + 1]
    inputs:   grad_x[t] = grad_h[t];  grad_a[t] = grad_h[t] * h[t - 1];  grad_initial = a[0] * grad_h[0]
    extrema:  a[t] = 0 where x[t] is the extremum so far, and 1 elsewhere; grad_x[t] = 0 where x[t] is not

- :func:`recurrence`, :func:`cumsum`, :func:`cumprod`, :func:`cummax`, :func:`cummin`: the functions to call

Traffic, in elements for each of ``x``: sum and product 1 read and 1 written, backward of the sum 1 and 1, of the
product 3 and 1; recurrence 2 and 1, backward 3 and 2; extrema 1 and 1, backward 3 and 1. ``exclusive`` copies once
more. Each order of adding up is fixed, so equal inputs give equal bits.
Source: Guy Blelloch, *Prefix Sums and Their Applications*, 1990.

Run it on a GPU with ``python scan.py``, or with ``TRITON_INTERPRET=1 python scan.py`` in the interpreter.
"""

import math
import operator
from typing import NamedTuple

import torch
import triton
import triton.language as tl

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool)


# --8<-- [start:operators]
@triton.jit
def join(a1, h1, a2, h2):
    return a1 * a2, a2 * h1 + h2


@triton.jit
def times(first, second):
    return first * second


@triton.jit
def larger(first, second):
    return tl.where((first > second) | (first != first), first, second)  # a NaN stays


@triton.jit
def smaller(first, second):
    return tl.where((first < second) | (first != first), first, second)
# --8<-- [end:operators]


# --8<-- [start:kernels]
@triton.jit
def my_series(
    length,
    series,
    inner,
    AXIS: tl.constexpr,
    WIDTH: tl.constexpr,
    UNIT: tl.constexpr,
):
    """Return where the program's series begin, how many are left, how far apart steps and series lie, and the number
    of its first series."""
    pid = tl.program_id(axis=0).to(tl.int64)
    if AXIS == 1:  # rows: the steps of a series are neighbors in memory
        first = pid * WIDTH
        return first * length * UNIT, series - first, 1, length * UNIT, first
    else:  # columns: the series are
        columns = inner * UNIT
        blocks = tl.cdiv(columns, WIDTH)
        first = pid % blocks * WIDTH
        outer = pid // blocks
        return outer * length * columns + first, columns - first, columns, 1, outer * columns + first


@triton.jit
def scan_pairs(a, x, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    """Return what steps so far do to a state, as a factor and a summand; None for ``a`` means 1, for ``x`` 0."""
    if a is None:
        return 1, tl.cumsum(x, AXIS, reverse=REVERSE)
    elif x is None:
        return tl.associative_scan(a, AXIS, times, reverse=REVERSE), 0
    else:
        return tl.associative_scan((a, x), AXIS, join, reverse=REVERSE)


@triton.jit
def recurrence_kernel(
    a_ptr,
    x_ptr,
    initial_ptr,
    h_ptr,
    length,
    series,
    inner,
    REVERSE: tl.constexpr,
    AXIS: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    UNIT: tl.constexpr,
    COMPUTE: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Take ``WIDTH`` series through all their steps, ``BLOCK`` at a time.

    Parameters:
        a_ptr, x_ptr: ``(outer, steps, inner)``, contiguous. One may be None: factors of 1, summands of 0.
        initial_ptr: ``(outer, inner)``, contiguous; None for 0, or without summands for 1.
        h_ptr: Like ``x_ptr``.
        length, series, inner: Steps, ``outer`` and ``inner``; the one that lies in a row is divided by ``UNIT``, which
            tells the compiler what divides it.
        AXIS: 1 if a series lies in a row, that is, ``inner`` is 1; else 0.
        COMPUTE: The dtype of the state.
    """
    begin, left, step, apart, number = my_series(length, series, inner, AXIS, WIDTH, UNIT)
    steps = length * UNIT if AXIS == 1 else length
    lane = tl.expand_dims(tl.arange(0, BLOCK), 1 - AXIS)
    one = tl.expand_dims(tl.arange(0, WIDTH), AXIS)
    inside = lane * step + one * apart
    last = 0 if REVERSE else BLOCK - 1
    carry = tl.full(one.shape, 1 if x_ptr is None else 0, COMPUTE)
    if initial_ptr is not None:
        carry = tl.load(initial_ptr + number + one, mask=one < left, other=0).to(COMPUTE)
    blocks = tl.cdiv(steps, BLOCK)
    for i in tl.range(0, blocks, num_stages=STAGES):
        start = (blocks - 1 - i if REVERSE else i) * BLOCK
        mask = (lane < steps - start) & (one < left)
        offsets = begin + tl.cast(start, tl.int64) * step
        a, x = a_ptr, x_ptr  # None stays None
        if a_ptr is not None:
            a = tl.load(a_ptr + offsets + inside, mask=mask, other=1).to(COMPUTE)
        if x_ptr is not None:
            x = tl.load(x_ptr + offsets + inside, mask=mask, other=0).to(COMPUTE)
        gate, own = scan_pairs(a, x, AXIS, REVERSE)
        h = gate * carry + own
        tl.store(h_ptr + offsets + inside, h, mask=mask)
        carry = tl.sum(tl.where(lane == last, h, 0), axis=AXIS, keep_dims=True)


@triton.jit
def recurrence_backward_kernel(
    grad_ptr,
    a_ptr,
    h_ptr,
    initial_ptr,
    grad_a_ptr,
    grad_x_ptr,
    grad_initial_ptr,
    length,
    series,
    inner,
    REVERSE: tl.constexpr,
    AXIS: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    UNIT: tl.constexpr,
    COMPUTE: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Compute the gradients of factors, summands and first states, going back.

    Parameters, beside those of :func:`recurrence_kernel`:
        grad_ptr: The gradient of ``h``.
        a_ptr: Not None.
        grad_a_ptr, grad_x_ptr: Like ``a_ptr``; ``grad_x_ptr`` may be None.
        grad_initial_ptr: Like ``initial_ptr``, or None.
    """
    begin, left, step, apart, number = my_series(length, series, inner, AXIS, WIDTH, UNIT)
    steps = length * UNIT if AXIS == 1 else length
    lane = tl.expand_dims(tl.arange(0, BLOCK), 1 - AXIS)
    one = tl.expand_dims(tl.arange(0, WIDTH), AXIS)
    inside = lane * step + one * apart
    forth = -1 if REVERSE else 1  # to the step that comes after
    away = forth * step
    last = BLOCK - 1 if REVERSE else 0  # of a block, for we go back
    initial = tl.full(one.shape, 1 if grad_x_ptr is None else 0, COMPUTE)
    if initial_ptr is not None:
        initial = tl.load(initial_ptr + number + one, mask=one < left, other=0).to(COMPUTE)
    carry = tl.full(one.shape, 0, COMPUTE)
    blocks = tl.cdiv(steps, BLOCK)
    for i in tl.range(0, blocks, num_stages=STAGES):
        start = (i if REVERSE else blocks - 1 - i) * BLOCK
        t = start + lane
        here = (t < steps) & (one < left)
        after = here & (t + forth < steps) & (t + forth >= 0)
        before = here & (t - forth < steps) & (t - forth >= 0)
        offsets = begin + tl.cast(start, tl.int64) * step
        grad = tl.load(grad_ptr + offsets + inside, mask=here, other=0).to(COMPUTE)
        a = tl.load(a_ptr + offsets + (inside + away), mask=after, other=1).to(COMPUTE)
        h = tl.load(h_ptr + offsets + (inside - away), mask=before, other=0).to(COMPUTE)
        gate, own = tl.associative_scan((a, grad), AXIS, join, reverse=not REVERSE)
        grad_h = gate * carry + own
        if grad_x_ptr is not None:
            tl.store(grad_x_ptr + offsets + inside, grad_h, mask=here)
        tl.store(grad_a_ptr + offsets + inside, grad_h * tl.where(before, h, initial), mask=here)
        carry = tl.sum(tl.where(lane == last, grad_h, 0), axis=AXIS, keep_dims=True)
    if grad_initial_ptr is not None:
        first = begin + (tl.cast(steps - 1, tl.int64) * step if REVERSE else 0)
        a = tl.load(a_ptr + first + one * apart, mask=one < left, other=0).to(COMPUTE)
        tl.store(grad_initial_ptr + number + one, a * carry, mask=one < left)
# --8<-- [end:kernels]


# --8<-- [start:extremum]
@triton.jit
def extremum_kernel(
    x_ptr,
    h_ptr,
    length,
    series,
    inner,
    MAXIMUM: tl.constexpr,
    NEUTRAL: tl.constexpr,
    REVERSE: tl.constexpr,
    AXIS: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    UNIT: tl.constexpr,
    COMPUTE: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Take series through their steps, keeping the largest or the smallest.

    Parameters, beside those of :func:`recurrence_kernel`:
        MAXIMUM: Whether the largest is kept.
        NEUTRAL: What changes no result.
    """
    begin, left, step, apart, _ = my_series(length, series, inner, AXIS, WIDTH, UNIT)
    steps = length * UNIT if AXIS == 1 else length
    lane = tl.expand_dims(tl.arange(0, BLOCK), 1 - AXIS)
    one = tl.expand_dims(tl.arange(0, WIDTH), AXIS)
    inside = lane * step + one * apart
    last = 0 if REVERSE else BLOCK - 1
    carry = tl.full(one.shape, NEUTRAL, COMPUTE)
    blocks = tl.cdiv(steps, BLOCK)
    for i in tl.range(0, blocks, num_stages=STAGES):
        start = (blocks - 1 - i if REVERSE else i) * BLOCK
        mask = (lane < steps - start) & (one < left)
        offsets = begin + tl.cast(start, tl.int64) * step
        x = tl.load(x_ptr + offsets + inside, mask=mask, other=NEUTRAL).to(COMPUTE)
        if MAXIMUM:
            h = larger(carry, tl.associative_scan(x, AXIS, larger, reverse=REVERSE))
        else:
            h = smaller(carry, tl.associative_scan(x, AXIS, smaller, reverse=REVERSE))
        tl.store(h_ptr + offsets + inside, h, mask=mask)
        carry = tl.sum(tl.where(lane == last, h, 0), axis=AXIS, keep_dims=True)


@triton.jit
def extremum_backward_kernel(
    grad_ptr,
    x_ptr,
    h_ptr,
    grad_x_ptr,
    length,
    series,
    inner,
    REVERSE: tl.constexpr,
    AXIS: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    UNIT: tl.constexpr,
    COMPUTE: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Give each gradient to the last step so far that was the extremum."""
    begin, left, step, apart, _ = my_series(length, series, inner, AXIS, WIDTH, UNIT)
    steps = length * UNIT if AXIS == 1 else length
    lane = tl.expand_dims(tl.arange(0, BLOCK), 1 - AXIS)
    one = tl.expand_dims(tl.arange(0, WIDTH), AXIS)
    inside = lane * step + one * apart
    forth = -1 if REVERSE else 1
    away = forth * step
    last = BLOCK - 1 if REVERSE else 0
    carry = tl.full(one.shape, 0, COMPUTE)
    blocks = tl.cdiv(steps, BLOCK)
    for i in tl.range(0, blocks, num_stages=STAGES):
        start = (i if REVERSE else blocks - 1 - i) * BLOCK
        t = start + lane
        here = (t < steps) & (one < left)
        after = here & (t + forth < steps) & (t + forth >= 0)
        offsets = begin + tl.cast(start, tl.int64) * step
        grad = tl.load(grad_ptr + offsets + inside, mask=here, other=0).to(COMPUTE)
        x = tl.load(x_ptr + offsets + inside, mask=here, other=0).to(COMPUTE)
        h = tl.load(h_ptr + offsets + inside, mask=here, other=0).to(COMPUTE)
        x_after = tl.load(x_ptr + offsets + (inside + away), mask=after, other=0).to(COMPUTE)
        h_after = tl.load(h_ptr + offsets + (inside + away), mask=after, other=0).to(COMPUTE)
        a = tl.where((x_after == h_after) | (x_after != x_after), 0.0, 1.0).to(COMPUTE)  # a NaN is an extremum, too
        gate, own = tl.associative_scan((a, grad), AXIS, join, reverse=not REVERSE)
        flows = gate * carry + own
        tl.store(grad_x_ptr + offsets + inside, tl.where((x == h) | (x != x), flows, 0), mask=here)
        carry = tl.sum(tl.where(lane == last, flows, 0), axis=AXIS, keep_dims=True)
# --8<-- [end:extremum]


# --8<-- [start:launches]
class Plan(NamedTuple):
    """A program's plan: steps at a time, series beside each other, warps, blocks that are loaded ahead."""

    block: int
    width: int
    num_warps: int
    stages: int = 2


def plan(outer: int, length: int, inner: int) -> Plan:
    """Choose for series of ``length`` steps: ``inner`` of them side by side, ``outer`` of such tables.

    >>> plan(8192, 1024, 1), plan(4, 2048, 4096)
    (Plan(block=1024, width=1, num_warps=4, stages=2), Plan(block=32, width=64, num_warps=8, stages=2))
    """
    width = min(triton.next_power_of_2(inner), 64)
    block = min(triton.next_power_of_2(length), 2048 // width)
    if inner == 1:  # rows: several short ones for a program
        width = min(max(1024 // block, 1), triton.next_power_of_2(outer))
    return Plan(block, width, num_warps=min(max(block * width // 256, 1), 8))


def launch(kernel, tensors: list[torch.Tensor | None], x: torch.Tensor, dim: int, reverse: bool, **more) -> None:
    """Start ``kernel`` for contiguous tensors of the shape of ``x``; nothing to do for empty ones."""
    if not x.numel():
        return
    outer, length, inner = x.shape[:dim].numel(), x.shape[dim], x.shape[dim + 1 :].numel()
    axis = 1 if inner == 1 else 0
    by = plan(outer, length, inner)
    if (by.block + 1) * inner >= 2**31:
        raise ValueError(f"series that lie {inner} elements apart are too many side by side; split x")
    programs = triton.cdiv(outer, by.width) if axis else outer * triton.cdiv(inner, by.width)
    if programs > 2**31 - 1:  # CUDA's limit of programs along one axis
        raise ValueError(f"{outer * inner} series are too many for one launch; split x")
    unit = math.gcd(8, length if axis else inner)  # told this, the compiler loads 16 bytes at a time
    sizes = (length // unit, outer, 1) if axis else (length, outer, inner // unit)
    large = x.element_size() == 8
    # Loaded two blocks ahead, its float64 takes 112 KiB of shared memory; the smaller GPUs have 99.
    stages = 1 if large and kernel is extremum_backward_kernel else by.stages
    with torch.cuda.device_of(x):  # Triton launches on the current device, which need not be that of x
        kernel[(programs,)](
            *tensors, *sizes, REVERSE=reverse, AXIS=axis, BLOCK=by.block, WIDTH=by.width, UNIT=unit,
            COMPUTE=computed_in(x.dtype), STAGES=stages, num_warps=by.num_warps, **more,
        )  # fmt: skip


def recurrence_forward(
    a: torch.Tensor | None,
    x: torch.Tensor | None,
    initial: torch.Tensor | None,
    dim: int,
    reverse: bool,
) -> torch.Tensor:
    """Return the states; without factors sums, without summands products."""
    check_arguments(dim, a=a, x=x, initial=initial)
    h = states(a, x)
    launch(recurrence_kernel, [*map(in_order, (a, x, initial)), h], h, dim, reverse)
    return h


def recurrence_backward(
    grad: torch.Tensor,
    a: torch.Tensor,
    h: torch.Tensor,
    initial: torch.Tensor | None,
    dtype: torch.dtype | None,
    dim: int,
    reverse: bool,
) -> list[torch.Tensor]:
    """Return the gradients of ``a``, of ``x`` of a dtype, if that is not None, and of ``initial``, if it is not."""
    found = gradients_like(a, initial, dtype)
    grad_a, *others = found if a.numel() else [torch.zeros_like(each) for each in found]
    grad_x = others[0] if dtype is not None else None
    grad_initial = others[-1] if initial is not None else None
    given = [*map(in_order, (grad, a, h, initial)), grad_a, grad_x, grad_initial]
    launch(recurrence_backward_kernel, given, h, dim, reverse)
    return [grad_a, *others]


def extremum_forward(x: torch.Tensor, dim: int, reverse: bool, maximum: bool) -> torch.Tensor:
    check_arguments(dim, x=x)
    h = x.new_empty(x.shape)
    neutral = neutral_of(x.dtype, maximum)
    given = [in_order(x), h]
    if x.dtype == torch.bool:
        given = [each.view(torch.uint8) for each in given]
    launch(extremum_kernel, given, given[0], dim, reverse, MAXIMUM=maximum, NEUTRAL=neutral)
    return h


def extremum_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    h: torch.Tensor,
    dim: int,
    reverse: bool,
) -> torch.Tensor:
    grad_x = x.new_empty(x.shape)
    launch(extremum_backward_kernel, [*map(in_order, (grad, x, h)), grad_x], x, dim, reverse)
    return grad_x
# --8<-- [end:launches]


def states(a: torch.Tensor | None, x: torch.Tensor | None) -> torch.Tensor:
    """Return room for the states: of the wider dtype of both, of 64 bits for integers as in torch."""
    dtypes = [each.dtype for each in (a, x) if each is not None]
    dtype = torch.promote_types(dtypes[0], dtypes[-1])
    shaped = x if a is None else a
    return shaped.new_empty(shaped.shape, dtype=dtype if dtype in FLOATS else torch.int64)


def gradients_like(a: torch.Tensor, initial: torch.Tensor | None, dtype: torch.dtype | None) -> list[torch.Tensor]:
    """Return room for the gradients of ``a``, and of ``x`` and ``initial``, if there are such."""
    found = [a.new_empty(a.shape)]
    if dtype is not None:
        found.append(a.new_empty(a.shape, dtype=dtype))
    if initial is not None:
        found.append(initial.new_empty(initial.shape))
    return found


def in_order(x: torch.Tensor | None) -> torch.Tensor | None:
    """Return ``x`` contiguous; copied if it is not."""
    return None if x is None else x.resolve_neg().contiguous()


def computed_in(dtype: torch.dtype) -> tl.dtype:
    if dtype not in FLOATS:
        return tl.int64
    return tl.float64 if dtype == torch.float64 else tl.float32


def neutral_of(dtype: torch.dtype, maximum: bool) -> float:
    """Return what is no maximum, or no minimum, beside any number."""
    if dtype in FLOATS:
        return -math.inf if maximum else math.inf
    if dtype == torch.bool:
        return 0 if maximum else 1
    limits = torch.iinfo(dtype)
    return limits.min if maximum else limits.max


# --8<-- [start:function]
class Recurrence(torch.autograd.Function):
    """Tie both directions together. Saved: factors, first state and result, for sums nothing."""

    @staticmethod
    def forward(a, x, initial, dim, reverse):
        return recurrence_forward(a, x, initial, dim, reverse)

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, x, initial, ctx.dim, ctx.reverse = inputs
        ctx.dtype = None if x is None else x.dtype
        ctx.of_initial = None if initial is None else initial.dtype
        ctx.save_for_backward(*(None, None, None) if a is None else (a, output, initial))

    @staticmethod
    def backward(ctx, grad):
        a, h, initial = ctx.saved_tensors
        if a is None or torch.is_grad_enabled():  # the gradient itself may be asked for a gradient
            return *by_recurrences(ctx, grad, a, h, initial, Recurrence.apply), None, None
        return *sorted_out(ctx, recurrence_backward(grad, a, h, initial, ctx.dtype, ctx.dim, ctx.reverse)), None, None

    @staticmethod
    def vmap(info, in_dims, a, x, initial, dim, reverse):
        given = zip((a, x, initial), in_dims, strict=False)
        a, x, initial = (in_front(each, batch, info.batch_size) for each, batch in given)
        return Recurrence.apply(a, x, initial, dim + 1, reverse), 0


def by_recurrences(ctx, grad, a, h, initial, apply):
    """Return the gradients of factors, summands and first states by recurrences that have gradients themselves."""
    dim, forward = ctx.dim, not ctx.reverse
    if a is None:
        grad_h = apply(None, grad, None, dim, forward)
        grad_initial = None if ctx.of_initial is None else at_first(grad_h, dim, forward).to(ctx.of_initial)
        return None, grad_h.to(ctx.dtype), grad_initial
    grad_h = apply(later(a, dim, forward), grad, None, dim, forward)
    start = torch.full_like(at_first(h, dim, forward), 1 if ctx.dtype is None else 0) if initial is None else initial
    grad_a = grad_h * earlier(h, start, dim, forward)
    grad_initial = None
    if initial is not None:
        grad_initial = (at_first(a, dim, forward) * at_first(grad_h, dim, forward)).to(initial.dtype)
    return grad_a.to(a.dtype), None if ctx.dtype is None else grad_h.to(ctx.dtype), grad_initial


def sorted_out(ctx, found: list[torch.Tensor]) -> tuple[torch.Tensor | None, ...]:
    grad_a, *others = found
    grad_x = None if ctx.dtype is None else others[0]
    return grad_a, grad_x, None if ctx.of_initial is None else others[-1]


class Extremum(torch.autograd.Function):
    @staticmethod
    def forward(x, dim, reverse, maximum):
        return extremum_forward(x, dim, reverse, maximum)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.dim, ctx.reverse, _ = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad):
        x, h = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return extremum_backward(grad, x, h, ctx.dim, ctx.reverse), None, None, None
        hit = (x == h) | (x != x)
        gate = later((~hit).to(grad.dtype), ctx.dim, not ctx.reverse)
        flows = Recurrence.apply(gate, grad, None, ctx.dim, not ctx.reverse)
        return torch.where(hit, flows, 0), None, None, None

    @staticmethod
    def vmap(info, in_dims, x, dim, reverse, maximum):
        return Extremum.apply(in_front(x, in_dims[0], info.batch_size), dim + 1, reverse, maximum), 0
# --8<-- [end:function]


def in_front(x, batch, size):
    """Return ``x`` with the dimension that ``torch.vmap`` maps as its first."""
    if x is None:
        return None
    return x.expand(size, *x.shape) if batch is None else x.movedim(batch, 0)


def at_first(h, dim, forward):
    """Return the step that comes first."""
    return h.select(dim, 0 if forward else -1)


def earlier(h, start, dim, forward):
    """Return for each step what the one before it holds; ``start`` for the first."""
    length = h.shape[dim]
    start = start.unsqueeze(dim).to(h.dtype)
    if not length:
        return h
    if forward:
        return torch.cat([start, h.narrow(dim, 0, length - 1)], dim)
    return torch.cat([h.narrow(dim, 1, length - 1), start], dim)


def later(a, dim, forward):
    """Return for each step what the one after it holds; 1 for the last."""
    return a if not a.shape[dim] else earlier(a, torch.ones_like(a.select(dim, 0)), dim, not forward)


# The same for torch.compile, which does not look into a custom op


@torch.library.custom_op("triton_by_example_library::recurrence", mutates_args=())
def recurrence_op(
    a: torch.Tensor | None,
    x: torch.Tensor | None,
    initial: torch.Tensor | None,
    dim: int,
    reverse: bool,
) -> torch.Tensor:
    return recurrence_forward(a, x, initial, dim, reverse)


@torch.library.custom_op("triton_by_example_library::recurrence_backward", mutates_args=())
def recurrence_backward_op(
    grad: torch.Tensor,
    a: torch.Tensor,
    h: torch.Tensor,
    initial: torch.Tensor | None,
    dtype: torch.dtype | None,
    dim: int,
    reverse: bool,
) -> list[torch.Tensor]:
    return recurrence_backward(grad, a, h, initial, dtype, dim, reverse)


@torch.library.custom_op("triton_by_example_library::extremum", mutates_args=())
def extremum_op(x: torch.Tensor, dim: int, reverse: bool, maximum: bool) -> torch.Tensor:
    return extremum_forward(x, dim, reverse, maximum)


@torch.library.custom_op("triton_by_example_library::extremum_backward", mutates_args=())
def extremum_backward_op(grad: torch.Tensor, x: torch.Tensor, h: torch.Tensor, dim: int, reverse: bool) -> torch.Tensor:
    return extremum_backward(grad, x, h, dim, reverse)


recurrence_op.register_fake(lambda a, x, *_: states(a, x))
recurrence_backward_op.register_fake(lambda grad, a, h, initial, dtype, *_: gradients_like(a, initial, dtype))
extremum_op.register_fake(lambda x, *_: x.new_empty(x.shape))
extremum_backward_op.register_fake(lambda grad, x, *_: x.new_empty(x.shape))


def recurrence_op_backward(ctx, grad):
    a, h, initial = ctx.saved_tensors
    if a is None:
        return *by_recurrences(ctx, grad, a, h, initial, recurrence_op), None, None
    found = recurrence_backward_op(grad, a, h, initial, ctx.dtype, ctx.dim, ctx.reverse)
    return *sorted_out(ctx, found), None, None


def extremum_op_backward(ctx, grad):
    return extremum_backward_op(grad, *ctx.saved_tensors, ctx.dim, ctx.reverse), None, None, None


recurrence_op.register_autograd(recurrence_op_backward, setup_context=Recurrence.setup_context)
extremum_op.register_autograd(extremum_op_backward, setup_context=Extremum.setup_context)


# --8<-- [start:host]
def recurrence(
    a: torch.Tensor,
    x: torch.Tensor,
    dim: int = -1,
    *,
    initial: torch.Tensor | None = None,
    reverse: bool = False,
    exclusive: bool = False,
    last: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Return ``h[t] = a[t] * h[t - 1] + x[t]`` along ``dim``; it has gradients for all tensors.

    Args:
        a: On a GPU (in the interpreter: on the CPU), floats or integers, with a dimension or more. It is copied unless
            it is contiguous.
        x: Of the shape and device of ``a``, and copied likewise. Float16, bfloat16 and float32 may be mixed.
        dim: Along which the steps follow each other: a number of Python, NumPy or a tensor on the CPU.
        initial: The state before the first step, of the shape of ``x`` without ``dim``; None for 0.
        reverse: Whether the steps go from the last to the first: ``h[t] = a[t] * h[t + 1] + x[t]``.
        exclusive: Whether each step gets the state before it: the first gets ``initial``. It costs a copy.
        last: Whether the state after the last step is returned, too.

    Returns:
        A new contiguous tensor of the wider dtype of ``a`` and ``x``, computed in float32, or in float64 for float64;
        int64 for integers, which wrap around. With ``last``, that tensor and the last state. Gradients, of any order,
        have the dtypes of what they belong to; all are deterministic. A NaN or an infinity stays in its series.
        Factors are multiplied over up to 2048 steps: if that overflows, the result may be NaN where step by step it
        is 0. The kernel may still be running when the result is returned.

    Raises:
        ValueError: An argument is something that the kernels cannot serve.

    >>> x = torch.tensor([8.0, 2.0, 0.0, 4.0])
    >>> h, state = recurrence(torch.full((4,), 0.5), x, initial=torch.tensor(2.0), last=True)
    >>> h, state
    (tensor([9.0000, 6.5000, 3.2500, 5.6250]), tensor(5.6250))
    """
    if x is None or a is None:
        raise ValueError("recurrence needs both a and x; use cumsum or cumprod")
    dim = dimension(x, dim)
    run = recurrence_op if torch.compiler.is_compiling() else Recurrence.apply
    h = run(a, x, initial, dim, bool(reverse))
    if exclusive and initial is None and h.shape[dim]:
        initial = torch.zeros_like(at_first(h, dim, not reverse))
    return finish(h, initial, dim, reverse, exclusive, last)


def cumsum(
    x: torch.Tensor,
    dim: int = -1,
    *,
    initial: torch.Tensor | None = None,
    reverse: bool = False,
    exclusive: bool = False,
    last: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Return the sums of ``x`` so far along ``dim``, as ``torch.cumsum`` does; for integers and truths in int64.

    All else is as in :func:`recurrence`; nothing is kept for the backward.

    >>> cumsum(torch.tensor([[1, 2, 3, 4]]), reverse=True)
    tensor([[10,  9,  7,  4]])
    >>> cumsum(torch.tensor([1, 2, 3, 4]), exclusive=True)
    tensor([0, 1, 3, 6])
    """
    return _sums(None, x, 0, dim, initial, reverse, exclusive, last)


def cumprod(
    x: torch.Tensor,
    dim: int = -1,
    *,
    initial: torch.Tensor | None = None,
    reverse: bool = False,
    exclusive: bool = False,
    last: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Return the products of ``x`` so far along ``dim``, as ``torch.cumprod`` does, from ``initial``, or 1.

    Its gradient does not divide, so zeros in ``x`` are no exception. All else is as in :func:`cumsum`.

    >>> cumprod(torch.tensor([3.0, 2.0, 0.0, 4.0]))
    tensor([3., 6., 0., 0.])
    """
    return _sums(x, None, 1, dim, initial, reverse, exclusive, last)


def cummax(
    x: torch.Tensor,
    dim: int = -1,
    *,
    reverse: bool = False,
    exclusive: bool = False,
) -> torch.Tensor:
    """Return the largest of ``x`` so far along ``dim``, as the values of ``torch.cummax``, without the indices.

    The gradient goes to the maximum, to the last of equals. From a NaN on, the result is NaN. With ``exclusive``, the
    first step gets minus infinity, or the smallest number of an integer dtype. All else is as in :func:`cumsum`.

    >>> cummax(torch.tensor([1.0, 3.0, 2.0, 5.0]))
    tensor([1., 3., 3., 5.])
    """
    return _extremum(x, dim, reverse, exclusive, True)


def cummin(
    x: torch.Tensor,
    dim: int = -1,
    *,
    reverse: bool = False,
    exclusive: bool = False,
) -> torch.Tensor:
    """Return the smallest of ``x`` so far along ``dim``: all is as in :func:`cummax`.

    >>> cummin(torch.tensor([4, 3, 5, 1]), reverse=True)
    tensor([1, 1, 1, 1])
    """
    return _extremum(x, dim, reverse, exclusive, False)


def _sums(a, x, start, dim, initial, reverse, exclusive, last):
    given = x if a is None else a
    dim = dimension(given, dim)
    run = recurrence_op if torch.compiler.is_compiling() else Recurrence.apply
    h = run(as_numbers(a), as_numbers(x), initial, dim, bool(reverse))
    if exclusive and initial is None and h.shape[dim]:
        initial = torch.full_like(at_first(h, dim, not reverse), start)
    return finish(h, initial, dim, reverse, exclusive, last)


def _extremum(x, dim, reverse, exclusive, maximum):
    dim = dimension(x, dim)
    run = extremum_op if torch.compiler.is_compiling() else Extremum.apply
    h = run(x, dim, bool(reverse), maximum)
    first = None
    if exclusive and h.shape[dim]:
        first = torch.full_like(at_first(h, dim, not reverse), neutral_of(x.dtype, maximum))
    return finish(h, first, dim, reverse, exclusive, False)


def finish(h, initial, dim, reverse, exclusive, last):
    """Return the states in the way that is asked for."""
    if last and not h.shape[dim]:
        raise ValueError("no step, so no last state")
    state = at_first(h, dim, reverse).contiguous() if last else None
    if exclusive and h.shape[dim]:
        h = earlier(h, initial, dim, not reverse)
    return (h, state) if last else h
# --8<-- [end:host]


def as_numbers(x: torch.Tensor | None) -> torch.Tensor | None:
    """Return truths as 0 and 1."""
    return x.view(torch.uint8) if x is not None and x.dtype == torch.bool else x


def dimension(x: torch.Tensor, dim) -> int:
    """Return ``dim``, counted from the first."""
    try:
        if getattr(dim, "is_cuda", False):  # to read it, the host would wait for the GPU
            raise TypeError
        dim = operator.index(dim)
    except TypeError:
        raise ValueError(f"dim must be a whole number, not on a GPU; got {dim!r}") from None
    if not -x.ndim <= dim < x.ndim:
        raise ValueError(f"dim must be one of x's {x.ndim} dimensions; got {dim}")
    return dim % x.ndim


def check_arguments(
    dim: int,
    *,
    a: torch.Tensor | None = None,
    x: torch.Tensor | None,
    initial: torch.Tensor | None = None,
) -> None:
    """Raise ``ValueError`` for arguments that the kernels would compute wrongly or not at all."""
    named = {"x": x, "a": a, "initial": initial}
    given = {name: tensor for name, tensor in named.items() if tensor is not None}
    name, first = next(iter(given.items()))
    name = name if name == "x" or x is not None else "x"  # cumprod's only tensor
    for other, tensor in given.items():
        if tensor.layout != torch.strided:
            raise ValueError(f"{other} is {tensor.layout}; pass {other}.to_dense()")
        if tensor.device != first.device:
            raise ValueError(f"{name} is on {first.device} and {other} on {tensor.device}; move them to one device")
        if tensor.dtype not in FLOATS + INTEGERS:
            supported = ", ".join(map(str, FLOATS + INTEGERS))
            raise ValueError(f"dtype {tensor.dtype} is not supported; use one of {supported}")
        if other != "initial" and (tensor.dtype in FLOATS) != (first.dtype in FLOATS):
            raise ValueError(f"{name} is {first.dtype} and {other} {tensor.dtype}; mix floats with floats only")
        if (tensor.dtype == torch.float64) != (first.dtype == torch.float64):
            raise ValueError(f"{name} is {first.dtype} and {other} {tensor.dtype}; float64 goes with float64 only")
    if a is not None and x is not None and a.shape != x.shape:
        raise ValueError(f"x and a must have the same shape; got {tuple(x.shape)} and {tuple(a.shape)}")
    if initial is not None:
        shape = (*first.shape[:dim], *first.shape[dim + 1 :])
        if tuple(initial.shape) != shape:
            raise ValueError(f"initial must have the shape {shape}, that of x without dim; got {tuple(initial.shape)}")
        if first.dtype not in FLOATS and initial.dtype in FLOATS:
            raise ValueError(f"{name} is {first.dtype} and initial {initial.dtype}; integers start from an integer")
    if first.shape[dim] > 2**31 - 2**13:
        raise ValueError(f"{first.shape[dim]} steps are too many; at most 2**31 - 2**13 are served")
    interpreted = not isinstance(recurrence_kernel, triton.JITFunction)
    if first.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        where = "the CPU, interpreted" if interpreted else "a GPU"
        raise ValueError(f"x is on {first.device}; kernels run on {where}")
    if interpreted and any(each.dtype == torch.bfloat16 for each in given.values()):
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")


def in_torch(a, x, dim=-1, initial=None, reverse=False, exclusive=False):
    """Compute states step by step, and the last one; None for ``a`` means 1, for ``x`` 0."""
    given = x if a is None else a
    h = torch.full_like(given.select(dim, 0), 1 if x is None else 0) if initial is None else initial
    steps = []
    order = range(given.shape[dim])
    for t in reversed(order) if reverse else order:
        before = h
        h = h if a is None else a.select(dim, t) * h
        h = h if x is None else h + x.select(dim, t)
        steps.append(before if exclusive else h)
    return torch.stack(steps[::-1] if reverse else steps, dim), h


def main():
    device = "cuda" if isinstance(recurrence_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)
    options = {"device": device, "dtype": torch.float64, "requires_grad": True}
    a, x = torch.randn(2, 3, 70, **options), torch.randn(2, 3, 70, **options)
    initial, across = torch.randn(2, 3, **options), torch.randn(2, 70, **options)

    print("## options")
    cases = {
        "recurrence": (a, x, None, {}),
        "from a first state": (a, x, initial, {}),
        "reverse, along the second dimension": (a, x, across, {"reverse": True, "dim": 1}),
        "exclusive": (a, x, initial, {"exclusive": True}),
        "cumsum": (None, x, None, {}),
        "cumsum, reverse, exclusive": (None, x, None, {"reverse": True, "exclusive": True}),
        "cumprod": (a, None, None, {}),
        "cumprod, from a first state": (a, None, initial, {}),
    }
    for name, (a, x, initial, given) in cases.items():
        leaves = [each for each in (a, x, initial) if each is not None]
        function = cumsum if a is None else cumprod if x is None else recurrence
        main_ones = [each for each in (a, x) if each is not None]
        found = function(*main_ones, initial=initial, last=True, **given)
        wanted = in_torch(a, x, initial=initial, **given)
        grads = [torch.autograd.grad((h**2).sum() + state.sum(), leaves) for h, state in (found, wanted)]
        same = all(map(torch.allclose, (*found, *grads[0]), (*wanted, *grads[1])))
        print(f"{name}: result and gradients", "as step by step" if same else "NOT as step by step")
    for function in (cummax, cummin):
        found, wanted = function(x := torch.randn(4, 70, **options)), getattr(torch, function.__name__)(x, -1).values
        grads = [torch.autograd.grad((each**2).sum(), x)[0] for each in (found, wanted)]
        same = torch.equal(found, wanted) and torch.allclose(*grads)
        print(f"{function.__name__}: result and gradient", "as by torch" if same else "NOT as by torch")


if __name__ == "__main__":
    main()
