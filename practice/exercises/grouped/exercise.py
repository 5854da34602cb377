# SPDX-License-Identifier: Apache-2.0
"""Fill the gaps. Which tile a program takes, in the grouped order.

Of 5 × 4 tiles in groups of 3 rows, program 14 takes row 3, column 1: group 0 has the programs 0 to 11, and of group 1,
which has only two rows left, 14 is number 2. Within a group, go down before you go one column on. No product is
computed here: each program stores its number in the element of its tile, so that the order can be seen:

     0  3  6  9
     1  4  7 10
     2  5  8 11
    12 14 16 18
    13 15 17 19
"""

import torch
import triton
import triton.language as tl


@triton.jit
def order_kernel(out_ptr, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    pid = tl.program_id(axis=0)
    # gap 1: pid_m and pid_n, the row and the column of this program's tile
    pid_m = None
    pid_n = None
    # end of gap 1
    inside = (pid_m < tiles_m) & (pid_n < tiles_n)  # as in a product, whose masks switch off a tile that does not exist
    tl.store(out_ptr + pid_m * tiles_n + pid_n, pid, mask=inside)


def order(c: torch.Tensor, group: int) -> torch.Tensor:
    """Return for each tile of 16 × 16 elements of c the number of its program, as an int32 matrix."""
    tiles_m, tiles_n = triton.cdiv(c.shape[0], 16), triton.cdiv(c.shape[1], 16)
    out = torch.empty((tiles_m, tiles_n), dtype=torch.int32, device=c.device)
    # gap 2: the grid: one axis, and a program for each tile
    grid = None
    # end of gap 2
    order_kernel[grid](out, tiles_m, tiles_n, GROUP_M=group)
    return out
