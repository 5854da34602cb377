# SPDX-License-Identifier: Apache-2.0
"""Cross-entropy over a large vocabulary, with its gradient made in the forward.

For a row x of logits, with ``target`` the column that is right::

    loss = log(sum(exp(x))) - x[target]
    grad_x = softmax(x) - 1 in the column of the target, 0 in the others

A program takes a row, and goes through it in blocks, twice: first for the maximum and the sum, by which it knows the
loss; then backwards, to write the gradient. No share is ever stored. The backward multiplies the gradient by the
incoming one, and leaves it alone if that is 1.

Shapes: logits ``(..., V)``, target ``(...)``. The result is the mean of the rows that count: whose target is not -100.
Traffic, in elements for each logit: 2 read and 1 written. The second read is of what was read last, so that much of it
can come from a cache. All adds up in a fixed order.

``linear_cross_entropy.py`` makes the logits, too, some rows at a time. ``snippets/library/cross_entropy.py`` is the
file to copy into a model: sums, losses of each row, label smoothing, float16, ``torch.compile`` and more.
Source: Pin-Lun Hsu and others, *Liger Kernel: Efficient Triton Kernels for LLM Training*, 2024. Maxim Milakov and
Natalia Gimelshein, *Online normalizer calculation for softmax*.

Run it on a GPU with ``python cross_entropy.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

DTYPES = (torch.bfloat16, torch.float32, torch.float64)
IGNORED = tl.constexpr(-100)  # the target of a row that does not count, as in PyTorch
MOST_COLUMNS = 2**30
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


def wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def computed_in(x: torch.Tensor) -> tl.dtype:
    return tl.float64 if x.dtype == torch.float64 else tl.float32


def losses_of(rows: torch.Tensor) -> torch.Tensor:
    """Return room for the loss of each row."""
    return torch.empty(len(rows), dtype=wide(rows.dtype), device=rows.device)


def count_of(target: torch.Tensor) -> torch.Tensor:
    """Return the number that the mean divides by. It stays on the GPU, for asking would make the host wait."""
    return (target != IGNORED.value).sum()


# --8<-- [start:function]
def forward(logits: torch.Tensor, target: torch.Tensor, wanted: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the mean loss, and the gradient of the logits, if it is wanted."""
    rows = as_rows(logits)
    losses, count = losses_of(rows), count_of(target)
    grad = torch.empty(rows.shape, dtype=rows.dtype, device=rows.device) if wanted else None
    if len(rows):
        launch(rows, target.contiguous().view(-1), losses, grad, count)
    return losses.sum() / count, None if grad is None else grad.view(logits.shape)


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, wanted):
        loss, ctx.grad = forward(logits, target, wanted)
        ctx.save_for_backward(logits, target)
        return loss

    @staticmethod
    def backward(ctx, grad_loss):
        no_second_gradient("cross_entropy")
        grad, ctx.grad = ctx.grad, None  # given away, it is not ours to be scaled again
        if grad is None:  # a second backward
            _, grad = forward(*ctx.saved_tensors, True)
        scale_(grad, grad_loss)
        return grad, None, None


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
        gradient has the dtype of ``logits`` and is contiguous. If the incoming one is not 1, it is rounded twice. The
        kernels may still be running when the loss is returned.

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
    check_arguments(logits, target)
    check_columns(logits.shape[-1], target)
    return CrossEntropy.apply(logits, target, torch.is_grad_enabled() and logits.requires_grad)


# --8<-- [end:host]


# --8<-- [start:check]
def check_arguments(x: torch.Tensor, target: torch.Tensor, name: str = "logits") -> None:
    """Raise ``ValueError`` for arguments that the kernels would get wrong, or can't serve at all."""
    if not x.ndim:
        raise ValueError(f"{name} must have a dimension or more; got a single number")
    for each, tensor in {name: x, "target": target}.items():
        if tensor.layout != torch.strided:
            raise ValueError(f"{each} is {tensor.layout}; pass {each}.to_dense()")
    if target.device != x.device:
        raise ValueError(f"{name} is on {x.device} and target on {target.device}; move them to one device")
    if target.shape != x.shape[:-1] or target.dtype not in (torch.int64, torch.int32):
        raise ValueError(
            f"target must have the shape {tuple(x.shape[:-1])}, a column for each row, and be int64 or int32;"
            f" got {tuple(target.shape)} {target.dtype} for {name} {tuple(x.shape)}"
        )
    if x.dtype not in DTYPES:
        raise ValueError(
            f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))};"
            " snippets/library/cross_entropy.py serves float16"
        )
    if target.numel() > 2**31 - 1:  # CUDA's limit for programs along one axis
        raise ValueError(f"{target.numel()} rows are too many for one launch; split {name}")
    interpreted = not isinstance(cross_entropy_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(
            f"{name} is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}"
        )
    if x.dtype == torch.bfloat16 and interpreted:
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")


def check_columns(columns: int, target: torch.Tensor) -> None:
    if columns > MOST_COLUMNS:
        raise ValueError(f"a row has {columns} columns, at most {MOST_COLUMNS} are served")
    if not columns and target.numel():
        raise ValueError("a row has no column, so none can be the target")


# --8<-- [end:check]


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
    print("## three rows")
    logits, target = toy(device)
    losses, grad = losses_of(logits), torch.empty_like(logits)
    by_two = Blocks(block=2, lanes=2, wide=1, num_warps=1)
    launch(logits, target, losses, grad, torch.tensor(1, device=device), by_two)
    for row, of, loss, slope in zip(logits, target.tolist(), losses.tolist(), grad, strict=True):
        print(f"logits {shown(row)}   target {of:4}   loss {loss:.4f}")
        print(f"  grad {shown(slope)}")
    loss = cross_entropy(logits, target)
    print("mean of the rows that count:", shown(loss))
    print("as torch:", torch.allclose(loss, torch.nn.functional.cross_entropy(logits, target)))


if __name__ == "__main__":
    main()
