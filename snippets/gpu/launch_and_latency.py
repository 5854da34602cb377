# SPDX-License-Identifier: Apache-2.0
"""Compute, memory or overhead: one kernel whose arithmetic, bytes and launches can be changed one at a time.

``out[i] = x[i] + x[i]² + … + x[i]^(k+1)``, by ``k`` fused multiply-adds for each element, ``y = y · x + x``.

Shapes: ``x`` and the result are equal in shape, any number of dimensions, contiguous.
Counted: ``2 k`` FLOP for each element, for a fused multiply-add is a multiplication and an addition; and two elements
of traffic, one read and one written.
Source: the evaluation of a polynomial is Horner's.

Run it on a GPU with ``python launch_and_latency.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32)


# --8<-- [start:kernel]
@triton.jit
def powers_kernel(x_ptr, out_ptr, n, k, BLOCK_SIZE: tl.constexpr):
    start = tl.program_id(axis=0).to(tl.int64) * BLOCK_SIZE
    offsets = start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    y = x
    for _ in range(k):
        y = y * x + x  # one fused multiply-add
    tl.store(out_ptr + offsets, y, mask=mask)
# --8<-- [end:kernel]


# --8<-- [start:host]
def powers(x: torch.Tensor, k: int) -> torch.Tensor:
    """Return ``x + x**2 + … + x**(k + 1)``, computed in float32 by :func:`powers_kernel`.

    Args:
        x: A contiguous tensor on a GPU (in the interpreter: on the CPU) of one of ``DTYPES``.
        k: How many fused multiply-adds to spend on each element, at least 0 and less than 2**31.

    Returns:
        A new tensor like ``x``. The kernel may still be running when it is returned.

    Raises:
        ValueError: If ``x`` or ``k`` is something the kernel can't serve.

    >>> powers(torch.tensor([1.0, 2.0, 0.5]), 2)
    tensor([ 3.0000, 14.0000,  0.8750])
    """
    check_arguments(x, k)
    out = torch.empty_like(x)
    if out.numel() == 0:
        return out  # nothing to launch
    with torch.cuda.device_of(x):
        powers_kernel[(triton.cdiv(out.numel(), 1024),)](x, out, out.numel(), k, BLOCK_SIZE=1024, num_warps=4)
    return out
# --8<-- [end:host]


def check_arguments(x: torch.Tensor, k: int) -> None:
    """Raise ``ValueError`` for arguments that :func:`powers` would get wrong, or can't serve at all."""
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    interpreted = not isinstance(powers_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if interpreted and x.dtype == torch.bfloat16:
        raise ValueError("Triton's interpreter computes bfloat16 wrongly; use float32 there, or a GPU")
    if not x.is_contiguous():
        raise ValueError(f"x has strides {x.stride()}; pass x.contiguous(), which copies it")
    if x.is_neg():  # its memory doesn't have the sign applied yet
        raise ValueError("x is negated lazily; pass x.resolve_neg()")
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError("x requires a gradient, which this function does not compute; use torch.no_grad()")
    if not isinstance(k, int) or isinstance(k, bool) or not 0 <= k < 2**31:
        raise ValueError(f"k must be a whole number from 0 to 2**31 - 1; got {k!r}")
    if x.numel() > 1024 * (2**31 - 1):  # CUDA's limit for programs along one axis
        raise ValueError(f"{x.numel()} elements are too many")


# --8<-- [start:main]
def main():
    device = "cuda" if isinstance(powers_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    x = torch.tensor([1.0, 2.0, 0.5, -1.0], device=device)
    print("x =", x.tolist())
    for k in (0, 1, 2, 3):
        print(f"k = {k}:", powers(x, k).tolist())
    print("## counted, for a million elements of float32")
    n = 10**6
    for k in (1, 32, 1024):
        moved, flop = 2 * n * 4, 2 * k * n
        print(f"k = {k:>4}: {moved // n} MB, {flop // n:>5,} MFLOP, {flop / moved:>6} FLOP for each byte")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
