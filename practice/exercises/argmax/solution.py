# SPDX-License-Identifier: Apache-2.0
"""Find the bugs. Where is the largest element of each row? If several are equal, the first one counts.

[[-3, -1, -1], [5, 2, 9]] should give [1, 2]. Each program takes one row and loops along it, four columns at a time. The
author's test, at the end of this file, passes, and still two lines in the gap are wrong. For which rows does the
function return the wrong column?
"""

import torch
import triton
import triton.language as tl


@triton.jit
def argmax_kernel(x_ptr, out_ptr, n_columns, stride_row, stride_column, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    best, found = -float("inf"), 0  # the largest element so far, and its column
    for start in range(0, n_columns, BLOCK):
        # gap 1: two of these lines have a fault
        columns = start + tl.arange(0, BLOCK)
        mask = columns < n_columns
        x = tl.load(x_ptr + row * stride_row + columns * stride_column, mask=mask, other=-float("inf"))
        largest = tl.max(x, axis=0)
        column = tl.min(tl.where(x == largest, columns, n_columns), axis=0)  # the first that is as large
        found = tl.where(largest > best, column, found)
        best = tl.maximum(largest, best)
        # end of gap 1
    tl.store(out_ptr + row, found)


def argmax(x: torch.Tensor) -> torch.Tensor:
    """Return the column of each row's largest element, the first of equal ones, for a matrix of any strides."""
    n_rows, n_columns = x.shape
    out = torch.empty(n_rows, dtype=torch.int64, device=x.device)
    argmax_kernel[(n_rows,)](x, out, n_columns, x.stride(0), x.stride(1), BLOCK=4)
    return out


def author_test(device="cpu"):
    x = torch.rand(50, 37, device=device)
    assert torch.equal(argmax(x), x.argmax(dim=1))
