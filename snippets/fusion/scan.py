# SPDX-License-Identifier: Apache-2.0
"""Scans with ``tl.associative_scan``: running sum, running maximum, and a gated recurrence, each with its gradient.

Along one dimension, from its first step to its last, or ``reverse`` from its last to its first::

    cumsum:      h[t] = h[t - 1] + x[t]
    cummax:      h[t] = max(h[t - 1], x[t])
    recurrence:  h[t] = a[t] * h[t - 1] + x[t]        from h = 0

The recurrence is a scan over pairs: ``(a, x)`` stands for the step ``h -> a * h + x``, and two steps in a row are one,
``(a1 * a2, a2 * x1 + x2)``. A program takes some series through all their steps, ``BLOCK`` at a time: a scan inside the
block, then what the blocks before it have left, which it keeps in registers.

Backward, each is a scan in the other direction, with ``grad`` for the gradient that comes back::

    cumsum:      grad_x[t] = grad[t] + grad_x[t + 1]
    recurrence:  grad_x[t] = grad[t] + a[t + 1] * grad_x[t + 1];    grad_a[t] = grad_x[t] * h[t - 1]
    cummax:      as the recurrence, with a[t] = 0 where x[t] is the maximum so far and 1 elsewhere; and grad_x[t] = 0
                 where x[t] is not

- :func:`cumsum`, :func:`cummax`, :func:`recurrence`: the functions to call, which work under ``torch.compile``

Shapes: all tensors of a call have one shape, of any number of dimensions.
Traffic, in elements for each of ``x``: ``cumsum`` 1 read and 1 written, forward and backward; ``cummax`` 1 and 1,
backward 3 and 1; ``recurrence`` 2 and 1, backward 3 and 2. A step's neighbor is read once more, from the cache.
Each order of adding up is fixed, so every run gives the same bits.
Source: Guy Blelloch, *Prefix Sums and Their Applications*, 1990. The gradients are derived on the page.

Run it on a GPU with ``python scan.py``, or with ``TRITON_INTERPRET=1 python scan.py`` in the interpreter.
"""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


# Operators: what two stretches of steps in a row are together


# --8<-- [start:operators]
@triton.jit
def larger(first, second):
    return tl.maximum(first, second, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def join(a1, h1, a2, h2):
    return a1 * a2, a2 * h1 + h2
# --8<-- [end:operators]


# --8<-- [start:block]
@triton.jit
def one_block_kernel(
    a_ptr, x_ptr, h_ptr, length, BLOCK: tl.constexpr
):  # fmt: skip
    t = tl.arange(0, BLOCK)
    mask = t < length
    a = tl.load(a_ptr + t, mask=mask, other=1)
    x = tl.load(x_ptr + t, mask=mask, other=0)
    _, h = tl.associative_scan((a, x), axis=0, combine_fn=join)
    tl.store(h_ptr + t, h, mask=mask)
# --8<-- [end:block]


# Series of any length, along any dimension


# --8<-- [start:my_series]
@triton.jit
def my_series(
    length, series, inner,
    AXIS: tl.constexpr, WIDTH: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    """Return where the program's series begin, how many are left from there, and how far apart steps and series lie."""
    pid = tl.program_id(axis=0).to(tl.int64)
    if AXIS == 1:  # rows: the steps of a series are neighbors in memory
        first = pid * WIDTH
        return first * length * UNIT, series - first, 1, length * UNIT
    else:  # columns: the series are
        columns = inner * UNIT
        blocks = tl.cdiv(columns, WIDTH)
        first = pid % blocks * WIDTH
        return pid // blocks * length * columns + first, columns - first, columns, 1
# --8<-- [end:my_series]


# --8<-- [start:kernel]
@triton.jit
def recurrence_kernel(
    a_ptr, x_ptr, h_ptr, length, series, inner,
    REVERSE: tl.constexpr, AXIS: tl.constexpr, BLOCK: tl.constexpr,
    WIDTH: tl.constexpr, UNIT: tl.constexpr, COMPUTE: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    # --8<-- [start:begin]
    begin, left, step, apart = my_series(
        length, series, inner, AXIS, WIDTH, UNIT
    )
    steps = length * UNIT if AXIS == 1 else length
    lane = tl.expand_dims(tl.arange(0, BLOCK), 1 - AXIS)
    one = tl.expand_dims(tl.arange(0, WIDTH), AXIS)
    inside = lane * step + one * apart
    last = 0 if REVERSE else BLOCK - 1
    carry = tl.sum(tl.zeros(inside.shape, COMPUTE), axis=AXIS, keep_dims=True)
    blocks = tl.cdiv(steps, BLOCK)
    # --8<-- [end:begin]
    # --8<-- [start:loop]
    for i in tl.range(0, blocks, num_stages=STAGES):
        start = (blocks - 1 - i if REVERSE else i) * BLOCK
        mask = (lane < steps - start) & (one < left)
        offsets = begin + tl.cast(start, tl.int64) * step
        a = tl.load(a_ptr + offsets + inside, mask=mask, other=1).to(COMPUTE)
        x = tl.load(x_ptr + offsets + inside, mask=mask, other=0).to(COMPUTE)
        gate, own = tl.associative_scan((a, x), AXIS, join, reverse=REVERSE)
        h = gate * carry + own
        tl.store(h_ptr + offsets + inside, h, mask=mask)
        carry = tl.sum(tl.where(lane == last, h, 0), axis=AXIS, keep_dims=True)
    # --8<-- [end:loop]
# --8<-- [end:kernel]


# --8<-- [start:backward_kernel]
@triton.jit
def recurrence_backward_kernel(
    grad_ptr, a_ptr, h_ptr, grad_a_ptr, grad_x_ptr, length, series, inner,
    REVERSE: tl.constexpr, AXIS: tl.constexpr, BLOCK: tl.constexpr,
    WIDTH: tl.constexpr, UNIT: tl.constexpr, COMPUTE: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    begin, left, step, apart = my_series(length, series, inner, AXIS, WIDTH, UNIT)
    steps = length * UNIT if AXIS == 1 else length
    lane = tl.expand_dims(tl.arange(0, BLOCK), 1 - AXIS)
    one = tl.expand_dims(tl.arange(0, WIDTH), AXIS)
    inside = lane * step + one * apart
    # --8<-- [start:backward_loop]
    forth = -1 if REVERSE else 1  # to the next step
    away = forth * step
    last = BLOCK - 1 if REVERSE else 0  # of a block, because we go backward
    carry = tl.sum(tl.zeros(inside.shape, COMPUTE), axis=AXIS, keep_dims=True)
    blocks = tl.cdiv(steps, BLOCK)
    for i in tl.range(0, blocks, num_stages=STAGES):
        start = (i if REVERSE else blocks - 1 - i) * BLOCK
        t = start + lane
        here = (t < steps) & (one < left)
        after = here & (t + forth < steps) & (t + forth >= 0)
        before = here & (t - forth < steps) & (t - forth >= 0)
        offsets = begin + tl.cast(start, tl.int64) * step
        grad = tl.load(grad_ptr + offsets + inside, mask=here, other=0)
        a = tl.load(a_ptr + offsets + (inside + away), mask=after, other=1)
        h = tl.load(h_ptr + offsets + (inside - away), mask=before, other=0)
        pair = a.to(COMPUTE), grad.to(COMPUTE)
        gate, own = tl.associative_scan(pair, AXIS, join, reverse=not REVERSE)
        grad_x = gate * carry + own
        tl.store(grad_x_ptr + offsets + inside, grad_x, mask=here)
        tl.store(grad_a_ptr + offsets + inside, grad_x * h, mask=here)
        carry = tl.where(lane == last, grad_x, 0)
        carry = tl.sum(carry, axis=AXIS, keep_dims=True)
    # --8<-- [end:backward_loop]
# --8<-- [end:backward_kernel]


# --8<-- [start:scan_kernel]
@triton.jit
def scan_kernel(
    x_ptr, h_ptr, length, series, inner,
    MAXIMUM: tl.constexpr, NEUTRAL: tl.constexpr,
    REVERSE: tl.constexpr, AXIS: tl.constexpr, BLOCK: tl.constexpr,
    WIDTH: tl.constexpr, UNIT: tl.constexpr, COMPUTE: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    begin, left, step, apart = my_series(length, series, inner, AXIS, WIDTH, UNIT)
    steps = length * UNIT if AXIS == 1 else length
    lane = tl.expand_dims(tl.arange(0, BLOCK), 1 - AXIS)
    one = tl.expand_dims(tl.arange(0, WIDTH), AXIS)
    inside = lane * step + one * apart
    last = 0 if REVERSE else BLOCK - 1
    carry = tl.max(tl.full(inside.shape, NEUTRAL, COMPUTE), axis=AXIS, keep_dims=True)
    blocks = tl.cdiv(steps, BLOCK)
    for i in tl.range(0, blocks, num_stages=STAGES):
        start = (blocks - 1 - i if REVERSE else i) * BLOCK
        mask = (lane < steps - start) & (one < left)
        offsets = begin + tl.cast(start, tl.int64) * step
        x = tl.load(x_ptr + offsets + inside, mask=mask, other=NEUTRAL).to(COMPUTE)
        if MAXIMUM:
            h = larger(carry, tl.associative_scan(x, AXIS, larger, reverse=REVERSE))
        else:
            h = carry + tl.cumsum(x, AXIS, reverse=REVERSE)
        tl.store(h_ptr + offsets + inside, h, mask=mask)
        carry = tl.sum(tl.where(lane == last, h, 0), axis=AXIS, keep_dims=True)
# --8<-- [end:scan_kernel]


@triton.jit
def cummax_backward_kernel(
    grad_ptr, x_ptr, h_ptr, grad_x_ptr, length, series, inner,
    REVERSE: tl.constexpr, AXIS: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr, UNIT: tl.constexpr,
    COMPUTE: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    begin, left, step, apart = my_series(length, series, inner, AXIS, WIDTH, UNIT)
    steps = length * UNIT if AXIS == 1 else length
    lane = tl.expand_dims(tl.arange(0, BLOCK), 1 - AXIS)
    one = tl.expand_dims(tl.arange(0, WIDTH), AXIS)
    inside = lane * step + one * apart
    forth = -1 if REVERSE else 1
    away = forth * step
    last = BLOCK - 1 if REVERSE else 0
    carry = tl.sum(tl.zeros(inside.shape, COMPUTE), axis=AXIS, keep_dims=True)
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
        a = tl.where((x_after == h_after) | (x_after != x_after), 0.0, 1.0).to(COMPUTE)  # a NaN is a maximum, too
        gate, own = tl.associative_scan((a, grad), AXIS, join, reverse=not REVERSE)
        flows = gate * carry + own
        grad_x = tl.where((x == h) | (x != x), flows, 0)
        tl.store(grad_x_ptr + offsets + inside, grad_x, mask=here)
        carry = tl.sum(tl.where(lane == last, flows, 0), axis=AXIS, keep_dims=True)


# Launches


# --8<-- [start:plan]
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
# --8<-- [end:plan]


# --8<-- [start:launch]
def launch(kernel, tensors: list[torch.Tensor], dim: int, reverse: bool, by: Plan | None, **more) -> None:
    """Start ``kernel`` for contiguous tensors of one shape; nothing to do for empty ones."""
    x = tensors[0]
    if not x.numel():
        return
    dim %= x.ndim
    outer, length, inner = x.shape[:dim].numel(), x.shape[dim], x.shape[dim + 1 :].numel()
    axis = 1 if inner == 1 else 0
    by = by or plan(outer, length, inner)
    if (by.block + 1) * inner >= 2**31:
        raise ValueError(f"series that lie {inner} elements apart are too many side by side; split x")
    programs = triton.cdiv(outer, by.width) if axis else outer * triton.cdiv(inner, by.width)
    if programs > 2**31 - 1:  # CUDA's limit for programs along one axis
        raise ValueError(f"{outer * inner} series are too many for one launch; split x")
    unit = math.gcd(8, length if axis else inner)  # told this, the compiler loads 16 bytes at a time
    sizes = (length // unit, outer, 1) if axis else (length, outer, inner // unit)
    wide = x.dtype == torch.float64
    # Loaded two blocks ahead, its float64 takes 112 KiB of shared memory; the smaller GPUs have 99.
    stages = 1 if wide and kernel is cummax_backward_kernel else by.stages
    with torch.cuda.device_of(x):  # Triton launches on the current device, which need not be that of x
        kernel[(programs,)](
            *tensors, *sizes, REVERSE=reverse, AXIS=axis, BLOCK=by.block, WIDTH=by.width, UNIT=unit,
            COMPUTE=tl.float64 if wide else tl.float32, STAGES=stages,
            num_warps=by.num_warps, **more,
        )  # fmt: skip
# --8<-- [end:launch]


def scan_forward(x: torch.Tensor, dim: int, reverse: bool, maximum: bool, by: Plan | None = None) -> torch.Tensor:
    check_arguments(dim, x=x)
    h, neutral = like(x), -math.inf if maximum else 0.0  # which changes no result
    launch(scan_kernel, [in_order(x), h], dim, reverse, by, MAXIMUM=maximum, NEUTRAL=neutral)
    return h


def cummax_backward(
    grad: torch.Tensor, x: torch.Tensor, h: torch.Tensor, dim: int, reverse: bool, by: Plan | None = None
) -> torch.Tensor:
    check_arguments(dim, x=x, h=h, grad=grad)
    grad_x = like(x)
    launch(cummax_backward_kernel, [*map(in_order, (grad, x, h)), grad_x], dim, reverse, by)
    return grad_x


# --8<-- [start:host_recurrence]
def recurrence_forward(
    a: torch.Tensor, x: torch.Tensor, dim: int, reverse: bool, by: Plan | None = None
) -> torch.Tensor:  # fmt: skip
    check_arguments(dim, x=x, a=a)
    h = like(x)
    launch(recurrence_kernel, [in_order(a), in_order(x), h], dim, reverse, by)
    return h


def recurrence_backward(
    grad: torch.Tensor, a: torch.Tensor, h: torch.Tensor, dim: int, reverse: bool, by: Plan | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    check_arguments(dim, x=h, a=a, grad=grad)
    grad_a, grad_x = like(h), like(h)
    given = [*map(in_order, (grad, a, h))]
    launch(recurrence_backward_kernel, [*given, grad_a, grad_x], dim, reverse, by)
    return grad_a, grad_x
# --8<-- [end:host_recurrence]


def in_order(x: torch.Tensor) -> torch.Tensor:
    """Return ``x`` contiguous; copied if it is not."""
    return x.resolve_neg().contiguous()


def like(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def no_second_gradient(name: str) -> None:
    if torch.is_grad_enabled():  # as under create_graph=True
        raise RuntimeError(
            f"{name} has no gradient of its gradient, so it refuses create_graph=True, and torch.func.grad and vjp,"
            " which always ask for it; use torch.autograd.grad"
        )


# --8<-- [start:function]
class Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(a, x, dim, reverse):
        return recurrence_forward(a, x, dim, reverse)

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, _, *ctx.options = inputs
        ctx.save_for_backward(a, output)  # and not x: the gradients do not need it

    @staticmethod
    def backward(ctx, grad):
        no_second_gradient("recurrence")
        return *recurrence_backward(grad, *ctx.saved_tensors, *ctx.options), None, None
# --8<-- [end:function]


class CumSum(torch.autograd.Function):
    @staticmethod
    def forward(x, dim, reverse):
        return scan_forward(x, dim, reverse, False)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.dim, ctx.reverse = inputs

    @staticmethod
    def backward(ctx, grad):
        no_second_gradient("cumsum")
        return scan_forward(grad, ctx.dim, not ctx.reverse, False), None, None


class CumMax(torch.autograd.Function):
    @staticmethod
    def forward(x, dim, reverse):
        return scan_forward(x, dim, reverse, True)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, *ctx.options = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad):
        no_second_gradient("cummax")
        return cummax_backward(grad, *ctx.saved_tensors, *ctx.options), None, None


# The same for torch.compile, which looks into no custom op


@torch.library.custom_op("triton_by_example::scan", mutates_args=())
def scan_op(x: torch.Tensor, dim: int, reverse: bool, maximum: bool) -> torch.Tensor:
    return scan_forward(x, dim, reverse, maximum)


@torch.library.custom_op("triton_by_example::cummax_backward", mutates_args=())
def cummax_backward_op(grad: torch.Tensor, x: torch.Tensor, h: torch.Tensor, dim: int, reverse: bool) -> torch.Tensor:
    return cummax_backward(grad, x, h, dim, reverse)


@torch.library.custom_op("triton_by_example::recurrence", mutates_args=())
def recurrence_op(a: torch.Tensor, x: torch.Tensor, dim: int, reverse: bool) -> torch.Tensor:
    return recurrence_forward(a, x, dim, reverse)


@torch.library.custom_op("triton_by_example::recurrence_backward", mutates_args=())
def recurrence_backward_op(
    grad: torch.Tensor, a: torch.Tensor, h: torch.Tensor, dim: int, reverse: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    return recurrence_backward(grad, a, h, dim, reverse)


scan_op.register_fake(lambda x, *_: x.new_empty(x.shape))
cummax_backward_op.register_fake(lambda grad, x, *_: x.new_empty(x.shape))
recurrence_op.register_fake(lambda a, x, *_: x.new_empty(x.shape))
recurrence_backward_op.register_fake(lambda grad, a, h, *_: (h.new_empty(h.shape), h.new_empty(h.shape)))


def scan_op_setup_context(ctx, inputs, output):
    x, *ctx.options, ctx.maximum = inputs
    if ctx.maximum:
        ctx.save_for_backward(x, output)


def scan_op_backward(ctx, grad):
    dim, reverse = ctx.options
    if ctx.maximum:
        grad_x = cummax_backward_op(grad, *ctx.saved_tensors, dim, reverse)
    else:
        grad_x = scan_op(grad, dim, not reverse, False)
    return grad_x, None, None, None


def recurrence_op_backward(ctx, grad):
    return *recurrence_backward_op(grad, *ctx.saved_tensors, *ctx.options), None, None


scan_op.register_autograd(scan_op_backward, setup_context=scan_op_setup_context)
recurrence_op.register_autograd(recurrence_op_backward, setup_context=Recurrence.setup_context)


# --8<-- [start:host]
def recurrence(a: torch.Tensor, x: torch.Tensor, dim: int = -1, *, reverse: bool = False) -> torch.Tensor:
    """Return ``h[t] = a[t] * h[t - 1] + x[t]`` along ``dim``, from ``h = 0``; it has gradients for both tensors.

    Args:
        a: On a GPU (in the interpreter: on the CPU), of one of ``DTYPES``, with a dimension or more. It is copied
            unless it is contiguous.
        x: Of the shape, dtype and device of ``a``, and copied likewise.
        dim: Along which the steps follow each other.
        reverse: Whether they go from the last to the first: ``h[t] = a[t] * h[t + 1] + x[t]``.

    Returns:
        A new contiguous tensor of the shape and dtype of ``x``, computed in float32, or in float64 for float64. So are
        the gradients; all are deterministic. ``a`` and the result are kept for the backward. A NaN or an infinity stays
        in its series. Gates are multiplied over up to 2048 steps: if that overflows, the result may be NaN where step
        by step it is 0. The kernel may still be running when it is returned.

    Raises:
        ValueError: If an argument is something the kernels can't serve.
        RuntimeError: In the backward, under ``create_graph=True``: there is no gradient of the gradient.

    >>> x = torch.tensor([8.0, 2.0, 0.0, 4.0])
    >>> recurrence(torch.full((4,), 0.5), x)
    tensor([8.0000, 6.0000, 3.0000, 5.5000])
    """
    return (recurrence_op if torch.compiler.is_compiling() else Recurrence.apply)(a, x, dim, reverse)


def cumsum(x: torch.Tensor, dim: int = -1, *, reverse: bool = False) -> torch.Tensor:
    """Return the sums of ``x`` so far along ``dim``, as ``torch.cumsum`` does; with a gradient.

    The arguments, the result and what is raised are as in :func:`recurrence`; nothing is kept for the backward pass.

    >>> cumsum(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), reverse=True)
    tensor([[10.,  9.,  7.,  4.]])
    """
    return scan_op(x, dim, reverse, False) if torch.compiler.is_compiling() else CumSum.apply(x, dim, reverse)


def cummax(x: torch.Tensor, dim: int = -1, *, reverse: bool = False) -> torch.Tensor:
    """Return the largest of ``x`` so far along ``dim``, as the values of ``torch.cummax``; with a gradient.

    The gradient goes to the maximum, to the last of equals. From a NaN on, the result is NaN. The arguments and what is
    raised are as in :func:`recurrence`; ``x`` and the result are kept for the backward pass.

    >>> cummax(torch.tensor([1.0, 3.0, 2.0, 5.0]))
    tensor([1., 3., 3., 5.])
    """
    return scan_op(x, dim, reverse, True) if torch.compiler.is_compiling() else CumMax.apply(x, dim, reverse)
# --8<-- [end:host]


def check_arguments(dim: int, *, x: torch.Tensor, **others: torch.Tensor) -> None:
    """Raise ``ValueError`` for arguments that the kernels would get wrong, or can't serve at all."""
    for name, tensor in {"x": x, **others}.items():
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} is {tensor.layout}; pass {name}.to_dense()")
        if tensor.device != x.device:
            raise ValueError(f"x is on {x.device} and {name} on {tensor.device}; move them to one device")
        if tensor.shape != x.shape or tensor.dtype != x.dtype:
            raise ValueError(
                f"x and {name} must have the same shape and dtype; got {tuple(x.shape)} {x.dtype}"
                f" and {tuple(tensor.shape)} {tensor.dtype}"
            )
    if not -x.ndim <= dim < x.ndim:
        raise ValueError(f"dim must be one of x's {x.ndim} dimensions; got {dim}")
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    if x.shape[dim] > 2**31 - 2**13:
        raise ValueError(f"{x.shape[dim]} steps are too many; at most 2**31 - 2**13 are served")
    interpreted = not isinstance(recurrence_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if interpreted and x.dtype == torch.bfloat16:
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")


# --8<-- [start:in_torch]
def recurrence_in_torch(a, x, dim=-1, reverse=False):
    """Compute the recurrence by torch, step by step."""
    h, steps = torch.zeros_like(x.select(dim, 0)), []
    pairs = list(zip(a.unbind(dim), x.unbind(dim), strict=True))
    for a_t, x_t in reversed(pairs) if reverse else pairs:
        h = a_t * h + x_t
        steps.append(h)
    return torch.stack(steps[::-1] if reverse else steps, dim)
# --8<-- [end:in_torch]


def joined(steps: list[tuple[float, float]]) -> tuple[float, float]:
    """Return steps in a row as one."""
    gate, own = steps[0]
    for a, x in steps[1:]:
        gate, own = gate * a, a * own + x
    return gate, own


def as_torch(function, reference, inputs: list[torch.Tensor], grad: torch.Tensor, tolerance=1e-5) -> bool:
    """Return whether the result of ``function`` and the gradients of ``inputs`` are those of ``reference``."""
    found, wanted = ([out := each(*inputs), *torch.autograd.grad(out, inputs, grad)] for each in (function, reference))
    return all(torch.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in zip(found, wanted, strict=True))


def shown(values: torch.Tensor, digits=2) -> str:
    return " ".join(f"{value + 0.0:{digits + 4}.{digits}f}" for value in values.flatten().tolist())


def main():
    device = "cuda" if isinstance(recurrence_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)

    print("## scans of a row")
    x = torch.tensor([4.0, 6.0, 0.0, 2.0, 10.0, 0.0], device=device)
    a = torch.full_like(x, 0.5)
    h = torch.empty_like(x)
    one_block_kernel[(1,)](a, x, h, 6, BLOCK=8)
    for name, values in {"x": x, "cumsum": cumsum(x), "cummax": cummax(x), "a": a, "recurrence": h}.items():
        print(f"{name:10}", shown(values))

    print("## pairs")
    first, second = [(0.5, 4.0), (0.5, 6.0)], [(0.5, 0.0), (0.5, 2.0)]
    for name, steps in {"steps 0, 1": first, "steps 2, 3": second, "all four": [joined(first), joined(second)]}.items():
        print("{}: a {:g}, x {:g}".format(name, *joined(steps)))

    print("## blocks of four")
    blocks = Plan(4, 1, 1)
    print("forward", shown(recurrence_forward(a, x, 0, False, blocks)))
    print("reverse", shown(recurrence_forward(a, x, 0, True, blocks)))
    below = torch.stack([x, 2 * x], dim=1)  # each series a column
    h = recurrence_forward(torch.stack([a, a], dim=1), below, 0, False, Plan(4, 2, 1))
    for column in range(2):
        print(f"column {column}", shown(h[:, column]))

    print("## gradient of the last h")
    grad = torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 1.0], device=device)
    grad_a, grad_x = recurrence_backward(grad, a, recurrence_forward(a, x, 0, False), 0, False, blocks)
    print("grad_x", shown(grad_x, 5))
    print("grad_a", shown(grad_a, 5))

    print("## gradient of a running maximum")
    x = torch.tensor([1.0, 3.0, 2.0, 5.0, 4.0], device=device)
    ones = torch.ones_like(x)
    print("cummax", shown(h := cummax(x)))
    print("grad_x", shown(cummax_backward(ones, x, h, 0, False)))

    print("## gradients")
    # --8<-- [start:gradcheck]
    options = {"dtype": torch.float64, "device": device, "requires_grad": True}
    a, x = torch.randn(2, 5, **options), torch.randn(2, 5, **options)
    for function, inputs in ((recurrence, (a, x)), (cumsum, (x,)), (cummax, (x,))):
        print(f"{function.__name__}, gradcheck:", torch.autograd.gradcheck(function, inputs))
    # --8<-- [end:gradcheck]
    # fullgraph: an error if the compiler has to stop and leave a part to Python
    compiled = torch.compile(recurrence, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    a, x, grad = torch.rand(3, 2, 70, device=device).unbind()
    for name, function in {"recurrence": recurrence, "compiled": compiled}.items():
        inputs = [a.requires_grad_(), x.requires_grad_()]
        print(f"2 x 70, {name}, as a loop:", as_torch(function, recurrence_in_torch, inputs, grad))


if __name__ == "__main__":
    main()
