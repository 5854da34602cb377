# SPDX-License-Identifier: Apache-2.0
"""Looking into a kernel: prints, assertions and breakpoints, a feature a kernel.

``interpreter_and_gpu.py`` judges and runs them; what is right comes from PyTorch, plain Python or the definition.

Run it with ``python interpreter_and_gpu_looking.py`` on a GPU, or with ``TRITON_INTERPRET=1`` in Triton's interpreter;
there it also compiles every kernel for a GPU of compute capability 9.0.
Source: Triton's language reference, https://triton-lang.org/main/python-api/triton.language.html.
"""

import os
import re
import sys
import tempfile

import torch
import triton
import triton.language as tl
from triton.runtime.errors import InterpreterError

from snippets.tools.interpreter_and_gpu import feature, main


@triton.jit
def print_kernel():
    print("pid", tl.program_id(0))


@triton.jit
def device_print_kernel():
    tl.device_print("pid", tl.program_id(0))


@triton.jit
def static_print_kernel(N: tl.constexpr):
    tl.static_print("N is", N)


def printed(kernel, *args):
    """The lines that a launch of two programs printed, also from below Python."""
    with tempfile.TemporaryFile("w+") as file:
        sys.stdout.flush()
        saved = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            kernel[(2,)](*args)
            sys.stdout.flush()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
        finally:
            sys.stdout.flush()
            os.dup2(saved, 1)
            os.close(saved)
        file.seek(0)
        return file.read().splitlines()


def last_numbers(lines):
    """The different numbers at the ends of lines: a GPU prints one line for each thread, in any order."""
    return sorted({int(number) for line in lines for number in re.findall(r"\d+", line)[-1:]})


@feature("looking", "`print`")
def plain_print(device):
    return last_numbers(printed(print_kernel)), [0, 1]


@feature("looking", "`tl.device_print`")
def device_print(device):
    return last_numbers(printed(device_print_kernel)), [0, 1]


@feature("looking", "`tl.static_print`, once, while compiling")
def static_print(device):
    return len([line for line in printed(static_print_kernel, 7) if "N is 7" in line.replace("constexpr[7]", "7")]), 1


@triton.jit
def assert_kernel_bug(x_ptr):
    tl.device_assert(tl.load(x_ptr) > 0, "x is not positive")


@feature("looking", "`tl.device_assert` that fails (`debug=True`)")
def device_assert(device):
    try:
        assert_kernel_bug[(1,)](torch.zeros(1, device=device), debug=True)
        if device == "cuda":
            torch.cuda.synchronize()
    except (RuntimeError, InterpreterError):
        return "stopped", "stopped"
    return "not stopped", "stopped"


@triton.jit
def breakpoint_kernel():
    breakpoint()


@feature("looking", "`breakpoint()`")
def stop(device):
    stops, before = [], sys.breakpointhook
    sys.breakpointhook = lambda *args, **kwargs: stops.append(1)
    try:
        breakpoint_kernel[(2,)]()
    finally:
        sys.breakpointhook = before
    return len(stops), 2


if __name__ == "__main__":
    main(__file__, "looking")
