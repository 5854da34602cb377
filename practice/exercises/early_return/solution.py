# SPDX-License-Identifier: Apache-2.0
"""Find the bug. A loss with its gradient, whose program for an ignored row returns without storing anything.

For the row 1, 3, 2, 5 with target 1 the loss is 2.18518, and its gradient is the softmax of the row, minus 1 at the
target: 0.0152, -0.8875, 0.0414, 0.8310. A row whose target is -100 is ignored: its loss is 0, and its gradient is a 0
for each column. Such a row is padding and may hold anything, even inf.

Fresh memory often holds zeros by chance, so nobody notices that the program of an ignored row stores nothing. Under
`torch.compile`, the result gets memory that held another tensor a moment ago, and keeps its numbers. So each program
has to store its loss and its gradient, whatever its row is. Don't lean on `torch.zeros` instead: it's another kernel,
which writes every element once more.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(x_ptr, target_ptr, loss_ptr, grad_ptr, columns, IGNORED: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    target = tl.load(target_ptr + row)
    # gap 1: loss and gradient of the row
    counts = target != IGNORED
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=-float("inf"))
    logit = tl.sum(tl.where(column == target, x, 0.0), axis=0)
    maximum = tl.max(x, axis=0)
    numerator = tl.exp(x - maximum)
    total = tl.sum(numerator, axis=0)
    grad = numerator / total - tl.where(column == target, 1.0, 0.0)
    tl.store(loss_ptr + row, tl.where(counts, maximum + tl.log(total) - logit, 0.0))
    tl.store(grad_ptr + row * columns + column, tl.where(counts, grad, 0.0), mask=mask)
    # end of gap 1


def cross_entropy(x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the loss of each row of a float32 matrix, and its gradient; a target is a column, or -100."""
    if not (x.is_contiguous() and target.is_contiguous()):
        raise ValueError(f"x has the strides {x.stride()}, target {target.stride()}; it takes contiguous tensors")
    rows, columns = x.shape
    loss = torch.empty(rows, dtype=x.dtype, device=x.device)
    grad = torch.empty_like(x)
    block = triton.next_power_of_2(columns)
    cross_entropy_kernel[(rows,)](x, target, loss, grad, columns, IGNORED=-100, BLOCK=block)
    return loss, grad
