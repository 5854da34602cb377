# SPDX-License-Identifier: Apache-2.0
"""Does ``tl.dot`` of float32 want ``allow_tf32=False`` on older GPUs? Compiled for a V100, a T4 and newer ones.

Each way to say the precision, or to leave it out, is compiled for each GPU; it takes none of them. Counted are the
instructions that multiply: ``fma``, one number at a time, and those of matrix units (tensor cores). That a kernel
compiles does not say that it runs.

Run it with ``python precision_older_gpus.py``.
"""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

GPUS = {"V100": 70, "T4": 75, "A100": 80, "H200": 90}
WAYS = ("allow_tf32=False", "allow_tf32=True", 'input_precision="ieee"', "nothing said")


# --8<-- [start:kernel]
# `triton.jit` is put on it in `counted`: it is compiled, never run.
def dot_kernel(a_ptr, b_ptr, c_ptr, WAY: tl.constexpr):
    i = tl.arange(0, 32)
    tile = i[:, None] * 32 + i[None, :]
    a = tl.load(a_ptr + tile)
    b = tl.load(b_ptr + tile)
    if WAY == 0:
        c = tl.dot(a, b, allow_tf32=False)
    elif WAY == 1:
        c = tl.dot(a, b, allow_tf32=True)
    elif WAY == 2:
        c = tl.dot(a, b, input_precision="ieee")
    else:
        c = tl.dot(a, b)
    tl.store(c_ptr + tile, c)
# --8<-- [end:kernel]


def counted(way: int, capability: int) -> str:
    """Return what multiplies 32 × 32 by 32 × 32 in the code for a GPU; ``refused`` if it does not compile."""
    types = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp32") | {"WAY": "constexpr"}
    source = ASTSource(triton.jit(dot_kernel), types, {"WAY": way})
    try:
        ptx = triton.compile(source, target=GPUTarget("cuda", capability, 32)).asm["ptx"]
    except triton.CompilationError:
        return "refused"
    units = len(re.findall(r"\bmma\.sync|wgmma\.mma_async", ptx))
    return f"{units} mma" if units else f"{len(re.findall(r'fma.rn.f32', ptx))} fma"


def main():
    print(f"{'':<24}" + "".join(f"{gpu:<10}" for gpu in GPUS).rstrip())
    for number, way in enumerate(WAYS):
        print(f"{way:<24}" + "".join(f"{counted(number, arch):<10}" for arch in GPUS.values()).rstrip(), flush=True)


if __name__ == "__main__":
    main()
