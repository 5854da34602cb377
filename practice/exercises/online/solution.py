# SPDX-License-Identifier: Apache-2.0
"""Fill in the gaps. Softmax of rows of any length, one block at a time.

Take 1, 3, 2, 5 in blocks of two. The first block leaves the maximum 3 and the sum 1.13534; after the second they are 5
and 1.20344. A program goes through its row twice. The second pass, which writes the shares, is already there. Write the
first one: it keeps the maximum so far and the sum of exp(x - maximum) so far. When a block brings a larger maximum, the
old sum was computed with the wrong one. Some rows are far below 0, and some begin with -inf.
"""

import torch
import triton
import triton.language as tl

LOWEST = torch.finfo(torch.float32).min


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, stride_row, stride_column, LOWEST: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    x_ptr += row * stride_row
    out_ptr += row * columns
    column = tl.arange(0, BLOCK)
    # gap 1: maximum and total of the row. LOWEST is the lowest finite number of float32
    maximum = LOWEST
    total = 0.0
    for start in range(0, columns, BLOCK):
        x = tl.load(x_ptr + (start + column) * stride_column, mask=column < columns - start, other=-float("inf"))
        grown = tl.maximum(maximum, tl.max(x, axis=0))
        total = total * tl.exp(maximum - grown) + tl.sum(tl.exp(x - grown), axis=0)
        maximum = grown
    # end of gap 1
    for start in range(0, columns, BLOCK):
        mask = column < columns - start
        x = tl.load(x_ptr + (start + column) * stride_column, mask=mask)
        tl.store(out_ptr + start + column, tl.exp(x - maximum) / total, mask=mask)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Return the softmax of each row of a float32 matrix, whatever its strides are."""
    rows, columns = x.shape
    out = torch.empty(rows, columns, dtype=x.dtype, device=x.device)
    if x.numel():
        # gap 2: launch the kernel, a program for each row, with blocks of 64
        softmax_kernel[(rows,)](x, out, columns, x.stride(0), x.stride(1), LOWEST=LOWEST, BLOCK=64)
        # end of gap 2
    return out
