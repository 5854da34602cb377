# SPDX-License-Identifier: Apache-2.0
"""Vector add in blocks of 256 to 4,096 elements: how many programs, and how many elements for each thread.

``add`` always asks for 8 warps, which are 256 threads. So the block size decides how many elements a thread has, and
with them how wide a load can be: four float32 are 16 bytes, the most that one load instruction moves. The recording
holds the code that the compiler makes of each launch.

Run it on a GPU with ``python vector_add_block_sizes.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton

from snippets.programs.vector_add import add, add_kernel

BLOCK_SIZES = (256, 512, 1024, 2048, 4096)
THREADS = 8 * 32  # `add` launches with num_warps=8


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
