# SPDX-License-Identifier: Apache-2.0
"""What the compiler says of an ``if`` whose branches do not agree. Do not copy from here. It needs no GPU.

A compiled kernel has one type for each name, and both branches of an ``if`` have to leave it with that.
Run it with ``python branches_bug.py``.
"""

import re
import textwrap

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

H200 = GPUTarget("cuda", 90, 32)
WIDTH = 72  # of what is printed


# --8<-- [start:types]
@triton.jit
def types_bug(x_ptr, n):
    if n > 3:
        x = 1.0
    else:
        x = 1
    tl.store(x_ptr, x)
# --8<-- [end:types]


# --8<-- [start:shapes]
@triton.jit
def shapes_bug(x_ptr, n):
    x = tl.zeros((4,), tl.float32)
    if n > 3:
        x = tl.zeros((8,), tl.float32)
    tl.store(x_ptr, tl.sum(x))
# --8<-- [end:shapes]


# --8<-- [start:missing]
@triton.jit
def missing_bug(x_ptr, n):
    if n > 3:
        x = 1.0
    tl.store(x_ptr, x)
# --8<-- [end:missing]


# --8<-- [start:right]
@triton.jit
def right_kernel(x_ptr, n):
    x = 1.0
    if n > 3:
        x = 2.0
    tl.store(x_ptr, x)
# --8<-- [end:right]


KERNELS = {
    "two types": types_bug,
    "two shapes": shapes_bug,
    "one branch alone": missing_bug,
    "one type, and a value before": right_kernel,
}


def said(kernel: triton.JITFunction) -> str:
    """Compile for an H200, and return the error that the compiler ends with."""
    source = ASTSource(kernel, signature={"x_ptr": "*fp32", "n": "i32"}, constexprs={})
    try:
        triton.compile(source, target=H200)
    except triton.CompilationError as error:
        return re.sub(r"^(\w+)\((['\"])(.*)\2\)$", r"\1: \3", str(error).splitlines()[-1])
    return "compiled"


def main():
    for name, kernel in KERNELS.items():
        print(f"## {name}")
        print(textwrap.fill(said(kernel), WIDTH, subsequent_indent="  "))


if __name__ == "__main__":
    main()
