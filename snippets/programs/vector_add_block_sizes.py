# SPDX-License-Identifier: Apache-2.0
"""Vector add in blocks of 256 to 4,096 elements: how many programs, and how many elements for each thread.

``add`` always asks for 8 warps, which are 256 threads. So the block size decides how many elements a thread has, and
with them how wide a load can be: four float32 are 16 bytes, the most that one load instruction moves. The recording
holds the code that the compiler makes of each launch. On a GPU, :func:`bandwidth` measures block sizes and numbers of
warps.

Run it on a GPU with ``python vector_add_block_sizes.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import functools

import torch
import triton

from snippets.programs.programs_and_threads import add_on_warps
from snippets.programs.vector_add import add, add_kernel
from snippets.tools.benchmarking_cold import rates

BLOCK_SIZES = (256, 512, 1024, 2048, 4096)
THREADS = 8 * 32  # `add` launches with num_warps=8


SHAPES = {f"{block_size:,}, {warps}": (block_size, warps) for block_size in BLOCK_SIZES for warps in (1, 4, 8)}


# --8<-- [start:bandwidth]
@functools.cache
def measure(n):
    ours = {
        name: functools.partial(add_on_warps, block_size=block_size, num_warps=warps)
        for name, (block_size, warps) in SHAPES.items()
    }
    make = lambda: torch.rand(2, n, device="cuda").unbind()
    return rates(ours | {"torch.add": torch.add}, make, 3 * n * 4, unit=1e9, steady=False)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="bandwidth",
        x_names=["shape"],
        x_vals=[*SHAPES, "torch.add"],
        xlabel="block size, warps",
        ylabel="GB/s",
        line_arg="size",
        line_vals=["2**20", "2**24", "2**28"],
        line_names=["2²⁰ elements (float32)", "2²⁴", "2²⁸"],
        args={},
    )
)
def bandwidth(shape, size):
    """GB/s of 3 * n * 4 bytes, all shapes of a size in turns, on operands in rotation: median, slowest, fastest."""
    return measure(2 ** int(size.removeprefix("2**")))[shape]
# --8<-- [end:bandwidth]


def main():
    device = "cuda" if isinstance(add_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)
    x, y = torch.rand(2, 8192).to(device)
    print("block_size  programs  elements for each thread  right")
    for block_size in BLOCK_SIZES:
        right = torch.equal(add(x, y, block_size=block_size), x + y)
        programs = triton.cdiv(x.numel(), block_size)
        print(f"{block_size:10,}  {programs:8}  {block_size // THREADS:24}  {right}")


if __name__ == "__main__":
    main()
