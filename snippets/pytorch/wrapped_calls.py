# SPDX-License-Identifier: Apache-2.0
"""How much Python runs before a launch: plainly, through ``wrap_triton``, and within a ``triton_op``. It needs no GPU.

Time is not worth measuring where there is no GPU, but what runs can be counted: functions of Python that are called
from the call of a host function to its return. Each launch does all that a launch does on the host except for the last
step, which hands the kernel to the GPU.

Shapes: ``x`` (n,), the result likewise, float32.
Source: the question, https://github.com/Dao-AILab/flash-attention/issues/2818.

Run it with ``python wrapped_calls.py``.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from unittest import mock

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

from snippets.pytorch.compile_versions import NoGPU

BLOCK = 8


@triton.jit
def add_one_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + 1, mask=i < n)


# --8<-- [start:ways]
def launch_plainly(x: Tensor) -> Tensor:
    out, n = torch.empty_like(x), x.numel()
    add_one_kernel[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK)
    return out


def launch_wrapped(x: Tensor) -> Tensor:
    out, n = torch.empty_like(x), x.numel()
    wrapped = wrap_triton(add_one_kernel)
    wrapped[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK)
    return out


add_one = triton_op("course::add_one", launch_wrapped, mutates_args=())


def launch_by_need(x: Tensor) -> Tensor:
    """Wrap the kernel only while something traces."""
    out, n = torch.empty_like(x), x.numel()
    traced = torch.compiler.is_compiling()
    kernel = wrap_triton(add_one_kernel) if traced else add_one_kernel
    kernel[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK)
    return out
# --8<-- [end:ways]


WAYS = {
    "a plain launch": launch_plainly,
    "wrap_triton": launch_wrapped,
    "wrap_triton within a triton_op": add_one,
    "wrap_triton only while compiling": launch_by_need,
}


# --8<-- [start:count]
def calls_of(function: Callable, *arguments) -> int:
    """Return how many functions of Python one call runs, after a few calls that may compile or fill a cache."""
    for _ in range(3):
        function(*arguments)
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return calls
# --8<-- [end:count]


def up_to_the_gpu():
    """Let launches end where the GPU would begin. Return what undoes that, as a context."""
    launch = triton.JITFunction.run
    triton.runtime.driver.set_active(NoGPU())
    without_gpu = lambda *given, **more: launch(*given, **more | {"warmup": True})
    return mock.patch.object(triton.JITFunction, "run", without_gpu)


def main():
    if os.environ.get("TRITON_INTERPRET") == "1":  # under which nothing is launched so: begin again without it
        without = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
        without["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))  # where the files that it imports were found
        sys.stdout.flush()
        subprocess.run([sys.executable, os.path.abspath(__file__)], env=without, check=True)
        return
    x = torch.zeros(20)
    with up_to_the_gpu():
        for way, function in WAYS.items():
            print(f"{way}: {calls_of(function, x)} calls")


if __name__ == "__main__":
    main()
