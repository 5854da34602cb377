# SPDX-License-Identifier: Apache-2.0
"""Fill in the gaps. Which tile does a program take in the grouped order?

With 5 × 4 tiles in groups of 3 rows, program 14 takes row 3, column 1: programs 0 to 11 belong to group 0, and 14 is
number 2 of group 1, which has only two rows left. Within a group, go down before you move on to the next column.
Nothing is multiplied here. Each program just stores its number in the element of its tile, so that you can see the
order:

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
    programs = GROUP_M * tiles_n  # of a group
    first_m = pid // programs * GROUP_M
    rows = tl.minimum(tiles_m - first_m, GROUP_M)  # the last group may have fewer
    within = pid % programs
    pid_m = first_m + within % rows
    pid_n = within // rows
    # end of gap 1
    inside = (pid_m < tiles_m) & (pid_n < tiles_n)  # as in a product, whose masks switch off a tile that does not exist
    tl.store(out_ptr + pid_m * tiles_n + pid_n, pid, mask=inside)


def order(c: torch.Tensor, group: int) -> torch.Tensor:
    """Return an int32 matrix with the program of each tile of c; a tile has 16 × 16 elements."""
    tiles_m, tiles_n = triton.cdiv(c.shape[0], 16), triton.cdiv(c.shape[1], 16)
    out = torch.empty((tiles_m, tiles_n), dtype=torch.int32, device=c.device)
    # gap 2: the grid: one axis, and a program for each tile
    grid = (tiles_m * tiles_n,)
    # end of gap 2
    order_kernel[grid](out, tiles_m, tiles_n, GROUP_M=group)
    return out
