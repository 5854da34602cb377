# SPDX-License-Identifier: Apache-2.0
"""Show what rows of *CUDA to Triton* become in PTX: a sum across threads, and a block that is handed over.

- :func:`total`: a sum by one warp (no barrier), by four (a barrier), or by a cluster of two thread blocks
- :func:`doubled`: one program publishes a block, another consumes it: release and acquire

Shapes: one-dimensional, float32, whole blocks. Source: release and acquire are those of the PTX ISA's memory model.

Run it on an NVIDIA GPU from Hopper on, under Triton 3.9 or newer, with ``python cuda_rows.py``; or with
``TRITON_INTERPRET=1`` in Triton's interpreter, which has no threads, and runs the program that publishes first.
"""

import torch
import triton
import triton.language as tl


# --8<-- [start:sum]
@triton.jit
def sum_kernel(x_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK_SIZE))
    tl.store(out_ptr, tl.sum(x, axis=0))
# --8<-- [end:sum]


# --8<-- [start:hand_over]
@triton.jit
def hand_over_kernel(
    x_ptr, box_ptr, flag_ptr, out_ptr, BLOCK_SIZE: tl.constexpr
):  # fmt: skip
    offsets = tl.arange(0, BLOCK_SIZE)
    if tl.program_id(axis=0) == 0:  # publishes
        x = tl.load(x_ptr + offsets)
        tl.store(box_ptr + offsets, 2 * x)
        tl.debug_barrier()  # all threads have stored
        tl.atomic_xchg(flag_ptr, 1, sem="release")
    else:  # consumes
        while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
            pass
        tl.store(out_ptr + offsets, tl.load(box_ptr + offsets))
# --8<-- [end:hand_over]


# --8<-- [start:host]
def total(x: torch.Tensor, *, num_warps: int = 4, num_ctas: int = 1) -> torch.Tensor:
    """Return the sum of ``x``, whose size is a power of two, by one program of ``num_ctas`` thread blocks.

    >>> total(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor(10.)
    """
    check(x)
    for name, value, most in (("num_warps", num_warps, 32), ("num_ctas", num_ctas, 8)):
        if not isinstance(value, int) or not 1 <= value <= most or value & (value - 1):
            raise ValueError(f"{name} must be a power of two, at most {most}; got {value}")
    out = torch.empty((), device=x.device)
    with torch.cuda.device_of(x):
        sum_kernel[(1,)](x, out, BLOCK_SIZE=x.numel(), num_warps=num_warps, num_ctas=num_ctas)
    return out


def doubled(x: torch.Tensor) -> torch.Tensor:
    """Return ``2 * x``, whose size is a power of two: one program doubles it, and hands it over to another.

    >>> doubled(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([2., 4., 6., 8.])
    """
    check(x)
    box, out = torch.empty_like(x), torch.empty_like(x)
    flag = torch.zeros((), dtype=torch.int32, device=x.device)
    with torch.cuda.device_of(x):  # two programs: any GPU runs both at once
        hand_over_kernel[(2,)](x, box, flag, out, BLOCK_SIZE=x.numel())
    return out
# --8<-- [end:host]


def check(x: torch.Tensor) -> None:
    """Raise ``ValueError`` for a tensor that these functions do not take."""
    if x.dtype != torch.float32 or x.dim() != 1 or not x.is_contiguous():
        raise ValueError(f"x must be contiguous float32 with one dimension; got {x.dtype}, {tuple(x.shape)}")
    if not 1 <= x.numel() <= 2**14 or x.numel() & (x.numel() - 1):
        raise ValueError(f"the size of x must be a power of two, at most 16,384; got {x.numel()}")
    if x.device.type != ("cuda" if isinstance(sum_kernel, triton.JITFunction) else "cpu"):
        raise ValueError(f"x is on {x.device}; move it to a GPU, or set TRITON_INTERPRET=1 for the CPU")
    if x.is_neg():
        raise ValueError("x is negated lazily; pass x.resolve_neg()")
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError("x requires a gradient, which this function does not compute; use torch.no_grad()")


def main():
    device = "cuda" if isinstance(sum_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    x = torch.arange(1024.0, device=device) % 7
    for options in {"num_warps": 1}, {"num_warps": 4}, {"num_ctas": 2}:
        name = ", ".join(f"{option}={value}" for option, value in options.items())
        print(f"sum, {name}, off by: {float(total(x, **options) - x.sum()):g}")
    print(f"handed over, wrong elements: {int((doubled(x) != 2 * x).sum())}")


if __name__ == "__main__":
    main()
