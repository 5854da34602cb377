# SPDX-License-Identifier: Apache-2.0
"""The same sum twice: which ways of adding give the same bits in every run, and which don't.

Three functions add a million numbers: ``sum_atomic`` lets each program add its part to one place, in the order in which
the programs happen to arrive. ``sum_parts`` stores the parts, and a second launch adds them in their own order.
``sum_last`` does so in one launch: the program that arrives last adds the parts.

Shapes: ``x`` of any shape, contiguous, float32; the result is a number ``()``.
Run it on a GPU with ``python determinism.py``.
Source: Demmel and Nguyen, *Fast reproducible floating-point summation*, 2013, for why the order matters.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


# --8<-- [start:atomic]
@triton.jit
def sum_atomic_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0))
    tl.atomic_add(out_ptr, part, sem="relaxed")
# --8<-- [end:atomic]


# --8<-- [start:parts]
@triton.jit
def parts_kernel(x_ptr, part_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0))
    tl.store(part_ptr + pid, part)


@triton.jit
def add_parts_kernel(part_ptr, out_ptr, parts, BLOCK: tl.constexpr):
    tl.store(out_ptr, sum_of_parts(part_ptr, parts, BLOCK))


@triton.jit
def sum_of_parts(part_ptr, parts, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, parts, BLOCK):
        i = first + tl.arange(0, BLOCK)
        total += tl.load(part_ptr + i, mask=i < parts, other=0.0)
    return tl.sum(total)
# --8<-- [end:parts]


# --8<-- [start:last]
@triton.jit
def sum_last_kernel(
    x_ptr, part_ptr, arrived_ptr, out_ptr, n, BLOCK: tl.constexpr
):
    pid, programs = tl.program_id(0), tl.num_programs(0)
    i = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0))
    tl.store(part_ptr + pid, part)
    tl.debug_barrier()
    arrived = tl.atomic_add(arrived_ptr, 1, sem="acq_rel")
    if arrived == programs - 1:
        # All parts are there, because each was released before its program
        # was counted.
        tl.store(out_ptr, sum_of_parts(part_ptr, programs, BLOCK))
        tl.store(arrived_ptr, 0)
# --8<-- [end:last]


# --8<-- [start:host]
def sum_atomic(x: Tensor, block: int = BLOCK) -> Tensor:
    """Add all numbers, in another order each time.

    >>> sum_atomic(torch.arange(5.0))
    tensor(10.)
    """
    check(x)
    out = torch.zeros((), device=x.device)
    if x.numel():
        sum_atomic_kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block)
    return out


def sum_parts(x: Tensor, block: int = BLOCK) -> Tensor:
    """Add all numbers, in the same order each time, by two launches.

    >>> sum_parts(torch.arange(5.0))
    tensor(10.)
    """
    check(x)
    count = triton.cdiv(x.numel(), block)
    parts, out = torch.empty(count, device=x.device), torch.empty((), device=x.device)
    if count:
        parts_kernel[(count,)](x, parts, x.numel(), BLOCK=block)
    add_parts_kernel[(1,)](parts, out, count, BLOCK=BLOCK)
    return out


def sum_last(x: Tensor, arrived: Tensor | None = None, block: int = BLOCK) -> Tensor:
    """Add all numbers, in the same order each time, by one launch.

    Args:
        arrived: ``()``, int32, zero; the kernel leaves it at zero, so that
            the next call on the same stream may take it again.

    >>> sum_last(torch.arange(5.0))
    tensor(10.)
    """
    check(x)
    count = triton.cdiv(x.numel(), block)
    if not count:
        return torch.zeros((), device=x.device)
    if arrived is None:
        arrived = torch.zeros((), dtype=torch.int32, device=x.device)
    parts, out = torch.empty(count, device=x.device), torch.empty((), device=x.device)
    sum_last_kernel[(count,)](x, parts, arrived, out, x.numel(), BLOCK=block)
    return out
# --8<-- [end:host]


def check(x: Tensor) -> None:
    """Raise ``ValueError`` for what the kernels would get wrong."""
    if x.dtype != torch.float32:
        raise ValueError(f"x must be float32; got {x.dtype}")
    if not x.is_contiguous():
        raise ValueError("x must be contiguous; pass x.contiguous()")


# --8<-- [start:fused]
@triton.jit
def multiply_add_kernel(x_ptr, y_ptr, z_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    product = tl.load(x_ptr + i) * tl.load(y_ptr + i)
    tl.store(out_ptr + i, product + tl.load(z_ptr + i))
# --8<-- [end:fused]


# --8<-- [start:integers]
@triton.jit
def sum_integers_kernel(x_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    whole = (x * scale).to(tl.int64)
    tl.atomic_add(out_ptr, tl.sum(whole), sem="relaxed")
# --8<-- [end:integers]


def sum_integers(x: Tensor, bits: int = 32) -> Tensor:
    """Add all numbers, each cut to a multiple of ``2 ** -bits``, as integers: their order doesn't matter.

    What is added up, and every part of it, must stay below ``2 ** (63 - bits)``; else the sum wraps around.

    >>> sum_integers(torch.arange(5.0))
    tensor(10.)
    """
    check(x)
    out = torch.zeros((), dtype=torch.int64, device=x.device)
    if x.numel():
        grid = (triton.cdiv(x.numel(), BLOCK),)
        sum_integers_kernel[grid](x, out, x.numel(), 2.0**bits, BLOCK=BLOCK)
    return (out * 2.0**-bits).to(x.dtype)


def different(results) -> int:
    """Return how many different bits there are among results of one shape.

    >>> different([torch.tensor(1.0), torch.tensor(2.0), torch.tensor(1.0)])
    2
    """
    return len({bytes(result.reshape(-1).view(torch.uint8).tolist()) for result in results})


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; the order of programs is a GPU's")
    random = torch.Generator("cuda").manual_seed(0)
    x = torch.randn(2**20, device="cuda", generator=random)
    print("## Six parts")
    parts = by_warps(x, 4)[:6].cpu()
    print("parts:", " ".join(f"{part:.9g}" for part in parts.tolist()))
    print(f"in this order: {one_by_one(parts).item():.9g}")
    print(f"backwards: {one_by_one(parts.flip(0)).item():.9g}")

    print("## Different results in 100 runs")
    for name, add in (
        ("atomics", sum_atomic),
        ("parts, two launches", sum_parts),
        ("parts, added by the last program", sum_last),
        ("atomics on integers", sum_integers),
        ("torch.sum", torch.sum),
    ):
        print(f"{name}: {different(add(x) for _ in range(100))}")

    print("## Different results of one order, by what a tuner may choose")
    print("BLOCK 512, 1024, 2048, 4096:", different(sum_parts(x, block) for block in (512, 1024, 2048, 4096)))
    print("num_warps 1, 2, 4, 8:", different(by_warps(x, warps) for warps in (1, 2, 4, 8)))

    print("## Elements of a million that differ")
    y, z = torch.randn(2, 2**20, device="cuda", generator=random)
    fused, plain = (multiplied(x, y, z, fusion) for fusion in (True, False))
    print("x * y + z, with and without fused multiply-add:", (fused != plain).sum().item())
    print("torch's x * y + z, and without fused multiply-add:", (x * y + z != plain).sum().item())

    print("## One row of a matrix product, alone and among others")
    from snippets.library.matmul import matmul

    a = torch.randn(64, 4096, device="cuda", generator=random).bfloat16()
    b = torch.randn(4096, 4096, device="cuda", generator=random).bfloat16()
    for name, multiply in (("torch.matmul", torch.matmul), ("our matmul", matmul)):
        rows = (multiply(a[:count], b)[:1] for count in (1, 2, 8, 16, 32, 64))
        print(f"{name}, different results for batches of 1, 2, 8, 16, 32, 64: {different(rows)}")


def one_by_one(parts: Tensor) -> Tensor:
    """Add parts in their order, rounding to float32 each time.

    >>> one_by_one(torch.tensor([2.0**24, 1.0, 1.0])) - one_by_one(torch.tensor([1.0, 1.0, 2.0**24]))
    tensor(-2.)
    """
    total = torch.zeros(())
    for part in parts:
        total = total + part
    return total


def by_warps(x: Tensor, warps: int) -> Tensor:
    parts = torch.empty(triton.cdiv(x.numel(), BLOCK), device=x.device)
    parts_kernel[(len(parts),)](x, parts, x.numel(), BLOCK=BLOCK, num_warps=warps)
    return parts


def multiplied(x: Tensor, y: Tensor, z: Tensor, fusion: bool) -> Tensor:
    out = torch.empty_like(x)
    grid = (x.numel() // BLOCK,)
    multiply_add_kernel[grid](x, y, z, out, BLOCK=BLOCK, enable_fp_fusion=fusion)
    return out


if __name__ == "__main__":
    main()
