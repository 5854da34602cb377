# SPDX-License-Identifier: Apache-2.0
"""Fill in the gaps. The cumulative sum of each row, one block at a time.

1, 2, 3, 4 becomes 1, 3, 6, 10. In blocks of two, 1, 2 becomes 1, 3 and leaves a carry of 3. Then 3, 4 becomes 3, 7, and
with the carry 6, 10. A row may be longer than a block, so a program walks through it from left to right. Write the
loop: load a block, scan it, add the carry, store, and find the next carry.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def cumsum_kernel(x_ptr, out_ptr, columns, stride_row, stride_column, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    x_ptr += row * stride_row
    out_ptr += row * columns
    column = tl.arange(0, BLOCK)
    carry = 0.0
    # gap 1: the loop over the blocks of the row
    for start in range(0, columns, BLOCK):
        mask = column < columns - start
        x = tl.load(x_ptr + (start + column) * stride_column, mask=mask, other=0.0)
        tl.store(out_ptr + start + column, carry + tl.cumsum(x, axis=0), mask=mask)
        carry += tl.sum(x, axis=0)
    # end of gap 1


def cumsum(x: torch.Tensor) -> torch.Tensor:
    """Return the cumulative sum of each row of a float32 matrix, whatever its strides are."""
    rows, columns = x.shape
    out = torch.empty(rows, columns, dtype=x.dtype, device=x.device)
    if x.numel():
        # gap 2: launch the kernel, a program for each row, with blocks of 64
        cumsum_kernel[(rows,)](x, out, columns, x.stride(0), x.stride(1), BLOCK=64)
        # end of gap 2
    return out
