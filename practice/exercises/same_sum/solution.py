# SPDX-License-Identifier: Apache-2.0
"""Fill in the gaps. A few programs add up all elements of a matrix, in the same order each time.

[[1, 2], [3, 4], [5, 6]] has the sum 21. With 2 programs, program 0 takes rows 0 and 2 and gets 14; program 1 takes row
1 and gets 7. However many programs there are, they take the rows in turn, and each row belongs to just one of them.
Programs run in no promised order, so they don't all add to one number. Instead, each stores its sum in a place of its
own, and a second launch adds these up. A program without any rows stores 0.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def sums_kernel(x_ptr, sums_ptr, rows, columns, BLOCK: tl.constexpr):
    pid, programs = tl.program_id(axis=0), tl.num_programs(axis=0)
    column = tl.arange(0, BLOCK)
    total = 0.0
    # gap 1: add up this program's rows, one after the other
    for row in range(pid, rows, programs):
        x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
        total += tl.sum(x, axis=0)
    # end of gap 1
    tl.store(sums_ptr + pid, total)


@triton.jit
def total_kernel(sums_ptr, out_ptr, programs, BLOCK: tl.constexpr):
    # gap 2: add up the sums of all programs, and store the result
    pid = tl.arange(0, BLOCK)
    sums = tl.load(sums_ptr + pid, mask=pid < programs, other=0.0)
    tl.store(out_ptr, tl.sum(sums, axis=0))
    # end of gap 2


def total(x: torch.Tensor, programs: int) -> torch.Tensor:
    """Return the sum of a contiguous float32 matrix as a tensor with one element, using this many programs."""
    if not x.is_contiguous():
        raise ValueError(f"x has the strides {x.stride()}; it takes a contiguous matrix")
    rows, columns = x.shape
    sums = torch.empty(programs, dtype=x.dtype, device=x.device)
    out = torch.empty(1, dtype=x.dtype, device=x.device)
    sums_kernel[(programs,)](x, sums, rows, columns, BLOCK=triton.next_power_of_2(columns))
    # gap 3: the second launch
    total_kernel[(1,)](sums, out, programs, BLOCK=triton.next_power_of_2(programs))
    # end of gap 3
    return out
