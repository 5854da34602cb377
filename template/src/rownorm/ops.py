# SPDX-License-Identifier: Apache-2.0
"""The function that users call, and the operator behind it.

PyTorch chooses an operator's code by the device of its tensors. On CUDA
that is the kernel, elsewhere the same formula in PyTorch, or the kernel
in Triton's interpreter if TRITON_INTERPRET=1 is set.
"""

import os

import torch
from torch import Tensor

# --8<-- [start:guard]
if not hasattr(torch.library, "custom_op"):
    raise ImportError(
        "rownorm needs torch 2.4 or newer, for torch.library.custom_op; "
        f"this is torch {torch.__version__}"
    )
# --8<-- [end:guard]

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
MOST_COLUMNS = 2**16  # that a program of the kernel holds


# --8<-- [start:function]
def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """Return ``x / sqrt(mean(x**2) + eps) * weight``, row by row.

    x: ``(..., columns)``, float16, bfloat16 or float32.
    weight: ``(columns,)``, of x's dtype and on its device.
    """
    check(x, weight)
    return rms_norm_op(x, weight, eps)
# --8<-- [end:function]


def check(x, weight):
    """Raise ValueError for what the kernel would get wrong."""
    if x.ndim == 0 or weight.shape != x.shape[-1:] or not weight.numel():
        raise ValueError(
            "x must be (..., columns) and weight (columns,), with at "
            f"least one column; got {(*x.shape,)} and {(*weight.shape,)}"
        )
    if x.dtype not in DTYPES or weight.dtype != x.dtype:
        raise ValueError(
            "x and weight must have one dtype, float16, bfloat16 or "
            f"float32; got {x.dtype} and {weight.dtype}"
        )
    if weight.device != x.device:
        raise ValueError(
            "x and weight must be on one device; "
            f"got {x.device} and {weight.device}"
        )


# --8<-- [start:op]
@torch.library.custom_op("rownorm::rms_norm", mutates_args=())
def rms_norm_op(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    # On each device that isn't named below.
    if os.environ.get("TRITON_INTERPRET") == "1":
        return by_kernel(x, weight, eps)
    return in_torch(x, weight, eps)


@rms_norm_op.register_kernel("cuda")
def by_kernel(x, weight, eps):
    if x.shape[-1] > MOST_COLUMNS:
        return in_torch(x, weight, eps)
    return import_kernels().launch(x, weight, eps)
# --8<-- [end:op]


# --8<-- [start:late]
def import_kernels():
    """Return the module with the kernel. Only here is Triton needed."""
    try:
        import triton  # noqa: F401
    except ImportError as error:
        raise RuntimeError(
            "rownorm's kernel needs Triton, which can't be imported "
            f"here ({error}); install it, or call rownorm on the CPU "
            "without TRITON_INTERPRET=1"
        ) from error
    from rownorm import kernels

    return kernels
# --8<-- [end:late]


# --8<-- [start:in_torch]
def in_torch(x, weight, eps):
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * scale * weight.float()).to(x.dtype).contiguous()
# --8<-- [end:in_torch]


# --8<-- [start:gradient]
@rms_norm_op.register_fake
def rms_norm_fake(x, weight, eps):
    return x.new_empty(x.shape)


def setup_context(ctx, inputs, output):
    x, weight, ctx.eps = inputs
    ctx.save_for_backward(x, weight)


def backward(ctx, grad):
    x, weight = ctx.saved_tensors
    wide, grad = x.float(), grad.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + ctx.eps)
    normal, slope = wide * scale, grad * weight.float()
    shared = (slope * normal).mean(-1, keepdim=True)
    grad_x = scale * (slope - normal * shared)
    grad_weight = (grad * normal).reshape(-1, x.shape[-1]).sum(0)
    return grad_x.to(x.dtype), grad_weight.to(weight.dtype), None


rms_norm_op.register_autograd(backward, setup_context=setup_context)
# --8<-- [end:gradient]
