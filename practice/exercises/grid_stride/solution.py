# SPDX-License-Identifier: Apache-2.0
"""Fill in the gaps. A few programs share all the blocks of a vector and square its elements.

[1, 2, 3] becomes [1, 4, 9]. With 10 blocks and 4 programs, program 0 takes blocks 0, 4 and 8, program 1 takes 1, 5 and
9, program 2 takes 2 and 6, and program 3 takes 3 and 7. The launch sets the number of programs without looking at the
number of blocks, so each program loops over its own. There may even be more programs than blocks.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def square_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    # gap 1: a loop over this program's blocks, with a load and a store
    for block in range(tl.program_id(axis=0), tl.cdiv(n, BLOCK), tl.num_programs(axis=0)):
        offsets = block * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        x = tl.load(x_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, x * x, mask=mask)
    # end of gap 1


def square(x: torch.Tensor, programs: int) -> torch.Tensor:
    """Return the square of each element of a contiguous float32 vector, using this many programs."""
    if not x.is_contiguous():
        raise ValueError(f"x has the stride {x.stride()}; it takes a contiguous vector")
    out = torch.empty_like(x)
    # gap 2: the launch, with blocks of 8 elements
    square_kernel[(programs,)](x, out, x.numel(), BLOCK=8)
    # end of gap 2
    return out
