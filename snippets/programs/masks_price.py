# SPDX-License-Identifier: Apache-2.0
"""Measure what a mask costs: a copy without one, with one in every program, and with one in the last program alone.

A mask whose bound the compiler knows to be a multiple of 16 costs next to nothing. With any other bound a thread can
no longer load 16 bytes at a time, for the end might lie inside of them. ``copy_last_kernel`` gets around that: only
the program at the end of the tensor, which alone needs a mask, has one.

Shapes: any; contiguous. Traffic: each element is read once and written once.
Source: none is needed; the result is that of ``torch.Tensor.clone``.

Run it on a GPU with ``python masks_price.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import functools

import torch
import triton
import triton.language as tl


# --8<-- [start:none]
@triton.jit
# For n a multiple of BLOCK_SIZE only.
def copy_none_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    start = tl.program_id(axis=0).to(tl.int64) * BLOCK_SIZE
    offsets = start + tl.arange(0, BLOCK_SIZE)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))
# --8<-- [end:none]


# --8<-- [start:every]
@triton.jit
def copy_every_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    start = tl.program_id(axis=0).to(tl.int64) * BLOCK_SIZE
    offsets = start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    tl.store(
        out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask
    )
# --8<-- [end:every]


# --8<-- [start:last]
@triton.jit
def copy_last_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    start = tl.program_id(axis=0).to(tl.int64) * BLOCK_SIZE
    offsets = start + tl.arange(0, BLOCK_SIZE)
    if start + BLOCK_SIZE <= n:
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))
    else:
        mask = offsets < n
        x = tl.load(x_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, x, mask=mask)
# --8<-- [end:last]


KERNELS = {"none": copy_none_kernel, "every": copy_every_kernel, "last": copy_last_kernel}
DTYPES = (
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64,
)  # fmt: skip


def copy(x: torch.Tensor, *, mask: str = "last", block_size: int | None = None) -> torch.Tensor:
    """Return a copy of ``x``.

    Args:
        x: A contiguous tensor of any shape and of one of ``DTYPES``, on a GPU or, in the interpreter, on the CPU.
        mask: Which programs have one: "none" (then the elements must fill their blocks), "every" or the "last".
        block_size: Elements for each program, a power of two, at most 2**16. Default: 4 KiB of them.

    Raises:
        ValueError: If an argument is something the kernel can't serve.

    >>> copy(torch.tensor([3, 1, 4, 1, 5]), block_size=4)
    tensor([3, 1, 4, 1, 5])
    """
    interpreted = not isinstance(copy_last_kernel, triton.JITFunction)
    if block_size is None:
        block_size = 4096 // x.itemsize
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype {x.dtype} is not supported; copy a view of it, such as x.view(torch.uint8)")
    if x.device.type != ("cpu" if interpreted else "cuda"):
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if not x.is_contiguous():
        raise ValueError(f"x has strides {x.stride()}; x.contiguous() is the copy that you want")
    if x.is_neg():  # its memory doesn't have the sign applied yet
        raise ValueError("x is negated lazily; pass x.resolve_neg()")
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError("x requires a gradient, which this function does not compute; use torch.no_grad()")
    if mask not in KERNELS:
        raise ValueError(f"mask must be one of {', '.join(map(repr, KERNELS))}; got {mask!r}")
    if not isinstance(block_size, int) or not 1 <= block_size <= 2**16 or block_size & (block_size - 1):
        raise ValueError(f"block_size must be a power of two between 1 and 2**16; got {block_size}")
    n = x.numel()
    if mask == "none" and n % block_size:
        raise ValueError(f"{n} elements do not fill blocks of {block_size}: a mask is needed")
    if n > block_size * (2**31 - 1):  # CUDA's limit for programs along one axis
        raise ValueError(f"{n} elements are too many for block_size {block_size}; use a larger block_size")
    out = torch.empty_like(x)
    if n:
        with torch.cuda.device_of(x):
            KERNELS[mask][(triton.cdiv(n, block_size),)](x, out, n, BLOCK_SIZE=block_size, num_warps=8)
    return out


# --8<-- [start:measure]
BY_BYTES = {1: torch.uint8, 2: torch.float16, 4: torch.float32, 8: torch.float64}
LINES = {  # the mask, and how many elements fewer than a multiple of the block
    "none": ("none", 0, "no mask"),
    "even": ("every", 16, "mask, n a multiple of 16"),
    "ragged": ("every", 1, "mask, n odd"),
    "last": ("last", 1, "n odd, mask in the last program only"),
}


@functools.lru_cache(maxsize=1)
def measure(n, dtype, rounds=6):
    """Return a ``Timing`` of each line; the lines take turns."""
    from snippets.tools.benchmarking import compare  # here, so that the rest of this file can be copied alone

    x = torch.randint(0, 256, (n * dtype.itemsize,), dtype=torch.uint8, device="cuda").view(dtype)
    out, block = torch.empty_like(x), 4096 // dtype.itemsize
    launch = lambda mask, n: KERNELS[mask][(triton.cdiv(n, block),)](x, out, n, BLOCK_SIZE=block, num_warps=8)
    sides = {line: functools.partial(launch, mask, n - missing) for line, (mask, missing, _) in LINES.items()}
    return compare(sides, rounds=rounds)


def gigabytes_per_second(n, dtype, line):
    """Return bytes read and written per second, in GB/s: median, slowest and fastest round. L2 is cold and clean."""
    return measure(n, dtype)[line].rate(2 * (n - LINES[line][1]) * dtype.itemsize)
# --8<-- [end:measure]


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="price",
        x_names=["n"],
        x_vals=[2**k for k in range(14, 31, 2)],
        x_log=True,
        xlabel="elements (uint8)",
        ylabel="GB/s",
        line_arg="line",
        line_vals=list(LINES),
        line_names=[name for _, _, name in LINES.values()],
        args={},
    )
)
def price(n, line):
    return gigabytes_per_second(n, torch.uint8, line)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="price_by_size",
        x_names=["bytes"],
        x_vals=[1, 2, 4, 8],
        x_log=True,
        xlabel="bytes for each of 2²⁸ elements",
        ylabel="GB/s",
        line_arg="line",
        line_vals=list(LINES),
        line_names=[name for _, _, name in LINES.values()],
        args={},
    )
)
def price_by_size(bytes, line):
    return gigabytes_per_second(2**28, BY_BYTES[bytes], line)


def main():
    device = "cuda" if isinstance(copy_last_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)
    x = torch.randint(0, 256, (98_433,), dtype=torch.uint8).to(device)
    for mask, n, dtype in (
        ("every", 98_432, torch.float32),
        ("every", 98_433, torch.float32),
        ("last", 98_433, torch.float32),
        ("every", 98_433, torch.uint8),
        ("last", 98_433, torch.uint8),
    ):
        part = x[:n].to(dtype)
        equal = torch.equal(copy(part, mask=mask), part)
        print(f"n = {n:,}, {str(dtype).removeprefix('torch.')}, mask in {mask}: {'equal' if equal else 'NOT equal'}")


if __name__ == "__main__":
    main()
