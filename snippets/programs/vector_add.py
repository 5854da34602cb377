# SPDX-License-Identifier: Apache-2.0
"""Add two tensors, element by element: ``out[i] = x[i] + y[i]``.

The smallest kernel that shows every part of Triton: a grid of programs, offsets, a mask,
two loads and a store. Each program adds one block of ``BLOCK_SIZE`` neighboring elements.

Shapes: ``x``, ``y`` and the result have the same shape, with any number of dimensions, and are contiguous.
Traffic: two elements are read and one is written for each element of the result.
Source: the launch is ``kernel[grid]``, as in Triton's documentation.

Run it on a GPU with ``python vector_add.py``, or without one in Triton's interpreter with
``TRITON_INTERPRET=1 python vector_add.py``.
"""

import torch
import triton
import triton.language as tl

DTYPES = (
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64,
)  # fmt: skip


# --8<-- [start:kernel]
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    # --8<-- [start:body]
    # --8<-- [start:offsets]
    pid = tl.program_id(axis=0)
    # 64 bits, because past 2**31 elements pid * BLOCK_SIZE
    # no longer fits in 32.
    start = pid.to(tl.int64) * BLOCK_SIZE
    offsets = start + tl.arange(0, BLOCK_SIZE)
    # --8<-- [end:offsets]
    # --8<-- [start:mask]
    mask = offsets < n
    # --8<-- [end:mask]
    # --8<-- [start:memory]
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)
    # --8<-- [end:body]
    # --8<-- [end:memory]
# --8<-- [end:kernel]


# --8<-- [start:host]
def add(x: torch.Tensor, y: torch.Tensor, *, block_size: int = 1024) -> torch.Tensor:
    """Return ``x + y``, computed by :func:`add_kernel`.

    Args:
        x: A contiguous tensor on a GPU (or, in the interpreter, on the CPU) of one of ``DTYPES``.
        y: A contiguous tensor with the shape, dtype and device of ``x``.
        block_size: Elements per program, a power of two, at most 2**16 (larger blocks take ever longer to compile).

    Returns:
        A new tensor like ``x``. The kernel may still be running when it is returned, because it is only queued
        on the current stream of the device of ``x``, as torch's own kernels are.

    Raises:
        ValueError: If ``x`` or ``y`` is something the kernel can't serve.

    >>> add(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 20.0, 30.0]), block_size=2)
    tensor([11., 22., 33.])
    """
    check_arguments(x, y, block_size)
    # --8<-- [start:launch]
    # Not zeros_like: every element is about to be overwritten.
    out = torch.empty_like(x)
    n = out.numel()
    if n == 0:
        return out  # nothing to launch

    # --8<-- [start:grid]
    def grid(meta):
        return (triton.cdiv(n, meta["BLOCK_SIZE"]),)

    # Triton launches on the current device, which may not be that of x.
    with torch.cuda.device_of(x):
        add_kernel[grid](x, y, out, n, BLOCK_SIZE=block_size, num_warps=8)
    # --8<-- [end:grid]
    return out
    # --8<-- [end:launch]
# --8<-- [end:host]


# --8<-- [start:check]
def check_arguments(x: torch.Tensor, y: torch.Tensor, block_size: int) -> None:
    """Raise ``ValueError`` for arguments that :func:`add` would get wrong, or can't serve at all."""
    if y.shape != x.shape or y.dtype != x.dtype or y.device != x.device:
        raise ValueError(
            "x and y must have the same shape, dtype and device; got "
            f"{tuple(x.shape)} {x.dtype} on {x.device} and {tuple(y.shape)} {y.dtype} on {y.device}"
        )
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    if x.device.type not in ("cuda", "cpu"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; move it to a GPU, as in x.cuda()")
    interpreted = not isinstance(add_kernel, triton.JITFunction)
    if x.device.type == "cpu" and not interpreted:
        raise ValueError("x is on the CPU; move it to a GPU, or set TRITON_INTERPRET=1 before importing this file")
    if x.dtype == torch.bfloat16 and interpreted:
        raise ValueError("Triton's interpreter adds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")
    for name, tensor in (("x", x), ("y", y)):
        if not tensor.is_contiguous():
            raise ValueError(f"{name} has strides {tensor.stride()}; pass {name}.contiguous(), which copies it")
        if tensor.is_neg():  # its memory doesn't have the sign applied yet
            raise ValueError(f"{name} is negated lazily; pass {name}.resolve_neg()")
        if tensor.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} requires a gradient, which this function does not compute; use torch.no_grad()")
    if not isinstance(block_size, int) or not 1 <= block_size <= 2**16 or block_size & (block_size - 1):
        raise ValueError(f"block_size must be a power of two between 1 and 2**16; got {block_size}")
    if x.numel() > block_size * (2**31 - 1):  # CUDA's limit for programs along one axis
        raise ValueError(f"{x.numel()} elements are too many for block_size {block_size}; use a larger block_size")
# --8<-- [end:check]


# --8<-- [start:main]
def main():
    device = "cuda" if isinstance(add_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    # Small enough to follow by hand: three programs of four elements.
    x = torch.arange(10, dtype=torch.float32, device=device)
    y = 100 * x
    print("x     =", x.tolist())
    print("y     =", y.tolist())
    print("x + y =", add(x, y, block_size=4).tolist())

    # Realistic sizes: a multiple of 16, one more than that, and a start that isn't aligned.
    torch.manual_seed(0)
    x, y = torch.rand(2, 98_433).to(device)
    for label, a, b in (
        ("n = 98,432", x[:-1], y[:-1].clone()),
        ("n = 98,433", x, y.clone()),
        ("n = 98,432, x starts 4 bytes later", x[1:], y[1:].clone()),
    ):
        difference = (add(a, b) - torch.add(a, b)).abs().max().item()
        print(f"largest difference from torch, {label}: {difference}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
