# SPDX-License-Identifier: Apache-2.0
"""Show what becomes of a program on the GPU: how its block is dealt out to threads, and what a kernel can be given.

The kernel of the lesson *Vector add* is launched with blocks and numbers of warps of every kind, so that its compiled
code can be compared: the result never depends on them. Two small kernels show the rest: that an element held by
several threads takes part once, and a grid with three axes.

Shapes: as in ``vector_add.py``; block sizes and numbers of warps are powers of two.
Source: Triton's launch options; no algorithm of anybody's.

Run it on a GPU with ``python programs_and_threads.py``, or without one in Triton's interpreter with
``TRITON_INTERPRET=1 python programs_and_threads.py``.
"""

import torch
import triton
import triton.language as tl

from snippets.programs.vector_add import add, add_kernel, check_arguments


# --8<-- [start:host]
def add_on_warps(x: torch.Tensor, y: torch.Tensor, *, block_size: int = 1024, num_warps: int = 4) -> torch.Tensor:
    """Return ``x + y``, computed by programs of ``block_size`` elements and ``num_warps`` warps each.

    ``x`` and ``y`` are as for ``add``; ``num_warps`` is a power of two, at most 32. Raises ``ValueError`` otherwise.

    >>> add_on_warps(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 20.0, 30.0]), block_size=2, num_warps=1)
    tensor([11., 22., 33.])
    """
    check_arguments(x, y, block_size)
    check_warps(num_warps)
    out = torch.empty_like(x)
    if out.numel() == 0:
        return out
    grid = (triton.cdiv(out.numel(), block_size),)
    with torch.cuda.device_of(x):
        add_kernel[grid](x, y, out, out.numel(), BLOCK_SIZE=block_size, num_warps=num_warps)
    return out
# --8<-- [end:host]


def check_warps(num_warps: int) -> None:
    """Raise ``ValueError`` for a number of warps that no program can have (on a GPU with warps of 32 threads)."""
    if not isinstance(num_warps, int) or not 1 <= num_warps <= 32 or num_warps & (num_warps - 1):
        raise ValueError(f"num_warps must be a power of two between 1 and 32; got {num_warps}")


# --8<-- [start:count]
@triton.jit
def count_kernel(counts_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    tl.atomic_add(counts_ptr + offsets, 1, mask=offsets < n)
# --8<-- [end:count]


def count(n: int, *, block_size: int, num_warps: int, device) -> torch.Tensor:
    """Return how often each of ``n`` elements was counted when every program adds 1 to each of its own: once.

    >>> count(5, block_size=4, num_warps=1, device="cpu")
    tensor([1, 1, 1, 1, 1], dtype=torch.int32)
    """
    check_warps(num_warps)
    if not isinstance(block_size, int) or not 1 <= block_size <= 2**16 or block_size & (block_size - 1):
        raise ValueError(f"block_size must be a power of two between 1 and 2**16; got {block_size}")
    if n > 2**31 - block_size:  # offsets have 32 bits here
        raise ValueError(f"n must be at most {2**31 - block_size} for block_size {block_size}; got {n}")
    counts = torch.zeros(n, dtype=torch.int32, device=device)
    if n:
        with torch.cuda.device_of(counts):
            count_kernel[(triton.cdiv(n, block_size),)](counts, n, BLOCK_SIZE=block_size, num_warps=num_warps)
    return counts


# --8<-- [start:axes]
@triton.jit
def axes_kernel(out_ptr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    place = x + tl.num_programs(0) * (y + tl.num_programs(1) * z)
    tl.store(out_ptr + place, 100 * z + 10 * y + x)
# --8<-- [end:axes]


def axes(grid: tuple[int, int, int], *, device) -> torch.Tensor:
    """Return a tensor of shape ``grid[::-1]`` in which every program wrote its three indices as digits, ``zyx``.

    >>> axes((2, 1, 1), device="cpu")
    tensor([[[0, 1]]], dtype=torch.int32)
    """
    if len(grid) != 3 or not all(isinstance(size, int) and 1 <= size <= 10 for size in grid):
        raise ValueError(f"grid must be three numbers between 1 and 10, so that an index is a digit; got {grid}")
    out = torch.empty(grid[::-1], dtype=torch.int32, device=device)
    with torch.cuda.device_of(out):
        axes_kernel[grid](out)
    return out


# --8<-- [start:main]
def main():
    device = "cuda" if isinstance(add_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## Six elements, blocks of four")
    x = torch.arange(6, dtype=torch.float32, device=device)
    print("x + 10 * x =", add(x, 10 * x, block_size=4).tolist())

    print("## The same add, dealt out in other ways")
    torch.manual_seed(0)
    x, y = torch.rand(2, 4096).to(device)
    for block_size, num_warps in ((1024, 1), (1024, 4), (1024, 8), (64, 4)):
        out = add_on_warps(x, y, block_size=block_size, num_warps=num_warps)
        wrong = int((out != torch.add(x, y)).sum())
        print(f"wrong results, block {block_size}, num_warps {num_warps}: {wrong}")

    counts = count(4096, block_size=64, num_warps=4, device=device)
    print("fewest times that an element was counted:", counts.min().item())
    print("most times that an element was counted:", counts.max().item())

    print("## A grid with three axes")
    for z, plane in enumerate(axes((4, 3, 2), device=device).tolist()):
        for y, row in enumerate(plane):
            print(f"z = {z}, y = {y}:", " ".join(f"{digits:03}" for digits in row))
# --8<-- [end:main]


if __name__ == "__main__":
    main()
