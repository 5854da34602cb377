# SPDX-License-Identifier: Apache-2.0
"""Find the bugs. How far is each number of a vector from the next? 3, 5, 4 gives 2, -1.

Between n numbers there are n - 1 differences, and each program stores four of them. The author's test, at the end of
this file, passes, and still two lines are wrong. Which lanes have no number after theirs, and which n leaves a block
half full?
"""

import torch
import triton
import triton.language as tl


@triton.jit
def apart_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    # gap 1: a line with a bug
    mask = offsets < n - 1
    # end of gap 1
    this = tl.load(x_ptr + offsets, mask=mask)
    following = tl.load(x_ptr + offsets + 1, mask=mask)
    tl.store(out_ptr + offsets, following - this, mask=mask)


def apart(x: torch.Tensor) -> torch.Tensor:
    """Return x[i + 1] - x[i], for a contiguous vector of at least one element."""
    if x.ndim != 1 or not x.is_contiguous() or not x.numel():
        raise ValueError(f"x has the shape {tuple(x.shape)} and the strides {x.stride()}; it takes a contiguous vector")
    n, block = x.numel(), 4
    out = torch.empty(n - 1, dtype=x.dtype, device=x.device)
    # gap 2: a line with a bug
    programs = triton.cdiv(n - 1, block)
    # end of gap 2
    apart_kernel[(programs,)](x, out, n, BLOCK=block)
    return out


def author_test(device="cpu"):
    x = torch.tensor([3.0, 5, 4, 4, 7, 1, 2, 9, 6], device=device)
    assert apart(x).tolist() == [2, -1, 0, 3, -6, 1, 7, -3]
