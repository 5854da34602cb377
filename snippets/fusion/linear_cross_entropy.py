# SPDX-License-Identifier: Apache-2.0
"""Cross-entropy with the last linear layer before it, and no more logits at a time than those of a chunk of rows.

::

    loss = cross_entropy(hidden @ weight.t(), target)

The logits of a chunk become their gradient in place, by the kernel of ``cross_entropy.py``. Two products use it up, for
the gradients of ``hidden`` and of ``weight``, and the next chunk takes over the memory. The products are torch's.

Shapes: hidden ``(..., K)``, weight ``(V, K)``, as ``torch.nn.Linear`` has it, target ``(...)``.
``snippets/library/cross_entropy.py`` is the file to copy into a model.
Source: Pin-Lun Hsu and others, *Liger Kernel: Efficient Triton Kernels for LLM Training*, 2024.

Run it on a GPU with ``python linear_cross_entropy.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import torch
import triton

from snippets.fusion.cross_entropy import (
    check_arguments,
    check_columns,
    count_of,
    cross_entropy_kernel,
    launch,
    losses_of,
    no_second_gradient,
    scale_,
    shown,
    toy,
    wide,
)

CHUNK_BYTES = 2**28  # of logits that are made at a time


# --8<-- [start:forward]
def linear_forward(hidden, weight, target, count, chunk, wanted):
    """Return the loss of each row, and the gradients of their mean."""
    rows = hidden.reshape(target.numel(), hidden.shape[-1])
    targets, losses = target.contiguous().view(-1), losses_of(rows)
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


# --8<-- [end:forward]


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
    grad_hidden = make(rows.shape, dtype=rows.dtype, device=rows.device) if wants_hidden else None
    return grad_hidden, grad_weight


def shaped(grads, hidden):
    grad_hidden, grad_weight = grads
    return (
        None if grad_hidden is None else grad_hidden.view(hidden.shape),
        None if grad_weight is None else grad_weight.to(hidden.dtype),  # rounded once
    )


# --8<-- [start:function]
class LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, target, chunk, wanted):
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
        for grad in made:
            if grad is not None:
                scale_(grad, grad_loss)
        return *made, None, None, None


# --8<-- [end:function]


# --8<-- [start:host]
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
    check_linear(hidden, weight, target, chunk)
    wanted = [torch.is_grad_enabled() and x.requires_grad for x in (hidden, weight)]
    return LinearCrossEntropy.apply(hidden, weight, target, chunk, wanted)


# --8<-- [end:host]


# --8<-- [start:check]
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


def main():
    device = "cuda" if isinstance(cross_entropy_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    print("## chunks of two rows")
    logits, target = toy(device)
    hidden = torch.eye(3, device=device).requires_grad_()
    weight = logits.t().contiguous().requires_grad_()
    loss = linear_cross_entropy(hidden, weight, target, chunk=2)
    loss.backward()
    print("loss:", shown(loss))
    print("grad of hidden:", shown(hidden.grad[0]))
    print("grad of weight:", shown(weight.grad))
    print("as torch:", torch.allclose(loss, torch.nn.functional.cross_entropy(logits, target)))


if __name__ == "__main__":
    main()
