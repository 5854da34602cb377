# SPDX-License-Identifier: Apache-2.0
"""For which GPUs does this Triton compile? Four small kernels, each compiled for many GPUs; it takes none of them.

The kernels add float32 numbers, multiply two 64 × 64 matrices of float16 by ``tl.dot``, load a tile by a tensor
descriptor, and cast to an 8-bit type. Of a product it says which instructions do it: those of matrix units (tensor
cores), or one multiplication at a time; of a tile whether one instruction loads it, or plain loads do.
That a kernel compiles does not say that it runs, or runs fast.
"""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

GPUS = {
    "V100": GPUTarget("cuda", 70, 32),
    "T4": GPUTarget("cuda", 75, 32),
    "A100": GPUTarget("cuda", 80, 32),
    "RTX 4090": GPUTarget("cuda", 89, 32),
    "H100, H200": GPUTarget("cuda", 90, 32),
    "B200": GPUTarget("cuda", 100, 32),
    "B300": GPUTarget("cuda", 103, 32),
    "RTX 5090": GPUTarget("cuda", 120, 32),
    "MI250": GPUTarget("hip", "gfx90a", 64),
    "MI300X": GPUTarget("hip", "gfx942", 64),
    "MI350X": GPUTarget("hip", "gfx950", 64),
    "gfx1250": GPUTarget("hip", "gfx1250", 32),  # whose name we do not know
    "RX 7900 XTX": GPUTarget("hip", "gfx1100", 32),
    "RX 9060 XT": GPUTarget("hip", "gfx1200", 32),
    "RX 9070 XT": GPUTarget("hip", "gfx1201", 32),
}
MATRIX_UNITS = re.compile(r"wgmma\.mma_async|tcgen05\.mma|mma\.sync|v_mfma|v_wmma")
WHOLE_TILES = re.compile(r"cp\.async\.bulk\.tensor|tensor_load_to_lds")


# `triton.jit` is put on them in `attempt`: they are compiled, never run.
def add(x_ptr, y_ptr, n):
    offsets = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(y_ptr + offsets, x + x, mask=offsets < n)


def product(x_ptr, y_ptr, n):
    offsets = 64 * tl.arange(0, 64)[:, None] + tl.arange(0, 64)[None, :]
    x = tl.load(x_ptr + offsets)
    tl.store(y_ptr + offsets, tl.dot(x, x))


def by_descriptor(x_ptr, y_ptr, n):
    offsets = 64 * tl.arange(0, 64)[:, None] + tl.arange(0, 64)[None, :]
    tl.store(y_ptr + offsets, x_ptr.load([0, n]))


def cast(x_ptr, y_ptr, n):
    tl.store(y_ptr + tl.arange(0, 32), tl.load(x_ptr + tl.arange(0, 32)).to(tl.float8e4nv))


KERNELS = {  # with the types of x_ptr and y_ptr, what to look for in the assembly, and what it is without
    "x + x, float32": (add, "*fp32", "*fp32", None, "yes"),
    "tl.dot, float16": (product, "*fp16", "*fp32", MATRIX_UNITS, "one by one"),
    "descriptor": (by_descriptor, "tensordesc<fp16[64, 64]>", "*fp16", WHOLE_TILES, "plain loads"),
    "float8e4nv": (cast, "*fp32", "*fp8e4nv", None, "yes"),
}


def attempt(function, inputs: str, outputs: str, looked_for, without: str, target: GPUTarget) -> str:
    """Compile a kernel; the instruction that was looked for, or ``without``; ``refused`` if it does not compile."""
    signature = {"x_ptr": inputs, "y_ptr": outputs, "n": "i32"}
    try:
        compiled = triton.compile(ASTSource(triton.jit(function), signature, {}), target=target)
    except triton.CompilationError:
        return "refused"
    assembly = compiled.asm["ptx" if target.backend == "cuda" else "amdgcn"]
    found = looked_for.search(assembly) if looked_for else None
    return found[0] if found else without


def main():
    row = "{:<13}{:<9}{:<16}{:<17}{:<22}{}"
    print(row.format("GPU", "target", *KERNELS))
    for gpu, target in GPUS.items():
        name = f"sm_{target.arch}" if target.backend == "cuda" else target.arch
        print(row.format(gpu, name, *(attempt(*kernel, target) for kernel in KERNELS.values())), flush=True)


if __name__ == "__main__":
    main()
