# SPDX-License-Identifier: Apache-2.0
"""Ask the compiler how small the tiles of ``tl.dot`` may be, for several GPUs; it takes none of them.

``tl.dot`` multiplies ``(M, K)`` by ``(K, N)``. For each dtype: the least K, a power of two, that compiles while M and N
are 1. Whether matrix units (tensor cores) multiply is read from the assembly, for tiles with 32 rows and columns.
That a product compiles does not say that it runs, or runs fast.

Run it with ``python smallest_dot.py``. For a GPU of your own, add it to ``GPUS``.
"""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

GPUS = {
    "A100": GPUTarget("cuda", 80, 32),
    "H200": GPUTarget("cuda", 90, 32),
    "B200": GPUTarget("cuda", 100, 32),
    "MI300X": GPUTarget("hip", "gfx942", 64),
}
DTYPES = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8": "fp8e5", "int8": "i8"}
STEPS = (1, 2, 4, 8, 16, 32, 64)
MATRIX_UNITS = re.compile(r"wgmma\.mma_async|tcgen05\.mma|mma\.sync|v_mfma")


# --8<-- [start:kernel]
# `triton.jit` is put on it in `product`: it is compiled, never run.
def dot_kernel(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    tl.store(c_ptr + m[:, None] * N + n[None, :], tl.dot(a, b, out_dtype=c_ptr.dtype.element_ty))
# --8<-- [end:kernel]


def product(dtype: str, sides: tuple[int, int, int], target: GPUTarget) -> str:
    """Return the instruction that multiplies tiles of ``sides`` M, N and K: ``one by one`` if matrix units do not.

    Raises ``triton.CompilationError`` if the compiler refuses.
    """
    result = {"float64": "fp64", "int8": "i32"}.get(dtype, "fp32")
    types = dict.fromkeys(("a_ptr", "b_ptr"), f"*{DTYPES[dtype]}") | {"c_ptr": f"*{result}"}
    constants = dict(zip("MNK", sides, strict=True))
    signature = types | dict.fromkeys(constants, "constexpr")
    compiled = triton.compile(ASTSource(triton.jit(dot_kernel), signature, constants), target=target)
    units = MATRIX_UNITS.search(compiled.asm["ptx" if target.backend == "cuda" else "amdgcn"])
    return units[0] if units else "one by one"


# --8<-- [start:least]
def least_step(dtype: str, target: GPUTarget) -> tuple[int, str]:
    """Return the least K that compiles while M and N are 1, and what the compiler says to half of it ("" if K is 1)."""
    said = ""
    for k in STEPS:
        try:
            product(dtype, (1, 1, k), target)
        except triton.CompilationError as error:
            said = str(error).splitlines()[-1]
        else:
            return k, said
    raise ValueError(f"no K up to {STEPS[-1]} compiles for {dtype}; the compiler says: {said}")
# --8<-- [end:least]


def least_on_matrix_units(dtype: str, target: GPUTarget) -> int:
    """Return the least K for which matrix units multiply (32, K) by (K, 32), where every K compiles, as for AMD."""
    return next(k for k in STEPS if product(dtype, (32, 32, k), target) != "one by one")


def main():
    print("## least K")
    print(f"{'':<8}" + "".join(f"  {gpu}" for gpu in GPUS))
    numbers, refusals = [], {}
    for dtype in DTYPES:
        steps = {gpu: least_step(dtype, target) for gpu, target in GPUS.items()}
        print(f"{dtype:<8}" + "".join(f"{k:>{len(gpu) + 2}}" for gpu, (k, _) in steps.items()), flush=True)
        numbers += [f"least K, {gpu}, {dtype}: {k}" for gpu, (k, _) in steps.items()]
        refusals[dtype] = steps["H200"][1]
    print("## refused")
    for dtype, said in refusals.items():
        print(f"{dtype:<10}{said}")
    numbers.append(f"matrix units from K, MI300X, float16: {least_on_matrix_units('float16', GPUS['MI300X'])}")
    print("## as numbers", *numbers, sep="\n")


if __name__ == "__main__":
    main()
