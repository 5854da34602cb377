# SPDX-License-Identifier: Apache-2.0
"""Write RoPE from scratch. It turns each pair of columns of a token.

Each column of the first half of a row is paired with the same column of the second half, and becomes

    new first  = first · cos - second · sin
    new second = second · cos + first · sin

Token t uses row t of cos and of sin, one number for each pair. By hand: at 90°, cos is 0 and sin is 1. So the row
1, 5, 2, 10, whose pairs are (1, 2) and (5, 10), becomes -2, -10, 1, 5.
"""

import torch
import triton
import triton.language as tl


# gap 1: the kernel. A program turns one token; half, the number of pairs, need not be a power of two
@triton.jit
def rope_kernel(x_ptr, cos_ptr, sin_ptr, out_ptr, half, BLOCK: tl.constexpr):
    token = tl.program_id(axis=0)
    pair = tl.arange(0, BLOCK)
    mask = pair < half
    offsets = token * 2 * half + pair
    first = tl.load(x_ptr + offsets, mask=mask)
    second = tl.load(x_ptr + offsets + half, mask=mask)
    cos = tl.load(cos_ptr + token * half + pair, mask=mask)
    sin = tl.load(sin_ptr + token * half + pair, mask=mask)
    tl.store(out_ptr + offsets, first * cos - second * sin, mask=mask)
    tl.store(out_ptr + offsets + half, second * cos + first * sin, mask=mask)


# end of gap 1


def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Return x (tokens, 2 · half), turned by cos and sin (tokens, half). Contiguous float32 tensors."""
    if not (x.is_contiguous() and cos.is_contiguous() and sin.is_contiguous()):
        raise ValueError("it takes contiguous tensors")
    tokens, half = cos.shape
    # gap 2: allocate the result, launch the kernel, return the result
    out = torch.empty_like(x)
    rope_kernel[(tokens,)](x, cos, sin, out, half, BLOCK=triton.next_power_of_2(half))
    return out
    # end of gap 2
