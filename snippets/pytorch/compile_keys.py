# SPDX-License-Identifier: Apache-2.0
"""What Triton's key of a kernel depends on: its text, its place, and what it calls and reads. It needs no GPU.

Each case writes the same small file with one change, runs it, and compares the key that it prints with the first
file's. A kernel whose key is another is compiled again. At the end, what a compiled kernel says of itself, all of which
a launch without Triton needs to know.

Run it with ``python compile_keys.py``.
Source: Triton, ``runtime/jit.py``; ``triton/tools/compile.py`` for what a launch without Triton passes.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from snippets.pytorch.compile_once import add_one_kernel

# --8<-- [start:file]
FILE = '''\
import triton
import triton.language as tl

FACTOR = tl.constexpr(3)


@triton.jit
def twice(x):
    return 2 * x


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, FACTOR * twice(x), mask=i < n)


print(scale_kernel.cache_key)
'''
# --8<-- [end:file]

# --8<-- [start:changes]
CHANGES = {
    "nothing": ("", ""),
    "a comment within the kernel": ("    x = tl.load", "    # a comment\n    x = tl.load"),
    "a line above the kernel": ("import triton\n", "import triton\n\n"),
    "the function that it calls": ("2 * x", "x + x"),
    "a global constexpr": ("tl.constexpr(3)", "tl.constexpr(4)"),
    "the name of an argument": ("out_ptr", "y_ptr"),
    "a function below it": ("", ""),
}
# --8<-- [end:changes]


def key_of(text: str, path: Path) -> str:
    """Return the key of ``scale_kernel`` in a file of this text."""
    path.write_text(text)
    return run(path)


def run(*arguments: str | Path) -> str:
    """Run a file of Python in a process of its own, in which kernels are compiled, and return what it prints."""
    compiling = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True, env=compiling)
    return done.stdout


def changed(change: str) -> str:
    old, new = CHANGES[change]
    text = FILE.replace(old, new, 1 if old == "import triton\n" else -1) if old else FILE
    return text + ("def below():\n    pass\n" if change == "a function below it" else "")


# --8<-- [start:about]
def about_compiled() -> dict:
    """Compile for an H200, and say what a launch without Triton needs."""
    divisible = [["tt.divisibility", 16]]
    source = ASTSource(
        add_one_kernel,
        signature={
            "x_ptr": "*fp32",
            "out_ptr": "*fp32",
            "n": "i32",
            "BLOCK": "constexpr",
        },
        constexprs={(3,): 1024},
        attrs={(0,): divisible, (1,): divisible},
    )
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    about, code = compiled.metadata, compiled.asm["cubin"]
    head = compiled.asm["ptx"].split(")")[0]
    return {
        "name of the function": about.name,
        "threads of a program": about.num_warps * 32,
        "bytes of shared memory": about.shared,
        "bytes of scratch memory": about.global_scratch_size,
        "parameters of the function": head.count(".param"),
        "the machine code is an ELF file": code[:4] == b"\x7fELF",
    }
# --8<-- [end:about]


def main():
    if sys.argv[1:] == ["about"]:
        for what, value in about_compiled().items():
            print(f"{what}: {value}")
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.py"
        first = key_of(FILE, path)
        print("## What changes the key")
        for change in CHANGES:
            print(f"{change}: {'the same key' if key_of(changed(change), path) == first else 'another key'}")
        print("## What a compiled kernel says of itself")
        print(run(__file__, "about"), end="")


if __name__ == "__main__":
    main()
