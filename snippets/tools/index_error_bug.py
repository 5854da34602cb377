# SPDX-License-Identifier: Apache-2.0
"""``IndexError`` from Triton's interpreter: an index that a block, or a tuple, does not have. Do not copy from here.

Python and NumPy check every index, and the interpreter computes with both. ``refused.py`` asks the compiler.

Run it with ``TRITON_INTERPRET=1 python index_error_bug.py``, on the CPU.
"""

import torch
import triton
import triton.language as tl


# --8<-- [start:gather]
@triton.jit
def differences_bug(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    following = tl.gather(x, i + 1, axis=0)  # the last lane has none
    tl.store(out_ptr + i, following - x, mask=i < BLOCK - 1)
# --8<-- [end:gather]


# --8<-- [start:mended]
@triton.jit
def differences(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    following = tl.gather(x, tl.minimum(i + 1, BLOCK - 1), axis=0)
    tl.store(out_ptr + i, following - x, mask=i < BLOCK - 1)
# --8<-- [end:mended]


@triton.jit
def shape_bug(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(out_ptr, x.shape[1])  # a block of one axis has shape[0] only


def show(what: str, kernel) -> None:
    out = torch.zeros(4)
    try:
        kernel[(1,)](torch.tensor([3.0, 5.0, 4.0, 8.0]), out, BLOCK=4)
        print(f"{what}\n    {out.tolist()}")
    except triton.runtime.errors.InterpreterError as error:
        print(f"{what}\n    InterpreterError: {error.error_message}")


def main():
    print("## gather")
    show("tl.gather(x, i + 1, axis=0)", differences_bug)
    show("tl.gather(x, tl.minimum(i + 1, BLOCK - 1), axis=0)", differences)
    print("## shape")
    show("x.shape[1]", shape_bug)


if __name__ == "__main__":
    main()
