# SPDX-License-Identifier: Apache-2.0
"""Scans with ``tl.associative_scan``: running sum, running maximum, and a gated recurrence, each with its gradient.

Along one dimension, from its first step to its last::

    cumsum:      h[t] = h[t - 1] + x[t]
    cummax:      h[t] = max(h[t - 1], x[t])
    recurrence:  h[t] = a[t] * h[t - 1] + x[t]        from h = 0

The recurrence is a scan over pairs: ``(a, x)`` stands for the step ``h -> a * h + x``, and two steps in a row are one,
``(a1 * a2, a2 * x1 + x2)``. A program takes some series through all their steps, ``BLOCK`` at a time: a scan inside the
block, then what the blocks before it have left, which it keeps in registers.

Backward, each is a scan in the other direction; the page derives the gradients.

- :func:`cumsum`, :func:`cummax`, :func:`recurrence`: the functions to call

``snippets/library/scan.py`` is the file to copy into a model: products and minima, both directions, first and last
states, integers, ``torch.compile`` and more.

Traffic, in elements for each of ``x``: ``cumsum`` 1 read and 1 written, forward and backward; ``recurrence`` 2 and 1,
backward 3 and 2. A step's neighbor is read once more, from the cache.
Each order of adding up is fixed, so every run gives the same bits.
Source: Guy Blelloch, *Prefix Sums and Their Applications*, 1990.

Run it on a GPU with ``python scan.py``, or with ``TRITON_INTERPRET=1 python scan.py`` in the interpreter.
"""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


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


# --8<-- [start:my_series]
@triton.jit
def my_series(
    length,
    series,
    AXIS: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    UNIT: tl.constexpr,
):
    """Return where this program's series begin, and what its block is."""
    pid = tl.program_id(axis=0).to(tl.int64)
    lane = tl.expand_dims(tl.arange(0, BLOCK), 1 - AXIS)
    one = tl.expand_dims(tl.arange(0, WIDTH), AXIS)
    if AXIS == 1:
        # rows: the steps of a series are neighbors in memory
        steps = length * UNIT
        first = pid * WIDTH
        begin, left = first * steps, series - first
        return begin, steps, 1, left, lane, one, lane + one * steps
    else:
        # columns: the series are
        steps, columns = length, series * UNIT
        blocks = tl.cdiv(columns, WIDTH)
        first = pid % blocks * WIDTH
        begin = pid // blocks * steps * columns + first
        left = columns - first
        return begin, steps, columns, left, lane, one, lane * columns + one
# --8<-- [end:my_series]


@triton.jit
def recurrence_kernel(
    a_ptr,
    x_ptr,
    h_ptr,
    length,
    series,
    AXIS: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    UNIT: tl.constexpr,
    COMPUTE: tl.constexpr,
):
    """Take ``WIDTH`` series through all their steps.

    Parameters:
        a_ptr: Contiguous, as are ``x`` and ``h``: rows of steps, or tables
            whose columns are the series.
        length: Steps; of rows, their number over ``UNIT``.
        series: Of rows, how many; of columns, those of a table over
            ``UNIT``.
        AXIS: 1 for rows, 0 for columns.
        BLOCK: Steps at a time, a power of two; so is ``WIDTH``.
        UNIT: Divides the length of a row, or the columns of a table.
        COMPUTE: The dtype to compute in.
    """
    begin, steps, step, left, lane, one, inside = my_series(
        length, series, AXIS, BLOCK, WIDTH, UNIT
    )
    # --8<-- [start:loop]
    carry = tl.zeros(one.shape, COMPUTE)
    for i in tl.range(0, tl.cdiv(steps, BLOCK), num_stages=2):
        start = i * BLOCK
        mask = (lane < steps - start) & (one < left)
        offsets = begin + tl.cast(start, tl.int64) * step
        a = tl.load(a_ptr + offsets + inside, mask=mask, other=1).to(COMPUTE)
        x = tl.load(x_ptr + offsets + inside, mask=mask, other=0).to(COMPUTE)
        gate, own = tl.associative_scan((a, x), AXIS, join)
        h = gate * carry + own
        tl.store(h_ptr + offsets + inside, h, mask=mask)
        h_last = tl.where(lane == BLOCK - 1, h, 0)
        carry = tl.sum(h_last, axis=AXIS, keep_dims=True)
    # --8<-- [end:loop]


@triton.jit
def recurrence_backward_kernel(
    grad_ptr,
    a_ptr,
    h_ptr,
    grad_a_ptr,
    grad_x_ptr,
    length,
    series,
    AXIS: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    UNIT: tl.constexpr,
    COMPUTE: tl.constexpr,
):
    """Take the gradients through all steps, from the last to the first.

    The parameters are as in the forward; all tensors are contiguous.
    """
    begin, steps, step, left, lane, one, inside = my_series(
        length, series, AXIS, BLOCK, WIDTH, UNIT
    )
    # --8<-- [start:backward_loop]
    carry = tl.zeros(one.shape, COMPUTE)
    blocks = tl.cdiv(steps, BLOCK)
    for i in tl.range(0, blocks, num_stages=2):
        start = (blocks - 1 - i) * BLOCK
        t = start + lane
        here = (t < steps) & (one < left)
        after = here & (t + 1 < steps)
        before = here & (t > 0)
        offsets = begin + tl.cast(start, tl.int64) * step
        grad = tl.load(grad_ptr + offsets + inside, mask=here, other=0)
        a = tl.load(a_ptr + offsets + (inside + step), mask=after, other=1)
        h = tl.load(h_ptr + offsets + (inside - step), mask=before, other=0)
        pair = a.to(COMPUTE), grad.to(COMPUTE)
        gate, own = tl.associative_scan(pair, AXIS, join, reverse=True)
        grad_x = gate * carry + own
        tl.store(grad_x_ptr + offsets + inside, grad_x, mask=here)
        tl.store(grad_a_ptr + offsets + inside, grad_x * h, mask=here)
        first = tl.where(lane == 0, grad_x, 0)
        carry = tl.sum(first, axis=AXIS, keep_dims=True)
    # --8<-- [end:backward_loop]


@triton.jit
def scan_kernel(
    x_ptr,
    h_ptr,
    length,
    series,
    MAXIMUM: tl.constexpr,
    REVERSE: tl.constexpr,
    AXIS: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    UNIT: tl.constexpr,
    COMPUTE: tl.constexpr,
):
    """Compute sums or maxima so far.

    The parameters are as in ``recurrence_kernel``, and ``REVERSE`` goes from
    the last step to the first.
    """
    begin, steps, step, left, lane, one, inside = my_series(
        length, series, AXIS, BLOCK, WIDTH, UNIT
    )
    NEUTRAL: tl.constexpr = float("-inf") if MAXIMUM else 0.0
    last = 0 if REVERSE else BLOCK - 1
    carry = tl.full(one.shape, NEUTRAL, COMPUTE)
    blocks = tl.cdiv(steps, BLOCK)
    for i in tl.range(0, blocks, num_stages=2):
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


class Plan(NamedTuple):
    """A program's plan: steps at a time, series beside each other, warps."""

    block: int
    width: int
    num_warps: int


def plan(outer: int, length: int, inner: int) -> Plan:
    """Choose for series of ``length`` steps: ``inner`` of them side by side, ``outer`` of such tables.

    >>> plan(8192, 1024, 1), plan(4, 2048, 4096)
    (Plan(block=1024, width=1, num_warps=4), Plan(block=32, width=64, num_warps=8))
    """
    width = min(triton.next_power_of_2(inner), 64)
    block = min(triton.next_power_of_2(length), 2048 // width)
    if inner == 1:  # rows: several short ones for a program
        width = min(max(1024 // block, 1), triton.next_power_of_2(outer))
    return Plan(block, width, num_warps=min(max(block * width // 256, 1), 8))


def launch(
    kernel, given: list[torch.Tensor], results: int, dim: int, by: Plan | None, **options
) -> list[torch.Tensor]:  # fmt: skip
    """Start ``kernel`` for tensors of one shape; return new ones, contiguous and of that shape, as its results."""
    given = [each.resolve_neg().contiguous() for each in given]
    x = given[0]
    outs = [torch.empty(x.shape, dtype=x.dtype, device=x.device) for _ in range(results)]
    if not x.numel():
        return outs
    dim %= x.ndim
    outer, length, inner = x.shape[:dim].numel(), x.shape[dim], x.shape[dim + 1 :].numel()
    axis = 1 if inner == 1 else 0
    by = by or plan(outer, length, inner)
    programs = triton.cdiv(outer, by.width) if axis else outer * triton.cdiv(inner, by.width)
    # CUDA's limit for programs along one axis, and that of the offsets inside a block, which have 32 bits
    if programs > 2**31 - 1 or (by.block + 1) * inner >= 2**31:
        raise ValueError(f"{outer} times {inner} series are too many for one launch; split x")
    unit = math.gcd(8, length if axis else inner)  # told this, the compiler loads 16 bytes at a time
    with torch.cuda.device_of(x):  # Triton launches on the current device, which need not be that of x
        kernel[(programs,)](
            *given,
            *outs,
            length // unit if axis else length,
            outer if axis else inner // unit,
            AXIS=axis,
            BLOCK=by.block,
            WIDTH=by.width,
            UNIT=unit,
            COMPUTE=tl.float64 if x.dtype == torch.float64 else tl.float32,
            num_warps=by.num_warps,
            **options,
        )
    return outs


def recurrence_forward(a: torch.Tensor, x: torch.Tensor, dim: int, by: Plan | None = None) -> torch.Tensor:
    check_arguments(dim, x=x, a=a)
    return launch(recurrence_kernel, [a, x], 1, dim, by)[0]


def recurrence_backward(
    grad: torch.Tensor, a: torch.Tensor, h: torch.Tensor, dim: int, by: Plan | None = None
) -> list[torch.Tensor]:
    """Return the gradients of ``a`` and ``x``."""
    return launch(recurrence_backward_kernel, [grad, a, h], 2, dim, by)


def scan_forward(
    x: torch.Tensor, dim: int, maximum: bool = False, reverse: bool = False, by: Plan | None = None
) -> torch.Tensor:
    check_arguments(dim, x=x)
    return launch(scan_kernel, [x], 1, dim, by, MAXIMUM=maximum, REVERSE=reverse)[0]


def no_second_gradient(name: str) -> None:
    if torch.is_grad_enabled():  # as under create_graph=True
        raise RuntimeError(
            f"{name} has no gradient of its gradient, so it refuses create_graph=True, and torch.func.grad and vjp,"
            " which always ask for it; use torch.autograd.grad"
        )


class Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, x, dim):
        h = recurrence_forward(a, x, dim)
        ctx.dim = dim
        ctx.save_for_backward(a, h)  # and not x: the gradients do not need it
        return h

    @staticmethod
    def backward(ctx, grad):
        no_second_gradient("recurrence")
        return *recurrence_backward(grad, *ctx.saved_tensors, ctx.dim), None


class CumSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim, reverse):
        ctx.dim, ctx.reverse = dim, reverse
        return scan_forward(x, dim, reverse=reverse)

    @staticmethod
    def backward(ctx, grad):
        return CumSum.apply(grad, ctx.dim, not ctx.reverse), None, None


class CumMax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        h = scan_forward(x, dim, maximum=True)
        ctx.dim = dim
        ctx.save_for_backward(x, h)
        return h

    # --8<-- [start:maximum_backward]
    @staticmethod
    def backward(ctx, grad):
        no_second_gradient("cummax")
        x, h = ctx.saved_tensors
        # a NaN is a maximum, too
        begins = (x == h) | x.isnan()
        gates = (~begins).to(x.dtype)
        _, flows = recurrence_backward(grad, gates, h, ctx.dim)
        return torch.where(begins, flows, 0), None
    # --8<-- [end:maximum_backward]


def recurrence(a: torch.Tensor, x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Return ``h[t] = a[t] * h[t - 1] + x[t]`` along ``dim``, from ``h = 0``; it has gradients for both tensors.

    Args:
        a: On a GPU (in the interpreter: on the CPU), of one of ``DTYPES``; copied unless it is contiguous.
        x: Of the shape, dtype and device of ``a``, and copied likewise.
        dim: Along which the steps follow each other.

    Returns:
        A new contiguous tensor, computed in float32, or in float64 for float64; so are the gradients, and all are
        deterministic. Gates are multiplied over up to 2048 steps: if that overflows, the result may be NaN where step
        by step it is 0. The kernel may still be running when it is returned.

    Raises:
        ValueError: If an argument is something the kernels can't serve.
        RuntimeError: In the backward, under ``create_graph=True``: there is no gradient of the gradient.

    >>> x = torch.tensor([8.0, 2.0, 0.0, 4.0])
    >>> recurrence(torch.full((4,), 0.5), x)
    tensor([8.0000, 6.0000, 3.0000, 5.5000])
    """
    return Recurrence.apply(a, x, dim)


def cumsum(x: torch.Tensor, dim: int = -1, *, reverse: bool = False) -> torch.Tensor:
    """Return the sums of ``x`` so far along ``dim``, or of what is still to come; with a gradient, and that of it.

    >>> cumsum(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), reverse=True)
    tensor([[10.,  9.,  7.,  4.]])
    """
    return CumSum.apply(x, dim, reverse)


def cummax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Return the largest of ``x`` so far along ``dim``, as the values of ``torch.cummax``; with a gradient.

    The gradient goes to the maximum, to the last of equals. From a NaN on, the result is NaN.

    >>> cummax(torch.tensor([1.0, 3.0, 2.0, 5.0]))
    tensor([1., 3., 3., 5.])
    """
    return CumMax.apply(x, dim)


def check_arguments(dim: int, **tensors: torch.Tensor) -> None:
    """Raise ``ValueError`` for arguments that the kernels would get wrong, or can't serve at all."""
    x = tensors["x"]
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} is {tensor.layout}; pass {name}.to_dense()")
        if tensor.shape != x.shape or tensor.dtype != x.dtype or tensor.device != x.device:
            raise ValueError(
                f"x and {name} must have the same shape, dtype and device; got {tuple(x.shape)} {x.dtype} on {x.device}"
                f" and {tuple(tensor.shape)} {tensor.dtype} on {tensor.device}"
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


def joined(steps: list[tuple[float, float]]) -> tuple[float, float]:
    """Return steps in a row as one."""
    gate, own = steps[0]
    for a, x in steps[1:]:
        gate, own = gate * a, a * own + x
    return gate, own


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

    print("## gradient of the last h")
    blocks = Plan(4, 1, 1)
    h = recurrence_forward(a, x, 0, blocks)
    grad = torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 1.0], device=device)
    grad_a, grad_x = recurrence_backward(grad, a, h, 0, blocks)
    print("grad_x", shown(grad_x, 5))
    print("grad_a", shown(grad_a, 5))

    print("## gradients")
    options = {"dtype": torch.float64, "device": device, "requires_grad": True}
    a, x = torch.randn(2, 5, **options), torch.randn(2, 5, **options)
    for function, inputs in ((recurrence, (a, x)), (cumsum, (x,)), (cummax, (x,))):
        print(f"{function.__name__}, gradcheck:", torch.autograd.gradcheck(function, inputs))


if __name__ == "__main__":
    main()
