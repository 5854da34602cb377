# SPDX-License-Identifier: Apache-2.0
"""Cross-entropy over a large vocabulary, with its gradient made in the forward; alone, and with the layer before it.

For a row x of logits, with ``target`` the column that is right::

    loss = log(sum(exp(x))) - x[target]
    grad_x = softmax(x) - 1 in the column of the target, 0 in the others

A program takes a row, and goes through it in blocks, twice: first for the maximum and the sum, by which it knows the
loss; then backwards, to write the gradient. No share is ever stored. The gradient is scaled by the incoming one in the
backward, which for a loss that is not rescaled reads and writes nothing.

- :func:`cross_entropy`: of logits
- :func:`linear_cross_entropy`: of what comes before the last linear layer. That makes the logits of some rows at a time

Both are the mean of the rows that count: those whose target is not -100. ``snippets/library/cross_entropy.py`` is the
file to copy into a model: sums, losses of each row, label smoothing, float16, ``torch.compile`` and more.

Shapes: logits ``(..., V)``, target ``(...)``; hidden ``(..., K)``, weight ``(V, K)``, as ``torch.nn.Linear`` has it.
Traffic, in elements for each logit: 2 read and 1 written. The second read is of what was read last, so that much of it
can come from a cache.
All adds up in a fixed order; that of the matrix products is torch's.
Source: Pin-Lun Hsu and others, *Liger Kernel: Efficient Triton Kernels for LLM Training*, 2024: the gradient in the
forward, and the layer in chunks. Maxim Milakov and Natalia Gimelshein, *Online normalizer calculation for softmax*.

Run it on a GPU with ``python cross_entropy.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl

DTYPES = (torch.bfloat16, torch.float32, torch.float64)
IGNORED = tl.constexpr(-100)  # the target of a row that does not count, as in PyTorch
MOST_COLUMNS = 2**30
CHUNK_BYTES = 2**28  # of logits that linear_cross_entropy makes at a time
MOST_BYTES = 2**16  # of a row that a program loads at a time
PROGRAMS = 1024  # that share the elements of a gradient to be scaled


# --8<-- [start:first_pass]
@triton.jit
def maximum_and_sum(
    x_ptr,
    columns,
    LOWEST: tl.constexpr,
    COMPUTE: tl.constexpr,
    BLOCK: tl.constexpr,
    LANES: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Return the maximum of a row, and the sum of exp(x - maximum)."""
    column = tl.arange(0, BLOCK)
    maximum = tl.full((LANES,), LOWEST, COMPUTE)  # one per lane
    total = tl.zeros((LANES,), COMPUTE)
    for start in range(0, columns, BLOCK):
        mask = column < columns - start
        x = tl.load(x_ptr + start + column, mask=mask, other=-float("inf"))
        x = by_lane(x.to(COMPUTE), LANES, WIDE)
        grown = tl.maximum(maximum, tl.max(tl.max(x, axis=2), axis=0))
        total *= tl.exp(maximum - grown)  # the old sum, rescaled
        total += tl.exp(x - grown[None, :, None]).sum(2).sum(0)
        maximum = grown
    highest = tl.max(maximum, axis=0)
    total *= tl.exp(maximum - highest)
    return highest, tl.sum(total, axis=0)


@triton.jit
def by_lane(x, LANES: tl.constexpr, WIDE: tl.constexpr):
    """Reshape: a lane's elements are along the first and the last axis."""
    return tl.reshape(x, (x.shape[0] // LANES // WIDE, LANES, WIDE))


# --8<-- [end:first_pass]


# --8<-- [start:second_pass]
@triton.jit
def write_gradient(
    x_ptr,
    grad_ptr,
    columns,
    target,
    maximum,
    total,
    scale,
    COMPUTE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write ``scale`` times the gradient of a row."""
    column = tl.arange(0, BLOCK)
    last = (columns - 1) // BLOCK * BLOCK
    for done in range(0, columns, BLOCK):
        # in reverse, because what was read last is still in a cache
        start = last - done
        mask = column < columns - start
        x = tl.load(x_ptr + start + column, mask=mask).to(COMPUTE)
        share = tl.exp(x - maximum) * (scale / total)
        is_target = column == target - start
        grad = share - tl.where(is_target, scale, 0.0)
        tl.store(grad_ptr + start + column, grad, mask=mask)


@triton.jit
def write_zeros(grad_ptr, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    for start in range(0, columns, BLOCK):
        mask = column < columns - start
        tl.store(grad_ptr + start + column, 0.0, mask=mask)


# --8<-- [end:second_pass]


# --8<-- [start:kernel]
@triton.jit
def cross_entropy_kernel(
    x_ptr,
    target_ptr,
    loss_ptr,
    grad_ptr,
    count_ptr,
    columns,
    x_stride,
    LOWEST: tl.constexpr,
    COMPUTE: tl.constexpr,
    BLOCK: tl.constexpr,
    LANES: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Compute the loss of a row, and its gradient in the mean.

    Parameters:
        x_ptr: Logits ``(rows, columns)``, rows ``x_stride`` apart.
        target_ptr: ``(rows,)``, the column that is right, or -100.
        loss_ptr: ``(rows,)``.
        grad_ptr: ``(rows, columns)``, contiguous; it may be ``x_ptr``,
            if that is contiguous. Or None, for no gradient.
        count_ptr: What the mean divides by.
        LOWEST: What is below all logits but -inf.
        BLOCK, LANES, WIDE: Columns of a block, lanes that share it,
            neighbors that a lane loads at once.
    """
    row = tl.program_id(axis=0).to(tl.int64)
    x_ptr += row * x_stride
    target = tl.load(target_ptr + row)
    if target == IGNORED:
        tl.store(loss_ptr + row, 0.0)
        if grad_ptr is not None:
            write_zeros(grad_ptr + row * columns, columns, BLOCK)
    else:
        is_column = (target >= 0) & (target < columns)
        scale = tl.where(is_column, 1.0, float("nan")).to(COMPUTE)
        scale /= tl.load(count_ptr)
        # now, because the second pass may overwrite it
        x_target = tl.load(
            x_ptr + target, mask=is_column, other=float("nan")
        )  # fmt: skip
        maximum, total = maximum_and_sum(
            x_ptr, columns, LOWEST, COMPUTE, BLOCK, LANES, WIDE
        )  # fmt: skip
        loss = tl.log(total) + (maximum - x_target)
        tl.store(loss_ptr + row, loss)
        if grad_ptr is not None:
            write_gradient(
                x_ptr,
                grad_ptr + row * columns,
                columns,
                target.to(tl.int32),
                maximum,
                total,
                scale,
                COMPUTE,
                BLOCK,
            )


# --8<-- [end:kernel]


# --8<-- [start:scale]
@triton.jit
def scale_kernel(
    grad_ptr,
    factor_ptr,
    size,
    COMPUTE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Multiply ``size`` elements by one number, unless it is 1."""
    factor = tl.load(factor_ptr).to(COMPUTE)
    # only the GPU knows it, and the host doesn't wait for it
    if factor != 1.0:
        first = tl.program_id(axis=0).to(tl.int64) * BLOCK
        for start in range(first, size, tl.num_programs(axis=0) * BLOCK):
            offsets = tl.cast(start, tl.int64) + tl.arange(0, BLOCK)
            mask = offsets < size
            grad = tl.load(grad_ptr + offsets, mask=mask).to(COMPUTE)
            tl.store(grad_ptr + offsets, grad * factor, mask=mask)


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
    >>> blocks_for(50257, torch.bfloat16)
    Blocks(block=16384, lanes=512, wide=1, num_warps=16)
    """
    size, most = dtype.itemsize, MOST_BYTES // (2 if torch.version.hip else 1)  # AMD's warps are twice as wide
    at_a_time = min(max(triton.next_power_of_2(columns) * size // 4, 2048), most)
    num_warps = at_a_time // 2048
    wide = 16 // size if columns % 16 == 0 else 1  # 16 is what the compiler looks for
    return Blocks(at_a_time // size, 32 * num_warps, wide, num_warps)


# --8<-- [end:blocks]


# --8<-- [start:launches]
def launch(x, target, losses, grad, count, by=None):
    """Write the losses of these rows and, if there is a ``grad``, their gradients; that may be ``x`` itself."""
    by = by or blocks_for(x.shape[1], x.dtype)
    with torch.cuda.device_of(x):  # Triton launches on the current device, which need not be that of x
        cross_entropy_kernel[(len(x),)](
            x,
            target,
            losses,
            grad,
            count,
            x.shape[1],
            x.stride(0),
            LOWEST=torch.finfo(losses.dtype).min,
            COMPUTE=computed_in(x),
            BLOCK=by.block,
            LANES=by.lanes,
            WIDE=by.wide,
            num_warps=by.num_warps,
        )


def scale_(grad: torch.Tensor, factor: torch.Tensor, block: int = 8192) -> None:
    """Multiply all of ``grad``, contiguous, by one number; nothing is read or written if that is 1."""
    if grad.numel():
        programs = min(triton.cdiv(grad.numel(), block), PROGRAMS)
        with torch.cuda.device_of(grad):
            scale_kernel[(programs,)](grad, factor, grad.numel(), COMPUTE=computed_in(grad), BLOCK=block, num_warps=8)


# --8<-- [end:launches]


def as_rows(x: torch.Tensor) -> torch.Tensor:
    """Return ``(rows, columns)``, a row's elements adjacent in memory; a tensor that lies otherwise is copied."""
    x = x.resolve_neg()
    if x.shape[-1] > 1 and x.stride(-1) != 1:
        x = x.contiguous()
    return x.reshape(x.shape[:-1].numel(), x.shape[-1])


def in_order(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous().view(-1)


def wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def computed_in(x: torch.Tensor) -> tl.dtype:
    return tl.float64 if x.dtype == torch.float64 else tl.float32


def like(x: torch.Tensor, make=torch.empty) -> torch.Tensor:
    return make(x.shape, dtype=x.dtype, device=x.device)


def losses_of(rows: torch.Tensor) -> torch.Tensor:
    """Return room for the loss of each row."""
    return torch.empty(len(rows), dtype=wide(rows.dtype), device=rows.device)


def count_of(target: torch.Tensor) -> torch.Tensor:
    """Return the number that the mean divides by. It stays on the GPU, for asking would make the host wait."""
    return (target != IGNORED.value).sum()


def wants_gradient(x: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and x.requires_grad


# --8<-- [start:function]
def forward(logits: torch.Tensor, target: torch.Tensor, wanted: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the mean loss, and the gradient of the logits, if it is wanted."""
    check_arguments(logits, target)
    rows = as_rows(logits.detach())
    losses, count = losses_of(rows), count_of(target)
    grad = like(rows) if wanted else None
    if len(rows):
        launch(rows, in_order(target), losses, grad, count)
    return losses.sum() / count, None if grad is None else grad.view(logits.shape)


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, wanted):
        loss, *ctx.made = forward(logits, target, wanted)
        ctx.save_for_backward(logits, target)
        return loss

    @staticmethod
    def backward(ctx, grad_loss):
        no_second_gradient("cross_entropy")
        made, ctx.made = ctx.made, None  # given away, it is not ours to be scaled again
        if made is None:
            _, *made = forward(*ctx.saved_tensors, True)
        return *scaled(made, grad_loss), None, None


def scaled(made: list[torch.Tensor | None], factor: torch.Tensor) -> list[torch.Tensor | None]:
    """Scale the gradients that the forward made."""
    for each in made:
        if each is not None:
            scale_(each, factor)
    return made


def no_second_gradient(name: str) -> None:
    if torch.is_grad_enabled():  # as under create_graph=True
        raise RuntimeError(
            f"{name} has no gradient of its gradient, so it refuses create_graph=True, and torch.func.grad and vjp,"
            " which always ask for it; use torch.autograd.grad"
        )


# --8<-- [end:function]


# --8<-- [start:host]
def cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of rows of ``logits`` and their ``target``; it has a gradient for ``logits``.

    Args:
        logits: ``(..., columns)`` on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``. The columns are the
            last dimension; in torch's function, the second. It is copied if the elements of a row are no neighbors in
            memory, or if the rows do not lie at equal distances.
        target: ``(...)``, int64 or int32: for each row a column, or -100. Such a row has the gradient 0, does not
            count in the mean, and is not read. A target that is neither makes the loss NaN, and the gradient of its
            row; nothing outside the row is read.

    Returns:
        The loss, in float32, also of bfloat16; in float64 for float64. It is a number, NaN if no row counts. The
        gradient has the dtype of ``logits`` and is contiguous. The forward makes it, and the backward scales it if the
        incoming one is not 1; that rounds twice. A second backward makes it again. The kernels may still be running
        when the loss is returned.

    Raises:
        ValueError: If an argument is something the kernels can't serve.
        RuntimeError: In the backward, under ``create_graph=True``: there is no gradient of the gradient.

    >>> logits = torch.tensor([[1.0, 3.0, 2.0, 5.0], [0.0, 0.0, 0.0, 0.0]], requires_grad=True)
    >>> loss = cross_entropy(logits, torch.tensor([1, -100]))
    >>> loss.detach()
    tensor(2.1852)
    >>> loss.backward()
    >>> logits.grad
    tensor([[ 0.0152, -0.8875,  0.0414,  0.8310],
            [ 0.0000,  0.0000,  0.0000,  0.0000]])
    """
    return CrossEntropy.apply(logits, target, wants_gradient(logits))


# --8<-- [end:host]


# The last linear layer, too


# --8<-- [start:linear_forward]
def linear_forward(hidden, weight, target, count, chunk, wanted):
    """Return the loss of each row, and the gradients of their mean."""
    rows = hidden.reshape(target.numel(), hidden.shape[-1])
    targets, losses = in_order(target), losses_of(rows)
    chunk = chunk or rows_of_a_chunk(
        len(rows), weight.shape, rows.dtype, wanted[1]
    )  # fmt: skip
    grads = new_gradients(rows, weight, chunk, *wanted)
    for part, logits in chunks(rows, weight, chunk):
        grad = logits if any(wanted) else None  # in place
        launch(logits, targets[part], losses[part], grad, count)
        add_gradients(*grads, logits, rows, weight, part)
    # their memory can now hold the rounded gradient of weight
    logits = grad = None
    return losses, *shaped(grads, hidden)


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


# --8<-- [start:linear_function]
class LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, target, chunk, wanted):
        check_linear(hidden, weight, target, chunk)
        ctx.options = count_of(target), chunk, wanted
        losses, *ctx.made = linear_forward(hidden, weight, target, *ctx.options)
        ctx.save_for_backward(hidden, weight, target)
        return losses.sum() / ctx.options[0]

    @staticmethod
    def backward(ctx, grad_loss):
        no_second_gradient("linear_cross_entropy")
        made, ctx.made = ctx.made, None
        if made is None:
            _, *made = linear_forward(*ctx.saved_tensors, *ctx.options)
        return *scaled(made, grad_loss), None, None, None


# --8<-- [end:linear_function]


# --8<-- [start:linear_host]
def linear_cross_entropy(
    hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, *, chunk: int | None = None
) -> torch.Tensor:
    """Return ``cross_entropy(hidden @ weight.t(), target)``, with no more logits at a time than those of a chunk.

    Args:
        hidden: ``(..., K)``, of one of ``DTYPES``.
        weight: ``(columns, K)``, as ``torch.nn.Linear`` has it, of the same dtype and device. There is no bias.
        target: ``(...)``, as in :func:`cross_entropy`.
        chunk: How many rows a chunk has; by default ``CHUNK_BYTES`` of logits, or for a gradient of a bfloat16
            ``weight`` at least K rows, and all of them up to 2K: see :func:`rows_of_a_chunk`.

    Returns:
        The loss. The forward makes the gradients, of ``hidden`` and ``weight`` if they want one, and the backward
        scales them if the incoming gradient is not 1. A second backward makes them again. Chunks of 16 bits are added
        up in float32: if there are several, the gradient of ``weight`` takes 4 bytes an element until all are added,
        and 6 while it is rounded; with one chunk, 2.

    Raises:
        ValueError: If an argument is something the kernels can't serve.
        RuntimeError: In the backward, under ``create_graph=True``: there is no gradient of the gradient.

    >>> hidden = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> weight = torch.tensor([[1.0, 0.0], [3.0, 0.0], [2.0, 0.0], [5.0, 0.0]])
    >>> linear_cross_entropy(hidden, weight, torch.tensor([1, -100]), chunk=1)
    tensor(2.1852)
    """
    wanted = wants_gradient(hidden), wants_gradient(weight)
    return LinearCrossEntropy.apply(hidden, weight, target, chunk, wanted)


# --8<-- [end:linear_host]


# --8<-- [start:check]
def check_arguments(logits: torch.Tensor, target: torch.Tensor, name: str = "logits") -> None:
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
        more = "; snippets/library/cross_entropy.py serves float16" if logits.dtype == torch.float16 else ""
        raise ValueError(f"dtype {logits.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}{more}")
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


def check_linear(hidden, weight, target, chunk) -> None:
    check_arguments(hidden, target, "hidden")
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
    if chunk is not None and not (isinstance(chunk, int) and chunk > 0):
        raise ValueError(f"chunk must be None or a number of rows, 1 or more; got {chunk!r}")


# --8<-- [end:check]


def in_torch(logits, target):
    """Compute what :func:`cross_entropy` does, by torch."""
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1).long())


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
    losses, grad = losses_of(logits), torch.empty_like(logits)
    launch(logits, target, losses, grad, torch.tensor(1, device=device), by_two)
    for row, of, loss, slope in zip(logits, target.tolist(), losses.tolist(), grad, strict=True):
        print(f"logits {shown(row)}   target {of:4}   loss {loss:.4f}")
        print(f"  grad {shown(slope)}")
    print("mean of the rows that count:", shown(cross_entropy(logits, target)))

    print("## by hand")
    for name, value in by_hand(logits[0].tolist(), 1).items():
        print(f"{name}: {value:.5f}")

    print("## in place")
    launch(logits, target, losses, logits, count_of(target))
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
    alone = lambda logits: cross_entropy(logits, target)
    linear = lambda *given: linear_cross_entropy(*given, target, chunk=1)
    print("gradcheck, logits:", gradcheck(alone, (logits,)))
    print("gradcheck, layer:", gradcheck(linear, (hidden, weight)))
    # --8<-- [end:gradcheck]
    logits = numbers(5, 40_000).requires_grad_()
    target = torch.tensor([0, 39_999, -100, 7, 12_345], device=device)
    same = as_torch(lambda x: cross_entropy(x, target), lambda x: in_torch(x, target), [logits])
    print("5 x 40000, cross_entropy, as torch:", same)
    inputs = [numbers(5, 16).requires_grad_(), numbers(1000, 16).requires_grad_()]
    target %= 1000
    same = as_torch(
        lambda x, w: linear_cross_entropy(x, w, target, chunk=2), lambda x, w: in_torch(x @ w.t(), target), inputs
    )
    print("5 x 16 x 1000, linear_cross_entropy, as torch:", same)


def layer(device):
    """Return hidden rows and a weight whose product are the logits of :func:`toy`."""
    hidden = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], device=device)
    return hidden, toy(device)[0].t().contiguous()


if __name__ == "__main__":
    main()
