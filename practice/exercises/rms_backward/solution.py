# SPDX-License-Identifier: Apache-2.0
"""Fill in the gaps. The backward pass of RMS norm: the gradient with respect to x.

Take the row 1, 2, 2, 4, 10 with weights of 0.5 and the gradient 0, 0, 0, 0, 1. The last element of grad_x is 0.02, and
the fourth is -0.032. Here x_hat = x · rrms is the normalized row, with rrms = 1 / 5, and g = grad · weight is the
gradient that arrives at it. Every x also changes the root, and through it all the results in the row. That costs each x
its share of the mean of g · x_hat. The forward pass is already there and has stored rrms. Each program handles one row.
Write the gradient and the launch.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def forward_kernel(x_ptr, weight_ptr, out_ptr, rrms_ptr, columns, EPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + column, mask=mask, other=0.0)
    rrms = tl.rsqrt(tl.sum(x * x, axis=0) / columns + EPS)
    tl.store(out_ptr + row * columns + column, x * rrms * weight, mask=mask)
    tl.store(rrms_ptr + row, rrms)


@triton.jit
def backward_kernel(grad_ptr, x_ptr, weight_ptr, rrms_ptr, grad_x_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    grad = tl.load(grad_ptr + row * columns + column, mask=mask, other=0.0)
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + column, mask=mask, other=0.0)
    rrms = tl.load(rrms_ptr + row)
    # gap 1: grad_x, from grad, x, weight and rrms
    x_hat = x * rrms
    g = grad * weight
    grad_x = rrms * (g - x_hat * tl.sum(g * x_hat, axis=0) / columns)
    # end of gap 1
    tl.store(grad_x_ptr + row * columns + column, grad_x, mask=mask)


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        rows, columns = x.shape
        x, weight = x.contiguous(), weight.contiguous()
        out, rrms = torch.empty_like(x), torch.empty(rows, dtype=x.dtype, device=x.device)
        block = triton.next_power_of_2(columns)
        forward_kernel[(rows,)](x, weight, out, rrms, columns, EPS=1e-6, BLOCK=block)
        ctx.save_for_backward(x, weight, rrms)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, weight, rrms = ctx.saved_tensors  # x and weight are contiguous
        rows, columns = x.shape
        grad_x = torch.empty_like(x)
        block = triton.next_power_of_2(columns)
        # gap 2: launch backward_kernel; grad may have any strides
        backward_kernel[(rows,)](grad.contiguous(), x, weight, rrms, grad_x, columns, BLOCK=block)
        # end of gap 2
        return grad_x, None


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return the RMS norm of each row of a float32 matrix, whatever its strides are; it has a gradient for x."""
    return RMSNorm.apply(x, weight)
