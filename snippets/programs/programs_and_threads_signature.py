# SPDX-License-Identifier: Apache-2.0
"""Show what a kernel's signature may say, and that a kernel returns nothing: the same kernel, written in several ways.

- ``annotated_kernel``: annotations as in any Python; they change nothing
- ``typed_kernel``: annotations that are Triton's types; these decide in which type a number arrives
- ``early_kernel``: a ``return`` without a value ends its program
- ``returning_block_bug``, ``returning_number_bug``: there is nobody to return a value to. Do not copy these.

Source: none is needed; each stores, or ought to store, half of each element.

Run it with ``TRITON_INTERPRET=1 python programs_and_threads_signature.py``. It runs each kernel in Triton's
interpreter, and in a process without that variable compiles each for a GPU of compute capability 9.0, which takes none.
"""

import os
import re
import subprocess
import sys

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget


# --8<-- [start:annotated]
@triton.jit
def plain_kernel(x_ptr, out_ptr, n, scale, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * scale, mask=mask)


@triton.jit
def annotated_kernel(
    x_ptr: torch.Tensor, out_ptr: torch.Tensor, n: int, scale: float,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * scale, mask=mask)
# --8<-- [end:annotated]


# --8<-- [start:typed]
@triton.jit
def typed_kernel(x_ptr, out_ptr, n: tl.int64, scale: tl.float64, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * scale, mask=mask)
# --8<-- [end:typed]


# --8<-- [start:early]
@triton.jit
def early_kernel(x_ptr, out_ptr, n, scale, BLOCK_SIZE: tl.constexpr):
    if tl.program_id(axis=0) == 1:
        return
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * scale, mask=mask)
# --8<-- [end:early]


# --8<-- [start:returning]
@triton.jit
def returning_block_bug(x_ptr, out_ptr, n, scale, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    return x * scale
# --8<-- [end:returning]


@triton.jit
def returning_number_bug(x_ptr, out_ptr, n, scale, BLOCK_SIZE: tl.constexpr):
    return tl.load(x_ptr) * scale


KERNELS = (plain_kernel, annotated_kernel, typed_kernel, early_kernel, returning_block_bug, returning_number_bug)


class H200:
    """Stands in for the driver of a GPU that is not there: it says what to compile for."""

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0


def name(kernel) -> str:
    return kernel.fn.__name__


def interpret(kernel):
    """Launch two programs on 0, 1, … 5, with a scale of 0.5; return what the launch returned, and what was stored."""
    x, out = torch.arange(6.0), torch.full((6,), -1.0)
    return kernel[(2,)](x, out, 6, 0.5, BLOCK_SIZE=4), out.tolist()


def compile_kernel(kernel) -> str:
    """Compile the same launch. Return the types of the arguments, or what Triton raised."""
    x, out = torch.arange(6.0), torch.full((6,), -1.0)
    try:
        compiled = kernel.warmup(x, out, 6, 0.5, BLOCK_SIZE=4, grid=(2,))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    head = next(line for line in compiled.asm["ttir"].splitlines() if "tt.func" in line)
    return ", ".join(f"{argument} {kind}" for argument, kind in re.findall(r"%(\w+): ([^\s,)]+)", head))


def compiled_elsewhere() -> dict[str, list[str]]:
    """Compile all kernels in a process that is not interpreted. Return what was said of each, by its name."""
    given = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    command = [sys.executable, __file__, "compile"]
    # The compiler's own complaints go past Python to the standard error. Together with the headings they stay in order.
    done = subprocess.run(command, env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    _, *parts = re.split(r"^## (\w+)\n", done.stdout, flags=re.M)
    said = {}
    for kernel, text in zip(parts[::2], parts[1::2], strict=True):
        # The first complaint names the line; those that follow are for the compiler's authors.
        complaints = re.findall(r"^\S+\.py:\d+:\d+: (error: .*)", text, re.M)[:1]
        said[kernel] = [*complaints, text.splitlines()[-1]]
    return said


def main():
    if isinstance(plain_kernel, triton.JITFunction):
        raise SystemExit("set TRITON_INTERPRET=1: this runs in Triton's interpreter, and starts the compiler by itself")
    compiled = compiled_elsewhere()
    for kernel in KERNELS:
        print("##", name(kernel))
        returned, stored = interpret(kernel)
        print(f"interpreted, returned: {returned}")
        print("interpreted, stored:", *stored)
        for line in compiled[name(kernel)]:
            print("compiled:", line)


if __name__ == "__main__":
    if sys.argv[1:]:
        triton.runtime.driver.set_active(H200())
        for each in KERNELS:
            print("##", name(each), flush=True)
            print(compile_kernel(each), flush=True)
    else:
        main()
