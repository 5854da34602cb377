# SPDX-License-Identifier: Apache-2.0
"""Cross-entropy over a large vocabulary, with its gradient made in the forward; alone, and with the layer before it.

For a row x of logits, with ``target`` the column that is right and V the number of columns::

    loss = log(sum(exp(x))) - x[target]
    grad_x = softmax(x) - 1 in the column of the target, 0 in the others

With ``label_smoothing`` = s, the target is s / V in every column, and 1 - s more in its own::

    loss = log(sum(exp(x))) - (1 - s) * x[target] - s * mean(x)

A program takes a row, and goes through it in blocks, twice: first for the maximum and the sum, by which it knows the
loss; then backwards, to write the gradient. No share is ever stored. The gradient is scaled by the incoming one in the
backward, which for a loss that is not rescaled reads and writes nothing.

- :func:`cross_entropy`: of logits; the gradient goes into a buffer of its own, or in place of the logits
- :func:`linear_cross_entropy`: of what comes before the last linear layer. That makes the logits of some rows at a time

Shapes: logits ``(..., V)``, target ``(...)``; hidden ``(..., K)``, weight ``(V, K)``, as ``torch.nn.Linear`` has it.
Traffic, in elements for each logit: 2 read and 1 written. The second read is of what was read last, so that much of it
can come from a cache. Where the gradient waits for the backward (``reduction="none"``, float16, ``torch.compile``):
1 read forward; 1 read and 1 written backward. Two numbers a row are kept.
All adds up in a fixed order; that of the matrix products is torch's.
Source: Pin-Lun Hsu and others, *Liger Kernel: Efficient Triton Kernels for LLM Training*, 2024: the gradient in the
forward, and the layer in chunks. Maxim Milakov and Natalia Gimelshein, *Online normalizer calculation for softmax*.

Run it on a GPU with ``python cross_entropy.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import functools
import math
import operator
from typing import NamedTuple

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
REDUCTIONS = ("none", "mean", "sum")
MOST_COLUMNS = 2**30
CHUNK_BYTES = 2**28  # of logits that linear_cross_entropy makes at a time
MOST_BYTES = 2**16  # of a row that a program loads at a time
PROGRAMS = 1024  # that share the rows of a gradient to be scaled


# --8<-- [start:edges]
@triton.jit
def middle_of(x_ptr, columns, WIDE: tl.constexpr, EDGES: tl.constexpr):
    """Return how many columns come before the first multiple of 16 bytes.

    Return also how many follow it in whole groups of ``WIDE``.
    """
    head, middle = 0, columns
    if EDGES:
        size: tl.constexpr = x_ptr.dtype.element_ty.primitive_bitwidth // 8
        # elements past the last such multiple
        past = (x_ptr.to(tl.int64) // size % WIDE).to(tl.int32)
        head = (WIDE - past) % WIDE
        middle = tl.maximum(columns - head, 0) // WIDE * WIDE
    return head, middle


@triton.jit
def begin_of(ptr, head, WIDE: tl.constexpr, EDGES: tl.constexpr):
    """Return where the middle begins, declared a multiple of 16 bytes."""
    if EDGES:
        size: tl.constexpr = ptr.dtype.element_ty.primitive_bitwidth // 8
        ptr = tl.multiple_of(ptr + head, WIDE * size)
    else:
        ptr += head
    return ptr


@triton.jit
def edges_of(head, middle, columns, WIDE: tl.constexpr):
    """Return the columns before and after the middle, and their mask.

    Of 2 * ``WIDE`` lanes, half are for each side.
    """
    lane = tl.arange(0, 2 * WIDE)
    edge = tl.where(lane < WIDE, lane, head + middle + lane - WIDE)
    return edge, (edge < columns) & ((lane < head) | (lane >= WIDE))


@triton.jit
def add_edges(edge, inside, maximum, total, plain):
    """Add the edges to the numbers of the middle."""
    grown = tl.maximum(maximum, tl.max(edge, axis=0))
    total = (
        total * tl.exp(maximum - grown)
        + tl.sum(tl.exp(edge - grown), axis=0)
    )  # fmt: skip
    return grown, total, plain + tl.sum(tl.where(inside, edge, 0.0), axis=0)


# --8<-- [end:edges]


# --8<-- [start:first_pass]
@triton.jit
def maximum_and_sums(
    x_ptr, columns,
    LOWEST: tl.constexpr, SMOOTHING: tl.constexpr, COMPUTE: tl.constexpr,
    BLOCK: tl.constexpr, LANES: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Return maximum, sum of exp(x - maximum), sum of x (for smoothing)."""
    column = tl.arange(0, BLOCK)
    maximum = tl.full((LANES,), LOWEST, COMPUTE)  # one per lane
    total = tl.zeros((LANES,), COMPUTE)
    plain = tl.zeros((LANES,), COMPUTE)
    for start in range(0, columns, BLOCK):
        mask = column < columns - start
        x = tl.load(x_ptr + start + column, mask=mask, other=-float("inf"))
        x = x.to(COMPUTE)
        if SMOOTHING > 0:
            plain += by_lane(
                tl.where(mask, x, 0.0), LANES, WIDE
            ).sum(2).sum(0)  # fmt: skip
        x = by_lane(x, LANES, WIDE)
        grown = tl.maximum(maximum, tl.max(tl.max(x, axis=2), axis=0))
        total *= tl.exp(maximum - grown)  # the old sum, rescaled
        total += tl.exp(x - grown[None, :, None]).sum(2).sum(0)
        maximum = grown
    highest = tl.max(maximum, axis=0)
    total *= tl.exp(maximum - highest)
    return highest, tl.sum(total, axis=0), tl.sum(plain, axis=0)


@triton.jit
def by_lane(x, LANES: tl.constexpr, WIDE: tl.constexpr):
    """Reshape: a lane's elements are along the first and the last axis."""
    return tl.reshape(x, (x.shape[0] // LANES // WIDE, LANES, WIDE))


# --8<-- [end:first_pass]


# --8<-- [start:second_pass]
@triton.jit
def write_gradient(
    x_ptr, grad_ptr, columns, target, maximum, total, scale, even,
    SMOOTHING: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, BLOCK)
    last = (columns - 1) // BLOCK * BLOCK
    for done in range(0, columns, BLOCK):
        # in reverse, because what was read last is still in a cache
        start = last - done
        mask = column < columns - start
        x = tl.load(x_ptr + start + column, mask=mask).to(COMPUTE)
        grad = gradient_of(
            x, column == target - start, maximum, total, scale, even,
            SMOOTHING
        )  # fmt: skip
        tl.store(grad_ptr + start + column, grad, mask=mask)


@triton.jit
def gradient_of(
    x, is_target, maximum, total, scale, even, SMOOTHING: tl.constexpr
):  # fmt: skip
    share = tl.exp(x - maximum) * (scale / total)
    wanted = tl.where(is_target, scale * (1 - SMOOTHING), 0.0)
    if SMOOTHING > 0:
        wanted += even
    return share - wanted


@triton.jit
def write_row(
    x_ptr, grad_ptr, columns, target, maximum, total, scale,
    SMOOTHING: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
    WIDE: tl.constexpr, EDGES: tl.constexpr, ALIKE: tl.constexpr,
):  # fmt: skip
    even = scale * SMOOTHING / columns
    head, middle = middle_of(x_ptr, columns, WIDE, EDGES)
    if EDGES:
        edge, inside = edges_of(head, middle, columns, WIDE)
        x = tl.load(x_ptr + edge, mask=inside).to(COMPUTE)
        grad = gradient_of(
            x, edge == target, maximum, total, scale, even, SMOOTHING
        )  # fmt: skip
        tl.store(grad_ptr + edge, grad, mask=inside)
    write_gradient(
        begin_of(x_ptr, head, WIDE, EDGES),
        begin_of(grad_ptr, head, WIDE, ALIKE),
        middle, target - head, maximum, total, scale, even, SMOOTHING,
        COMPUTE, BLOCK,
    )  # fmt: skip


@triton.jit
def write_zeros(
    grad_ptr, columns, BLOCK: tl.constexpr, WIDE: tl.constexpr,
    EDGES: tl.constexpr
):  # fmt: skip
    head, middle = middle_of(grad_ptr, columns, WIDE, EDGES)
    if EDGES:
        edge, inside = edges_of(head, middle, columns, WIDE)
        tl.store(grad_ptr + edge, 0.0, mask=inside)
    grad_ptr = begin_of(grad_ptr, head, WIDE, EDGES)
    column = tl.arange(0, BLOCK)
    for start in range(0, middle, BLOCK):
        tl.store(
            grad_ptr + start + column, 0.0, mask=column < middle - start
        )  # fmt: skip


# --8<-- [end:second_pass]


# --8<-- [start:kernel]
@triton.jit
def cross_entropy_kernel(
    x_ptr, target_ptr, loss_ptr, stats_ptr, grad_ptr, count_ptr,
    columns, stride_x, stride_grad, ignore_index,
    LOWEST: tl.constexpr, SMOOTHING: tl.constexpr, COMPUTE: tl.constexpr,
    BLOCK: tl.constexpr, LANES: tl.constexpr, WIDE: tl.constexpr,
    UNIT: tl.constexpr, EDGES: tl.constexpr, ALIKE: tl.constexpr,
):  # fmt: skip
    columns *= UNIT
    row = tl.program_id(axis=0).to(tl.int64)
    x_ptr += row * stride_x * UNIT
    target = tl.load(target_ptr + row)
    if target == ignore_index:
        tl.store(loss_ptr + row, 0.0)
        tl.store(stats_ptr + 2 * row, 0.0)
        tl.store(stats_ptr + 2 * row + 1, 1.0)
        if grad_ptr is not None:
            write_zeros(
                grad_ptr + row * stride_grad * UNIT, columns, BLOCK, WIDE,
                EDGES
            )  # fmt: skip
    else:
        is_column = (target >= 0) & (target < columns)
        scale = scale_of(is_column, count_ptr, COMPUTE)
        # now, because the second pass may overwrite it
        x_target = tl.load(
            x_ptr + target, mask=is_column, other=float("nan")
        )  # fmt: skip
        head, middle = middle_of(x_ptr, columns, WIDE, EDGES)
        if EDGES:  # loaded now, needed last
            edge, inside = edges_of(head, middle, columns, WIDE)
            x = tl.load(
                x_ptr + edge, mask=inside, other=-float("inf")
            ).to(COMPUTE)  # fmt: skip
        maximum, total, plain = maximum_and_sums(
            begin_of(x_ptr, head, WIDE, EDGES), middle,
            LOWEST, SMOOTHING, COMPUTE, BLOCK, LANES, WIDE,
        )  # fmt: skip
        if EDGES:
            maximum, total, plain = add_edges(
                x, inside, maximum, total, plain
            )  # fmt: skip
        wanted = x_target.to(COMPUTE) * (1 - SMOOTHING)
        if SMOOTHING > 0:
            wanted += SMOOTHING * (plain / columns)
        tl.store(loss_ptr + row, tl.log(total) + (maximum - wanted))
        tl.store(stats_ptr + 2 * row, maximum)
        tl.store(stats_ptr + 2 * row + 1, total)
        if grad_ptr is not None:
            write_row(
                x_ptr, grad_ptr + row * stride_grad * UNIT, columns,
                target.to(tl.int32), maximum, total, scale,
                SMOOTHING, COMPUTE, BLOCK, WIDE, EDGES, ALIKE,
            )  # fmt: skip


@triton.jit
def scale_of(is_column, count_ptr, COMPUTE: tl.constexpr):
    """Return 1, or 1 / count for a mean; NaN for an invalid target."""
    scale = tl.where(is_column, 1.0, float("nan")).to(COMPUTE)
    if count_ptr is not None:
        scale /= tl.load(count_ptr).to(COMPUTE)
    return scale


# --8<-- [end:kernel]


# --8<-- [start:gradient_kernel]
@triton.jit
def gradient_kernel(
    grad_loss_ptr, x_ptr, target_ptr, stats_ptr, grad_ptr, count_ptr,
    columns, stride_loss, stride_x, stride_grad, ignore_index,
    SMOOTHING: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
    UNIT: tl.constexpr, EDGES: tl.constexpr, ALIKE: tl.constexpr,
):  # fmt: skip
    columns *= UNIT
    row = tl.program_id(axis=0).to(tl.int64)
    x_ptr += row * stride_x * UNIT
    grad_ptr += row * stride_grad * UNIT
    target = tl.load(target_ptr + row)
    if target == ignore_index:
        write_zeros(grad_ptr, columns, BLOCK, WIDE, EDGES)
    else:
        is_column = (target >= 0) & (target < columns)
        scale = scale_of(is_column, count_ptr, COMPUTE)
        scale *= tl.load(grad_loss_ptr + row * stride_loss).to(COMPUTE)
        maximum = tl.load(stats_ptr + 2 * row)
        total = tl.load(stats_ptr + 2 * row + 1)
        write_row(
            x_ptr, grad_ptr, columns, target.to(tl.int32), maximum, total, scale,
            SMOOTHING, COMPUTE, BLOCK, WIDE, EDGES, ALIKE,
        )  # fmt: skip


# --8<-- [end:gradient_kernel]


# --8<-- [start:scale]
@triton.jit
def scale_kernel(
    grad_ptr, factor_ptr, rows, columns, stride,
    COMPUTE: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
    UNIT: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    columns *= UNIT
    factor = tl.load(factor_ptr).to(COMPUTE)
    # only the GPU knows it, and the host doesn't wait for it
    if factor != 1.0:
        program = tl.program_id(axis=0).to(tl.int64)
        column = tl.arange(0, BLOCK)
        for row in range(program, rows, tl.num_programs(axis=0)):
            row_ptr = grad_ptr + tl.cast(row, tl.int64) * stride * UNIT
            head, middle = middle_of(row_ptr, columns, WIDE, EDGES)
            if EDGES:
                edge, inside = edges_of(head, middle, columns, WIDE)
                at_edge = tl.load(row_ptr + edge, mask=inside).to(COMPUTE)
                tl.store(row_ptr + edge, at_edge * factor, mask=inside)
            row_ptr = begin_of(row_ptr, head, WIDE, EDGES)
            for start in range(0, middle, BLOCK):
                mask = column < middle - start
                grad = tl.load(
                    row_ptr + start + column, mask=mask
                ).to(COMPUTE)  # fmt: skip
                tl.store(row_ptr + start + column, grad * factor, mask=mask)


# --8<-- [end:scale]


# --8<-- [start:blocks]
class Blocks(NamedTuple):
    """Columns of a block, lanes that share it, neighbors that a lane loads at once, and warps of a program."""

    block: int
    lanes: int
    wide: int
    num_warps: int


def blocks_for(columns: int, dtype: torch.dtype) -> Blocks:
    """Choose blocks that take a quarter of a row at a time, 64 bytes a thread.

    The threads of a multiprocessor are then at work on some 256 KiB of rows, about what its L1 cache holds.

    >>> blocks_for(128256, torch.bfloat16)
    Blocks(block=32768, lanes=1024, wide=8, num_warps=32)
    >>> blocks_for(32000, torch.bfloat16)
    Blocks(block=8192, lanes=256, wide=8, num_warps=8)
    """
    size, most = dtype.itemsize, MOST_BYTES // (2 if torch.version.hip else 1)  # AMD's warps are twice as wide
    at_a_time = min(max(triton.next_power_of_2(columns) * size // 4, 2048), most)
    num_warps = at_a_time // 2048
    return Blocks(at_a_time // size, 32 * num_warps, 16 // size, num_warps)


# --8<-- [end:blocks]


# --8<-- [start:launches]
def launch_forward(x, target, losses, stats, grad, count, ignore_index, label_smoothing, by=None):
    """Write the losses of these rows and, if there is a ``grad``, their gradients; that may be ``x`` itself."""
    by = by or blocks_for(x.shape[1], x.dtype)
    unit = unit_of(x, grad)
    with torch.cuda.device_of(x):  # Triton launches on the current device, which need not be that of x
        cross_entropy_kernel[(len(x),)](
            x, target, losses, stats, grad, count,
            *in_units(unit, x, grad), ignore_index,
            LOWEST=torch.finfo(losses.dtype).min, SMOOTHING=label_smoothing, COMPUTE=computed_in(x),
            BLOCK=by.block, LANES=by.lanes, WIDE=by.wide, UNIT=unit, **edges(by.wide, unit, x, grad),
            num_warps=by.num_warps,
        )  # fmt: skip


def launch_gradient(grad_loss, x, target, stats, grad, count, ignore_index, label_smoothing, by=None):
    """Write the gradients of these rows; ``grad_loss`` has a number for each row, or one for all."""
    by = by or blocks_for(x.shape[1], x.dtype)
    unit = unit_of(x, grad)
    columns, *strides = in_units(unit, x, grad)
    with torch.cuda.device_of(x):
        gradient_kernel[(len(x),)](
            grad_loss, x, target, stats, grad, count,
            columns, grad_loss.stride(0) if grad_loss.ndim else 0, *strides, ignore_index,
            SMOOTHING=label_smoothing, COMPUTE=computed_in(x),
            BLOCK=by.block, WIDE=by.wide, UNIT=unit, **edges(by.wide, unit, x, grad), num_warps=by.num_warps,
        )  # fmt: skip


def scale_(grad: torch.Tensor, factor: torch.Tensor, by: Blocks | None = None) -> None:
    """Multiply all of ``grad`` by one number; nothing is read or written if that is 1."""
    if not grad.numel():
        return
    grad = grad.view(-1, grad.shape[-1])
    by = by or blocks_for(grad.shape[1], grad.dtype)
    unit = unit_of(grad)
    with torch.cuda.device_of(grad):
        scale_kernel[(min(len(grad), PROGRAMS),)](
            grad, factor, len(grad), *in_units(unit, grad),
            COMPUTE=computed_in(grad), BLOCK=by.block, WIDE=by.wide, UNIT=unit,
            EDGES=edges(by.wide, unit, grad)["EDGES"], num_warps=by.num_warps,
        )  # fmt: skip


# --8<-- [end:launches]


# --8<-- [start:layout]
def as_rows(x: torch.Tensor) -> torch.Tensor:
    """Return ``(rows, columns)``, a row's elements adjacent in memory; a tensor that lies otherwise is copied."""
    x = x.resolve_neg()
    if x.shape[-1] > 1 and x.stride(-1) != 1:
        x = x.contiguous()
    return x.reshape(x.shape[:-1].numel(), x.shape[-1])


def in_order(x: torch.Tensor) -> torch.Tensor:
    return x.resolve_neg().contiguous().view(-1)


def wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def computed_in(x: torch.Tensor) -> tl.dtype:
    return tl.float64 if x.dtype == torch.float64 else tl.float32


def unit_of(x: torch.Tensor, grad: torch.Tensor | None = None) -> int:
    """Return the largest power of two up to 8 that divides columns and strides.

    The compiler loads 16 bytes at a time only if it knows this: by itself it looks for multiples of 16 alone.
    """
    return math.gcd(8, x.shape[1], x.stride(0), 0 if grad is None else grad.stride(0))


def edges(wide: int, unit: int, x: torch.Tensor, grad: torch.Tensor | None = None) -> dict[str, bool]:
    """Return the edges as the kernels take them.

    They say whether a row begins or ends inside of ``wide`` elements that are loaded at once, which lie at a multiple
    of 16 bytes; and whether each row of the gradient begins at the same distance from such a multiple as that of ``x``.
    """
    size = wide * x.itemsize
    ragged = unit % wide != 0 or x.data_ptr() % size != 0
    alike = grad is not None and (x.data_ptr() - grad.data_ptr()) % size == 0
    alike = alike and (x.stride(0) - grad.stride(0)) % wide == 0
    return {"EDGES": ragged, "ALIKE": ragged and alike}


def in_units(unit: int, *rows: torch.Tensor | None) -> list[int]:
    """Return columns and strides as the kernels take them."""
    return [rows[0].shape[1] // unit, *(0 if each is None else each.stride(0) // unit for each in rows)]


# --8<-- [end:layout]


# --8<-- [start:reduce]
def count_of(target: torch.Tensor, ignore_index: int, reduction: str) -> torch.Tensor | None:
    """Return the number that a mean divides by. It stays on the GPU, for asking would make the host wait."""
    return (target != ignore_index).sum() if reduction == "mean" else None


def reduced(losses: torch.Tensor, count: torch.Tensor | None, reduction: str, shape) -> torch.Tensor:
    if reduction == "none":
        return losses.view(shape)
    return losses.sum() if count is None else losses.sum() / count


# --8<-- [end:reduce]


# --8<-- [start:forward]
def forward(rows, target, ignore_index, label_smoothing, reduction, grad=None, by=None):
    """Return the loss and two numbers for each row, and write the gradient to ``grad``, if there is one."""
    losses, stats = of_each_row(rows)
    count = count_of(target, ignore_index, reduction)
    if len(rows):
        launch_forward(rows, in_order(target), losses, stats, grad, count, ignore_index, label_smoothing, by)
    return reduced(losses, count, reduction, target.shape), stats


def backward(grad_loss, rows, target, stats, ignore_index, label_smoothing, reduction, grad=None, by=None):
    """Return the gradient of the logits, from the two numbers of each row, in ``grad`` or else in a new tensor."""
    grad = like(rows) if grad is None else grad
    if grad.numel():
        count = count_of(target, ignore_index, reduction)
        launch_gradient(
            by_row(grad_loss), rows, in_order(target), stats, grad, count, ignore_index, label_smoothing, by
        )
    return grad


# --8<-- [end:forward]


def of_each_row(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return room for a loss, and maximum and sum, of each row, in the dtype that the kernels compute in."""
    made = {"dtype": wide(rows.dtype), "device": rows.device}
    return torch.empty(len(rows), **made), torch.empty((len(rows), 2), **made)


def like(x: torch.Tensor, make=torch.empty) -> torch.Tensor:
    return make(x.shape, dtype=x.dtype, device=x.device)


def by_row(grad_loss: torch.Tensor) -> torch.Tensor:
    """Return a number for each row, or one for all."""
    grad_loss = grad_loss.resolve_neg()
    return grad_loss.reshape(-1) if grad_loss.ndim else grad_loss


def can_hold(rows: torch.Tensor, logits: torch.Tensor) -> bool:
    """Return whether the gradient can lie where the logits do: each in its place, and no two in one."""
    return rows.data_ptr() == logits.data_ptr() and (len(rows) == 1 or rows.stride(0) >= rows.shape[1])


def no_second_gradient(name: str) -> None:
    if torch.is_grad_enabled():  # as under create_graph=True
        raise RuntimeError(
            f"{name} has no gradient of its gradient, so it refuses create_graph=True, and torch.func.grad and vjp,"
            " which always ask for it; use torch.autograd.grad"
        )


def made_in_forward(dtype: torch.dtype, reduction: str) -> bool:
    """Return whether forward can make the gradient.

    It cannot if each row is scaled by its own number, or if 1 / count may be 0 in its dtype.
    """
    return reduction != "none" and dtype != torch.float16


# --8<-- [start:function]
class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, ignore_index, label_smoothing, reduction, in_place, wanted):
        check_arguments(logits, target, label_smoothing, reduction)
        rows = as_rows(logits.detach())
        ctx.options = ignore_index, label_smoothing, reduction
        ctx.in_place = in_place and rows.numel() > 0 and can_hold(rows, logits)
        ctx.shape, ctx.made, ctx.spent = logits.shape, None, False
        if wanted and made_in_forward(logits.dtype, reduction):
            ctx.made, ctx.spent = rows if ctx.in_place else like(rows), ctx.in_place
        loss, stats = forward(rows, target, *ctx.options, grad=ctx.made)
        if ctx.spent:
            tell_others(logits)
            ctx.version = logits._version
        ctx.save_for_backward(None if ctx.spent else logits, target, stats)
        return loss

    @staticmethod
    def backward(ctx, grad_loss):
        no_second_gradient("cross_entropy")
        grad, ctx.made = ctx.made, None  # given away, it is not ours to be scaled again
        if grad is not None:
            if ctx.spent and grad._version != ctx.version:
                raise RuntimeError(
                    "the logits were modified after cross_entropy(in_place=True), which has its gradient there"
                )
            scale_(grad, grad_loss)
        elif ctx.spent:
            raise RuntimeError(
                "after cross_entropy(in_place=True) there is one backward: the logits are its gradient now"
            )
        else:
            logits, target, stats = ctx.saved_tensors
            rows = as_rows(logits.detach())
            grad = backward(grad_loss, rows, target, stats, *ctx.options, grad=rows if ctx.in_place else None)
            if ctx.in_place:
                ctx.spent = True
                tell_others(logits)
        return grad.view(ctx.shape), *[None] * 6


def tell_others(logits: torch.Tensor) -> None:
    """Tell autograd that the logits changed.

    Whoever keeps them for a backward gets an error then, as after any operation in place.
    """
    torch.autograd.graph.increment_version(logits)


# --8<-- [end:function]


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


# --8<-- [start:host]
def cross_entropy(
    logits: torch.Tensor, target: torch.Tensor, *, ignore_index: int = -100, label_smoothing: float = 0.0,
    reduction: str = "mean", in_place: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Return the cross-entropy of each row of ``logits`` and its ``target``; it has a gradient for ``logits``.

    Args:
        logits: ``(..., columns)`` on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``. The columns are the
            last dimension; in torch's function, the second. It is copied if the elements of a row are no neighbors in
            memory, or if the rows do not lie at equal distances.
        target: ``(...)``, int64 or int32: for each row a column, or ``ignore_index``. One that is neither makes the
            loss NaN, and the gradient of its row; nothing outside the row is read.
        ignore_index: A row with this target has loss and gradient 0, does not count in a mean, and is not read.
        label_smoothing: From 0 to 1. Kernels are compiled for each that is used.
        reduction: "mean" of the rows that count, "sum", or "none".
        in_place: The gradient may be written over the logits, which nobody must use any more, if that is possible:
            not under ``torch.compile``, nor where the logits are copied. Whoever tries all the same, as an operation
            whose own backward needs them, gets an error from autograd. Without a gradient to make, they stay.

    Returns:
        The loss, in float32, also of 16-bit logits; in float64 for float64. It is a number, NaN if no row counts in a
        mean; for "none", of the shape of ``target``. The gradient has the dtype of ``logits`` and is contiguous, or in
        their place. For "mean" and "sum" of all dtypes but float16 the forward makes it, and the backward scales it if
        the incoming one is not 1; that rounds twice. The kernels may still be running when the loss is returned.

    Raises:
        ValueError: If an argument is something the kernels can't serve.
        RuntimeError: In the backward, under ``create_graph=True``; and in a second backward after ``in_place=True``.

    >>> logits = torch.tensor([[1.0, 3.0, 2.0, 5.0], [0.0, 0.0, 0.0, 0.0]], requires_grad=True)
    >>> loss = cross_entropy(logits, torch.tensor([1, -100]))
    >>> loss.detach()
    tensor(2.1852)
    >>> loss.backward()
    >>> logits.grad
    tensor([[ 0.0152, -0.8875,  0.0414,  0.8310],
            [ 0.0000,  0.0000,  0.0000,  0.0000]])
    """
    if in_place and logits.is_leaf and logits.requires_grad:
        raise ValueError("in_place=True would write over a leaf that requires a gradient; pass what was computed of it")
    wanted = torch.is_grad_enabled() and logits.requires_grad
    ignore_index, label_smoothing = as_int("ignore_index", ignore_index), as_float("label_smoothing", label_smoothing)
    if torch.compiler.is_compiling():
        return cross_entropy_op(logits, target, ignore_index, label_smoothing, reduction)[0]
    return CrossEntropy.apply(logits, target, ignore_index, label_smoothing, reduction, in_place, wanted)


# --8<-- [end:host]


# The last linear layer, too


# --8<-- [start:linear_forward]
def linear_forward(
    hidden, weight, target, ignore_index, label_smoothing, reduction, chunk,
    wants_hidden, wants_weight,
):  # fmt: skip
    check_linear(hidden, weight, target, label_smoothing, reduction, chunk)
    rows = hidden.reshape(target.numel(), hidden.shape[-1])
    targets = in_order(target)
    losses, stats = of_each_row(rows)
    count = count_of(targets, ignore_index, reduction)
    chunk = chunk or rows_of_a_chunk(
        len(rows), weight.shape, rows.dtype, wants_weight
    )  # fmt: skip
    grads = new_gradients(rows, weight, chunk, wants_hidden, wants_weight)
    for part, logits in chunks(rows, weight, chunk):
        grad = logits if wants_hidden or wants_weight else None  # in place
        launch_forward(
            logits, targets[part], losses[part], stats[part], grad, count,
            ignore_index, label_smoothing,
        )  # fmt: skip
        add_gradients(*grads, logits, rows, weight, part)
    # their memory can now hold the rounded gradient of weight
    logits = grad = None
    loss = reduced(losses, count, reduction, target.shape)
    return loss, stats, *shaped(grads, hidden)


def chunks(rows, weight, chunk):
    """Yield rows and their logits. All chunks use the same memory."""
    columns = len(weight)
    chunk = min(chunk, len(rows))
    logits = torch.empty(
        (chunk, columns), dtype=rows.dtype, device=rows.device
    )  # fmt: skip
    for begin in range(0, len(rows), max(chunk, 1)):
        part = slice(begin, min(begin + chunk, len(rows)))
        here = logits[: part.stop - begin]
        yield part, torch.mm(rows[part], weight.t(), out=here)


def add_gradients(
    grad_hidden, grad_weight, grad_logits, rows, weight, part
):  # fmt: skip
    if grad_hidden is not None:
        torch.mm(grad_logits, weight, out=grad_hidden[part])
    if grad_weight is not None:
        add_product(
            grad_weight, grad_logits.t(), rows[part], add=part.start > 0
        )  # fmt: skip


def add_product(total, a, b, add: bool):
    """Set ``total = a @ b``, or add the product to it.

    The dtype is that of ``total``: that of ``a`` and ``b``, or float32.
    """
    if total.dtype == a.dtype:
        total.addmm_(a, b, beta=int(add))
    elif total.is_cuda:
        torch.addmm(
            total, a, b, out_dtype=total.dtype, beta=int(add), out=total
        )  # fmt: skip
    else:  # torch has no out_dtype on CPUs
        total.addmm_(a.to(total.dtype), b.to(total.dtype), beta=int(add))


# --8<-- [end:linear_forward]


def rows_of_a_chunk(rows: int, weight: tuple[int, int], dtype: torch.dtype, wants_weight: bool) -> int:
    """Return how many rows of logits to make at a time: ``CHUNK_BYTES`` of logits, or more where more costs no memory.

    Chunks of 16 bits add up the gradient of the weight in float32, which takes 4 bytes an element, and 2 more while it
    is rounded. So K rows of logits, as large as those 2 bytes, cost nothing; and up to 2K rows are best made at once,
    because one chunk needs no float32.

    >>> [rows_of_a_chunk(rows, (128256, 4096), torch.bfloat16, True) for rows in (32768, 8192)]
    [4096, 8192]
    >>> rows_of_a_chunk(32768, (128256, 4096), torch.bfloat16, False)
    1024
    """
    columns, width = weight
    chunk = CHUNK_BYTES // (columns * dtype.itemsize)
    chunk = max(chunk // 128 * 128 or chunk, 1)
    if not wants_weight or dtype.itemsize > 2:
        return chunk
    chunk = max(chunk, width)
    return max(rows, 1) if rows <= 2 * chunk else chunk


def new_gradients(rows, weight, chunk, wants_hidden, wants_weight):
    """Return memory for the gradients: of ``weight`` in float32, if several chunks of 16 bits are added up in it."""
    make = torch.empty if len(rows) else torch.zeros  # then no chunk writes to them
    dtype = wide(weight.dtype) if len(rows) > chunk else weight.dtype
    grad_weight = make(weight.shape, dtype=dtype, device=weight.device) if wants_weight else None
    return like(rows, make) if wants_hidden else None, grad_weight


def shaped(grads, hidden):
    grad_hidden, grad_weight = grads
    return (
        None if grad_hidden is None else grad_hidden.view(hidden.shape),
        None if grad_weight is None else grad_weight.to(hidden.dtype),  # rounded once
    )


# --8<-- [start:linear_backward]
def linear_backward(
    grad_loss, hidden, weight, target, stats, ignore_index, label_smoothing, reduction, chunk,
    wants_hidden, wants_weight,
):  # fmt: skip
    """Return the gradients, from logits that are computed again: each row is scaled before rows are added up."""
    rows, targets = hidden.reshape(target.numel(), hidden.shape[-1]), in_order(target)
    grad_loss = by_row(grad_loss)
    count = count_of(targets, ignore_index, reduction)
    chunk = chunk or rows_of_a_chunk(
        len(rows), weight.shape, rows.dtype, wants_weight
    )  # fmt: skip
    grads = new_gradients(rows, weight, chunk, wants_hidden, wants_weight)
    for part, logits in chunks(rows, weight, chunk):
        of_part = grad_loss[part] if grad_loss.ndim else grad_loss
        launch_gradient(of_part, logits, targets[part], stats[part], logits, count, ignore_index, label_smoothing)
        add_gradients(*grads, logits, rows, weight, part)
    logits = None  # its memory serves to round the gradient of weight
    return shaped(grads, hidden)


# --8<-- [end:linear_backward]


# --8<-- [start:linear_function]
class LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, target, ignore_index, label_smoothing, reduction, chunk, wanted):
        ctx.options = ignore_index, label_smoothing, reduction, chunk
        now = made_in_forward(hidden.dtype, reduction)
        loss, stats, *made = linear_forward(hidden, weight, target, *ctx.options, *(now and each for each in wanted))
        ctx.made = made if now else None
        ctx.save_for_backward(hidden, weight, target, stats)
        return loss

    @staticmethod
    def backward(ctx, grad_loss):
        no_second_gradient("linear_cross_entropy")
        if ctx.made is not None:
            grads, ctx.made = ctx.made, None
            for each in grads:
                if each is not None:
                    scale_(each, grad_loss)
        else:
            grads = linear_backward(grad_loss, *ctx.saved_tensors, *ctx.options, *ctx.needs_input_grad[:2])
        return *grads, *[None] * 6


# --8<-- [end:linear_function]


# --8<-- [start:linear_host]
def linear_cross_entropy(
    hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, *, ignore_index: int = -100,
    label_smoothing: float = 0.0, reduction: str = "mean", chunk: int | None = None,
) -> torch.Tensor:  # fmt: skip
    """Return ``cross_entropy(hidden @ weight.t(), target, …)``, with no more logits at a time than those of a chunk.

    Args:
        hidden: ``(..., K)``, of one of ``DTYPES``.
        weight: ``(columns, K)``, as ``torch.nn.Linear`` has it, of the same dtype and device. There is no bias.
        target: ``(...)``; this and the other options are as in :func:`cross_entropy`.
        chunk: How many rows a chunk has; by default ``CHUNK_BYTES`` of logits, or for a gradient of a 16-bit
            ``weight`` at least K rows, and all of them up to 2K: see :func:`rows_of_a_chunk`.

    Returns:
        The loss. For "mean" and "sum" of all dtypes but float16 the forward makes the gradients, of ``hidden`` and
        ``weight`` if they want one, and the backward scales them if the incoming gradient is not 1. Otherwise, and in a
        second backward of the same graph, the backward computes the logits again: one matrix product more. Chunks
        of 16 bits are added up in float32: if there are several, the gradient of ``weight`` takes 4 bytes an element
        until all are added, and 6 while it is rounded; with one chunk, 2.

    Raises:
        ValueError: If an argument is something the kernels can't serve.
        RuntimeError: In the backward, under ``create_graph=True``: there is no gradient of the gradient.

    >>> hidden = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> weight = torch.tensor([[1.0, 0.0], [3.0, 0.0], [2.0, 0.0], [5.0, 0.0]])
    >>> linear_cross_entropy(hidden, weight, torch.tensor([1, -100]), chunk=1)
    tensor(2.1852)
    """
    ignore_index, label_smoothing = as_int("ignore_index", ignore_index), as_float("label_smoothing", label_smoothing)
    options = ignore_index, label_smoothing, reduction, None if chunk is None else as_int("chunk", chunk)
    wanted = tuple(torch.is_grad_enabled() and each.requires_grad for each in (hidden, weight))
    if torch.compiler.is_compiling():
        now = made_in_forward(hidden.dtype, reduction)
        return linear_cross_entropy_op(hidden, weight, target, *options, *(now and each for each in wanted))[0]
    return LinearCrossEntropy.apply(hidden, weight, target, *options, wanted)


# --8<-- [end:linear_host]


# The same for torch.compile, which looks into no custom op. An op returns nothing that it was given, so the gradient of
# the logits is made in the backward pass.


@torch.library.custom_op("triton_by_example::cross_entropy", mutates_args=())
def cross_entropy_op(
    logits: torch.Tensor, target: torch.Tensor, ignore_index: int, label_smoothing: float, reduction: str
) -> tuple[torch.Tensor, torch.Tensor]:
    check_arguments(logits, target, label_smoothing, reduction)
    return forward(as_rows(logits), target, ignore_index, label_smoothing, reduction)


@torch.library.custom_op("triton_by_example::cross_entropy_backward", mutates_args=())
def cross_entropy_backward_op(
    grad_loss: torch.Tensor, logits: torch.Tensor, target: torch.Tensor, stats: torch.Tensor,
    ignore_index: int, label_smoothing: float, reduction: str,
) -> torch.Tensor:  # fmt: skip
    grad = backward(grad_loss, as_rows(logits), target, stats, ignore_index, label_smoothing, reduction)
    return grad.view(logits.shape)


@torch.library.custom_op("triton_by_example::linear_cross_entropy", mutates_args=())
def linear_cross_entropy_op(
    hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, ignore_index: int, label_smoothing: float,
    reduction: str, chunk: int | None, wants_hidden: bool, wants_weight: bool,
) -> list[torch.Tensor]:  # fmt: skip
    """Return loss, stats, and those gradients that are wanted."""
    found = linear_forward(
        hidden, weight, target, ignore_index, label_smoothing, reduction, chunk, wants_hidden, wants_weight
    )
    return [each for each in found if each is not None]


@torch.library.custom_op("triton_by_example::linear_cross_entropy_backward", mutates_args=())
def linear_cross_entropy_backward_op(
    grad_loss: torch.Tensor, hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, stats: torch.Tensor,
    ignore_index: int, label_smoothing: float, reduction: str, chunk: int | None,
    wants_hidden: bool, wants_weight: bool,
) -> list[torch.Tensor]:  # fmt: skip
    found = linear_backward(
        grad_loss, hidden, weight, target, stats, ignore_index, label_smoothing, reduction, chunk,
        wants_hidden, wants_weight,
    )  # fmt: skip
    return [each for each in found if each is not None]


def fake_loss(x, target, reduction):
    shape = target.shape if reduction == "none" else ()
    return x.new_empty(shape, dtype=wide(x.dtype)), x.new_empty((target.numel(), 2), dtype=wide(x.dtype))


def fake_gradients(hidden, weight, wants_hidden, wants_weight):
    wanted = [(hidden, wants_hidden), (weight, wants_weight)]
    return [each.new_empty(each.shape) for each, wants in wanted if wants]


@cross_entropy_op.register_fake
def _(logits, target, ignore_index, label_smoothing, reduction):
    return fake_loss(logits, target, reduction)


@cross_entropy_backward_op.register_fake
def _(grad_loss, logits, *_):
    return logits.new_empty(logits.shape)


@linear_cross_entropy_op.register_fake
def _(hidden, weight, target, ignore_index, label_smoothing, reduction, chunk, wants_hidden, wants_weight):
    return [*fake_loss(hidden, target, reduction), *fake_gradients(hidden, weight, wants_hidden, wants_weight)]


@linear_cross_entropy_backward_op.register_fake
def _(grad_loss, hidden, weight, target, stats, ignore_index, label_smoothing, reduction, chunk, *wanted):
    return fake_gradients(hidden, weight, *wanted)


def keep_for_op(ctx, inputs, output):
    logits, target, *ctx.options = inputs
    ctx.save_for_backward(logits, target, output[1])


def keep_for_linear_op(ctx, inputs, output):
    hidden, weight, target, *ctx.options, wants_hidden, wants_weight = inputs
    _, stats, *made = output
    ctx.made = wants_hidden, wants_weight
    ctx.save_for_backward(hidden, weight, target, stats, *made)


def linear_op_backward(ctx, grads):
    grad_loss = grads[0]
    hidden, weight, target, stats, *made = ctx.saved_tensors
    if any(ctx.made):
        wanted, found = ctx.made, [each * grad_loss for each in made]
    else:
        wanted = ctx.needs_input_grad[:2]
        found = linear_cross_entropy_backward_op(grad_loss, hidden, weight, target, stats, *ctx.options, *wanted)
    found = iter(found)
    return *(next(found) if each else None for each in wanted), *[None] * 7


cross_entropy_op.register_autograd(
    lambda ctx, grad_loss, _: (cross_entropy_backward_op(grad_loss, *ctx.saved_tensors, *ctx.options), *[None] * 4),
    setup_context=keep_for_op,
)
linear_cross_entropy_op.register_autograd(linear_op_backward, setup_context=keep_for_linear_op)


# --8<-- [start:check]
def check_arguments(
    logits: torch.Tensor, target: torch.Tensor, label_smoothing: float, reduction: str, name: str = "logits"
) -> None:
    """Raise ``ValueError`` for arguments that the kernels would get wrong, or can't serve at all."""
    if not logits.ndim:
        raise ValueError(f"{name} must have a dimension or more; got a single number")
    for each, tensor in {name: logits, "target": target}.items():
        if tensor.layout != torch.strided:
            raise ValueError(f"{each} is {tensor.layout}; pass {each}.to_dense()")
    if target.device != logits.device:
        raise ValueError(f"{name} is on {logits.device} and target on {target.device}; move them to one device")
    if target.shape != logits.shape[:-1] or target.dtype not in (torch.int64, torch.int32):
        raise ValueError(
            f"target must have the shape {tuple(logits.shape[:-1])}, a column for each row, and be int64 or int32;"
            f" got {tuple(target.shape)} {target.dtype} for {name} {tuple(logits.shape)}"
        )
    if logits.dtype not in DTYPES:
        raise ValueError(f"dtype {logits.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction must be one of {', '.join(REDUCTIONS)}; got {reduction!r}")
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"label_smoothing must be from 0 to 1; got {label_smoothing}")
    if target.numel() > 2**31 - 1:  # CUDA's limit for programs along one axis
        raise ValueError(f"{target.numel()} rows are too many for one launch; split {name}")
    if name == "logits":
        check_columns(logits.shape[-1], target)
    interpreted = not isinstance(cross_entropy_kernel, triton.JITFunction)
    if logits.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(
            f"{name} is on {logits.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}"
        )
    if logits.dtype == torch.bfloat16 and interpreted:
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")


def check_columns(columns: int, target: torch.Tensor) -> None:
    if columns > MOST_COLUMNS:
        raise ValueError(f"a row has {columns} columns, at most {MOST_COLUMNS} are served")
    if not columns and target.numel():
        raise ValueError("a row has no column, so none can be the target")


def check_linear(hidden, weight, target, label_smoothing, reduction, chunk) -> None:
    check_arguments(hidden, target, label_smoothing, reduction, "hidden")
    if weight.ndim != 2 or weight.shape[1] != hidden.shape[-1] or weight.dtype != hidden.dtype:
        raise ValueError(
            f"weight must have the shape (columns, {hidden.shape[-1]}) and the dtype of hidden; got"
            f" {tuple(weight.shape)} {weight.dtype} for hidden {tuple(hidden.shape)} {hidden.dtype}"
        )
    if weight.layout != torch.strided:
        raise ValueError(f"weight is {weight.layout}; pass weight.to_dense()")
    if weight.device != hidden.device:
        raise ValueError(f"hidden is on {hidden.device} and weight on {weight.device}; move them to one device")
    check_columns(len(weight), target)
    if chunk is not None and chunk < 1:
        raise ValueError(f"a chunk must have a row or more; got {chunk}")


# --8<-- [end:check]


def in_torch(logits, target, **options):
    """Compute what :func:`cross_entropy` does, by torch."""
    columns = logits.shape[-1]
    losses = torch.nn.functional.cross_entropy(logits.reshape(-1, columns), target.reshape(-1).long(), **options)
    return losses.view(target.shape) if losses.ndim else losses


def as_torch(function, reference, inputs: list[torch.Tensor], tolerance=1e-5) -> bool:
    """Return whether the result of ``function`` and the gradients of ``inputs`` are those of ``reference``."""
    found, wanted = ([out := each(*inputs), *torch.autograd.grad(out, inputs)] for each in (function, reference))
    return all(torch.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in zip(found, wanted, strict=True))


# --8<-- [start:by_hand]
def by_hand(row: list[float], target: int) -> dict[str, float]:
    """Return each step for a row of logits: the loss, and the gradient of two of them."""
    maximum = max(row)
    total = sum(math.exp(x - maximum) for x in row)
    shares = [math.exp(x - maximum) / total for x in row]
    return {
        "sum": total,
        "log of the sum": math.log(total),
        "loss": math.log(total) + maximum - row[target],
        "share of the target": shares[target],
        "gradient of the target": shares[target] - 1,
        "gradient of the last": shares[-1],
    }


# --8<-- [end:by_hand]


def memory(tokens: int, hidden: int, columns: int) -> dict[str, float]:
    """Return the GB in bfloat16 that a loss and its gradients take, beside hidden and weight themselves."""
    elements = {
        "logits of all rows": tokens * columns,
        "logits of a chunk": rows_of_a_chunk(tokens, (columns, hidden), torch.bfloat16, True) * columns,
        "gradient of hidden": tokens * hidden,
        "gradient of weight in float32": 2 * columns * hidden,
        "gradient of weight": columns * hidden,
    }
    return {name: 2 * each / 1e9 for name, each in elements.items()}


def toy(device):
    """Return three rows of four logits, the second of which is ignored."""
    logits = torch.tensor([[1.0, 3.0, 2.0, 5.0], [4.0, 1.0, 1.0, 2.0], [0.0, 0.0, 0.0, 0.0]], device=device)
    return logits, torch.tensor([1, -100, 3], device=device)


def shown(values: torch.Tensor) -> str:
    return " ".join(f"{value:7.4f}" for value in values.flatten().tolist())


def main():
    device = "cuda" if isinstance(cross_entropy_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    by_two = Blocks(block=2, lanes=2, wide=1, num_warps=1)

    print("## three rows")
    logits, target = toy(device)
    grad = torch.empty_like(logits)
    losses, _ = forward(logits, target, -100, 0.0, "none", grad, by_two)
    for row, of, loss, slope in zip(logits, target.tolist(), losses.tolist(), grad, strict=True):
        print(f"logits {shown(row)}   target {of:4}   loss {loss:.4f}")
        print(f"  grad {shown(slope)}")

    print("## by hand")
    for name, value in by_hand(logits[0].tolist(), 1).items():
        print(f"{name}: {value:.5f}")

    print("## reductions")
    for reduction in REDUCTIONS:
        print(f"{reduction:5}", shown(cross_entropy(logits, target, reduction=reduction)))
    print("label smoothing 0.1:", shown(cross_entropy(logits, target, reduction="none", label_smoothing=0.1)))

    print("## in place")
    weight = torch.eye(4, device=device, requires_grad=True)
    logits = toy(device)[0] @ weight
    cross_entropy(logits, target, in_place=True).backward()
    print("the logits now:", shown(logits[0]))

    print("## chunks of two rows")
    hidden, weight = (each.requires_grad_() for each in layer(device))
    linear_cross_entropy(hidden, weight, target, chunk=2).backward()
    print("grad of hidden:", shown(hidden.grad[0]))
    print("grad of weight:", shown(weight.grad))

    print("## memory")
    for name, gigabytes in memory(32768, 4096, 128256).items():
        print(f"{name}, GB: {gigabytes:.2f}")
    for rows in (32768, 8192):
        print(f"rows of a chunk, of {rows}:", rows_of_a_chunk(rows, (128256, 4096), torch.bfloat16, True))

    print("## blocks")
    for columns in (128256, 32000, 1000):
        by = blocks_for(columns, torch.bfloat16)
        print(f"columns of a block, of {columns}: {by.block}")
        print(f"warps for {columns}: {by.num_warps}")

    print("## gradients")
    random = torch.Generator().manual_seed(0)
    numbers = lambda *shape, dtype=torch.float32: torch.randn(shape, generator=random, dtype=dtype).to(device)
    # --8<-- [start:gradcheck]
    gradcheck = torch.autograd.gradcheck
    target = torch.tensor([2, -100], device=device)
    logits = numbers(2, 4, dtype=torch.float64).requires_grad_()
    hidden = numbers(2, 1, dtype=torch.float64).requires_grad_()
    weight = numbers(4, 1, dtype=torch.float64).requires_grad_()
    for reduction in REDUCTIONS:
        options = {"target": target, "reduction": reduction, "label_smoothing": 0.1}
        alone = functools.partial(cross_entropy, **options)
        linear = functools.partial(linear_cross_entropy, chunk=1, **options)
        checks = gradcheck(alone, (logits,)), gradcheck(linear, (hidden, weight))
        print(f"gradcheck, {reduction}:", *checks)
    # --8<-- [end:gradcheck]
    # fullgraph: an error if the compiler has to stop and leave a part to Python
    backend = "inductor" if device == "cuda" else "aot_eager"
    compiled = torch.compile(cross_entropy, fullgraph=True, backend=backend)
    logits = numbers(5, 40_000).requires_grad_()
    target = torch.tensor([0, 39_999, -100, 7, 12_345], device=device)
    for name, function in {"cross_entropy": cross_entropy, "compiled": compiled}.items():
        same = as_torch(lambda x, f=function: f(x, target), lambda x: in_torch(x, target), [logits])
        print(f"5 x 40000, {name}, as torch: {same}")
    compiled = torch.compile(linear_cross_entropy, fullgraph=True, backend=backend)
    inputs = [numbers(5, 16).requires_grad_(), numbers(1000, 16).requires_grad_()]
    target %= 1000
    for name, function in {"linear_cross_entropy": linear_cross_entropy, "compiled": compiled}.items():
        same = as_torch(
            lambda x, w, f=function: f(x, w, target, chunk=2), lambda x, w: in_torch(x @ w.t(), target), inputs
        )
        print(f"5 x 16 x 1000, {name}, as torch: {same}")


def layer(device):
    """Return hidden rows and a weight whose product are the logits of :func:`toy`."""
    hidden = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], device=device)
    return hidden, toy(device)[0].t().contiguous()


if __name__ == "__main__":
    main()
