# SPDX-License-Identifier: Apache-2.0
"""Mistakes in a kernel that the compiler refuses, and what it says to each. It takes no GPU.

Run it with ``python refused.py``.
"""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TARGET = GPUTarget("cuda", 90, 32)  # an H200; others refuse the same
ARGUMENTS = {"x_ptr": "*fp32", "half_ptr": "*fp16", "out_ptr": "*fp32", "n": "i32"}


# --8<-- [start:mistakes]
# `triton.jit` is put on them in `said`: they are to be compiled, never run.
def two_sizes(x_ptr, half_ptr, out_ptr, n):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(out_ptr + tl.arange(0, 16), x + tl.arange(0, 32))


def two_dtypes(x_ptr, half_ptr, out_ptr, n):
    offsets = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(out_ptr + offsets, tl.dot(tl.load(x_ptr + offsets), tl.load(half_ptr + offsets)))


def sides(x_ptr, half_ptr, out_ptr, n):
    tall = tl.arange(0, 32)[:, None] * 16 + tl.arange(0, 16)[None, :]  # 32 rows, 16 columns
    tl.store(out_ptr + tall, tl.dot(tl.load(x_ptr + tall), tl.load(x_ptr + tall)))


def number_for_a_pointer(x_ptr, half_ptr, out_ptr, n):
    tl.store(out_ptr, tl.load(n + tl.arange(0, 16)))


def block_at_one_address(x_ptr, half_ptr, out_ptr, n):
    tl.store(out_ptr, tl.load(x_ptr + tl.arange(0, 16)))


def mask_for_one_address(x_ptr, half_ptr, out_ptr, n):
    tl.store(out_ptr, tl.load(x_ptr, mask=tl.arange(0, 16) < n))


def return_in_a_loop(x_ptr, half_ptr, out_ptr, n):
    for i in range(n):
        if i == 5:
            return
        tl.store(out_ptr + i, i)


def block_in_brackets(x_ptr, half_ptr, out_ptr, n):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(out_ptr + tl.arange(0, 16), x[15 - tl.arange(0, 16)])


def lane_that_is_not_there(x_ptr, half_ptr, out_ptr, n):
    lanes = tl.arange(0, 16)
    tl.store(out_ptr + lanes, tl.gather(tl.load(x_ptr + lanes), lanes + 1, axis=0))


def halved(x):
    return x / 2


def helper_without_jit(x_ptr, half_ptr, out_ptr, n):
    tl.store(out_ptr, halved(tl.load(x_ptr)))


def number_that_is_1(x_ptr, half_ptr, out_ptr, n):
    tl.store(out_ptr, n.to(tl.float32))
# --8<-- [end:mistakes]


def said(kernel, **constants) -> str:
    """Return the last line of what the compiler says to a kernel of ``ARGUMENTS``, or "yes"."""
    signature = ARGUMENTS | dict.fromkeys(constants, "constexpr")
    try:
        triton.compile(ASTSource(triton.jit(kernel), signature, constants), target=TARGET)
    except (triton.CompilationError, RuntimeError) as error:  # the latter: before it compiles
        return re.sub(r" at 0x\w+", "", str(error).splitlines()[-1])
    return "yes"


def show(what: str, answer: str) -> None:
    print(f"  {what}\n    compiles: {answer}")


def main():
    print("## What the compiler says")
    show("blocks of two sizes", said(two_sizes))
    show("tl.dot of two dtypes", said(two_dtypes))
    show("tl.dot of sides that do not match", said(sides))
    show("a number for a pointer", said(number_for_a_pointer))
    show("a block at one address", said(block_at_one_address))
    show("a mask for one address", said(mask_for_one_address))
    show("return in a loop", said(return_in_a_loop))
    show("a block in brackets", said(block_in_brackets))
    show("tl.gather of a lane that is not there", said(lane_that_is_not_there))
    show("a helper without @triton.jit", said(helper_without_jit))
    show("n.to(tl.float32), n = 7", said(number_that_is_1))
    show("n.to(tl.float32), n = 1", said(number_that_is_1, n=1))  # as a launch passes it: compiled in


if __name__ == "__main__":
    main()
