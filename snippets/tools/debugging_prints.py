# SPDX-License-Identifier: Apache-2.0
"""Printing and asserting from a kernel with what Triton brings: what each prints, interpreted and compiled.

Each kernel runs in a process of its own, ``python debugging_prints.py NAME``, so that its output can be counted.

Run it on a GPU with ``python debugging_prints.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import collections
import os
import subprocess
import sys
import tempfile

import torch
import triton
import triton.language as tl


# --8<-- [start:device_print]
@triton.jit
def device_print_kernel(n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    tl.device_print("offsets", offsets)
    if pid == 1:
        tl.device_print("mask", offsets < n)
# --8<-- [end:device_print]


# --8<-- [start:static_print]
@triton.jit
def static_print_kernel(n, BLOCK: tl.constexpr):
    tl.static_print("BLOCK:", BLOCK, " type of n:", n.type)
# --8<-- [end:static_print]


# --8<-- [start:static_assert]
@triton.jit
def static_assert_bug(n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK >= 16, "BLOCK must be at least 16")
# --8<-- [end:static_assert]


# --8<-- [start:plain_print]
@triton.jit
def plain_print_bug(n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    print(type(pid))
# --8<-- [end:plain_print]


# --8<-- [start:prefix]
@triton.jit
def prefix_bug(n, BLOCK: tl.constexpr):
    tl.device_print("größe", n)
# --8<-- [end:prefix]


KERNELS = {
    "device_print": device_print_kernel,
    "static_print": static_print_kernel,
    "static_assert": static_assert_bug,
    "plain print": plain_print_bug,
    "prefix": prefix_bug,
}
COMPILED = isinstance(device_print_kernel, triton.JITFunction)


def launch(name: str) -> None:
    """Launch a kernel on a grid of two, twice where nothing goes wrong, and wait for it."""
    try:
        for _ in range(2 if name == "static_print" else 1):
            KERNELS[name][(2,)](6, BLOCK=4)
        if COMPILED:
            torch.cuda.synchronize()
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        if error.__cause__:
            print(f"from {type(error.__cause__).__name__}: {error.__cause__}")


def child(name: str, cache: str, time_limit: float = 120) -> list[str]:
    """The lines that a process prints that launches one kernel and compiles into the folder ``cache``."""
    environment = os.environ | {"TRITON_CACHE_DIR": cache}
    command = [sys.executable, __file__, name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=time_limit)
    return (done.stdout + done.stderr).replace(f"{os.path.dirname(__file__)}{os.sep}", "").splitlines()


def main():
    if COMPILED and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    with tempfile.TemporaryDirectory() as cache:
        for name in KERNELS:
            lines = child(name, cache)
            print("##", name)
            if name == "device_print":
                print(f"lines printed: {len(lines)}")
                lines = [f"{times:2} × {line}" for line, times in collections.Counter(lines).items()]
            print("\n".join(lines))
        print("## static_print, in the next process")
        print(f"lines of static_print in the next process: {len(child('static_print', cache))}")


if __name__ == "__main__":
    launch(sys.argv[1]) if sys.argv[1:] and sys.argv[1] in KERNELS else main()
