# SPDX-License-Identifier: Apache-2.0
"""Gradients of ``silu(x) * y``, wrong on purpose in three ways. Do not copy these.

- ``no_slope_bug``, a kernel, leaves out that the sigmoid, too, changes with ``x``: no ``x * s * (1 - s)``.
- ``StridedBug`` hands ``grad`` to the kernel as it lies in memory: behind a transpose, elements get others' gradients.
- ``TwiceBug`` leaves it to ``once_differentiable`` to refuse a gradient of its gradient, which is left out silently.

Launch, checks and the right kernels are those of ``autograd.py``.
Run it on a GPU with ``python autograd_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable
from torch.autograd.gradcheck import GradcheckError

from snippets.fusion.autograd import (
    SiluMul,
    backward,
    in_torch,
    launch,
    silu_mul,
    silu_mul_backward_kernel,
    without_gaps,
)


# --8<-- [start:no_slope]
@triton.jit
def no_slope_bug(grad_ptr, x_ptr, y_ptr, grad_x_ptr, grad_y_ptr, n, COMPUTE: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    start = tl.program_id(axis=0).to(tl.int64) * BLOCK_SIZE
    offsets = start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    grad = tl.load(grad_ptr + offsets, mask=mask).to(COMPUTE)
    x = tl.load(x_ptr + offsets, mask=mask).to(COMPUTE)
    y = tl.load(y_ptr + offsets, mask=mask).to(COMPUTE)
    s = tl.sigmoid(x)
    tl.store(grad_x_ptr + offsets, grad * y * s, mask=mask)
    tl.store(grad_y_ptr + offsets, grad * x * s, mask=mask)
# --8<-- [end:no_slope]


class NoSlopeBug(SiluMul):
    @staticmethod
    def backward(ctx, grad):
        grad, x, y = without_gaps(grad, *ctx.saved_tensors)
        grad_x, grad_y = torch.empty_like(x), torch.empty_like(y)
        launch(no_slope_bug, grad, x, y, grad_x, grad_y)
        return grad_x, grad_y


# --8<-- [start:strided]
class StridedBug(SiluMul):
    @staticmethod
    def backward(ctx, grad):
        x, y = without_gaps(*ctx.saved_tensors)
        grad_x, grad_y = torch.empty_like(x), torch.empty_like(y)
        launch(silu_mul_backward_kernel, grad, x, y, grad_x, grad_y)
        return grad_x, grad_y
# --8<-- [end:strided]


# --8<-- [start:twice]
class TwiceBug(SiluMul):
    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return backward(grad, *ctx.saved_tensors)
# --8<-- [end:twice]


# --8<-- [start:penalty]
def with_penalty(function, x, y):
    """Return the gradient for ``x`` of ``out + slope ** 2``, the slope being that of ``out`` along ``x``."""
    out = function(x, y)
    (slope,) = torch.autograd.grad(out, x, create_graph=True)
    (gradient,) = torch.autograd.grad(out + slope**2, x)
    return gradient
# --8<-- [end:penalty]


def toy(device, *values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype, device=device, requires_grad=True)


def gradcheck(function, x, y) -> str:
    """Return what ``torch.autograd.gradcheck`` does: ``True``, or its message."""
    try:
        return str(torch.autograd.gradcheck(function, (x, y)))
    except GradcheckError as error:
        return str(error).strip()


def main():
    device = "cuda" if isinstance(no_slope_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## no slope")
    x, y = toy(device, 2.0, 0.0), toy(device, 3.0, 3.0)
    print(gradcheck(NoSlopeBug.apply, x, y))

    print("## strided")
    x, y = toy(device, [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]), toy(device, [1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    print("gradcheck:", gradcheck(StridedBug.apply, x, y))
    weight = torch.tensor([[1.0, 10.0], [100.0, 1000.0], [10000.0, 100000.0]], dtype=torch.float64, device=device)
    for name, function in {"torch": in_torch, "StridedBug": StridedBug.apply}.items():
        loss = (function(x, y).t() * weight).sum()
        (grad_x,) = torch.autograd.grad(loss, x)
        print(f"grad_x by {name}:", grad_x.tolist())

    print("## twice")
    x, y = toy(device, 2.0), toy(device, 3.0)
    for name, function in {"torch": in_torch, "TwiceBug": TwiceBug.apply}.items():
        print(f"{name}: {with_penalty(function, x, y).item():.4f}")
    try:
        with_penalty(silu_mul, x, y)
    except RuntimeError as error:
        print("silu_mul:", error)


if __name__ == "__main__":
    main()
