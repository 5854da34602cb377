# SPDX-License-Identifier: Apache-2.0
"""Write y = a·x from scratch: one kernel and its launch."""

import torch
import triton
import triton.language as tl


# gap 1: the kernel. Each program scales one block of x
@triton.jit
def scale_kernel(x_ptr, y_ptr, a, n, BLOCK: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, a * x, mask=mask)


# end of gap 1


def scale(x: torch.Tensor, a: float) -> torch.Tensor:
    """Return a·x, for a contiguous float32 tensor with one dimension, of any length."""
    if not x.is_contiguous():
        raise ValueError(f"x has the stride {x.stride()}; it takes a contiguous tensor")
    # gap 2: allocate y, launch the kernel, return y
    y = torch.empty_like(x)
    n = x.numel()
    block = 1024
    scale_kernel[(triton.cdiv(n, block),)](x, y, a, n, BLOCK=block)
    return y
    # end of gap 2
