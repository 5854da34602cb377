# SPDX-License-Identifier: Apache-2.0
"""Which arguments make Triton compile a kernel again, seen without a GPU, and what the versions leave on disk.

``warmup`` does all of a launch but the launch itself. A driver that only names the target, an H200, lets it run
anywhere; the hook that a server would log says which versions were compiled.

Run it with ``python compile_versions.py``. It needs no GPU.
Source: Triton, ``runtime/jit.py``.
"""

import tempfile
import textwrap
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import CompilationError

from snippets.pytorch.compile_once import LENGTHS, add_one_constant_kernel, add_one_kernel


class NoGPU:
    """Stands in for the driver of a GPU that is not there: it only says what to compile for."""

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0


# --8<-- [start:alignment]
@triton.jit(do_not_specialize_on_alignment=["x_ptr"])
def add_one_anywhere_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + 1, mask=i < n)
# --8<-- [end:alignment]


# --8<-- [start:both]
@triton.jit(do_not_specialize=["N"])
def add_one_both_bug_kernel(
    x_ptr, out_ptr, N: tl.constexpr, BLOCK: tl.constexpr
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < N)
    tl.store(out_ptr + i, x + 1, mask=i < N)
# --8<-- [end:both]


# --8<-- [start:watch]
def watch(found: list[str]) -> None:
    """Note each version that Triton compiles, and what it relies on."""

    def compiled(*, fn, compile, **about):
        (attributes,) = compile["configs"]
        names = list(compile["signature"])
        divisible = [names[i] for (i,), what in attributes.items() if what]
        found.append(f"{fn.name}, divisible by 16: {', '.join(divisible)}")

    triton.knobs.runtime.jit_post_compile_hook = compiled
# --8<-- [end:watch]


# --8<-- [start:views]
def views(kernel) -> list[str]:
    """Return the versions that calls with parts of a tensor took."""
    found = []
    watch(found)
    x, out = torch.zeros(64), torch.zeros(64)
    for part in (x, x[1:], x[2:], x[4:]):  # x[4:] begins 16 bytes later
        kernel.warmup(part, out, 7, BLOCK=64, grid=(1,))
    return found
# --8<-- [end:views]


def about(number: int) -> str:
    """Return a number of bytes in one digit: paths of files are in what is compiled, and differ in length.

    >>> about(72_500), about(2_447_128)
    ('70 kB', '2,000 kB')
    """
    return f"{int(float(f'{number:.1g}')) // 1000:,} kB"


def on_disk(kernel, lengths, folder: Path) -> str:
    """Call a kernel with each length, and count what that leaves in a folder."""
    found = []
    watch(found)
    triton.knobs.cache.dir = str(folder)
    for n in lengths:
        kernel.warmup(torch.zeros(n), torch.zeros(n), n, BLOCK=128, grid=(1,))
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    return f"{len(found)} versions, {len(files)} files, {about(size)}"


def main():
    triton.runtime.driver.set_active(NoGPU())
    print("## Versions for x, x[1:], x[2:] and x[4:]")
    print(*views(add_one_kernel), sep="\n")
    print("## The same, where alignment is left out")
    print(*views(add_one_anywhere_kernel), sep="\n")
    print("## A constexpr that is not to be specialized")
    try:
        add_one_both_bug_kernel.warmup(torch.zeros(5), torch.zeros(5), 5, BLOCK=64, grid=(1,))
    except CompilationError as error:
        for line in f"{type(error).__name__}: {error}".splitlines():
            print(textwrap.fill(line, 76))
    print("## What 100 lengths leave on disk")
    for name, kernel in {"n, a number": add_one_kernel, "N, a tl.constexpr": add_one_constant_kernel}.items():
        with tempfile.TemporaryDirectory() as folder:
            print(f"{name}: {on_disk(kernel, LENGTHS, Path(folder))}")


if __name__ == "__main__":
    main()
