# SPDX-License-Identifier: Apache-2.0
"""The logarithm of a softmax, with a gradient, for rows of any length.

For a row x, and the gradient ``grad`` that comes in for its result::

    out = x - max(x) - log(sum(exp(x - max(x))))
    grad_x = grad - exp(out) * sum(grad)

- :func:`log_softmax`: along any dimension, in any of ``DTYPES``

A program holds a row of up to ``HELD`` columns in its registers, or several short ones. It goes through a longer row
twice, the second time backward: what was read last is still in a cache.
Of a longer row, the ends that 16 bytes do not divide are loaded by themselves, and the rest 16 bytes at a time.
Sums are added in an order that shapes and addresses alone decide, so equal inputs in equal places give equal bits.
Traffic, in elements for each of ``x``: forward 1 read and 1 written, backward 2 read and 1 written. Of rows longer than
``HELD``, x and grad are read once more.
Source: Maxim Milakov and Natalia Gimelshein, *Online normalizer calculation for softmax*, 2018, for the longer rows.

Run it on a GPU with ``python log_softmax.py``, or with ``TRITON_INTERPRET=1 python log_softmax.py`` in the interpreter.
"""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
HELD = 2**14  # the longest row that a program keeps in its registers
MOST_BYTES = 2**16  # of a longer row that a program loads at a time


# --8<-- [start:held]
@triton.jit
def held_kernel(
    x_ptr,
    out_ptr,
    rows,
    columns,
    x_stride,
    COMPUTE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    UNIT: tl.constexpr,
):
    """Compute ``ROWS`` rows.

    Parameters:
        x_ptr: ``(rows, columns)``, rows ``x_stride * UNIT`` apart.
        out_ptr: The same, contiguous.
        columns, x_stride: Divided by ``UNIT``, which tells the compiler what divides them.
        BLOCK: A power of two, no less than the columns.
    """
    columns *= UNIT
    row = (tl.program_id(axis=0) * ROWS + tl.arange(0, ROWS)[:, None]).to(tl.int64)
    column = tl.arange(0, BLOCK)[None, :]
    mask = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row * x_stride * UNIT + column, mask=mask, other=-float("inf")).to(COMPUTE)
    x = tl.where(row < rows, x, 0)  # no row of nothing but -inf where there is none
    x -= tl.max(x, axis=1, keep_dims=True)
    x -= tl.log(tl.sum(tl.exp(x), axis=1, keep_dims=True))
    tl.store(out_ptr + row * columns + column, x, mask=mask)


@triton.jit
def held_backward_kernel(
    grad_ptr,
    out_ptr,
    grad_x_ptr,
    rows,
    columns,
    grad_stride,
    COMPUTE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    UNIT: tl.constexpr,
):
    """Compute the gradients of ``ROWS`` rows; parameters as of :func:`held_kernel`."""
    columns *= UNIT
    row = (tl.program_id(axis=0) * ROWS + tl.arange(0, ROWS)[:, None]).to(tl.int64)
    column = tl.arange(0, BLOCK)[None, :]
    mask = (row < rows) & (column < columns)
    grad = tl.load(grad_ptr + row * grad_stride * UNIT + column, mask=mask, other=0).to(COMPUTE)
    out = tl.load(out_ptr + row * columns + column, mask=mask, other=0).to(COMPUTE)
    grad -= tl.exp(out) * tl.sum(grad, axis=1, keep_dims=True)
    tl.store(grad_x_ptr + row * columns + column, grad, mask=mask)


# --8<-- [end:held]


# --8<-- [start:edges]
@triton.jit
def middle_of(x_ptr, columns, WIDE: tl.constexpr, EDGES: tl.constexpr):
    """Return how many columns come before the first multiple of 16 bytes, and how many follow in whole ``WIDE``."""
    head, middle = 0, columns
    if EDGES:
        size: tl.constexpr = x_ptr.dtype.element_ty.primitive_bitwidth // 8
        past = (x_ptr.to(tl.int64) // size % WIDE).to(tl.int32)  # elements since such a multiple
        head = (WIDE - past) % WIDE
        middle = tl.maximum(columns - head, 0) // WIDE * WIDE
    return head, middle


@triton.jit
def begin_of(ptr, head, WIDE: tl.constexpr, EDGES: tl.constexpr):
    """Return where the middle begins, declared a multiple of ``WIDE`` elements."""
    if EDGES:
        size: tl.constexpr = ptr.dtype.element_ty.primitive_bitwidth // 8
        ptr = tl.multiple_of(ptr + head, WIDE * size)
    else:
        ptr += head
    return ptr


@triton.jit
def edges_of(head, middle, columns, WIDE: tl.constexpr):
    """Return the columns before and behind the middle, and their mask: of 2 * ``WIDE`` lanes, half for each side."""
    lane = tl.arange(0, 2 * WIDE)
    edge = tl.where(lane < WIDE, lane, head + middle + lane - WIDE)
    return edge, (edge < columns) & ((lane < head) | (lane >= WIDE))


# --8<-- [end:edges]


# --8<-- [start:long]
@triton.jit
def long_kernel(
    x_ptr,
    out_ptr,
    columns,
    x_stride,
    LOWEST: tl.constexpr,
    COMPUTE: tl.constexpr,
    BLOCK: tl.constexpr,
    LANES: tl.constexpr,
    WIDE: tl.constexpr,
    UNIT: tl.constexpr,
    EDGES: tl.constexpr,
    ALIKE: tl.constexpr,
):
    """Compute one row of any length, a block at a time: once for maximum and sum, once more for the result.

    Parameters, beside those of :func:`held_kernel`:
        LOWEST: What is below all of x but -inf.
        LANES, WIDE: Lanes that share a block, and neighbors that a lane loads at once.
        EDGES, ALIKE: Whether rows begin or end within 16 bytes; whether those of all tensors begin alike.
    """
    columns *= UNIT
    row = tl.program_id(axis=0).to(tl.int64)
    x_ptr += row * x_stride * UNIT
    out_ptr += row * columns
    head, middle = middle_of(x_ptr, columns, WIDE, EDGES)
    edge_ptr = out_ptr
    if EDGES:  # loaded now, needed last
        edge, inside = edges_of(head, middle, columns, WIDE)
        x_edge = tl.load(x_ptr + edge, mask=inside, other=-float("inf")).to(COMPUTE)
    x_ptr = begin_of(x_ptr, head, WIDE, EDGES)
    out_ptr = begin_of(out_ptr, head, WIDE, ALIKE)
    column = tl.arange(0, BLOCK)
    maximum = tl.full((LANES,), LOWEST, COMPUTE)  # each lane has its own, so none waits for another
    total = tl.zeros((LANES,), COMPUTE)
    for start in range(0, middle, BLOCK):
        x = tl.load(x_ptr + start + column, mask=column < middle - start, other=-float("inf")).to(COMPUTE)
        x = by_lane(x, LANES, WIDE)
        grown = tl.maximum(maximum, tl.max(tl.max(x, axis=2), axis=0))
        total *= tl.exp(maximum - grown)  # the old sum, rescaled
        total += tl.exp(x - grown[None, :, None]).sum(2).sum(0)
        maximum = grown
    highest = tl.max(maximum, axis=0)
    if EDGES:
        highest = tl.maximum(highest, tl.max(x_edge, axis=0))
    sums = tl.sum(total * tl.exp(maximum - highest), axis=0)
    if EDGES:
        sums += tl.sum(tl.exp(x_edge - highest), axis=0)
    log_total = tl.log(sums)
    if EDGES:
        tl.store(edge_ptr + edge, x_edge - highest - log_total, mask=inside)
    last = (middle - 1) // BLOCK * BLOCK
    for done in range(0, middle, BLOCK):
        start = last - done
        mask = column < middle - start
        x = tl.load(x_ptr + start + column, mask=mask).to(COMPUTE)
        tl.store(out_ptr + start + column, x - highest - log_total, mask=mask)


@triton.jit
def by_lane(x, LANES: tl.constexpr, WIDE: tl.constexpr):
    """Reshape: a lane's elements are along the first and the last axis."""
    return tl.reshape(x, (x.shape[0] // LANES // WIDE, LANES, WIDE))


@triton.jit
def long_backward_kernel(
    grad_ptr,
    out_ptr,
    grad_x_ptr,
    columns,
    grad_stride,
    COMPUTE: tl.constexpr,
    BLOCK: tl.constexpr,
    LANES: tl.constexpr,
    WIDE: tl.constexpr,
    UNIT: tl.constexpr,
    EDGES: tl.constexpr,
    ALIKE: tl.constexpr,
):
    """Compute the gradient of one row: once through ``grad`` for its sum, once more for the result."""
    columns *= UNIT
    row = tl.program_id(axis=0).to(tl.int64)
    grad_ptr += row * grad_stride * UNIT
    out_ptr += row * columns
    grad_x_ptr += row * columns
    head, middle = middle_of(grad_ptr, columns, WIDE, EDGES)
    edge_ptr = grad_x_ptr
    if EDGES:
        edge, inside = edges_of(head, middle, columns, WIDE)
        grad_edge = tl.load(grad_ptr + edge, mask=inside, other=0).to(COMPUTE)
        out_edge = tl.load(out_ptr + edge, mask=inside, other=0).to(COMPUTE)
    grad_ptr = begin_of(grad_ptr, head, WIDE, EDGES)
    out_ptr = begin_of(out_ptr, head, WIDE, ALIKE)
    grad_x_ptr = begin_of(grad_x_ptr, head, WIDE, ALIKE)
    column = tl.arange(0, BLOCK)
    totals = tl.zeros((LANES,), COMPUTE)
    for start in range(0, middle, BLOCK):
        grad = tl.load(grad_ptr + start + column, mask=column < middle - start, other=0).to(COMPUTE)
        totals += by_lane(grad, LANES, WIDE).sum(2).sum(0)
    total = tl.sum(totals, axis=0)
    if EDGES:
        total += tl.sum(grad_edge, axis=0)
        tl.store(edge_ptr + edge, grad_edge - tl.exp(out_edge) * total, mask=inside)
    last = (middle - 1) // BLOCK * BLOCK
    for done in range(0, middle, BLOCK):
        start = last - done
        mask = column < middle - start
        grad = tl.load(grad_ptr + start + column, mask=mask, other=0).to(COMPUTE)
        out = tl.load(out_ptr + start + column, mask=mask, other=0).to(COMPUTE)
        tl.store(grad_x_ptr + start + column, grad - tl.exp(out) * total, mask=mask)


# --8<-- [end:long]


class Blocks(NamedTuple):
    """Columns of a block, lanes that share it, neighbors that a lane loads at once, and warps of a program."""

    block: int
    lanes: int
    wide: int
    num_warps: int


def blocks_for(columns: int, dtype: torch.dtype) -> Blocks:
    """Choose blocks that take a quarter of a long row at a time, 64 bytes a thread.

    >>> blocks_for(128256, torch.bfloat16)
    Blocks(block=32768, lanes=1024, wide=8, num_warps=32)
    """
    size, most = dtype.itemsize, MOST_BYTES // (2 if torch.version.hip else 1)  # AMD's warps are twice as wide
    at_a_time = min(max(triton.next_power_of_2(columns) * size // 4, 2048), most)
    num_warps = at_a_time // 2048
    return Blocks(at_a_time // size, 32 * num_warps, 16 // size, num_warps)


def tile_of(columns: int) -> dict[str, int]:
    """Return how many short rows share a program, and the options to compile with.

    >>> tile_of(1000)
    {'ROWS': 1, 'BLOCK': 1024, 'num_warps': 2}
    """
    block = triton.next_power_of_2(max(columns, 1))
    rows = max(1024 // block, 1)
    return {"ROWS": rows, "BLOCK": block, "num_warps": min(max(rows * block // 512, 1), 16)}


# --8<-- [start:launches]
def log_softmax_forward(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the result in this dtype, contiguous, along the last dimension."""
    check_arguments(x, dtype)
    out = torch.empty(x.shape, dtype=dtype, device=x.device)
    if x.numel():
        launch(held_kernel, long_kernel, as_rows(x), [out], {"LOWEST": torch.finfo(wide(x.dtype, dtype)).min})
    return out


def log_softmax_backward(grad: torch.Tensor, out: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the gradient of x, which has this dtype."""
    grad_x = torch.empty(out.shape, dtype=dtype, device=out.device)
    if out.numel():
        launch(held_backward_kernel, long_backward_kernel, as_rows(grad), [out, grad_x], {})
    return grad_x


def launch(held, long, rows: torch.Tensor, others: list[torch.Tensor], more: dict[str, float]) -> None:
    """Launch one of these kernels; ``rows`` may have gaps between them, the others are contiguous."""
    count, columns = rows.shape
    unit = math.gcd(8, columns, rows.stride(0))  # by itself, the compiler looks for multiples of 16 alone
    compute = wide(rows.dtype, *(each.dtype for each in others))
    options = {"COMPUTE": tl.float64 if compute == torch.float64 else tl.float32, "UNIT": unit}
    sizes = columns // unit, rows.stride(0) // unit
    with torch.cuda.device_of(rows):  # Triton launches on the current device, which need not be that of x
        if columns <= HELD:
            tile = tile_of(columns)
            held[(triton.cdiv(count, tile["ROWS"]),)](rows, *others, count, *sizes, **options, **tile)
        else:
            by = blocks_for(columns, rows.dtype)
            long[(count,)](
                rows, *others, *sizes, **options, **more,
                BLOCK=by.block, LANES=by.lanes, WIDE=by.wide, **edges(by.wide, unit, rows, others),
                num_warps=by.num_warps,
            )  # fmt: skip


def edges(wide: int, unit: int, rows: torch.Tensor, others: list[torch.Tensor]) -> dict[str, bool]:
    """Return whether rows begin or end within the 16 bytes that a lane loads at once; whether all begin alike."""
    ragged = unit % wide != 0 or rows.data_ptr() % (wide * rows.itemsize) != 0
    begins = {each.data_ptr() // each.itemsize % wide for each in (rows, *others)}
    alike = len(begins) == 1 and (rows.stride(0) - rows.shape[1]) % wide == 0
    return {"EDGES": ragged, "ALIKE": ragged and alike}


# --8<-- [end:launches]


def as_rows(x: torch.Tensor) -> torch.Tensor:
    """Return ``(rows, columns)``, a row's elements adjacent in memory; copied if it does not lie so."""
    x = x.resolve_neg()
    if x.shape[-1] > 1 and x.stride(-1) != 1:
        x = x.contiguous()
    return x.reshape(x.shape[:-1].numel(), x.shape[-1])


def wide(*dtypes: torch.dtype) -> torch.dtype:
    return torch.float64 if torch.float64 in dtypes else torch.float32


# --8<-- [start:function]
class LogSoftmax(torch.autograd.Function):
    """Tie both directions together. Saved: the result."""

    @staticmethod
    def forward(*inputs):
        return log_softmax_forward(*inputs)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.dtype = inputs[0].dtype
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad):
        return LogSoftmaxBackward.apply(grad, *ctx.saved_tensors, ctx.dtype), None

    @staticmethod
    def vmap(info, in_dims, *inputs):
        raise NotImplementedError(
            "log_softmax is not mapped by torch.vmap; it takes any dimensions, so call it with all of them and dim"
        )


class LogSoftmaxBackward(torch.autograd.Function):
    """Refuse a second gradient. As a function of its own it also serves ``torch.func.grad`` and ``vjp``."""

    @staticmethod
    def forward(*inputs):
        return log_softmax_backward(*inputs)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError("log_softmax has no gradient of its gradient; call it without create_graph=True")

    vmap = LogSoftmax.vmap


# --8<-- [end:function]


# The same for torch.compile, which does not look into a custom op


@torch.library.custom_op("triton_by_example_library::log_softmax", mutates_args=())
def log_softmax_op(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return log_softmax_forward(x, dtype)


@torch.library.custom_op("triton_by_example_library::log_softmax_backward", mutates_args=())
def log_softmax_backward_op(grad: torch.Tensor, out: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return log_softmax_backward(grad, out, dtype)


@log_softmax_op.register_fake
def _(x, dtype):
    return x.new_empty(x.shape, dtype=dtype)


@log_softmax_backward_op.register_fake
def _(grad, out, dtype):
    return out.new_empty(out.shape, dtype=dtype)


log_softmax_op.register_autograd(
    lambda ctx, grad: (log_softmax_backward_op(grad, *ctx.saved_tensors, ctx.dtype), None),
    setup_context=LogSoftmax.setup_context,
)


# --8<-- [start:host]
def log_softmax(x: torch.Tensor, dim: int = -1, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Return ``x - log(sum(exp(x)))`` along a dimension; it has a gradient for ``x``.

    Args:
        x: Of any shape, on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``. It is copied unless the
            elements along ``dim`` are neighbors in memory, and the rows lie evenly apart.
        dim: The dimension along which the exponentials of the result add up to 1.
        dtype: Of the result; by default that of ``x``, or under autocast float32, as of torch's function.

    Returns:
        A new tensor of the shape of ``x``, contiguous if ``dim`` is the last dimension; computed in float32, or in
        float64 if ``x`` or the result is. The gradient has the dtype of ``x``; it is made from the result, as torch
        does, so of 16 bits it is as exact as that. The kernel may still be running when the result is returned.

    Raises:
        ValueError: An argument is something that the kernels cannot serve.
        IndexError: There is no such dimension.
        NotImplementedError: It is called under ``torch.vmap``.
        RuntimeError: The gradient of a gradient is asked for.

    >>> x = torch.tensor([[0.0, 0.0, 0.0, 0.0]], requires_grad=True)
    >>> out = log_softmax(x)
    >>> out.detach()
    tensor([[-1.3863, -1.3863, -1.3863, -1.3863]])
    >>> out[0, 3].backward()
    >>> x.grad
    tensor([[-0.2500, -0.2500, -0.2500,  0.7500]])
    """
    if not x.ndim:
        return log_softmax(x[None], dim, dtype=dtype)[0]
    if dtype is None:
        autocast = x.dtype in (torch.float16, torch.bfloat16) and torch.is_autocast_enabled(x.device.type)
        dtype = torch.float32 if autocast else x.dtype
    function = log_softmax_op if torch.compiler.is_compiling() else LogSoftmax.apply
    return function(x.movedim(dim, -1), dtype).movedim(-1, dim)


# --8<-- [end:host]


def check_arguments(x: torch.Tensor, dtype: torch.dtype) -> None:
    """Raise ``ValueError`` for arguments that the kernels would compute wrongly or not at all."""
    if x.layout != torch.strided:
        raise ValueError(f"x is {x.layout}; pass x.to_dense()")
    for name, each in {"x": x.dtype, "dtype": dtype}.items():
        if each not in DTYPES:
            raise ValueError(f"{name} is {each}, which is not supported; use one of {', '.join(map(str, DTYPES))}")
    if math.prod(x.shape[:-1]) > 2**31 - 1:  # CUDA's limit of programs along one axis
        raise ValueError(f"{math.prod(x.shape[:-1])} rows are too many for one launch; split x")
    if x.shape[-1] > 2**30:
        raise ValueError(f"a row has {x.shape[-1]} columns, at most {2**30} are served")
    interpreted = not isinstance(held_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if interpreted and torch.bfloat16 in (x.dtype, dtype):
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")


def main():
    device = "cuda" if isinstance(held_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)
    print("## log_softmax")
    for shape, dim in (((5, 7), -1), ((2, 3, 5), 1), ((2, HELD + 1), -1)):
        x = torch.randn(shape, dtype=torch.float64, device=device, requires_grad=True)
        grad = torch.randn(shape, dtype=torch.float64, device=device)
        found, wanted = log_softmax(x, dim), torch.log_softmax(x, dim)
        grads = [torch.autograd.grad(out, x, grad)[0] for out in (found, wanted)]
        same = torch.allclose(found, wanted) and torch.allclose(*grads)
        size = " x ".join(map(str, shape))
        print(f"{size}, dim {dim}: result and gradient", "as by torch" if same else "NOT as by torch")


if __name__ == "__main__":
    main()
