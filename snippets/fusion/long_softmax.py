# SPDX-License-Identifier: Apache-2.0
"""Softmax over rows of any length, with a gradient: ``out[i] = exp(x[i] - max(x)) / sum(exp(x - max(x)))``.

The backward kernels are given ``grad``, the gradient of the loss for the result ``y``, and compute the one for ``x``::

    grad_x = y * (grad - sum(grad * y))

Three ways, forward and backward; :func:`plan` picks one:

- ``whole``: a program holds its whole row in registers
- ``split``: several programs share a row. Each finds maximum and sum of its part; a second launch combines and writes
- ``online``: a program goes through its row in blocks, twice. The first pass keeps the maximum so far and the sum so
  far, and rescales that sum whenever the maximum grows; the second pass writes. It is what each part of
  ``split`` does; by itself it is taken only where the parts were more than 2**31

- :func:`softmax`: the function to call; it has a gradient, and works under ``torch.compile``

Shapes: ``x``, ``y`` and the gradients are ``(..., columns)``; each row along the last dimension has its own softmax.
Traffic, in elements for each of ``x``: forward 1 read and 1 written (``whole``), or 2 read and 1 written; backward
2 read and 1 written, or 4 read and 1 written. ``split`` adds, for each row, 2 numbers for a part, written once and read
by each of the row's programs; backward 1.
All adds up in a fixed order, so every run gives the same bits.
Source: Maxim Milakov and Natalia Gimelshein, *Online normalizer calculation for softmax*, 2018.

Run it on a GPU with ``python long_softmax.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


# One program, a whole row


# --8<-- [start:whole]
@triton.jit
def whole_kernel(
    x_ptr, out_ptr, columns, stride_row,
    COMPUTE: tl.constexpr, BLOCK: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    columns *= UNIT
    row = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    row_ptr = x_ptr + row * stride_row * UNIT
    x = tl.load(row_ptr + column, mask=mask, other=-float("inf")).to(COMPUTE)
    numerator = tl.exp(x - tl.max(x, axis=0))
    share = numerator * (1 / tl.sum(numerator, axis=0))  # one division a row
    tl.store(out_ptr + row * columns + column, share, mask=mask)


# --8<-- [end:whole]


# --8<-- [start:whole_backward]
@triton.jit
def whole_backward_kernel(
    grad_ptr, y_ptr, grad_x_ptr, columns, stride_grad, stride_y,
    COMPUTE: tl.constexpr, BLOCK: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    columns *= UNIT
    row = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    grad_ptr += row * stride_grad * UNIT
    y_ptr += row * stride_y * UNIT
    grad = tl.load(grad_ptr + column, mask=mask, other=0.0).to(COMPUTE)
    y = tl.load(y_ptr + column, mask=mask, other=0.0).to(COMPUTE)
    grad_x = y * (grad - tl.sum(grad * y, axis=0))
    tl.store(grad_x_ptr + row * columns + column, grad_x, mask=mask)


# --8<-- [end:whole_backward]


# One program, a row in blocks


# --8<-- [start:first_pass]
@triton.jit
def maximum_and_sum(
    x_ptr, columns,
    LOWEST: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    maximum = tl.full((), LOWEST, COMPUTE)
    total = tl.full((), 0.0, COMPUTE)
    column = tl.arange(0, BLOCK)
    for start in range(0, columns, BLOCK):
        mask = column < columns - start
        x = tl.load(x_ptr + start + column, mask=mask, other=-float("inf"))
        x = x.to(COMPUTE)
        grown = tl.maximum(maximum, tl.max(x, axis=0))
        total *= tl.exp(maximum - grown)  # the old sum, rescaled
        total += tl.sum(tl.exp(x - grown), axis=0)
        maximum = grown
    return maximum, total


# --8<-- [end:first_pass]


# --8<-- [start:second_pass]
@triton.jit
def write_shares(
    x_ptr, out_ptr, columns, maximum, total,
    COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, BLOCK)
    factor = 1 / total
    for start in range(0, columns, BLOCK):
        mask = column < columns - start
        x = tl.load(x_ptr + start + column, mask=mask).to(COMPUTE)
        share = tl.exp(x - maximum) * factor
        tl.store(out_ptr + start + column, share, mask=mask)


# --8<-- [end:second_pass]


# --8<-- [start:online]
@triton.jit
def online_kernel(
    x_ptr, out_ptr, columns, stride_row,
    LOWEST: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(axis=0).to(tl.int64)
    x_ptr += row * stride_row
    out_ptr += row * columns
    maximum, total = maximum_and_sum(x_ptr, columns, LOWEST, COMPUTE, BLOCK)
    write_shares(x_ptr, out_ptr, columns, maximum, total, COMPUTE, BLOCK)


# --8<-- [end:online]


# --8<-- [start:online_backward]
@triton.jit
def sum_of_products(
    grad_ptr, y_ptr, columns,
    COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    products = tl.zeros((BLOCK,), COMPUTE)
    column = tl.arange(0, BLOCK)
    for start in range(0, columns, BLOCK):
        mask = column < columns - start
        grad = tl.load(grad_ptr + start + column, mask=mask, other=0.0)
        y = tl.load(y_ptr + start + column, mask=mask, other=0.0)
        products += grad.to(COMPUTE) * y.to(COMPUTE)
    return tl.sum(products, axis=0)


@triton.jit
def write_gradient(
    grad_ptr, y_ptr, grad_x_ptr, columns, total,
    COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, BLOCK)
    for start in range(0, columns, BLOCK):
        mask = column < columns - start
        grad = tl.load(grad_ptr + start + column, mask=mask).to(COMPUTE)
        y = tl.load(y_ptr + start + column, mask=mask).to(COMPUTE)
        tl.store(grad_x_ptr + start + column, y * (grad - total), mask=mask)


@triton.jit
def online_backward_kernel(
    grad_ptr, y_ptr, grad_x_ptr, columns, stride_grad, stride_y,
    COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(axis=0).to(tl.int64)
    grad_ptr += row * stride_grad
    y_ptr += row * stride_y
    grad_x_ptr += row * columns
    total = sum_of_products(grad_ptr, y_ptr, columns, COMPUTE, BLOCK)
    write_gradient(
        grad_ptr, y_ptr, grad_x_ptr, columns, total, COMPUTE, BLOCK
    )  # fmt: skip


# --8<-- [end:online_backward]


# Several programs, a row


# --8<-- [start:my_part]
@triton.jit
def my_part(columns, parts, length):
    """Return the program's row, and its part's begin and length."""
    pid = tl.program_id(axis=0).to(tl.int64)
    begin = pid % parts * length
    return (
        pid // parts, begin,
        tl.minimum(columns - begin, length).to(tl.int32)
    )  # fmt: skip


# --8<-- [end:my_part]


# --8<-- [start:parts]
@triton.jit
def parts_kernel(
    x_ptr, maximum_ptr, total_ptr, columns, stride_row, parts, length,
    LOWEST: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, begin, here = my_part(columns, parts, length)
    x_ptr += row * stride_row + begin
    maximum, total = maximum_and_sum(x_ptr, here, LOWEST, COMPUTE, BLOCK)
    tl.store(maximum_ptr + tl.program_id(axis=0), maximum)
    tl.store(total_ptr + tl.program_id(axis=0), total)


# --8<-- [end:parts]


# --8<-- [start:combine]
@triton.jit
def combine_kernel(
    x_ptr, maximum_ptr, total_ptr, out_ptr, columns, stride_row,
    parts, length,
    LOWEST: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
    PARTS: tl.constexpr,
):  # fmt: skip
    row, begin, here = my_part(columns, parts, length)
    part = row * parts + tl.arange(0, PARTS)
    mask = tl.arange(0, PARTS) < parts
    maxima = tl.load(maximum_ptr + part, mask=mask, other=LOWEST)
    totals = tl.load(total_ptr + part, mask=mask, other=0.0)
    maximum = tl.max(maxima, axis=0)
    total = tl.sum(totals * tl.exp(maxima - maximum), axis=0)
    x_ptr += row * stride_row + begin
    out_ptr += row * columns + begin
    write_shares(x_ptr, out_ptr, here, maximum, total, COMPUTE, BLOCK)


# --8<-- [end:combine]


# --8<-- [start:split_backward]
@triton.jit
def parts_backward_kernel(
    grad_ptr, y_ptr, total_ptr, columns, stride_grad, stride_y, parts, length,
    COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, begin, here = my_part(columns, parts, length)
    grad_ptr += row * stride_grad + begin
    y_ptr += row * stride_y + begin
    total = sum_of_products(grad_ptr, y_ptr, here, COMPUTE, BLOCK)
    tl.store(total_ptr + tl.program_id(axis=0), total)


@triton.jit
def combine_backward_kernel(
    grad_ptr, y_ptr, total_ptr, grad_x_ptr, columns, stride_grad, stride_y, parts, length,
    COMPUTE: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    row, begin, here = my_part(columns, parts, length)
    part = tl.arange(0, PARTS)
    totals = tl.load(total_ptr + row * parts + part, mask=part < parts, other=0.0)
    grad_ptr += row * stride_grad + begin
    y_ptr += row * stride_y + begin
    grad_x_ptr += row * columns + begin
    write_gradient(grad_ptr, y_ptr, grad_x_ptr, here, tl.sum(totals, axis=0), COMPUTE, BLOCK)


# --8<-- [end:split_backward]


class Plan(NamedTuple):
    """A plan: the way, columns of a block, warps of a program, programs that share a row."""

    way: str
    block: int
    num_warps: int
    parts: int = 1


MOST_BYTES = 2**17  # of a row that a program holds whole, in the dtype that it computes in
MOST_PARTS = 256  # of a row, for each of its programs reads the numbers of all


def plan(rows: int, columns: int, dtype=torch.float32, *, tensors=1) -> Plan:
    """Choose how to compute ``rows`` rows; of both, at least one.

    Args:
        dtype: That of x.
        tensors: How many a program holds: 1 forward, 2 backward.

    >>> [plan(*shape).way for shape in ((4096, 1000), (512, 131072), (4, 262144))]
    ['whole', 'split', 'split']
    >>> plan(4, 262144)
    Plan(way='split', block=4096, num_warps=4, parts=64)
    """
    # --8<-- [start:plan]
    # bytes of an element in the dtype of the computation
    held = 8 if dtype == torch.float64 else 4
    block = triton.next_power_of_2(columns)
    if block * held * tensors <= MOST_BYTES:
        return Plan("whole", block, num_warps=min(max(block // 512, 1), 16))
    block = 4096
    parts = min(triton.cdiv(columns, block), MOST_PARTS)
    if rows * parts >= 2**31:  # CUDA's limit of programs along one axis
        return Plan("online", block, num_warps=8)
    return Plan("split", block, num_warps=4 * tensors, parts=parts)
    # --8<-- [end:plan]


# --8<-- [start:forward]
def forward(x: torch.Tensor, by: Plan | None = None) -> torch.Tensor:
    check_arguments(x=x)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not out.numel():
        return out  # no program to start
    x = as_rows(x)
    rows, columns = x.shape
    by = by or plan(rows, columns, x.dtype)
    options = options_for(x.dtype, by)
    lowest = {"LOWEST": torch.finfo(out.dtype if out.dtype == torch.float64 else torch.float32).min}
    with torch.cuda.device_of(x):  # Triton launches on the current device, which need not be that of x
        if by.way == "whole":
            unit = unit_of(columns, x.stride(0))
            whole_kernel[(rows,)](x, out, columns // unit, x.stride(0) // unit, UNIT=unit, **options)
        elif by.way == "online":
            online_kernel[(rows,)](x, out, columns, x.stride(0), **lowest, **options)
        else:
            parts, length, maxima, totals = shared_out(x, by)
            sizes = columns, x.stride(0), parts, length
            parts_kernel[(rows * parts,)](x, maxima, totals, *sizes, **lowest, **options)
            options["PARTS"] = triton.next_power_of_2(parts)
            combine_kernel[(rows * parts,)](x, maxima, totals, out, *sizes, **lowest, **options)
    return out


# --8<-- [end:forward]


# --8<-- [start:backward]
def backward(grad: torch.Tensor, y: torch.Tensor, by: Plan | None = None) -> torch.Tensor:
    check_arguments(y=y, grad=grad)
    grad_x = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if not grad_x.numel():
        return grad_x
    grad, y = as_rows(grad), as_rows(y)
    rows, columns = y.shape
    by = by or plan(rows, columns, y.dtype, tensors=2)
    options = options_for(y.dtype, by)
    strides = grad.stride(0), y.stride(0)
    with torch.cuda.device_of(y):
        if by.way == "whole":
            unit = unit_of(columns, *strides)
            sizes = (size // unit for size in (columns, *strides))
            whole_backward_kernel[(rows,)](grad, y, grad_x, *sizes, UNIT=unit, **options)
        elif by.way == "online":
            online_backward_kernel[(rows,)](grad, y, grad_x, columns, *strides, **options)
        else:
            parts, length, totals, _ = shared_out(y, by)
            sizes = columns, *strides, parts, length
            parts_backward_kernel[(rows * parts,)](grad, y, totals, *sizes, **options)
            options["PARTS"] = triton.next_power_of_2(parts)
            combine_backward_kernel[(rows * parts,)](grad, y, totals, grad_x, *sizes, **options)
    return grad_x


# --8<-- [end:backward]


# --8<-- [start:helpers]
def as_rows(x: torch.Tensor) -> torch.Tensor:
    """Return ``x`` as ``(rows, columns)``, a row's elements adjacent in memory; what lies otherwise is copied."""
    x = x.resolve_neg()
    if x.shape[-1] > 1 and x.stride(-1) != 1:
        x = x.contiguous()
    return x.reshape(-1, x.shape[-1])


def unit_of(*sizes: int) -> int:
    """Return the largest power of two up to 8 that divides all of them.

    By itself Triton looks for multiples of 16 alone. Told of 8, as in a row of 3,000, it loads 16 bytes at a time, too.
    """
    return math.gcd(8, *sizes)


def shared_out(x: torch.Tensor, by: Plan) -> tuple[int, int, torch.Tensor, torch.Tensor]:
    """Return how many parts a row has, how many columns a part has, in whole blocks, and room for two numbers of each.
    """
    rows, columns = x.shape
    length = triton.cdiv(triton.cdiv(columns, by.parts), by.block) * by.block
    parts = triton.cdiv(columns, length)  # fewer, if the last ones would be empty
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    return parts, length, *torch.empty((2, rows, parts), dtype=dtype, device=x.device)


# --8<-- [end:helpers]


def options_for(dtype: torch.dtype, by: Plan) -> dict:
    compute = tl.float64 if dtype == torch.float64 else tl.float32
    return {"COMPUTE": compute, "BLOCK": by.block, "num_warps": by.num_warps}


# --8<-- [start:function]
class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return forward(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)  # and not x: the gradient needs the shares alone

    @staticmethod
    def backward(ctx, grad):
        if torch.is_grad_enabled():  # as under create_graph=True
            raise RuntimeError(
                "softmax has no gradient of its gradient, so it refuses create_graph=True, and torch.func.grad and vjp,"
                " which always ask for it; use torch.autograd.grad"
            )  # fmt: skip
        return backward(grad, *ctx.saved_tensors)


# --8<-- [end:function]


# --8<-- [start:op]
@torch.library.custom_op("triton_by_example::long_softmax", mutates_args=())
def softmax_op(x: torch.Tensor) -> torch.Tensor:
    return forward(x)


@torch.library.custom_op("triton_by_example::long_softmax_backward", mutates_args=())
def softmax_backward_op(grad: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return backward(grad, y)


@softmax_op.register_fake
def _(x):
    return x.new_empty(x.shape)


@softmax_backward_op.register_fake
def _(grad, y):
    return y.new_empty(y.shape)


softmax_op.register_autograd(
    lambda ctx, grad: softmax_backward_op(grad, *ctx.saved_tensors),
    setup_context=Softmax.setup_context,
)
# --8<-- [end:op]


# --8<-- [start:host]
def softmax(x: torch.Tensor) -> torch.Tensor:
    """Return the softmax over the last dimension, as ``torch.softmax(x, dim=-1)`` does; it has a gradient for ``x``.

    Args:
        x: ``(..., columns)`` on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``. It is copied if the
            elements of a row are no neighbors in memory, or if the rows do not lie at equal distances.

    Returns:
        A new contiguous tensor of the shape and dtype of ``x``, computed in float32, or in float64 for float64. So is
        the gradient. An element -inf becomes 0; a row in which all is -inf, or that has NaN or +inf in it, becomes NaN,
        as in torch. The result is kept for the backward. The kernels may still be running when it is returned.

    Raises:
        ValueError: ``x`` is something that the kernels cannot serve.
        RuntimeError: In the backward, under ``create_graph=True``: there is no gradient of the gradient.

    >>> x = torch.tensor([[0.0, 1000.0, 1000.0], [1.0, -float("inf"), 1.0]], requires_grad=True)
    >>> y = softmax(x)
    >>> y.detach()
    tensor([[0.0000, 0.5000, 0.5000],
            [0.5000, 0.0000, 0.5000]])
    >>> y[:, 2].sum().backward()
    >>> x.grad[:, 2]
    tensor([0.2500, 0.2500])
    """
    if torch.compiler.is_compiling():
        return softmax_op(x)
    return Softmax.apply(x)


# --8<-- [end:host]


# --8<-- [start:check]
def check_arguments(**tensors: torch.Tensor) -> None:
    """Raise ``ValueError`` for arguments that the kernels would compute wrongly or not at all."""
    first, x = next(iter(tensors.items()))
    for name, tensor in tensors.items():
        if tensor.shape != x.shape or tensor.dtype != x.dtype or tensor.device != x.device:
            raise ValueError(
                f"{first} and {name} must have the same shape, dtype and device; got {tuple(x.shape)} {x.dtype} on"
                f" {x.device} and {tuple(tensor.shape)} {tensor.dtype} on {tensor.device}"
            )
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} is {tensor.layout}; pass {name}.to_dense()")
    if x.ndim == 0:
        raise ValueError(f"{first} has no dimension, and softmax is over the last one; pass {first}[None]")
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    if x.numel() and x.numel() // x.shape[-1] > 2**31 - 1:  # CUDA's limit of programs along one axis
        raise ValueError(f"{x.numel() // x.shape[-1]} rows are too many for one launch; split {first}")
    interpreted = not isinstance(whole_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(
            f"{first} is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}"
        )
    if x.dtype == torch.bfloat16 and interpreted:
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")


# --8<-- [end:check]


def shown(values: torch.Tensor) -> str:
    return " ".join(f"{value:7.4f}" for value in values.flatten().tolist())


def main():
    device = "cuda" if isinstance(whole_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    row = torch.tensor([1.0, 3.0, 2.0, 5.0], device=device)
    ways = {way: Plan(way, 4 if way == "whole" else 2, 1, parts=2) for way in ("whole", "online", "split")}

    print("## shares")
    print("x     ", shown(row))
    for name, by in ways.items():
        y = forward(row, by)
        print(f"{name:6}", shown(y))

    print("## gradient of the last share")
    grad = torch.tensor([0.0, 0.0, 0.0, 1.0], device=device)
    for name, by in ways.items():
        print(f"{name:6}", shown(backward(grad, y, by)))


if __name__ == "__main__":
    main()
