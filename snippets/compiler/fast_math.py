# SPDX-License-Identifier: Apache-2.0
"""Show which float32 operations of a kernel are approximate on an NVIDIA GPU: the instructions that the compiler takes.

Each operation in a small kernel, compiled for an H100 or H200 (sm_90), which needs no GPU. ``approx`` and ``full`` are
approximate, ``rn`` is rounded to nearest; ``ftz`` takes numbers next to zero as zero.

Units: instructions as they stand in the PTX, without loads, stores and moves.
Source: the compiler's PTX; what its instructions promise is in NVIDIA's PTX ISA.

Run it with ``python fast_math.py``. For an operation of your own, add a function and a line of ``OPERATIONS``.
"""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.language.extra import libdevice


# --8<-- [start:kernel]
@triton.jit
def apply_kernel(x_ptr, y_ptr, out_ptr, OPERATION: tl.constexpr):
    lanes = tl.arange(0, 128)
    x = tl.load(x_ptr + lanes)
    y = tl.load(y_ptr + lanes)
    tl.store(out_ptr + lanes, OPERATION(x, y))


@triton.jit
def divide(x, y):
    return x / y
# --8<-- [end:kernel]


@triton.jit
def divide_rounded(x, y):
    return tl.div_rn(x, y)


@triton.jit
def exponential(x, y):
    return tl.exp(x)


@triton.jit
def exponential_of_libdevice(x, y):
    return libdevice.exp(x)


@triton.jit
def multiply_and_add(x, y):
    return x * y + x


@triton.jit
def root(x, y):
    return tl.sqrt(x)


@triton.jit
def root_rounded(x, y):
    return tl.sqrt_rn(x)


@triton.jit
def root_inverse(x, y):
    return tl.rsqrt(x)


@triton.jit
def squashed(x, y):
    return tl.sigmoid(x)


OPERATIONS = {
    "tl.exp(x)": (exponential, {}),
    "libdevice.exp(x)": (exponential_of_libdevice, {}),
    "tl.sigmoid(x)": (squashed, {}),
    "x / y": (divide, {}),
    "tl.div_rn(x, y)": (divide_rounded, {}),
    "tl.sqrt(x)": (root, {}),
    "tl.sqrt_rn(x)": (root_rounded, {}),
    "tl.rsqrt(x)": (root_inverse, {}),
    "x * y + x": (multiply_and_add, {}),
    "x * y + x, not fused": (multiply_and_add, {"enable_fp_fusion": False}),
}


# --8<-- [start:compile]
def instructions(operation: triton.JITFunction, capability: int = 90, **options) -> list[str]:
    """Return the instructions that ``operation`` of two float32 becomes, for a compute capability such as 90 for 9.0.

    Raises:
        ValueError: Kernels run in Triton's interpreter, which compiles nothing.
    """
    if not isinstance(operation, triton.JITFunction):
        raise ValueError("TRITON_INTERPRET=1 is set: unset it to compile")
    signature = dict.fromkeys(("x_ptr", "y_ptr", "out_ptr"), "*fp32") | {"OPERATION": "constexpr"}
    source = ASTSource(apply_kernel, signature, {"OPERATION": operation})
    ptx = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options).asm["ptx"]
    found = re.findall(r"^\s+(?:@!?%p\d+ )?([a-z]\w*(?:\.\w+)*\.f32)\s", ptx, re.MULTILINE)
    return [name for name in found if name.partition(".")[0] not in ("ld", "st", "mov")]
# --8<-- [end:compile]


def brief(names: list[str]) -> str:
    """Return a line of a table."""
    return ", ".join(names) if len(names) <= 5 else f"{len(names)} instructions"


def main():
    width = max(map(len, OPERATIONS))
    print("## instructions")
    print(f"{'in the kernel':{width}}  in the PTX for sm_90")
    for text, (operation, options) in OPERATIONS.items():
        print(f"{text:{width}}  {brief(instructions(operation, **options))}")


if __name__ == "__main__":
    main()
