# SPDX-License-Identifier: Apache-2.0
"""When Triton compiles a kernel again: by the kind of its arguments, and by what lies in the cache on disk.

``versions`` counts the compiled versions that a process holds after a hundred calls, for five ways to pass a length.
``DISK`` starts this file again in other circumstances, and says of each whether the kernel was found on disk.

Run it on a GPU with ``python compile_once.py``.
Source: Triton, ``runtime/jit.py`` and ``compiler/compiler.py``.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

LENGTHS = range(1, 101)


# --8<-- [start:plain]
@triton.jit
def add_one_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + 1, mask=i < n)
# --8<-- [end:plain]


# --8<-- [start:not_specialized]
@triton.jit(do_not_specialize=["n"])
def add_one_any_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + 1, mask=i < n)
# --8<-- [end:not_specialized]


# --8<-- [start:constant]
@triton.jit
def add_one_constant_kernel(x_ptr, out_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < N)
    tl.store(out_ptr + i, x + 1, mask=i < N)
# --8<-- [end:constant]


# --8<-- [start:watch]
def watch(found: list[str]) -> None:
    """Note in ``found`` each kernel that Triton compiles from now on."""

    def compiled(*, fn, **about):
        found.append(fn.name)

    triton.knobs.runtime.jit_post_compile_hook = compiled
# --8<-- [end:watch]


def of_next_power(n: int) -> int:
    return triton.next_power_of_2(n)


WAYS = {
    "n, a number": lambda x, out, n: add_one_kernel[(1,)](x, out, n, BLOCK=128),
    "n, not specialized": lambda x, out, n: add_one_any_kernel[(1,)](x, out, n, BLOCK=128),
    "N, a tl.constexpr": lambda x, out, n: add_one_constant_kernel[(1,)](x, out, n, BLOCK=128),
    "BLOCK of the next power of 2": lambda x, out, n: add_one_kernel[(1,)](x, out, n, BLOCK=of_next_power(n)),
    "BLOCK of that, n not specialized": lambda x, out, n: add_one_any_kernel[(1,)](x, out, n, BLOCK=of_next_power(n)),
}


def versions(way) -> int:
    """Return how many versions of its kernel a way has compiled after a call for each length."""
    for kernel in (add_one_kernel, add_one_any_kernel, add_one_constant_kernel):
        kernel.device_caches.clear()
    found = []
    watch(found)
    for n in LENGTHS:
        x = torch.zeros(n, device="cuda")
        out = torch.empty_like(x)
        way(x, out, n)
        assert (out == 1).all()
    triton.knobs.runtime.jit_post_compile_hook = None
    return len(found)


# --8<-- [start:first]
def first_launch() -> str:
    """Launch the kernel, and return how Triton came by it."""
    how = []

    def listen(*, cache_hit, **about):
        how.append("found on disk" if cache_hit else "compiled")

    triton.knobs.compilation.listener = listen
    x = torch.zeros(1024, device="cuda")
    out = torch.empty_like(x)
    triton.runtime.driver.active.get_current_target()  # which builds a part of Triton the first time
    time.sleep(max(0.0, float(os.environ.get("LAUNCH_AT", 0)) - time.time()))
    add_one_kernel[(1,)](x, out, 1024, BLOCK=1024)
    assert (out == 1).all()
    return ", ".join(how)
# --8<-- [end:first]


# --8<-- [start:ahead]
def compile_ahead() -> str:
    """Compile what ``first_launch`` needs, for an H200 that this machine need not have."""
    divisible = [["tt.divisibility", 16]]  # as a launch says of 1024, and of tensors that PyTorch made
    source = ASTSource(
        add_one_kernel,
        signature={"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"},
        constexprs={(3,): 1024},
        attrs={(0,): divisible, (1,): divisible, (2,): divisible, (3,): []},
    )
    triton.compile(source, target=GPUTarget("cuda", 90, 32))
    return "compiled for sm_90"
# --8<-- [end:ahead]


def start(what: str, cache: Path, file: str = __file__, **settings: str | None) -> str:
    """Run this file, or a copy, in a process of its own, and return its last line."""
    environment = os.environ | {"TRITON_CACHE_DIR": str(cache)} | {k: v for k, v in settings.items() if v is not None}
    for name in (name for name, value in settings.items() if value is None):
        environment.pop(name, None)
    done = subprocess.run([sys.executable, file, what], capture_output=True, text=True, env=environment)
    errors = [line for line in done.stderr.splitlines() if re.match(r"\w*(\.\w+)*(Error|Exception)\b", line)]
    return errors[-1] if errors else done.stdout.strip().splitlines()[-1]


def moved(folder: Path, above: str) -> str:
    """Copy this file into a folder, with a text above everything in it, and return the copy's path."""
    copy = folder / "moved.py"
    copy.write_text(above + Path(__file__).read_text())
    return str(copy)


def on_disk(folder: Path) -> None:
    """Print for each circumstance how the first launch of a process came by its kernel."""
    cache, other, empty = folder / "cache", folder / "other", folder / "empty"
    print("an empty cache:", start("first", cache))
    print("the next process:", start("first", cache))
    shutil.copytree(cache, other)
    print("a copy of the cache in another place:", start("first", other))
    print("the same file in another folder:", start("first", cache, moved(folder, "")))
    print("a comment above it:", start("first", cache, moved(folder, "# one more line\n")))
    print("a setting that changes the code:", start("first", cache, TRITON_DEFAULT_FP_FUSION="0"))
    print("a folder that can't be written to:", start("first", Path("/proc/cache")))
    slim, bare = folder / "slim", folder / "bare"
    for path in (slim, bare):
        path.mkdir()
    (slim / "file").symlink_to(shutil.which("file") or "/usr/bin/file")
    print("no C compiler, nothing on disk:", start("first", empty, PATH=str(slim), CC=None))
    print("no C compiler, all on disk:", start("first", cache, PATH=str(slim), CC=None))
    print("nor the command file:", start("first", cache, PATH=str(bare), CC=None))
    ahead = folder / "ahead"
    print("without a GPU:", start("ahead", ahead, CUDA_VISIBLE_DEVICES=""))
    print("after that, with one:", start("first", ahead))
    print("files of one kernel on disk:", ", ".join(sorted({f.suffix[1:] for f in ahead.rglob("add_one_kernel.*")})))


def ranks(folder: Path, count: int = 8) -> int:
    """Return how many of so many processes compile, when all start at once with the same empty cache."""
    cache, at = folder / "shared", str(time.time() + 20)  # by then all have imported torch
    with ThreadPoolExecutor(count) as pool:
        said = list(pool.map(lambda _: start("first", cache, LAUNCH_AT=at), range(count)))
    assert set(said) <= {"compiled", "found on disk"}, said
    return said.count("compiled")


def main():
    if sys.argv[1:] == ["ahead"]:
        return print(compile_ahead())
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; kernels are launched on one")
    if sys.argv[1:] == ["first"]:
        return print(first_launch())
    print("## Versions of a kernel after 100 lengths")
    for name, way in WAYS.items():
        print(f"{name}: {versions(way)}")
    with tempfile.TemporaryDirectory() as folder:
        print("## How the first launch came by its kernel")
        on_disk(Path(folder))
        print("## Eight processes at once")
        print("compiled by:", ranks(Path(folder)))


if __name__ == "__main__":
    main()
