# SPDX-License-Identifier: Apache-2.0
"""Fill in the gaps. Vector add, z = x + y, for vectors of any length.

[1, 2, 3] + [10, 20, 30] gives [11, 22, 33]. Each program adds one block of 256 elements, so 1,000 elements need four
programs, and 24 lanes of the last one are left without an element. Gap 1 is what a program does, and gap 2 is how many
programs there are.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(axis=0)
    # gap 1: offsets, mask, two loads and a store
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, x + y, mask=mask)
    # end of gap 1


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x + y, for two contiguous float32 vectors of the same length."""
    if not (x.is_contiguous() and y.is_contiguous()):
        raise ValueError(f"x and y have the strides {x.stride()} and {y.stride()}; it takes contiguous vectors")
    z = torch.empty_like(x)
    n, block = x.numel(), 256
    # gap 2: enough programs for every element
    programs = triton.cdiv(n, block)
    # end of gap 2
    add_kernel[(programs,)](x, y, z, n, BLOCK=block)
    return z
