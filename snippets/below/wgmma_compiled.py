# SPDX-License-Identifier: Apache-2.0
"""What the products of ``wgmma_bug.py`` are compiled to for an H200, without one: where they wait for wgmma.

Counted in SASS, the machine code: ``HGMMA``, which is wgmma, and ``WARPGROUP.DEPBAR``, which waits until no more than
so many products are in flight.

Run it with ``python wgmma_compiled.py``; it needs no GPU.
"""

import os
import re
import subprocess
import sys

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from snippets.below.wgmma_bug import BLOCK_K, BUFFERS, CASES, M, N, hasty_kernel


# --8<-- [start:compile]
def sass(name: str) -> str:
    """Compile a case for an H200, and return its machine code."""
    memory = torch.empty(M * N, dtype=torch.bfloat16)
    memory = memory[-memory.data_ptr() % 16 // 2 :]
    types = {"K": "i32"}
    for argument, shape in (("a", [M, BLOCK_K]), ("b", [BLOCK_K, N]), ("c", [M, N // 4])):
        layout = gl.NVMMASharedLayout.get_default_for(shape, gl.bfloat16)
        described = TensorDescriptor(memory, shape, [shape[1], 1], shape, layout)
        types[argument] = described.__mangle__()
    constants = {"BUFFERS": BUFFERS, "AHEAD": BUFFERS - 1, "LAST": 0} | CASES[name]
    signature = {each: types.get(each, "constexpr") for each in hasty_kernel.arg_names}
    source = GluonASTSource(hasty_kernel, signature, constants)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8}).asm["sass"]
# --8<-- [end:compile]


def waits(code: str) -> tuple[int, list[int]]:
    """Return how many products there are, and the numbers that the waits leave in flight, in order.

    >>> waits("HGMMA.64x256x16 R24 ;  WARPGROUP.DEPBAR.LE gsb0, 0x1 ;  WARPGROUP.DEPBAR.LE gsb0, 0x0 ;")
    (1, [1, 0])
    """
    left = re.findall(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x(\d)", code)
    return len(re.findall(r"\bHGMMA\.", code)), [int(number) for number in left]


def main():
    if os.environ.get("TRITON_INTERPRET") == "1":  # under which nothing compiles: begin again without it
        without = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
        sys.stdout.flush()
        subprocess.run([sys.executable, "-m", "snippets.below.wgmma_compiled"], env=without, check=True)
        return
    for name in CASES:
        products, left = waits(sass(name))
        print(f"{name}: {products} wgmma; waits that leave {', '.join(map(str, left))} in flight")


if __name__ == "__main__":
    main()
