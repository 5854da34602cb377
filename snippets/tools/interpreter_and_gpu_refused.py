# SPDX-License-Identifier: Apache-2.0
"""What the compiler must refuse, for a kernel cannot mean it. Most of it is good Python, so the interpreter takes it.

``interpreter_and_gpu.py`` judges and runs them; what is right comes from PyTorch, plain Python or the definition.

Run it with ``python interpreter_and_gpu_refused.py`` on a GPU, or with ``TRITON_INTERPRET=1`` in Triton's interpreter;
there it also compiles every kernel for a GPU of compute capability 9.0.
Source: Triton's language reference, https://triton-lang.org/main/python-api/triton.language.html.
"""

import math

import torch
import triton
import triton.language as tl

from snippets.tools.interpreter_and_gpu import REFUSED, feature, main


@triton.jit
def static_assert_kernel_bug(N: tl.constexpr):
    tl.static_assert(N > 7, "N is too small")


@feature("refused", "a `tl.static_assert` that fails")
def static_assert(device):
    static_assert_kernel_bug[(1,)](7)
    return "no error", REFUSED


@triton.jit
def three_kernel_bug(out_ptr):
    tl.store(out_ptr + tl.arange(0, 3), 1.0)


@triton.jit
def argument_range_kernel_bug(out_ptr, n):
    tl.store(out_ptr + tl.arange(0, n), 1.0)


@triton.jit
def block_if_kernel_bug(out_ptr):
    i = tl.arange(0, 4)
    if i < 2:
        tl.store(out_ptr + i, 1.0)


@triton.jit
def power_kernel_bug(out_ptr):
    i = tl.arange(0, 4)
    tl.store(out_ptr + i, tl.load(out_ptr + i) ** 2)


@triton.jit
def select_kernel_bug(out_ptr):
    i = tl.arange(0, 4)
    tl.store(out_ptr, tl.sum(i[i > 1]).to(tl.float32))


@triton.jit
def slice_kernel_bug(out_ptr):
    i = tl.arange(0, 4)
    tl.store(out_ptr + i[0:2], 1.0)


@triton.jit
def break_kernel_bug(out_ptr):
    total = 0.0
    for i in range(4):
        if i == 2:
            break
        total += 1.0
    tl.store(out_ptr, total)


@triton.jit
def changing_kernel_bug(out_ptr):
    total = 0
    for _ in range(4):
        total = total + 0.5
    tl.store(out_ptr, total)


@triton.jit
def python_kernel_bug(out_ptr):
    tl.store(out_ptr, math.sqrt(tl.load(out_ptr)))


factor = 3.0  # a global that is no tl.constexpr


@triton.jit
def global_kernel_bug(out_ptr):
    tl.store(out_ptr, factor)


@triton.jit
def list_kernel_bug(out_ptr):
    values = [tl.load(out_ptr + i) for i in range(2)]
    tl.store(out_ptr, values[0] + values[1])


@triton.jit
def small_dot_kernel_bug(out_ptr):
    i = tl.arange(0, 2)
    a = tl.load(out_ptr + i[:, None] * 2 + i[None, :])
    tl.store(out_ptr + i[:, None] * 2 + i[None, :], tl.dot(a, a))


def refused(title, kernel, *args):
    def run(device):
        out = torch.ones(4, device=device)
        kernel[(1,)](out, *args)
        return out, REFUSED

    run.__name__ = kernel.__name__.removesuffix("_kernel_bug")
    feature("refused", title)(run)


refused("`tl.arange(0, 3)`", three_kernel_bug)
refused("`tl.arange(0, n)`, `n` an argument", argument_range_kernel_bug, 4)
refused("`if` on a block", block_if_kernel_bug)
refused("`x ** 2` of a block", power_kernel_bug)
refused("`x[x > 1]`", select_kernel_bug)
refused("`x[0:2]`", slice_kernel_bug)
refused("`break`", break_kernel_bug)
refused("a variable that changes its type in a loop", changing_kernel_bug)
refused("a function of Python's, `math.sqrt(x)`", python_kernel_bug)
refused("a global that is no constexpr", global_kernel_bug)
refused("a list comprehension", list_kernel_bug)
refused("`tl.dot` of 2×2 blocks", small_dot_kernel_bug)


if __name__ == "__main__":
    main(__file__, "refused")
