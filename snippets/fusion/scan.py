# SPDX-License-Identifier: Apache-2.0
"""Scans with ``tl.associative_scan``: a running sum and a gated recurrence, each with its gradient.

Along one dimension, from its first step to its last::

    cumsum:      h[t] = h[t - 1] + x[t]
    recurrence:  h[t] = a[t] * h[t - 1] + x[t]        from h = 0

The recurrence is a scan over pairs: ``(a, x)`` stands for the step ``h -> a * h + x``, and two steps in a row are one,
``(a1 * a2, a2 * x1 + x2)``. A program takes some series through all their steps, ``BLOCK`` at a time: a scan inside the
block, then what the blocks before it have left, which it keeps in registers.

Backward, each is a scan in the other direction; the page derives the gradients.

- :func:`cumsum`, :func:`recurrence`: the functions to call

``snippets/library/scan.py`` is the file to copy into a model: products, maxima and minima, both directions, first and
last states, integers, ``torch.compile`` and more.

Shapes: all tensors of a call have one shape, of any number of dimensions.
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


# --8<-- [start:join]
@triton.jit
def join(a1, h1, a2, h2):
    return a1 * a2, a2 * h1 + h2
# --8<-- [end:join]


# --8<-- [start:my_series]
@triton.jit
def my_series(
    count,
    length,
    inner,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Return where each of this program's series begins, which of them
    there are, and the lanes."""
    pid = tl.program_id(axis=0).to(tl.int64)
    series = pid * WIDTH + tl.arange(0, WIDTH)[:, None]
    begin = series // inner * length * inner + series % inner
    lane = tl.arange(0, BLOCK)[None, :]
    return begin, series < count, lane
# --8<-- [end:my_series]


@triton.jit
def recurrence_kernel(
    a_ptr,
    x_ptr,
    h_ptr,
    count,
    length,
    inner,
    LENGTH_UNIT: tl.constexpr,
    INNER_UNIT: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    COMPUTE: tl.constexpr,
):
    """Take ``WIDTH`` series through all their steps.

    Parameters:
        a_ptr: ``(count / inner, length, inner)``, contiguous, as are ``x``
            and ``h``.
        count: How many series there are.
        length: Steps of a series, over ``LENGTH_UNIT``.
        inner: Series side by side, over ``INNER_UNIT``: a step is so many
            elements after the one before it.
        BLOCK: Steps at a time, a power of two; so is ``WIDTH``.
        COMPUTE: The dtype to compute in.
    """
    # --8<-- [start:body]
    length *= LENGTH_UNIT
    inner *= INNER_UNIT
    begin, there, lane = my_series(count, length, inner, BLOCK, WIDTH)
    carry = tl.zeros((WIDTH, 1), COMPUTE)
    for start in tl.range(0, length, BLOCK, num_stages=2):
        t = start + lane
        mask = there & (t < length)
        offsets = begin + t.to(tl.int64) * inner
        a = tl.load(a_ptr + offsets, mask=mask, other=1).to(COMPUTE)
        x = tl.load(x_ptr + offsets, mask=mask, other=0).to(COMPUTE)
        gate, own = tl.associative_scan((a, x), 1, join)
        h = gate * carry + own
        tl.store(h_ptr + offsets, h, mask=mask)
        h_last = tl.where(lane == BLOCK - 1, h, 0)
        carry = tl.sum(h_last, axis=1, keep_dims=True)
    # --8<-- [end:body]


@triton.jit
def recurrence_backward_kernel(
    grad_ptr,
    a_ptr,
    h_ptr,
    grad_a_ptr,
    grad_x_ptr,
    count,
    length,
    inner,
    LENGTH_UNIT: tl.constexpr,
    INNER_UNIT: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    COMPUTE: tl.constexpr,
):
    """Take the gradients through all steps, from the last to the first.

    The parameters are as in the forward; all tensors are contiguous.
    """
    length *= LENGTH_UNIT
    inner *= INNER_UNIT
    begin, there, lane = my_series(count, length, inner, BLOCK, WIDTH)
    # --8<-- [start:backward_loop]
    carry = tl.zeros((WIDTH, 1), COMPUTE)
    last_start = (length - 1) // BLOCK * BLOCK
    for back in tl.range(0, length, BLOCK, num_stages=2):
        t = last_start - back + lane
        here = there & (t < length)
        after = there & (t + 1 < length)
        before = here & (t > 0)
        offsets = begin + t.to(tl.int64) * inner
        grad = tl.load(grad_ptr + offsets, mask=here, other=0)
        a = tl.load(a_ptr + (offsets + inner), mask=after, other=1)
        h = tl.load(h_ptr + (offsets - inner), mask=before, other=0)
        pair = a.to(COMPUTE), grad.to(COMPUTE)
        gate, own = tl.associative_scan(pair, 1, join, reverse=True)
        grad_x = gate * carry + own
        first = tl.where(lane == 0, grad_x, 0)
        carry = tl.sum(first, axis=1, keep_dims=True)
        tl.store(grad_x_ptr + offsets, grad_x, mask=here)
        tl.store(grad_a_ptr + offsets, grad_x * h, mask=here)
    # --8<-- [end:backward_loop]


@triton.jit
def cumsum_kernel(
    x_ptr,
    h_ptr,
    count,
    length,
    inner,
    REVERSE: tl.constexpr,
    LENGTH_UNIT: tl.constexpr,
    INNER_UNIT: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    COMPUTE: tl.constexpr,
):
    """Add up what came so far, or with ``REVERSE`` what is still to come.

    The other parameters are as in ``recurrence_kernel``.
    """
    length *= LENGTH_UNIT
    inner *= INNER_UNIT
    begin, there, lane = my_series(count, length, inner, BLOCK, WIDTH)
    carry = tl.zeros((WIDTH, 1), COMPUTE)
    last_start = (length - 1) // BLOCK * BLOCK
    last = 0 if REVERSE else BLOCK - 1
    for done in tl.range(0, length, BLOCK, num_stages=2):
        t = (last_start - done if REVERSE else done) + lane
        mask = there & (t < length)
        offsets = begin + t.to(tl.int64) * inner
        x = tl.load(x_ptr + offsets, mask=mask, other=0).to(COMPUTE)
        h = carry + tl.cumsum(x, 1, reverse=REVERSE)
        tl.store(h_ptr + offsets, h, mask=mask)
        carry = tl.sum(tl.where(lane == last, h, 0), axis=1, keep_dims=True)


class Plan(NamedTuple):
    """A program's plan: steps at a time, series beside each other, warps."""

    block: int
    width: int
    num_warps: int


def plan(count: int, length: int, inner: int) -> Plan:
    """Choose for ``count`` series of ``length`` steps, ``inner`` of which lie side by side.

    >>> plan(8192, 1024, 1), plan(16384, 2048, 4096)
    (Plan(block=1024, width=1, num_warps=4), Plan(block=32, width=64, num_warps=8))
    """
    width = min(triton.next_power_of_2(inner), 64)
    block = min(triton.next_power_of_2(length), 2048 // width)
    if inner == 1:  # rows: several short ones for a program
        width = min(max(1024 // block, 1), triton.next_power_of_2(count))
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
    length, inner = x.shape[dim], x.shape[dim + 1 :].numel()
    count = x.numel() // length
    by = by or plan(count, length, inner)
    programs = triton.cdiv(count, by.width)
    if programs > 2**31 - 1:  # CUDA's limit of programs along one axis
        raise ValueError(f"{count} series are too many for one launch; split x")
    # told what divides these, the compiler loads 16 bytes at a time
    length_unit, inner_unit = math.gcd(8, length), math.gcd(8, inner)
    with torch.cuda.device_of(x):  # Triton launches on the current device, which need not be that of x
        kernel[(programs,)](
            *given,
            *outs,
            count,
            length // length_unit,
            inner // inner_unit,
            LENGTH_UNIT=length_unit,
            INNER_UNIT=inner_unit,
            BLOCK=by.block,
            WIDTH=by.width,
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


def cumsum_forward(x: torch.Tensor, dim: int, reverse: bool, by: Plan | None = None) -> torch.Tensor:
    check_arguments(dim, x=x)
    return launch(cumsum_kernel, [x], 1, dim, by, REVERSE=reverse)[0]


class Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(a, x, dim):
        return recurrence_forward(a, x, dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, _, ctx.dim = inputs
        ctx.save_for_backward(a, output)  # and not x: the gradients do not need it

    @staticmethod
    def backward(ctx, grad):
        if torch.is_grad_enabled():  # as under create_graph=True
            raise RuntimeError(
                "recurrence has no gradient of its gradient, so it refuses create_graph=True, and torch.func.grad and"
                " vjp, which always ask for it; use torch.autograd.grad"
            )
        return *recurrence_backward(grad, *ctx.saved_tensors, ctx.dim), None


class CumSum(torch.autograd.Function):
    @staticmethod
    def forward(x, dim, reverse):
        return cumsum_forward(x, dim, reverse)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.dim, ctx.reverse = inputs

    @staticmethod
    def backward(ctx, grad):
        return CumSum.apply(grad, ctx.dim, not ctx.reverse), None, None


def recurrence(a: torch.Tensor, x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Return ``h[t] = a[t] * h[t - 1] + x[t]`` along ``dim``, from ``h = 0``; it has gradients for both tensors.

    Args:
        a: On a GPU (in the interpreter: on the CPU), of one of ``DTYPES``; copied unless it is contiguous.
        x: Of the shape, dtype and device of ``a``, and copied likewise.
        dim: Along which the steps follow each other.

    Returns:
        A new contiguous tensor of the shape and dtype of ``x``, computed in float32, or in float64 for float64; so are
        the gradients, and all are deterministic. Gates are multiplied over up to 2048 steps: if that overflows, the
        result may be NaN where step by step it is 0. The kernel may still be running when it is returned.

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


def shown(values: torch.Tensor, digits=2) -> str:
    return " ".join(f"{value + 0.0:{digits + 4}.{digits}f}" for value in values.flatten().tolist())


def main():
    device = "cuda" if isinstance(recurrence_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    print("## gradient of the last h")
    x = torch.tensor([4.0, 6.0, 0.0, 2.0, 10.0, 0.0], device=device)
    a = torch.full_like(x, 0.5)
    blocks = Plan(4, 1, 1)
    h = recurrence_forward(a, x, 0, blocks)
    grad = torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 1.0], device=device)
    grad_a, grad_x = recurrence_backward(grad, a, h, 0, blocks)
    print("grad_x", shown(grad_x, 5))
    print("grad_a", shown(grad_a, 5))


if __name__ == "__main__":
    main()
