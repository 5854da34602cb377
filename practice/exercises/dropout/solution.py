# SPDX-License-Identifier: Apache-2.0
"""Find the bugs. Dropout, whose backward pass has to drop what the forward pass dropped.

With p = 0.5, x = 3 and 4 may become 0 and 8. Then the gradients 5 and 7 have to become 0 and 14. Element i is dropped
if u = tl.rand(seed, i) is below p; the elements that are kept are multiplied by scale = 1 / (1 - p). The forward pass
is right. The backward pass has three bugs, two of them in its kernel and one in its launch.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, scale, seed, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    offsets = tl.program_id(axis=0) * BLOCK + lane
    mask = offsets < n
    u = tl.rand(seed, offsets)
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.where(u >= p, x * scale, 0.0), mask=mask)


@triton.jit
def backward_kernel(grad_ptr, grad_x_ptr, n, p, scale, seed, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    offsets = tl.program_id(axis=0) * BLOCK + lane
    mask = offsets < n
    grad = tl.load(grad_ptr + offsets, mask=mask)
    # gap 1: two lines, each with a bug
    u = tl.rand(seed, offsets)
    grad_x = tl.where(u >= p, grad * scale, 0.0)
    # end of gap 1
    tl.store(grad_x_ptr + offsets, grad_x, mask=mask)


def launch(kernel, given: torch.Tensor, p: float, seed: int = 0, block: int = 1024) -> torch.Tensor:
    """Start a program for each block, and return what the kernel makes of ``given``, which is contiguous."""
    out = torch.empty_like(given)
    n = given.numel()
    kernel[(triton.cdiv(n, block),)](given, out, n, p, 1 / (1 - p), seed, BLOCK=block)
    return out


class Dropout(torch.autograd.Function):
    @staticmethod
    def forward(x, p, seed):
        return launch(dropout_kernel, x.contiguous(), p, seed)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.p, ctx.seed = inputs

    @staticmethod
    def backward(ctx, grad):
        # gap 2: one line with a bug
        grad_x = launch(backward_kernel, grad.contiguous(), ctx.p, ctx.seed, block=256)
        # end of gap 2
        return grad_x, None, None


def dropout(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    """Return x with random elements set to 0 and the others multiplied by 1 / (1 - p), whatever its strides are."""
    return Dropout.apply(x, p, seed)
