# SPDX-License-Identifier: Apache-2.0
"""Fill in the gaps. The cross-entropy of each row of logits, one row per program.

The row 1, 3, 2, 5 with target 1 has a loss of 2.18518: the logarithm of the sum of all exp(x), minus the target's
logit, which is 3. Some logits are far above 0, and exp(1000) is infinite, so subtract the maximum first. A row whose
target is -100 is ignored: its loss is 0, and there is no column -100 to read. Here every row fits into one block, and
the load of it is already there.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(
    x_ptr, target_ptr, loss_ptr, columns, stride_row, stride_column, stride_target,
    IGNORED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(axis=0)
    x_ptr += row * stride_row
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + column * stride_column, mask=column < columns, other=-float("inf"))
    target = tl.load(target_ptr + row * stride_target)
    # gap 1: the loss of the row, 0 if its target is IGNORED
    maximum = tl.max(x, axis=0)
    log_of_sum = maximum + tl.log(tl.sum(tl.exp(x - maximum), axis=0))
    counts = target != IGNORED
    logit = tl.load(x_ptr + target * stride_column, mask=counts, other=0.0)
    loss = tl.where(counts, log_of_sum - logit, 0.0)
    # end of gap 1
    tl.store(loss_ptr + row, loss)


def cross_entropy(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the loss of each row of a float32 matrix; the target of each is a column, or -100. Any strides."""
    rows, columns = x.shape
    loss = torch.empty(rows, dtype=x.dtype, device=x.device)
    strides = *x.stride(), target.stride(0)
    # gap 2: launch the kernel, with a block that holds a row
    block = triton.next_power_of_2(columns)
    cross_entropy_kernel[(rows,)](x, target, loss, columns, *strides, IGNORED=-100, BLOCK=block)
    # end of gap 2
    return loss
