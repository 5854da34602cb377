# SPDX-License-Identifier: Apache-2.0
"""Find the bug. The backward pass of softmax reads the gradient as if it lay in memory as the result does.

For the row 0.5, 0.25, 0.25 of y and the gradient 0, 1, 2, grad_x is -0.375, 0.0625, 0.3125: grad_x = y · (grad - s),
where s is the sum of all grad · y in the row, here 0.75. The formula is right, and so is the forward pass.

But a gradient lies wherever the rest of the model put it. Behind a slice or `torch.cat` its rows are far apart, behind
a transpose its columns are, and behind a sum all its elements are one and the same number, with strides of 0. Read it
where it lies, by its own strides: `.contiguous()` would copy all of it first.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def forward_kernel(x_ptr, y_ptr, columns, stride_row, stride_column, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * stride_row + column * stride_column, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * columns + column, numerator / tl.sum(numerator, axis=0), mask=mask)


# gap 1: the kernel
@triton.jit
def backward_kernel(grad_ptr, y_ptr, grad_x_ptr, columns, stride_row, stride_column, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    grad = tl.load(grad_ptr + row * stride_row + column * stride_column, mask=mask, other=0.0)
    y = tl.load(y_ptr + row * columns + column, mask=mask, other=0.0)
    grad_x = y * (grad - tl.sum(grad * y, axis=0))
    tl.store(grad_x_ptr + row * columns + column, grad_x, mask=mask)
# end of gap 1


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        rows, columns = x.shape
        y = torch.empty(rows, columns, dtype=x.dtype, device=x.device)
        forward_kernel[(rows,)](x, y, columns, *x.stride(), BLOCK=triton.next_power_of_2(columns))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors  # contiguous
        rows, columns = y.shape
        block = triton.next_power_of_2(columns)
        # gap 2: the launch
        grad_x = torch.empty_like(y)
        backward_kernel[(rows,)](grad, y, grad_x, columns, *grad.stride(), BLOCK=block)
        # end of gap 2
        return grad_x


def gradient(x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """Return the gradient of x, given that of its softmax: two float32 matrices of any strides."""
    x = x.detach().requires_grad_()
    return torch.autograd.grad(Softmax.apply(x), x, grad)[0]
