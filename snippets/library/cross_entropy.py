# SPDX-License-Identifier: Apache-2.0
"""Cross-entropy over a large vocabulary with the options that models ask for, alone and with the layer before it.

The lesson ``fusion/cross_entropy.py`` derives the formulas and has the plain kernels. For a row of V logits x::

    y = softcap * tanh(x / softcap), or y = x;   lse = log(sum(exp(y)));   share = exp(y - lse)
    loss = sum(wanted * (lse - y))               and z_loss * lse**2 more
    grad_y = share * sum(wanted) - wanted        and share * 2 * z_loss * lse more
    grad_x = grad_y * (1 - (y / softcap)**2)

``wanted`` is a number for each column. With a column as the target it is the class weight there, 0 elsewhere; with
``label_smoothing`` = s it is that times 1 - s, and in every column s / V times its class weight more. With
probabilities p as the target it is ((1 - s) * p + s / V) times the class weight.

- :func:`cross_entropy`: of logits
- :func:`linear_cross_entropy`: of what comes before the last linear layer. That makes the logits of some rows at a time

A program takes a row, and goes through it in blocks, twice: for the sums, by which it knows the loss; then backward,
to write the gradient. The forward makes the gradient where it can, and the backward scales it.
All adds up in a fixed order; that of the matrix products is torch's.
Traffic, in elements for each logit: 2 read and 1 written; where the gradient waits for the backward, 1 read forward, 1
read and 1 written backward. Probabilities are read as often as the logits.
Source: Pin-Lun Hsu and others, *Liger Kernel: Efficient Triton Kernels for LLM Training*, 2024: the gradient in the
forward, and the layer in chunks. The softcap is Gemma 2's, the z-loss that of PaLM.

Run it on a GPU with ``python cross_entropy.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import math
import operator
from typing import NamedTuple

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
REDUCTIONS = ("none", "mean", "sum")
MOST_COLUMNS = 2**30
CHUNK_BYTES = 2**28  # of logits that linear_cross_entropy makes at a time
MOST_BYTES = 2**16  # of a row that a program loads at a time
PROGRAMS = 1024  # that share the rows of a gradient to be scaled
NOWHERE = tl.constexpr(2**31 - 1)  # a column that no row has


# --8<-- [start:parts]
@triton.jit
def load_logits(ptrs, mask, SOFTCAP: tl.constexpr, COMPUTE: tl.constexpr):
    """Return logits, capped; outside of the mask -inf, which adds nothing to a sum of exponentials."""
    x = tl.load(ptrs, mask=mask, other=-float("inf")).to(COMPUTE)
    if SOFTCAP > 0:
        x = tl.where(mask, capped(x, SOFTCAP), -float("inf"))
    return x


@triton.jit
def capped(x, SOFTCAP: tl.constexpr):
    if SOFTCAP > 0:
        x = SOFTCAP * tanh(x / SOFTCAP)
    return x


@triton.jit
def tanh(x):
    return 1 - 2 / (tl.exp(2 * x) + 1)


@triton.jit
def spread_of(
    target_ptr,
    class_weight_ptr,
    column,
    mask,
    even,
    SOFT: tl.constexpr,
    SMOOTHING: tl.constexpr,
    COMPUTE: tl.constexpr,
):
    """Return what is wanted in every column: ``even``, or of probabilities; times the class weights."""
    spread = even
    if SOFT:
        spread += tl.load(target_ptr + column, mask=mask, other=0).to(COMPUTE) * (1 - SMOOTHING)
    if class_weight_ptr is not None:
        spread *= tl.load(class_weight_ptr + column, mask=mask, other=0).to(COMPUTE)
    return tl.where(mask, spread, 0.0)


# --8<-- [end:parts]


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


# --8<-- [end:edges]


# --8<-- [start:sums]
@triton.jit
def sums_of_middle(
    x_ptr,
    target_ptr,
    class_weight_ptr,
    columns,
    even,
    LOWEST: tl.constexpr,
    SOFT: tl.constexpr,
    SMOOTHING: tl.constexpr,
    SOFTCAP: tl.constexpr,
    PREDICT: tl.constexpr,
    COMPUTE: tl.constexpr,
    BLOCK: tl.constexpr,
    LANES: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Go through the middle once.

    Return the maximum of y; the sums of exp(y - maximum), of the spread, and of spread * y; and where the maximum is.
    """
    column = tl.arange(0, BLOCK)
    maximum = tl.full((LANES,), LOWEST, COMPUTE)  # each lane has its own, so none waits for another
    total = tl.zeros((LANES,), COMPUTE)
    mass = tl.zeros((LANES,), COMPUTE)
    pull = tl.zeros((LANES,), COMPUTE)
    best = tl.full((LANES,), NOWHERE, tl.int32)
    for start in range(0, columns, BLOCK):
        mask = column < columns - start
        y = load_logits(x_ptr + start + column, mask, SOFTCAP, COMPUTE)
        if SOFT or SMOOTHING > 0:
            spread = spread_of(
                target_ptr, class_weight_ptr, start + column, mask, even, SOFT, SMOOTHING, COMPUTE
            )  # fmt: skip
            mass += by_lane(spread, LANES, WIDE).sum(2).sum(0)
            pull += by_lane(spread * tl.where(mask, y, 0.0), LANES, WIDE).sum(2).sum(0)
        y = by_lane(y, LANES, WIDE)
        highest = tl.max(tl.max(y, axis=2), axis=0)
        if PREDICT:
            place = tl.where(y == highest[None, :, None], by_lane(start + column, LANES, WIDE), NOWHERE)
            best = tl.where(highest > maximum, tl.min(tl.min(place, axis=2), axis=0), best)
        grown = tl.maximum(maximum, highest)
        total *= tl.exp(maximum - grown)  # the old sum, rescaled
        total += tl.exp(y - grown[None, :, None]).sum(2).sum(0)
        maximum = grown
    highest = tl.max(maximum, axis=0)
    total *= tl.exp(maximum - highest)
    best = tl.min(tl.where(maximum == highest, best, NOWHERE), axis=0)
    # a sum over lanes makes all warps wait, and the compiler does not see that one of zeros is 0
    all_mass, all_pull = tl.full((), 0, COMPUTE), tl.full((), 0, COMPUTE)
    if SOFT or SMOOTHING > 0:
        all_mass, all_pull = tl.sum(mass, axis=0), tl.sum(pull, axis=0)
    return highest, tl.sum(total, axis=0), all_mass, all_pull, best


@triton.jit
def by_lane(x, LANES: tl.constexpr, WIDE: tl.constexpr):
    """Reshape: a lane's elements are along the first and the last axis."""
    return tl.reshape(x, (x.shape[0] // LANES // WIDE, LANES, WIDE))


@triton.jit
def sums_of_row(
    x_ptr,
    target_ptr,
    class_weight_ptr,
    columns,
    LOWEST: tl.constexpr,
    SOFT: tl.constexpr,
    SMOOTHING: tl.constexpr,
    SOFTCAP: tl.constexpr,
    PREDICT: tl.constexpr,
    COMPUTE: tl.constexpr,
    BLOCK: tl.constexpr,
    LANES: tl.constexpr,
    WIDE: tl.constexpr,
    EDGES: tl.constexpr,
):
    """Return the same of a whole row."""
    even = even_of(columns, SMOOTHING, COMPUTE)
    head, middle = middle_of(x_ptr, columns, WIDE, EDGES)
    if EDGES:  # loaded now, needed last
        edge, inside = edges_of(head, middle, columns, WIDE)
        y = load_logits(x_ptr + edge, inside, SOFTCAP, COMPUTE)
    maximum, total, mass, pull, best = sums_of_middle(
        begin_of(x_ptr, head, WIDE, EDGES),
        target_ptr + head,
        None if class_weight_ptr is None else class_weight_ptr + head,
        middle,
        even,
        LOWEST,
        SOFT,
        SMOOTHING,
        SOFTCAP,
        PREDICT,
        COMPUTE,
        BLOCK,
        LANES,
        WIDE,
    )
    if EDGES:
        best = tl.where(best == NOWHERE, best, best + head)
        highest = tl.max(y, axis=0)
        first = tl.min(tl.where(y == highest, edge, NOWHERE), axis=0)
        grown = tl.maximum(maximum, highest)
        best = tl.minimum(tl.where(highest == grown, first, NOWHERE), tl.where(maximum == grown, best, NOWHERE))
        total = total * tl.exp(maximum - grown) + tl.sum(tl.exp(y - grown), axis=0)
        maximum = grown
        if SOFT or SMOOTHING > 0:
            spread = spread_of(target_ptr, class_weight_ptr, edge, inside, even, SOFT, SMOOTHING, COMPUTE)
            mass += tl.sum(spread, axis=0)
            pull += tl.sum(spread * tl.where(inside, y, 0.0), axis=0)
    return maximum, total, mass, pull, best


@triton.jit
def even_of(columns, SMOOTHING: tl.constexpr, COMPUTE: tl.constexpr):
    return tl.full((), SMOOTHING, COMPUTE) / columns


# --8<-- [end:sums]


# --8<-- [start:write]
@triton.jit
def write_row(
    x_ptr,
    target_ptr,
    class_weight_ptr,
    grad_ptr,
    columns,
    target,
    maximum,
    along,
    scale,
    own,
    SOFT: tl.constexpr,
    SMOOTHING: tl.constexpr,
    SOFTCAP: tl.constexpr,
    COMPUTE: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDE: tl.constexpr,
    EDGES: tl.constexpr,
    ALIKE: tl.constexpr,
):
    """Write a row's gradient, backward: what was read last is still in a cache."""
    target = tl.cast(target, tl.int32)
    even = even_of(columns, SMOOTHING, COMPUTE)
    head, middle = middle_of(x_ptr, columns, WIDE, EDGES)
    if EDGES:
        edge, inside = edges_of(head, middle, columns, WIDE)
        write_part(
            x_ptr + edge,
            grad_ptr + edge,
            target_ptr,
            class_weight_ptr,
            edge,
            inside,
            target,
            maximum,
            along,
            scale,
            own,
            even,
            SOFT,
            SMOOTHING,
            SOFTCAP,
            COMPUTE,
        )
    x_ptr = begin_of(x_ptr, head, WIDE, EDGES)
    grad_ptr = begin_of(grad_ptr, head, WIDE, ALIKE)
    column = tl.arange(0, BLOCK)
    last = (middle - 1) // BLOCK * BLOCK
    for done in range(0, middle, BLOCK):
        start = last - done
        write_part(
            x_ptr + start + column,
            grad_ptr + start + column,
            target_ptr + head + start,
            None if class_weight_ptr is None else class_weight_ptr + head + start,
            column,
            column < middle - start,
            target - head - start,
            maximum,
            along,
            scale,
            own,
            even,
            SOFT,
            SMOOTHING,
            SOFTCAP,
            COMPUTE,
        )


@triton.jit
def write_part(
    x_ptrs,
    grad_ptrs,
    target_ptr,
    class_weight_ptr,
    column,
    mask,
    target,
    maximum,
    along,
    scale,
    own,
    even,
    SOFT: tl.constexpr,
    SMOOTHING: tl.constexpr,
    SOFTCAP: tl.constexpr,
    COMPUTE: tl.constexpr,
):
    """Write the gradient of these columns: ``along`` the exponentials, less ``scale`` times what is wanted.

    ``column`` and ``target`` are counted from where ``target_ptr`` and ``class_weight_ptr`` are.
    """
    y = capped(tl.load(x_ptrs, mask=mask).to(COMPUTE), SOFTCAP)
    grad = tl.exp(y - maximum) * along
    if not SOFT:
        grad -= tl.where(column == target, own, 0.0)
    if SOFT or SMOOTHING > 0:
        grad -= scale * spread_of(target_ptr, class_weight_ptr, column, mask, even, SOFT, SMOOTHING, COMPUTE)
    if SOFTCAP > 0:
        grad *= 1 - (y / SOFTCAP) * (y / SOFTCAP)
    tl.store(grad_ptrs, grad, mask=mask)


@triton.jit
def write_zeros(grad_ptr, columns, BLOCK: tl.constexpr, WIDE: tl.constexpr, EDGES: tl.constexpr):
    head, middle = middle_of(grad_ptr, columns, WIDE, EDGES)
    if EDGES:
        edge, inside = edges_of(head, middle, columns, WIDE)
        tl.store(grad_ptr + edge, 0.0, mask=inside)
    grad_ptr = begin_of(grad_ptr, head, WIDE, EDGES)
    column = tl.arange(0, BLOCK)
    for start in range(0, middle, BLOCK):
        tl.store(grad_ptr + start + column, 0.0, mask=column < middle - start)


@triton.jit
def own_of(
    target,
    class_weight_ptr,
    columns,
    SOFT: tl.constexpr,
    SMOOTHING: tl.constexpr,
    COMPUTE: tl.constexpr,
):
    """Return what is wanted in the target's own column: NaN if there is none."""
    if SOFT:
        own = tl.full((), 0, COMPUTE)
    else:
        is_column = (target >= 0) & (target < columns)
        own = tl.where(is_column, tl.full((), 1 - SMOOTHING, COMPUTE), float("nan"))
        if class_weight_ptr is not None:
            own *= tl.load(class_weight_ptr + target, mask=is_column, other=0).to(COMPUTE)
    return own


@triton.jit
def scales_of(grad_loss, divisor_ptr, count_ptr, Z_LOSS: tl.constexpr, COMPUTE: tl.constexpr):
    """Return how much the loss of a row counts in the result, and how much the square of its log-sum-exp."""
    scale, z_scale = grad_loss, grad_loss
    if divisor_ptr is not None:
        scale /= tl.load(divisor_ptr).to(COMPUTE)
    if Z_LOSS > 0:
        z_scale *= Z_LOSS
        if count_ptr is not None:
            z_scale /= tl.load(count_ptr).to(COMPUTE)
    return scale, z_scale


@triton.jit
def along_of(maximum, total, mass, scale, z_scale, grad_lse, Z_LOSS: tl.constexpr):
    """Return what multiplies the exponentials of a row in its gradient."""
    along = scale * mass + grad_lse
    if Z_LOSS > 0:
        along += 2 * z_scale * (maximum + tl.log(total))
    return along / total


# --8<-- [end:write]


# --8<-- [start:kernels]
@triton.jit
def cross_entropy_kernel(
    x_ptr,
    target_ptr,
    class_weight_ptr,
    loss_ptr,
    stats_ptr,
    predicted_ptr,
    grad_ptr,
    divisor_ptr,
    count_ptr,
    columns,
    x_stride,
    target_stride,
    grad_stride,
    ignore_index,
    LOWEST: tl.constexpr,
    SOFT: tl.constexpr,
    SMOOTHING: tl.constexpr,
    SOFTCAP: tl.constexpr,
    Z_LOSS: tl.constexpr,
    COMPUTE: tl.constexpr,
    BLOCK: tl.constexpr,
    LANES: tl.constexpr,
    WIDE: tl.constexpr,
    UNIT: tl.constexpr,
    EDGES: tl.constexpr,
    ALIKE: tl.constexpr,
):
    """Compute the loss of a row, without its z-loss, and the gradient, with it.

    Parameters:
        x_ptr: Logits ``(rows, columns)``, rows ``x_stride * UNIT`` apart.
        target_ptr: ``(rows,)``, a column for each; or, if ``SOFT``, probabilities like the logits.
        class_weight_ptr: ``(columns,)``, or None.
        loss_ptr: ``(rows,)`` of the dtype ``COMPUTE``.
        stats_ptr: ``(rows, 3)``: the maximum of y, the sum of exp(y - maximum), and the sum of what is wanted.
        predicted_ptr: ``(rows,)`` of int64, gets the first column with the maximum; or None.
        grad_ptr: Like the logits, may be the same; or None, for no gradient.
        divisor_ptr, count_ptr: Of a mean, what the losses and what the z-losses are divided by; else None.
        columns, x_stride, target_stride, grad_stride: Divided by ``UNIT``, which tells the compiler what divides them.
        ignore_index: A row with this target is not read; its stats are 0, 1 and 0, its prediction is -1.
        LOWEST: What is below all logits but -inf.
        SMOOTHING, SOFTCAP, Z_LOSS: 0 for none.
        BLOCK, LANES, WIDE: Columns of a block, lanes that share it, neighbors that a lane loads at once.
        EDGES, ALIKE: Whether rows begin or end within 16 bytes; whether those of the gradient begin like those of x.
    """
    columns *= UNIT
    row = tl.program_id(axis=0).to(tl.int64)
    x_ptr += row * x_stride * UNIT
    if SOFT:
        target_ptr += row * target_stride * UNIT
        target = -1
        counts = True
    else:
        target = tl.load(target_ptr + row)
        counts = target != ignore_index
    if counts:
        own = own_of(target, class_weight_ptr, columns, SOFT, SMOOTHING, COMPUTE)
        if not SOFT:  # now, for the gradient may be written over it
            is_column = (target >= 0) & (target < columns)
            y_target = load_logits(x_ptr + target, is_column, SOFTCAP, COMPUTE)
        if grad_ptr is not None:  # now, for no other warps would hide how long it takes after the sums
            one = tl.full((), 1, COMPUTE)
            scale, z_scale = scales_of(one, divisor_ptr, count_ptr, Z_LOSS, COMPUTE)
        maximum, total, mass, pull, best = sums_of_row(
            x_ptr,
            target_ptr,
            class_weight_ptr,
            columns,
            LOWEST,
            SOFT,
            SMOOTHING,
            SOFTCAP,
            predicted_ptr is not None,
            COMPUTE,
            BLOCK,
            LANES,
            WIDE,
            EDGES,
        )
        loss = tl.full((), 0, COMPUTE)
        if not SOFT:
            loss += own * (tl.log(total) + (maximum - y_target))
        if SOFT or SMOOTHING > 0:
            loss += mass * tl.log(total) + (mass * maximum - pull)
        mass += own
        tl.store(loss_ptr + row, loss)
        tl.store(stats_ptr + 3 * row, maximum)
        tl.store(stats_ptr + 3 * row + 1, total)
        tl.store(stats_ptr + 3 * row + 2, mass)
        if predicted_ptr is not None:
            tl.store(predicted_ptr + row, tl.where(best == NOWHERE, -1, best))
        if grad_ptr is not None:
            along = along_of(maximum, total, mass, scale, z_scale, 0.0, Z_LOSS)
            write_row(
                x_ptr,
                target_ptr,
                class_weight_ptr,
                grad_ptr + row * grad_stride * UNIT,
                columns,
                target,
                maximum,
                along,
                scale,
                scale * own,
                SOFT,
                SMOOTHING,
                SOFTCAP,
                COMPUTE,
                BLOCK,
                WIDE,
                EDGES,
                ALIKE,
            )
    else:
        tl.store(loss_ptr + row, 0.0)
        tl.store(stats_ptr + 3 * row, 0.0)
        tl.store(stats_ptr + 3 * row + 1, 1.0)
        tl.store(stats_ptr + 3 * row + 2, 0.0)
        if predicted_ptr is not None:
            tl.store(predicted_ptr + row, -1)
        if grad_ptr is not None:
            write_zeros(grad_ptr + row * grad_stride * UNIT, columns, BLOCK, WIDE, EDGES)


@triton.jit
def gradient_kernel(
    grad_loss_ptr,
    grad_lse_ptr,
    x_ptr,
    target_ptr,
    class_weight_ptr,
    stats_ptr,
    grad_ptr,
    divisor_ptr,
    count_ptr,
    columns,
    grad_loss_stride,
    x_stride,
    target_stride,
    grad_stride,
    ignore_index,
    SOFT: tl.constexpr,
    SMOOTHING: tl.constexpr,
    SOFTCAP: tl.constexpr,
    Z_LOSS: tl.constexpr,
    COMPUTE: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDE: tl.constexpr,
    UNIT: tl.constexpr,
    EDGES: tl.constexpr,
    ALIKE: tl.constexpr,
):
    """Write the gradient of a row in the backward.

    Parameters, beside those of :func:`cross_entropy_kernel`:
        grad_loss_ptr: The incoming gradient of the loss, ``grad_loss_stride`` apart: 0 for one number for all rows.
        grad_lse_ptr: That of the log-sum-exp, ``(rows,)``, or None.
    """
    columns *= UNIT
    row = tl.program_id(axis=0).to(tl.int64)
    x_ptr += row * x_stride * UNIT
    grad_ptr += row * grad_stride * UNIT
    if SOFT:
        target_ptr += row * target_stride * UNIT
        target = -1
        counts = True
    else:
        target = tl.load(target_ptr + row)
        counts = target != ignore_index
    if counts:
        own = own_of(target, class_weight_ptr, columns, SOFT, SMOOTHING, COMPUTE)
        maximum = tl.load(stats_ptr + 3 * row)
        total = tl.load(stats_ptr + 3 * row + 1)
        mass = tl.load(stats_ptr + 3 * row + 2)
        grad_loss = tl.load(grad_loss_ptr + row * grad_loss_stride).to(COMPUTE)
        grad_lse = tl.full((), 0, COMPUTE)
        if grad_lse_ptr is not None:
            grad_lse = tl.load(grad_lse_ptr + row).to(COMPUTE)
        scale, z_scale = scales_of(grad_loss, divisor_ptr, count_ptr, Z_LOSS, COMPUTE)
        along = along_of(maximum, total, mass, scale, z_scale, grad_lse, Z_LOSS)
        write_row(
            x_ptr,
            target_ptr,
            class_weight_ptr,
            grad_ptr,
            columns,
            target,
            maximum,
            along,
            scale,
            scale * own,
            SOFT,
            SMOOTHING,
            SOFTCAP,
            COMPUTE,
            BLOCK,
            WIDE,
            EDGES,
            ALIKE,
        )
    else:
        write_zeros(grad_ptr, columns, BLOCK, WIDE, EDGES)


@triton.jit
def scale_kernel(
    grad_ptr,
    factor_ptr,
    rows,
    columns,
    stride,
    COMPUTE: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDE: tl.constexpr,
    UNIT: tl.constexpr,
    EDGES: tl.constexpr,
):
    """Multiply ``grad`` ``(rows, columns)`` by a number that only the GPU knows; do nothing if that is 1."""
    columns *= UNIT
    factor = tl.load(factor_ptr).to(COMPUTE)
    if factor != 1.0:
        column = tl.arange(0, BLOCK)
        for row in range(tl.program_id(axis=0).to(tl.int64), rows, tl.num_programs(axis=0)):
            row_ptr = grad_ptr + tl.cast(row, tl.int64) * stride * UNIT
            head, middle = middle_of(row_ptr, columns, WIDE, EDGES)
            if EDGES:
                edge, inside = edges_of(head, middle, columns, WIDE)
                at_edge = tl.load(row_ptr + edge, mask=inside).to(COMPUTE)
                tl.store(row_ptr + edge, at_edge * factor, mask=inside)
            row_ptr = begin_of(row_ptr, head, WIDE, EDGES)
            for start in range(0, middle, BLOCK):
                mask = column < middle - start
                grad = tl.load(row_ptr + start + column, mask=mask).to(COMPUTE)
                tl.store(row_ptr + start + column, grad * factor, mask=mask)


# --8<-- [end:kernels]


# --8<-- [start:options]
class Options(NamedTuple):
    """Hold what a loss is. 0 stands for no softcap."""

    ignore_index: int
    label_smoothing: float
    reduction: str
    softcap: float
    z_loss: float


class Details(NamedTuple):
    """Hold a loss and what else its kernel knows.

    Attributes:
        loss: What the function returns without ``details``. It has gradients.
        log_sum_exp: ``(...)``, that of each row, after the softcap; 0 of a row that does not count. It has gradients.
        z_loss: The part of the loss that is the z-loss, reduced like it; without a gradient.
        predicted: ``(...)``, the first column with the largest logit after the softcap, int64; -1 of a row that does
            not count, or whose logits have no largest.
        accuracy: The share of the rows that count in which ``predicted`` is the target, or is the first column with
            the largest probability.
    """

    loss: torch.Tensor
    log_sum_exp: torch.Tensor
    z_loss: torch.Tensor
    predicted: torch.Tensor
    accuracy: torch.Tensor


# --8<-- [end:options]


class Blocks(NamedTuple):
    """Columns of a block, lanes that share it, neighbors that a lane loads at once, and warps of a program."""

    block: int
    lanes: int
    wide: int
    num_warps: int


def blocks_for(columns: int, dtype: torch.dtype, crowded: bool = False) -> Blocks:
    """Choose blocks that take a quarter of a row at a time, 64 bytes a thread, or 32 where more is kept of each logit.

    >>> blocks_for(128256, torch.bfloat16)
    Blocks(block=32768, lanes=1024, wide=8, num_warps=32)
    >>> blocks_for(32000, torch.bfloat16, crowded=True)
    Blocks(block=4096, lanes=256, wide=8, num_warps=8)
    """
    size, most = dtype.itemsize, MOST_BYTES // (2 if torch.version.hip else 1)  # AMD's warps are twice as wide
    at_a_time = min(max(triton.next_power_of_2(columns) * size // 4, 2048), most)
    num_warps = at_a_time // 2048
    return Blocks(at_a_time // size // (2 if crowded else 1), 32 * num_warps, 16 // size, num_warps)


# --8<-- [start:launches]
def launch_forward(x, target, class_weight, losses, stats, predicted, grad, divisors, options) -> None:
    """Write the losses of these rows and, if there is a ``grad``, their gradients; that may be ``x`` itself."""
    soft = target.ndim == 2
    crowded = soft or options.label_smoothing > 0 or predicted is not None
    by = blocks_for(x.shape[1], x.dtype, crowded)
    unit, sizes = in_units(x, target if soft else None, grad)
    with torch.cuda.device_of(x):  # Triton launches on the current device, which need not be that of x
        cross_entropy_kernel[(len(x),)](
            x, target, class_weight, losses, stats, predicted, grad, *divisors, *sizes, options.ignore_index,
            LOWEST=torch.finfo(losses.dtype).min, SOFT=soft, SMOOTHING=options.label_smoothing,
            SOFTCAP=options.softcap, Z_LOSS=options.z_loss, COMPUTE=computed_in(x),
            BLOCK=by.block, LANES=by.lanes, WIDE=by.wide, UNIT=unit, **edges(by.wide, unit, x, grad),
            num_warps=by.num_warps,
        )  # fmt: skip


def launch_gradient(grad_loss, grad_lse, x, target, class_weight, stats, grad, divisors, options) -> None:
    """Write the gradients of these rows; ``grad_loss`` has a number for each row, or one for all."""
    soft = target.ndim == 2
    by = blocks_for(x.shape[1], x.dtype, soft or options.label_smoothing > 0)
    unit, (columns, *strides) = in_units(x, target if soft else None, grad)
    with torch.cuda.device_of(x):
        gradient_kernel[(len(x),)](
            grad_loss, grad_lse, x, target, class_weight, stats, grad, *divisors,
            columns, grad_loss.stride(0) if grad_loss.ndim else 0, *strides, options.ignore_index,
            SOFT=soft, SMOOTHING=options.label_smoothing, SOFTCAP=options.softcap, Z_LOSS=options.z_loss,
            COMPUTE=computed_in(x), BLOCK=by.block, WIDE=by.wide, UNIT=unit, **edges(by.wide, unit, x, grad),
            num_warps=by.num_warps,
        )  # fmt: skip


def scale_(grad: torch.Tensor, factor: torch.Tensor) -> None:
    """Multiply all of ``grad``, contiguous, by one number; nothing is read or written if that is 1."""
    if not grad.numel():
        return
    grad = grad.view(-1, grad.shape[-1])
    by = blocks_for(grad.shape[1], grad.dtype)
    unit, (columns, stride) = in_units(grad)
    with torch.cuda.device_of(grad):
        scale_kernel[(min(len(grad), PROGRAMS),)](
            grad, factor, len(grad), columns, stride, COMPUTE=computed_in(grad), BLOCK=by.block, WIDE=by.wide,
            UNIT=unit, EDGES=edges(by.wide, unit, grad)["EDGES"], num_warps=by.num_warps,
        )  # fmt: skip


# --8<-- [end:launches]


def as_rows(x: torch.Tensor) -> torch.Tensor:
    """Return ``(rows, columns)``, a row's elements adjacent in memory; a tensor that lies otherwise is copied."""
    x = x.resolve_neg()
    if x.shape[-1] > 1 and x.stride(-1) != 1:
        x = x.contiguous()
    return x.reshape(x.shape[:-1].numel(), x.shape[-1])


def in_order(x: torch.Tensor) -> torch.Tensor:
    return x.resolve_neg().contiguous().view(-1)


def as_target(target: torch.Tensor) -> torch.Tensor:
    """Return columns as ``(rows,)``, probabilities as ``(rows, columns)``."""
    return as_rows(target) if target.is_floating_point() else in_order(target).long()


def rows_like(target: torch.Tensor) -> torch.Size:
    """Return the shape of what has a number for each row."""
    return target.shape[:-1] if target.is_floating_point() else target.shape


def wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def computed_in(x: torch.Tensor) -> tl.dtype:
    return tl.float64 if x.dtype == torch.float64 else tl.float32


def in_units(*rows: torch.Tensor | None) -> tuple[int, list[int]]:
    """Return the largest power of two up to 8 that divides columns and strides, and these divided by it.

    The compiler loads 16 bytes at a time only if it knows this: by itself it looks for multiples of 16 alone.
    """
    numbers = [rows[0].shape[1], *(0 if each is None else each.stride(0) for each in rows)]
    unit = math.gcd(8, *numbers)
    return unit, [number // unit for number in numbers]


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


# --8<-- [start:reduce]
def divisors_of(target, class_weight, columns, options, dtype) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Return what a mean divides losses by, and z-losses by. They stay on the GPU: asking would make the host wait.

    With class weights, the losses are divided by the weights of the targets, as in torch; z-losses by the rows.
    """
    if options.reduction != "mean":
        return None, None
    if target.ndim == 2:
        count = torch.full((), len(target), dtype=dtype, device=target.device)
        return count, count
    counts = target != options.ignore_index
    count = counts.sum()
    if class_weight is None:
        return count, count
    counts = counts & (target >= 0) & (target < columns)
    weights = class_weight.to(dtype)[torch.where(counts, target, 0)]
    return torch.where(counts, weights, 0).sum(), count


def reduced(losses, stats, divisors, options, shape) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the loss, and the part of it that is the z-loss, or None."""
    z_losses = options.z_loss * log_sum_exp(stats).square() if options.z_loss else None
    if options.reduction == "none":
        parts = [None if each is None else each.view(shape) for each in (losses, z_losses)]
    else:
        parts = [None if each is None else each.sum() for each in (losses, z_losses)]
        if options.reduction == "mean":
            parts = [None if each is None else each / by for each, by in zip(parts, divisors, strict=True)]
    loss, z_loss = parts
    return (loss, None) if z_loss is None else (loss + z_loss, z_loss)


def log_sum_exp(stats: torch.Tensor) -> torch.Tensor:
    maximum, total, _ = stats.unbind(-1)
    return maximum + total.log()


def with_details(loss, z_loss, stats, predicted, shape) -> list[torch.Tensor]:
    """Return log-sum-exp, z-loss and predictions, in their shapes."""
    z_loss = torch.zeros_like(loss) if z_loss is None else z_loss
    return [log_sum_exp(stats).view(shape), z_loss, predicted.view(shape)]


def accuracy_of(predicted: torch.Tensor, target: torch.Tensor, ignore_index: int, dtype: torch.dtype) -> torch.Tensor:
    if target.is_floating_point():
        return (predicted == target.argmax(-1)).to(dtype).mean()
    target = target.long()
    counts = target != ignore_index
    return ((predicted == target) & counts).sum().to(dtype) / counts.sum().to(dtype)


# --8<-- [end:reduce]


# --8<-- [start:forward]
def loss_forward(logits, target, class_weight, options: Options, details: bool, wanted: bool) -> list[torch.Tensor]:
    """Return the loss and three numbers for each row; log-sum-exp, z-loss and predictions; and the gradient."""
    check_arguments(logits, target, class_weight, options)
    rows, target_rows = as_rows(logits), as_target(target)
    class_weight = None if class_weight is None else in_order(class_weight)
    losses, stats, predicted = of_each_row(rows, details)
    divisors = divisors_of(target_rows, class_weight, rows.shape[1], options, losses.dtype)
    grad = torch.empty(rows.shape, dtype=rows.dtype, device=rows.device) if wanted else None
    if len(rows):
        launch_forward(rows, target_rows, class_weight, losses, stats, predicted, grad, divisors, options)
    shape = rows_like(target)
    loss, z_loss = reduced(losses, stats, divisors, options, shape)
    more = with_details(loss, z_loss, stats, predicted, shape) if details else []
    return [loss, stats, *more, *([grad.view(logits.shape)] if wanted else [])]


def loss_backward(grad_loss, grad_lse, logits, target, class_weight, stats, options: Options) -> torch.Tensor:
    """Return the gradient of the logits, from the three numbers of each row."""
    rows, target = as_rows(logits), as_target(target)
    class_weight = None if class_weight is None else in_order(class_weight)
    grad = torch.empty(rows.shape, dtype=rows.dtype, device=rows.device)
    divisors = divisors_of(target, class_weight, rows.shape[1], options, stats.dtype)
    if grad.numel():
        incoming = by_row(grad_loss), None if grad_lse is None else in_order(grad_lse)
        launch_gradient(*incoming, rows, target, class_weight, stats, grad, divisors, options)
    return grad.view(logits.shape)


# --8<-- [end:forward]


def of_each_row(rows: torch.Tensor, details: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Return room for the loss of each row, for three numbers and, or None, for what is predicted."""
    made = {"dtype": wide(rows.dtype), "device": rows.device}
    predicted = torch.empty(len(rows), dtype=torch.int64, device=rows.device) if details else None
    return torch.empty(len(rows), **made), torch.empty((len(rows), 3), **made), predicted


def by_row(grad_loss: torch.Tensor) -> torch.Tensor:
    """Return a number for each row, or one for all."""
    grad_loss = grad_loss.resolve_neg()
    return grad_loss.reshape(-1) if grad_loss.ndim else grad_loss


def made_in_forward(dtype: torch.dtype, reduction: str) -> bool:
    """Return whether forward can make the gradient.

    It cannot if each row is scaled by its own number, or if 1 / count may be 0 in its dtype.
    """
    return reduction != "none" and dtype != torch.float16


# --8<-- [start:linear_forward]
class Linear(NamedTuple):
    """Hold how the layer is computed: the dtype of its product, rows of a chunk, and which gradients are wanted."""

    dtype: torch.dtype
    chunk: int | None
    wants_hidden: bool
    wants_weight: bool
    wants_bias: bool

    @property
    def wanted(self) -> bool:
        return self.wants_hidden or self.wants_weight or self.wants_bias


def linear_forward(
    hidden, weight, bias, target, class_weight, options: Options, linear: Linear, details: bool
) -> list[torch.Tensor]:
    """Return what :func:`loss_forward` does, and the gradients that are wanted of hidden, weight and bias."""
    check_linear(hidden, weight, bias, target, class_weight, options, linear.chunk)
    layer = cast_layer(hidden, weight, bias, linear.dtype)
    target_rows = as_target(target)
    class_weight = None if class_weight is None else in_order(class_weight)
    losses, stats, predicted = of_each_row(layer[0], details)
    divisors = divisors_of(target_rows, class_weight, len(weight), options, losses.dtype)
    grads = Gradients(layer, (hidden, weight, bias), linear)
    for part, logits in chunks(*layer, grads.chunk):
        launch_forward(
            logits, target_rows[part], class_weight, losses[part], stats[part],
            None if predicted is None else predicted[part], logits if linear.wanted else None, divisors, options,
        )  # fmt: skip
        grads.add(logits, part)
    logits = None  # its memory can then hold the rounded gradient of weight
    shape = rows_like(target)
    loss, z_loss = reduced(losses, stats, divisors, options, shape)
    more = with_details(loss, z_loss, stats, predicted, shape) if details else []
    return [loss, stats, *more, *grads.rounded()]


def linear_backward(
    grad_loss, grad_lse, hidden, weight, bias, target, class_weight, stats, options: Options, linear: Linear
) -> list[torch.Tensor]:
    """Return the gradients that are wanted, from logits that are computed again: scaled, before rows are added up."""
    layer = cast_layer(hidden, weight, bias, linear.dtype)
    target = as_target(target)
    class_weight = None if class_weight is None else in_order(class_weight)
    grad_loss, grad_lse = by_row(grad_loss), None if grad_lse is None else in_order(grad_lse)
    divisors = divisors_of(target, class_weight, len(weight), options, stats.dtype)
    grads = Gradients(layer, (hidden, weight, bias), linear)
    for part, logits in chunks(*layer, grads.chunk):
        incoming = grad_loss[part] if grad_loss.ndim else grad_loss, None if grad_lse is None else grad_lse[part]
        launch_gradient(*incoming, logits, target[part], class_weight, stats[part], logits, divisors, options)
        grads.add(logits, part)
    logits = None
    return grads.rounded()


def cast_layer(hidden, weight, bias, dtype):
    """Return rows of hidden, weight and bias in the dtype of the product."""
    rows = hidden.reshape(hidden.shape[:-1].numel(), hidden.shape[-1])
    return rows.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)


def chunks(rows, weight, bias, chunk):
    """Yield slices of the rows, and their logits; all chunks use the same memory."""
    chunk = max(min(chunk, len(rows)), 1)
    logits = torch.empty((chunk, len(weight)), dtype=rows.dtype, device=rows.device)
    for begin in range(0, len(rows), chunk):
        part = slice(begin, min(begin + chunk, len(rows)))
        here = logits[: part.stop - begin]
        if bias is None:
            torch.mm(rows[part], weight.t(), out=here)
        else:
            torch.addmm(bias, rows[part], weight.t(), out=here)
        yield part, here


class Gradients:
    """Add up the gradients of a layer over chunks of rows: those of weight and bias in float32, rounded once."""

    def __init__(self, layer, given, linear: Linear):
        self.rows, self.weight, bias = layer
        self.given = given
        self.chunk = linear.chunk or rows_of_a_chunk(
            len(self.rows), self.weight.shape, linear.dtype, linear.wants_weight
        )
        dtype, wider = linear.dtype, wide(linear.dtype)
        make = torch.empty if len(self.rows) else torch.zeros  # then no chunk writes to them
        new = lambda like, dtype: make(like.shape, dtype=dtype, device=like.device)
        alone = len(self.rows) <= self.chunk and given[1].dtype == dtype
        self.hidden = new(self.rows, dtype) if linear.wants_hidden else None
        self.weights = new(self.weight, dtype if alone else wider) if linear.wants_weight else None
        self.bias = new(bias, wider) if linear.wants_bias else None

    def add(self, grad_logits, part) -> None:
        if self.hidden is not None:
            torch.mm(grad_logits, self.weight, out=self.hidden[part])
        if self.weights is not None:
            add_product(self.weights, grad_logits.t(), self.rows[part], add=part.start > 0)
        if self.bias is not None:
            of_part = grad_logits.sum(0, dtype=self.bias.dtype)
            self.bias = self.bias + of_part if part.start > 0 else of_part

    def rounded(self) -> list[torch.Tensor]:
        """Return them in the shapes and dtypes of hidden, weight and bias."""
        found = zip((self.hidden, self.weights, self.bias), self.given, strict=True)
        return [each.view(given.shape).to(given.dtype) for each, given in found if each is not None]


def add_product(total, a, b, add: bool):
    """Set ``total = a @ b``, or add the product to it. ``total`` has the dtype of ``a`` and ``b``, or float32."""
    if total.dtype == a.dtype:
        total.addmm_(a, b, beta=int(add))
    elif total.is_cuda:
        torch.addmm(total, a, b, out_dtype=total.dtype, beta=int(add), out=total)
    else:  # torch's CPU has no out_dtype
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
    chunk = CHUNK_BYTES // (max(columns, 1) * dtype.itemsize)
    chunk = max(chunk // 128 * 128 or chunk, 1)
    if not wants_weight or dtype.itemsize > 2:
        return chunk
    chunk = max(chunk, width)
    return max(rows, 1) if rows <= 2 * chunk else chunk


# --8<-- [start:functions]
class CrossEntropy(torch.autograd.Function):
    """Tie both directions together. Saved: the logits, the target, three numbers a row; and the gradient, if made.

    A call is bound to the signature of ``forward`` each time, which takes longer the more names that has.
    """

    @staticmethod
    def forward(*inputs):
        return tuple(loss_forward(*inputs))

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, target, class_weight, ctx.options, details, _ = inputs
        ctx.made = keep(ctx, (logits, target, class_weight), output, details)
        ctx.mark_non_differentiable(output[1], *output[3 if details else 2 :])

    @staticmethod
    def backward(ctx, *grads):
        grad_loss, grad_lse, made = incoming(ctx, grads)
        ctx.made = ()  # given away, it is not ours to be scaled again
        (grad,) = CrossEntropyBackward.apply(made, grad_loss, grad_lse, *ctx.saved_tensors, ctx.options)
        return grad, *[None] * 5

    @staticmethod
    def vmap(info, in_dims, *inputs):
        raise NotImplementedError(
            "a loss is not mapped by torch.vmap; it takes any leading dimensions, so call it with logits or hidden"
            " (..., columns) and reduction='none'"
        )


class CrossEntropyBackward(torch.autograd.Function):
    """Scale the gradient, or make it. As a function of its own it also serves ``torch.func.grad`` and ``vjp``."""

    @staticmethod
    def forward(made, *inputs):
        return scaled(made, inputs[0]) if made else (loss_backward(*inputs),)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("a loss has no gradient of its gradient; call it without create_graph=True")

    vmap = CrossEntropy.vmap


class LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(*inputs):
        return tuple(linear_forward(*inputs))

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.options, ctx.linear, details = inputs
        ctx.made = keep(ctx, tensors, output, details)
        ctx.mark_non_differentiable(output[1], *output[3 if details else 2 :])

    @staticmethod
    def backward(ctx, *grads):
        grad_loss, grad_lse, made = incoming(ctx, grads)
        ctx.made = ()
        linear = ctx.linear if made else again(ctx.linear, ctx.needs_input_grad)
        found = LinearCrossEntropyBackward.apply(made, grad_loss, grad_lse, *ctx.saved_tensors, ctx.options, linear)
        return *spread_out(found, linear), *[None] * 5

    vmap = CrossEntropy.vmap


class LinearCrossEntropyBackward(torch.autograd.Function):
    @staticmethod
    def forward(made, *inputs):
        return scaled(made, inputs[0]) if made else tuple(linear_backward(*inputs))

    setup_context = CrossEntropyBackward.setup_context
    backward = CrossEntropyBackward.backward
    vmap = CrossEntropy.vmap


# --8<-- [end:functions]


def scaled(made: tuple[torch.Tensor, ...], factor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    for each in made:
        scale_(each, factor)
    return made


def keep(ctx, tensors, output, details: bool) -> tuple[torch.Tensor, ...]:
    """Save what the backward needs; return the gradients that the forward made."""
    loss, stats, *rest = output
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*tensors, stats)
    ctx.details, ctx.loss = details, (loss.shape, loss.dtype, loss.device)
    return tuple(rest[3 if details else 0 :])


def incoming(ctx, grads):
    """Return the gradients of the loss and of the log-sum-exp, or None; and those made before, if they still serve."""
    grad_loss, grad_lse = grads[0], grads[2] if ctx.details else None
    if grad_loss is None:  # the log-sum-exp alone is used
        shape, dtype, device = ctx.loss
        grad_loss = torch.zeros(shape, dtype=dtype, device=device)
    return grad_loss, grad_lse, ctx.made if grad_lse is None else ()


def again(linear: Linear, needs) -> Linear:
    """Return the same layer, for the gradients that a backward needs."""
    return linear._replace(wants_hidden=needs[0], wants_weight=needs[1], wants_bias=needs[2])


def spread_out(found, linear: Linear) -> list[torch.Tensor | None]:
    """Return the gradients of hidden, weight and bias: None for one that was not wanted."""
    found = iter(found)
    return [next(found) if wants else None for wants in linear[2:]]


# The same for torch.compile, which does not look into a custom op. An op returns nothing that it was given, so the
# gradient of the logits is made in the backward.


@torch.library.custom_op("triton_by_example_library::cross_entropy", mutates_args=())
def cross_entropy_op(
    logits: torch.Tensor,
    target: torch.Tensor,
    class_weight: torch.Tensor | None,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
    softcap: float,
    z_loss: float,
    details: bool,
) -> list[torch.Tensor]:
    options = Options(ignore_index, label_smoothing, reduction, softcap, z_loss)
    return loss_forward(logits, target, class_weight, options, details, False)


@torch.library.custom_op("triton_by_example_library::cross_entropy_backward", mutates_args=())
def cross_entropy_backward_op(
    grad_loss: torch.Tensor,
    grad_lse: torch.Tensor | None,
    logits: torch.Tensor,
    target: torch.Tensor,
    class_weight: torch.Tensor | None,
    stats: torch.Tensor,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
    softcap: float,
    z_loss: float,
) -> torch.Tensor:
    options = Options(ignore_index, label_smoothing, reduction, softcap, z_loss)
    return loss_backward(grad_loss, grad_lse, logits, target, class_weight, stats, options)


@torch.library.custom_op("triton_by_example_library::linear_cross_entropy", mutates_args=())
def linear_cross_entropy_op(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    target: torch.Tensor,
    class_weight: torch.Tensor | None,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
    softcap: float,
    z_loss: float,
    dtype: torch.dtype,
    chunk: int | None,
    wants_hidden: bool,
    wants_weight: bool,
    wants_bias: bool,
    details: bool,
) -> list[torch.Tensor]:
    options = Options(ignore_index, label_smoothing, reduction, softcap, z_loss)
    linear = Linear(dtype, chunk, wants_hidden, wants_weight, wants_bias)
    return linear_forward(hidden, weight, bias, target, class_weight, options, linear, details)


@torch.library.custom_op("triton_by_example_library::linear_cross_entropy_backward", mutates_args=())
def linear_cross_entropy_backward_op(
    grad_loss: torch.Tensor,
    grad_lse: torch.Tensor | None,
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    target: torch.Tensor,
    class_weight: torch.Tensor | None,
    stats: torch.Tensor,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
    softcap: float,
    z_loss: float,
    dtype: torch.dtype,
    chunk: int | None,
    wants_hidden: bool,
    wants_weight: bool,
    wants_bias: bool,
) -> list[torch.Tensor]:
    options = Options(ignore_index, label_smoothing, reduction, softcap, z_loss)
    linear = Linear(dtype, chunk, wants_hidden, wants_weight, wants_bias)
    return linear_backward(
        grad_loss, grad_lse, hidden, weight, bias, target, class_weight, stats, options, linear
    )  # fmt: skip


def fake_outputs(target, reduction, dtype, details):
    shape = rows_like(target)
    rows = shape.numel() if isinstance(shape, torch.Size) else math.prod(shape)
    loss = target.new_empty(shape if reduction == "none" else (), dtype=wide(dtype))
    more = [loss.new_empty(shape), torch.empty_like(loss), loss.new_empty(shape, dtype=torch.int64)]
    return [loss, loss.new_empty((rows, 3)), *(more if details else [])]


def fake_gradients(hidden, weight, bias, *wants):
    wanted = zip((hidden, weight, bias), wants, strict=True)
    return [each.new_empty(each.shape) for each, wants in wanted if wants]


@cross_entropy_op.register_fake
def _(logits, target, class_weight, ignore_index, label_smoothing, reduction, softcap, z_loss, details):
    return fake_outputs(target, reduction, logits.dtype, details)


@cross_entropy_backward_op.register_fake
def _(grad_loss, grad_lse, logits, *_):
    return logits.new_empty(logits.shape)


@linear_cross_entropy_op.register_fake
def _(hidden, weight, bias, target, class_weight, ignore_index, smoothing, reduction, cap, z, dtype, chunk, *more):
    *wants, details = more
    return fake_outputs(target, reduction, dtype, details) + fake_gradients(hidden, weight, bias, *wants)


@linear_cross_entropy_backward_op.register_fake
def _(grad_loss, grad_lse, hidden, weight, bias, *more):
    return fake_gradients(hidden, weight, bias, *more[-3:])


def keep_for_op(ctx, inputs, output):
    *tensors, ignore_index, label_smoothing, reduction, softcap, z_loss, details = inputs
    ctx.options = Options(ignore_index, label_smoothing, reduction, softcap, z_loss)
    ctx.made = keep(ctx, tensors, output, details)


def keep_for_linear_op(ctx, inputs, output):
    tensors, options, (dtype, chunk, *wants, details) = inputs[:5], inputs[5:10], inputs[10:]
    ctx.options, ctx.linear = Options(*options), Linear(dtype, chunk, *wants)
    ctx.made = keep(ctx, tensors, output, details)


def op_backward(ctx, grads):
    grad_loss, grad_lse, _ = incoming(ctx, grads)
    return cross_entropy_backward_op(grad_loss, grad_lse, *ctx.saved_tensors, *ctx.options), *[None] * 8


def linear_op_backward(ctx, grads):
    grad_loss, grad_lse, made = incoming(ctx, grads)
    linear = ctx.linear if made else again(ctx.linear, ctx.needs_input_grad)
    if made:
        found = [each * grad_loss for each in made]
    else:
        found = linear_cross_entropy_backward_op(grad_loss, grad_lse, *ctx.saved_tensors, *ctx.options, *linear)
    return *spread_out(found, linear), *[None] * 13


cross_entropy_op.register_autograd(op_backward, setup_context=keep_for_op)
linear_cross_entropy_op.register_autograd(linear_op_backward, setup_context=keep_for_linear_op)


# --8<-- [start:host]
def cross_entropy(
    logits: torch.Tensor,
    target: torch.Tensor,
    *,
    class_weight: torch.Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    softcap: float | None = None,
    z_loss: float = 0.0,
    details: bool = False,
) -> torch.Tensor | Details:
    """Return the cross-entropy of each row of ``logits`` and its ``target``; it has a gradient for ``logits``.

    Args:
        logits: ``(..., columns)`` on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``. The columns are the
            last dimension; in torch's function, the second. It is copied if the elements of a row are no neighbors in
            memory, or if the rows do not lie at equal distances.
        target: ``(...)`` of whole numbers: for each row a column, or ``ignore_index``; one that is neither makes the
            loss NaN, and the gradient of its row. Or ``(..., columns)`` of one of ``DTYPES``: probabilities, which
            need not add up to 1. It gets no gradient.
        class_weight: ``(columns,)`` of one of ``DTYPES``: what is wanted in each column is multiplied by it. A mean of
            columns is divided by the weights of the targets, one of probabilities by the rows, as in torch.
        ignore_index: A row with this target has loss and gradient 0, does not count in a mean, and is not read.
        label_smoothing: From 0 to 1. Kernels are compiled for each that is used, for each softcap and each z_loss.
        reduction: "mean" of the rows that count, "sum", or "none".
        softcap: A positive number: logits x become ``softcap * tanh(x / softcap)``; or None, for no cap.
        z_loss: Adds ``z_loss * log_sum_exp**2`` to the loss of each row. Class weights do not weigh it.
        details: Whether to return :class:`Details`, with the log-sum-exp, predictions and accuracy beside the loss.

    Returns:
        The loss, in float32, also of 16-bit logits and under autocast; in float64 for float64. It is a number, NaN if
        no row counts in a mean; for "none", a number for each row. The gradient has the dtype of ``logits`` and is
        contiguous. For "mean" and "sum" of all dtypes but float16 the forward makes it, and the backward scales it if
        the incoming one is not 1, which rounds twice. A gradient of the log-sum-exp has the backward make it anew.
        The kernels may still be running when the loss is returned.

    Raises:
        ValueError: An argument is something that the kernels cannot serve.
        NotImplementedError: It is called under ``torch.vmap``.
        RuntimeError: The gradient of a gradient is asked for.

    >>> logits = torch.tensor([[1.0, 3.0, 2.0, 5.0], [0.0, 0.0, 0.0, 0.0]], requires_grad=True)
    >>> loss = cross_entropy(logits, torch.tensor([1, -100]))
    >>> loss.detach()
    tensor(2.1852)
    >>> loss.backward()
    >>> logits.grad
    tensor([[ 0.0152, -0.8875,  0.0414,  0.8310],
            [ 0.0000,  0.0000,  0.0000,  0.0000]])
    >>> cross_entropy(logits, torch.tensor([3, -100]), details=True).accuracy
    tensor(1.)
    """
    options = checked_options(ignore_index, label_smoothing, reduction, softcap, z_loss)
    refuse_gradients(target=target, class_weight=class_weight)
    wanted = torch.is_grad_enabled() and logits.requires_grad and made_in_forward(logits.dtype, reduction)
    if torch.compiler.is_compiling():
        found = cross_entropy_op(logits, target, class_weight, *options, details)
    else:
        found = CrossEntropy.apply(logits, target, class_weight, options, details, wanted)
    return result_of(found, target, options, details)


def linear_cross_entropy(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    class_weight: torch.Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    softcap: float | None = None,
    z_loss: float = 0.0,
    chunk: int | None = None,
    details: bool = False,
) -> torch.Tensor | Details:
    """Return ``cross_entropy(linear(hidden, weight, bias), target, …)``, with the logits of one chunk at a time.

    Args:
        hidden: ``(..., K)``, of one of ``DTYPES``.
        weight: ``(columns, K)``, as ``torch.nn.Linear`` has it.
        bias: ``(columns,)``, or None. Dtypes may differ, but that float64 goes with float64 only, and float16 with
            bfloat16 under autocast only. The product is in the dtype of autocast; without it, in 16 bits if ``hidden``
            or ``weight`` is; gradients have the dtypes of what they belong to.
        target: As in :func:`cross_entropy`; so are the other options.
        chunk: How many rows a chunk has; by default ``CHUNK_BYTES`` of logits, or for a gradient of a 16-bit
            product at least K rows, and all of them up to 2K: see :func:`rows_of_a_chunk`.

    Returns:
        The loss. For "mean" and "sum", unless the product is in float16, the forward makes the gradients that are
        wanted of ``hidden``, ``weight`` and ``bias``, and the backward scales them if the incoming gradient is not 1.
        Otherwise, in a second backward of the same graph, and for a gradient of the log-sum-exp, the backward computes
        the logits again: one matrix product more. Chunks are added up in float32, and rounded once, if ``weight`` is
        of 16 bits: its gradient takes 4 bytes an element until all are added, and 6 while it is rounded.

    Raises:
        ValueError, NotImplementedError, RuntimeError: As in :func:`cross_entropy`.

    >>> hidden = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> weight = torch.tensor([[1.0, 0.0], [3.0, 0.0], [2.0, 0.0], [5.0, 0.0]])
    >>> linear_cross_entropy(hidden, weight, torch.tensor([1, -100]), chunk=1)
    tensor(2.1852)
    """
    options = checked_options(ignore_index, label_smoothing, reduction, softcap, z_loss)
    refuse_gradients(target=target, class_weight=class_weight)
    dtype = dtype_of_product(hidden, weight)
    now = torch.is_grad_enabled() and made_in_forward(dtype, reduction)
    wants = (now and each is not None and each.requires_grad for each in (hidden, weight, bias))
    linear = Linear(dtype, None if chunk is None else as_int("chunk", chunk), *wants)
    if torch.compiler.is_compiling():
        found = linear_cross_entropy_op(hidden, weight, bias, target, class_weight, *options, *linear, details)
    else:
        found = LinearCrossEntropy.apply(hidden, weight, bias, target, class_weight, options, linear, details)
    return result_of(found, target, options, details)


# --8<-- [end:host]


def result_of(found, target, options: Options, details: bool) -> torch.Tensor | Details:
    """Return the loss alone, or with its details."""
    if not details:
        return found[0]
    loss, _, log_sum_exp, z_loss, predicted = found[:5]
    accuracy = accuracy_of(predicted, target, options.ignore_index, loss.dtype)
    return Details(loss, log_sum_exp, z_loss.detach(), predicted, accuracy)


def dtype_of_product(hidden: torch.Tensor, weight: torch.Tensor) -> torch.dtype:
    """Return autocast's dtype where it is on; else that of both, or the 16-bit one."""
    device, both = hidden.device.type, (hidden.dtype, weight.dtype)
    if torch.float64 not in both and device in ("cpu", "cuda") and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    if set(both) == {torch.float16, torch.bfloat16}:
        raise ValueError(f"hidden is {both[0]} and weight {both[1]}; without autocast, one 16-bit dtype must do")
    return min(both, key=lambda dtype: dtype.itemsize)


# --8<-- [start:check]
def checked_options(ignore_index, label_smoothing, reduction, softcap, z_loss) -> Options:
    """Return the options as the kernels take them."""
    cap = 0.0 if softcap is None else as_float("softcap", softcap)
    if softcap is not None and not 0 < cap < math.inf:
        raise ValueError(f"softcap must be a positive number, or None for no cap; got {softcap}")
    smoothing, z_loss = as_float("label_smoothing", label_smoothing), as_float("z_loss", z_loss)
    if not 0 <= smoothing <= 1:
        raise ValueError(f"label_smoothing must be from 0 to 1; got {smoothing}")
    if not 0 <= z_loss < math.inf:
        raise ValueError(f"z_loss must be 0 or positive; got {z_loss}")
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction must be one of {', '.join(REDUCTIONS)}; got {reduction!r}")
    return Options(as_int("ignore_index", ignore_index), smoothing, reduction, cap, z_loss)


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


def refuse_gradients(**tensors: torch.Tensor | None) -> None:
    for name, tensor in tensors.items():
        if tensor is not None and torch.is_grad_enabled() and tensor.requires_grad:
            raise ValueError(f"{name} gets no gradient; pass {name}.detach()")


def check_arguments(
    logits: torch.Tensor,
    target: torch.Tensor,
    class_weight: torch.Tensor | None,
    options: Options,
    columns: int | None = None,
    name: str = "logits",
) -> None:
    """Raise ``ValueError`` for tensors that the kernels would compute wrongly or not at all."""
    if not logits.ndim:
        raise ValueError(f"{name} must have a dimension or more; got a single number")
    columns = logits.shape[-1] if columns is None else columns
    check_tensors({name: logits, "target": target, "class_weight": class_weight})
    soft, rows = target.is_floating_point(), tuple(logits.shape[:-1])
    if target.shape != ((*rows, columns) if soft else rows) or (not soft and target.dtype not in INTEGERS):
        raise ValueError(
            f"target must have the shape {rows}, a whole number for each row, or {(*rows, columns)}, probabilities; got"
            f" {tuple(target.shape)} {target.dtype} for {name} {tuple(logits.shape)}"
        )
    for each, tensor in {name: logits, "target": target if soft else None, "class_weight": class_weight}.items():
        if tensor is not None and tensor.dtype not in DTYPES:
            supported = ", ".join(map(str, DTYPES))
            raise ValueError(f"{each} is {tensor.dtype}, which is not supported; use one of {supported}")
    if class_weight is not None and class_weight.shape != (columns,):
        raise ValueError(f"class_weight must have the shape {(columns,)}; got {tuple(class_weight.shape)}")
    if columns > MOST_COLUMNS:
        raise ValueError(f"a row has {columns} columns, at most {MOST_COLUMNS} are served")
    if not columns and target.shape.numel() != 0:
        raise ValueError("a row has no column, so none can be the target")
    if math.prod(rows) > 2**31 - 1:  # CUDA's limit of programs along one axis
        raise ValueError(f"{math.prod(rows)} rows are too many for one launch; split {name}")
    interpreted = not isinstance(cross_entropy_kernel, triton.JITFunction)
    if logits.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(
            f"{name} is on {logits.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}"
        )
    if interpreted and torch.bfloat16 in (logits.dtype, target.dtype):
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")


def check_tensors(named: dict[str, torch.Tensor | None]) -> None:
    """Raise ``ValueError`` unless all are dense and on the device of the first."""
    first, *_ = named
    for name, tensor in named.items():
        if tensor is not None and tensor.layout != torch.strided:
            raise ValueError(f"{name} is {tensor.layout}; pass {name}.to_dense()")
        if tensor is not None and tensor.device != named[first].device:
            raise ValueError(
                f"{first} is on {named[first].device} and {name} on {tensor.device}; move them to one device"
            )


def check_linear(hidden, weight, bias, target, class_weight, options, chunk) -> None:
    check_tensors({"hidden": hidden, "weight": weight, "bias": bias})
    if not hidden.ndim or weight.ndim != 2 or weight.shape[1] != hidden.shape[-1]:
        raise ValueError(
            f"weight must have the shape (columns, K) for hidden (..., K); got {tuple(weight.shape)} for hidden"
            f" {tuple(hidden.shape)}"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias must have the shape {tuple(weight.shape[:1])}; got {tuple(bias.shape)}")
    dtypes = {"hidden": hidden.dtype, "weight": weight.dtype, "bias": hidden.dtype if bias is None else bias.dtype}
    for name, dtype in dtypes.items():
        if dtype not in DTYPES:
            raise ValueError(f"{name} is {dtype}, which is not supported; use one of {', '.join(map(str, DTYPES))}")
        if (dtype == torch.float64) != (hidden.dtype == torch.float64):
            raise ValueError(f"hidden is {hidden.dtype} and {name} {dtype}; float64 goes with float64 only")
    if chunk is not None and chunk < 1:
        raise ValueError(f"a chunk must have a row or more; got {chunk}")
    check_arguments(hidden, target, class_weight, options, len(weight), "hidden")


# --8<-- [end:check]


def in_torch(
    logits, target, *, class_weight=None, ignore_index=-100, label_smoothing=0.0, reduction="mean", softcap=None,
    z_loss=0.0,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return what :func:`cross_entropy` computes, and the log-sum-exp, by torch."""
    y = logits if softcap is None else softcap * torch.tanh(logits / softcap)
    y = y.reshape(logits.shape[:-1].numel(), y.shape[-1])
    soft = target.is_floating_point()
    flat = target.reshape(y.shape) if soft else target.reshape(-1).long()
    loss = torch.nn.functional.cross_entropy(
        y, flat, class_weight, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction
    )
    counts = torch.ones_like(y[:, 0], dtype=torch.bool) if soft else flat != ignore_index
    lse = torch.where(counts, torch.logsumexp(y, dim=-1), 0)
    z_losses = z_loss * lse.square()
    z_loss = {"none": z_losses, "sum": z_losses.sum(), "mean": z_losses.sum() / counts.sum()}[reduction]
    shape = logits.shape[:-1]
    return (loss + z_loss).view(shape if reduction == "none" else ()), lse.view(shape)


def shown(values: torch.Tensor) -> str:
    return " ".join(f"{value:.4f}" for value in values.flatten().tolist())


def main():
    device = "cuda" if isinstance(cross_entropy_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    random = torch.Generator().manual_seed(0)
    numbers = lambda *shape: torch.randn(shape, generator=random, dtype=torch.float64).to(device)

    print("## options")
    logits, hidden, weight, bias = numbers(5, 21), numbers(5, 3), numbers(21, 3), numbers(21)
    target = torch.tensor([0, 20, -100, 7, 7], device=device)
    cases = {
        "no option": {},
        "bias": {"bias": bias},
        "class weights": {"class_weight": numbers(21).abs()},
        "label smoothing": {"label_smoothing": 0.1},
        "softcap": {"softcap": 2.0},
        "z-loss": {"z_loss": 0.01},
        "probabilities": {"target": torch.softmax(numbers(5, 21), dim=-1)},
        "each row by itself": {"reduction": "none"},
        "all of them": {
            "bias": bias, "class_weight": numbers(21).abs(), "label_smoothing": 0.1, "softcap": 2.0, "z_loss": 0.01
        },
    }  # fmt: skip
    for name, options in cases.items():
        options = {"target": target, **options}
        leaves = [each for each in (hidden, weight, options.get("bias")) if each is not None]
        leaves = [logits.requires_grad_(), *(each.requires_grad_() for each in leaves)]
        alone = {key: value for key, value in options.items() if key != "bias"}
        found = [cross_entropy(logits, **alone), linear_cross_entropy(hidden, weight, **options, chunk=2)]
        layer = torch.nn.functional.linear(hidden, weight, options.get("bias"))
        wanted = [in_torch(logits, **alone)[0], in_torch(layer, **alone)[0]]
        grads = [torch.autograd.grad(sum((each**2).sum() for each in outs), leaves) for outs in (found, wanted)]
        same = all(map(torch.allclose, (*found, *grads[0]), (*wanted, *grads[1])))
        print(f"{name}: losses and gradients", "as by torch" if same else "NOT as by torch")

    print("## details")
    # --8<-- [start:details]
    logits = torch.tensor([[1.0, 3.0, 2.0, 5.0], [4.0, 1.0, 1.0, 2.0]], device=device)
    found = cross_entropy(logits, torch.tensor([1, 0], device=device), z_loss=0.01, details=True)
    for name, value in found._asdict().items():
        print(f"{name}:", value.tolist() if name == "predicted" else shown(value))
    # --8<-- [end:details]

    print("## what a mean divides by")
    # --8<-- [start:mean]
    target = torch.tensor([1, 0], device=device)
    one_hot = torch.nn.functional.one_hot(target, 4).float()
    class_weight = torch.tensor([3.0, 1.0, 1.0, 1.0], device=device)
    for name, each in {"columns": target, "probabilities": one_hot}.items():
        print(f"{name}:", shown(cross_entropy(logits, each, class_weight=class_weight)))
    # --8<-- [end:mean]


if __name__ == "__main__":
    main()
