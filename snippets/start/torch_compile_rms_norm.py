# SPDX-License-Identifier: Apache-2.0
"""RMSNorm, for which torch.compile is enough: ``out = x / sqrt(mean(x²) + eps) * weight`` for each row.

The formula in PyTorch, the same compiled, a Triton kernel by hand, and PyTorch's own function. ``main()`` prints the
Triton kernel that torch.compile wrote.

Shapes: ``x`` and the result ``(rows, columns)``, ``weight`` ``(columns,)``.
Traffic: one element read and one written for each of ``x``; the weight stays in the cache.
Source: Zhang and Sennrich, *Root Mean Square Layer Normalization*, 2019.

Run it on a GPU with ``python torch_compile_rms_norm.py``: torch.compile emits Triton only there.
"""

import functools
import re

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32)


# --8<-- [start:eager]
def rms_norm_eager(x, weight, eps=1e-6):
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(dim=1, keepdim=True) + eps)
    return (wide * scale * weight).to(x.dtype)
# --8<-- [end:eager]


@functools.cache
def rms_norm_compiled():
    """Return ``rms_norm_eager`` under torch.compile, for fixed shapes, each compiled at its first call."""
    # --8<-- [start:compiled]
    return torch.compile(rms_norm_eager, dynamic=False)
    # --8<-- [end:compiled]


# --8<-- [start:kernel]
@triton.jit
def rms_norm_kernel(
    x_ptr, weight_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0).to(
        tl.float32
    )
    weight = tl.load(weight_ptr + column, mask=mask)
    scale = tl.rsqrt(tl.sum(x * x) / columns + eps)
    tl.store(
        out_ptr + row * columns + column, x * scale * weight, mask=mask
    )
# --8<-- [end:kernel]


# --8<-- [start:host]
def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Return ``x / sqrt(mean(x²) + eps) * weight`` for each row, computed in float32 by :func:`rms_norm_kernel`.

    Args:
        x: ``(rows, columns)``, contiguous, on a GPU (in the interpreter: the CPU), of one of ``DTYPES``, with at most
            2**16 columns.
        weight: ``(columns,)``, contiguous, of the dtype and device of ``x``.
        eps: Added to the mean of the squares.

    Returns:
        A new tensor like ``x``.

    Raises:
        ValueError: ``x`` or ``weight`` is something that the kernel cannot serve. There is no backward pass, so tensors
            that require a gradient are refused.

    >>> rms_norm(torch.tensor([[3.0, 4.0, 3.0, 4.0]]), torch.ones(4), eps=0.0).square().mean().round().item()
    1.0
    """
    check_arguments(x, weight)
    out = torch.empty_like(x)
    rows, columns = x.shape
    if out.numel():
        block = triton.next_power_of_2(columns)
        with torch.cuda.device_of(x):
            rms_norm_kernel[(rows,)](
                x, weight, out, columns, eps, BLOCK=block, num_warps=min(max(block // 512, 1), 16)
            )  # fmt: skip
    return out
# --8<-- [end:host]


def check_arguments(x: torch.Tensor, weight: torch.Tensor) -> None:
    """Raise ``ValueError`` for arguments that :func:`rms_norm` would compute wrongly or not at all."""
    if x.ndim != 2 or weight.shape != x.shape[1:] or weight.dtype != x.dtype or weight.device != x.device:
        raise ValueError(
            "x must be (rows, columns) and weight (columns,), of one dtype and device; got "
            f"{tuple(x.shape)} {x.dtype} on {x.device} and {tuple(weight.shape)} {weight.dtype} on {weight.device}"
        )
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    if x.device.type not in ("cuda", "cpu"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; move it to a GPU, as in x.cuda()")
    interpreted = not isinstance(rms_norm_kernel, triton.JITFunction)
    if x.device.type == "cpu" and not interpreted:
        raise ValueError("x is on the CPU; move it to a GPU, or set TRITON_INTERPRET=1 before importing this file")
    if x.dtype == torch.bfloat16 and interpreted:
        raise ValueError("Triton's interpreter rounds to bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")
    for name, tensor in (("x", x), ("weight", weight)):
        if not tensor.is_contiguous():
            raise ValueError(f"{name} has strides {tensor.stride()}; pass {name}.contiguous(), which copies it")
        if tensor.is_neg():
            raise ValueError(f"{name} is negated lazily; pass {name}.resolve_neg()")
        if tensor.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} requires a gradient, which this function does not compute; use torch.no_grad()")
    if x.shape[1] > 2**16 or x.shape[0] > 2**31 - 1:
        raise ValueError(f"x has the shape {tuple(x.shape)}; at most 2**31 - 1 rows of 2**16 columns")


SIDES = {
    "eager": rms_norm_eager,
    "library": lambda x, weight: torch.nn.functional.rms_norm(x, x.shape[1:], weight, eps=1e-6),
    "compiled": lambda x, weight: rms_norm_compiled()(x, weight),
    "triton": rms_norm,
}
ELEMENTS = 2**28  # enough to keep the GPU busy while Python prepares the next call, which takes a compiled one longer


def inputs(columns, device="cuda", dtype=torch.bfloat16):
    torch.manual_seed(0)
    x = torch.randn(ELEMENTS // columns, columns, device=device, dtype=dtype)
    return x, torch.rand(columns, device=device, dtype=dtype)


# --8<-- [start:emitted]
def emitted_kernels(function, *arguments) -> list[str]:
    """The Triton kernels that torch.compile writes for a call, each from its ``@triton.jit`` on."""
    from torch._inductor.utils import run_and_get_code

    torch._dynamo.reset()
    _, codes = run_and_get_code(torch.compile(function, dynamic=False), *arguments)
    return kernels_in("\n".join(codes))


def kernels_in(code: str) -> list[str]:
    r"""The kernels in what the compiler wrote, a Python file that holds each in a string of its own.

    >>> kernels_in("triton('k', '''\nimport triton\n@triton.jit\ndef k(x):\n    pass\n''')")
    ['@triton.jit\ndef k(x):\n    pass']
    """
    return [kernel.rstrip() for kernel in re.findall(r"(?s)@triton\.jit\n.*?(?=''')", code)]
# --8<-- [end:emitted]


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; torch.compile emits Triton for a GPU only")
    x, weight = inputs(1024)
    kernels = emitted_kernels(rms_norm_eager, x, weight)
    print("kernels that torch.compile wrote:", len(kernels))
    print("## The emitted kernel")
    print(kernels[0])
    print("## Errors")
    exact = rms_norm_eager(x.double(), weight.double())
    for name, side in SIDES.items():
        error = ((side(x, weight).double() - exact).abs() / exact.abs().clamp_min(1e-3)).max().item()
        print(f"{name}, largest relative error: {error:.1e}")


if __name__ == "__main__":
    main()
