# SPDX-License-Identifier: Apache-2.0
"""A debugger inside a kernel: two pdb sessions in Triton's interpreter, typed by this file and echoed as on a terminal.

Run it with ``TRITON_INTERPRET=1 python debugging_breakpoint.py``. To type yourself, call ``copy`` or ``copy_one``
without ``typed``.
"""

import contextlib
import io
import sys

import torch
import triton
import triton.language as tl

from snippets.tools.debugging import breakpoint_if


# --8<-- [start:kernel]
@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    breakpoint()
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x, mask=mask)
# --8<-- [end:kernel]


# --8<-- [start:kernel_if]
@triton.jit
def copy_one_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    breakpoint_if("=2")
    tl.store(out_ptr + offsets, x, mask=mask)
# --8<-- [end:kernel_if]


@triton.jit
def copy_plain_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """The same without the helper, to compare what the compiler makes of both."""
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x, mask=mask)


# --8<-- [start:typed]
class Typed(io.StringIO):
    """Standard input that holds the lines to type and shows each as it is read."""

    def readline(self, *args):
        line = super().readline(*args)
        print(line, end="")
        return line


@contextlib.contextmanager
def typed(*lines):
    """Let whatever reads standard input get these lines."""
    before, sys.stdin = sys.stdin, Typed("".join(f"{line}\n" for line in lines))
    try:
        yield
    finally:
        sys.stdin = before
# --8<-- [end:typed]


def copy(kernel, n=10, block=4):
    x = torch.arange(n, dtype=torch.float32)
    out = torch.full_like(x, -1)
    kernel[(triton.cdiv(n, block),)](x, out, n, BLOCK=block)
    return out


def main():
    if isinstance(copy_kernel, triton.JITFunction):
        raise SystemExit("a compiled kernel has no debugger; set TRITON_INTERPRET=1 to run this in the interpreter")
    print("## every program")
    with typed("p pid", "n", "n", "p offsets", "p mask", "c", "p pid", "c", "c"):
        copy(copy_kernel)
    print("## one program")
    with typed("p pid", "p mask", "p x", "p type(pid)", "p type(pid.handle)", "c"):
        out = copy(copy_one_kernel)
    print("## no program")
    print("copied by both:", out.tolist() == copy(copy_plain_kernel).tolist())


if __name__ == "__main__":
    main()
