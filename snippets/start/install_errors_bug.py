# SPDX-License-Identifier: Apache-2.0
"""The errors that people meet when they install Triton, each made on purpose. Do not copy from here.

Each piece runs in a process of its own, in the surroundings that bring the error about: without ``TRITON_INTERPRET``,
with the GPU hidden, without NumPy, without a C compiler. What it says is printed under a heading.
Run it with ``python install_errors_bug.py``; it needs no GPU, but some of the errors take one.
"""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
import warnings
import zipfile
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.language.extra import libdevice

GPU = torch.cuda.is_available()
WIDTH = 72  # of what is printed
TEXT = "@triton.jit\ndef kernel(x_ptr):\n    pass\n"


@triton.jit
def one_bug(x_ptr):
    tl.store(x_ptr, 1.0)


@triton.jit
def loop_bug(x_ptr, n, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):  # the interpreters of some versions of Triton fail here under NumPy 2.4
        tl.store(x_ptr + start + tl.arange(0, BLOCK), 1.0)


# Pairs of kernels: as a tutorial for another version writes it, and as it is written now. Only compiled, not run;
# `triton.jit` is put on each when its turn comes.
SCALE = 2.0
SCALE_NOW = tl.constexpr(2.0)


def global_bug(x_ptr):
    tl.store(x_ptr, SCALE)


def global_now(x_ptr):
    tl.store(x_ptr, SCALE_NOW)


def tl_libdevice_bug(x_ptr):
    tl.store(x_ptr, tl.libdevice.tanh(tl.load(x_ptr)))


def tl_math_bug(x_ptr):
    tl.store(x_ptr, tl.math.tanh(tl.load(x_ptr)))


def libdevice_now(x_ptr):
    tl.store(x_ptr, libdevice.tanh(tl.load(x_ptr)))


def trans_b_bug(x_ptr):
    x = tl.full((16, 16), 1.0, tl.float32)
    tl.store(x_ptr, tl.sum(tl.sum(tl.dot(x, x, trans_b=True), 1), 0))


def trans_b_now(x_ptr):
    x = tl.full((16, 16), 1.0, tl.float32)
    tl.store(x_ptr, tl.sum(tl.sum(tl.dot(x, tl.trans(x)), 1), 0))


def descriptor_bug(x_ptr):
    x = tl._experimental_make_tensor_descriptor(x_ptr, shape=[16, 16], strides=[16, 1], block_shape=[16, 16])
    x.store([0, 0], x.load([0, 0]) + 1)


def block_ptr_bug(x_ptr):
    block = tl.make_block_ptr(x_ptr, (16, 16), (16, 1), (0, 0), (16, 16), (1, 0))
    tl.store(block, tl.load(block) + 1)


def descriptor_now(x_ptr):
    x = tl.make_tensor_descriptor(x_ptr, shape=[16, 16], strides=[16, 1], block_shape=[16, 16])
    x.store([0, 0], x.load([0, 0]) + 1)


OLD_AND_NOW = {
    "tl.libdevice.tanh(x)": (tl_libdevice_bug, "from triton.language.extra import libdevice", libdevice_now),
    "tl.math.tanh(x)": (tl_math_bug, "from triton.language.extra import libdevice", libdevice_now),
    "tl.dot(a, b, trans_b=True)": (trans_b_bug, "tl.dot(a, tl.trans(b))", trans_b_now),
    "tl._experimental_make_tensor_descriptor": (descriptor_bug, "tl.make_tensor_descriptor", descriptor_now),
    "tl.make_block_ptr": (block_ptr_bug, "tl.make_tensor_descriptor", descriptor_now),
    "SCALE = 2.0, used in a kernel": (global_bug, "SCALE = tl.constexpr(2.0)", global_now),
}


# --8<-- [start:late]
def add_one(x_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(x_ptr + lanes, tl.load(x_ptr + lanes) + 1)


def add_up(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, BLOCK))))


def set_too_late():
    os.environ["TRITON_INTERPRET"] = "1"  # but triton has been imported already
    say("add_one", lambda: triton.jit(add_one)[(1,)](torch.ones(4), BLOCK=4))
    say("add_up", lambda: triton.jit(add_up)[(1,)](torch.ones(4), BLOCK=4))
# --8<-- [end:late]


# Each of the following is a section of what this file prints.


def no_gpu():
    say('torch.ones(3, device="cuda")', lambda: torch.ones(3, device="cuda"))
    say("kernel[grid](cpu_tensor)", lambda: one_bug[(1,)](torch.zeros(1)))


def cpu_tensor():
    say("kernel[grid](cpu_tensor)", lambda: one_bug[(1,)](torch.zeros(1)))


def asks_the_driver():
    say("do_bench(f)", lambda: triton.testing.do_bench(lambda: None))
    say("driver.active.get_active_torch_device()", lambda: triton.runtime.driver.active.get_active_torch_device())


def no_file():
    say("exec(text)", lambda: exec(TEXT, {"triton": triton}))


def loop():
    say("range(0, n, BLOCK)", lambda: loop_bug[(1,)](torch.zeros(8), 8, BLOCK=4))


def without_a_C_compiler():
    say("kernel[grid](x)", lambda: one_bug[(1,)](torch.zeros(1, device="cuda" if GPU else "cpu")))


def old_names():
    """Names from tutorials for other versions, each given to the compiler for an H100 or H200, which takes no GPU."""

    def compiles(kernel):
        source = ASTSource(triton.jit(kernel), {"x_ptr": "*fp32"}, {})
        return lambda: triton.compile(source, target=GPUTarget("cuda", 90, 32))

    for old, (bug, new, mended) in OLD_AND_NOW.items():
        say(old, compiles(bug), new, compiles(mended))
    percentiles = lambda: triton.testing.do_bench(lambda: None, percentiles=[0.5])
    quantiles = lambda: triton.testing.do_bench(lambda: None, quantiles=[0.5])  # takes a GPU
    say("do_bench(f, percentiles=[0.5])", percentiles, "do_bench(f, quantiles=[0.5])", quantiles if GPU else None)
    say("import triton.ops", lambda: __import__("triton.ops"))


# What makes them happen.


def say(name: str, action, now: str | None = None, instead=None) -> None:
    """Print a name and what comes of the action; then, if there is one, what comes of another action instead."""
    print(name)
    print(textwrap.fill(outcome(name, action), WIDTH, initial_indent="    ", subsequent_indent="    "), flush=True)
    if instead:
        print(f"  now {outcome(now, instead)}: {now}", flush=True)


def outcome(name: str, action) -> str:
    """The error of an action, its warning about ``name``, or ``accepted``."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            action()
        except Exception as error:
            while error.__cause__ is not None and type(error).__name__ in ("CompilationError", "InterpreterError"):
                error = error.__cause__
            return f"{type(error).__name__}: {essential(str(error))}"
    about = [str(warning.message) for warning in warned if name in str(warning.message)]
    return f"accepted, with a warning: {about[0]}" if about else "accepted"


def essential(message: str) -> str:
    """The line of a message that says what is wrong; the compiler puts the kernel's source before it."""
    lines = [line for line in message.strip().splitlines() if line.strip()] or [""]
    line = lines[-1] if lines[0].startswith("at ") else lines[0]
    return line if len(line) < 300 else line.split(". ")[0] + ". …"


def in_a_process(*pieces: str, without: str | None = None, code: str | None = None, **environment: str | None) -> None:
    """Run pieces of this file, or ``code``, in a new process without ``TRITON_INTERPRET``.

    ``environment`` is added to that of the process, None removes; ``without`` names a package not to be found there.
    """
    kept = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    with tempfile.TemporaryDirectory() as folder:
        call, more = [sys.executable, *(["-c", code] if code else [__file__, "--pieces"]), *pieces], {}
        if without:
            call.insert(1, "-S")
            more["PYTHONPATH"] = os.pathsep.join(_links(Path(folder), without))
        more["TRITON_CACHE_DIR"] = f"{folder}/cache"
        surroundings = {name: value for name, value in (kept | more | environment).items() if value is not None}
        done = subprocess.run(call, env=surroundings, capture_output=True, text=True, timeout=300)
    print(done.stdout or f"## {pieces[0].replace('_', ' ')}\n", end="")
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if re.match(r"[\w.]+(Error|Exception|Missing): ", line)]
        print(textwrap.fill((lines or done.stderr.splitlines() or ["?"])[-1], WIDTH))
    sys.stdout.flush()


def _links(folder: Path, without: str) -> list[str]:
    """Copies of the folders of installed packages, made of links, without a package."""
    copies = []
    for number, place in enumerate(path for path in sys.path if path.endswith("-packages")):
        copies.append(str(folder / str(number)))
        os.mkdir(copies[-1])
        for entry in Path(place).iterdir():
            if entry.name.split("-")[0] not in (without, f"{without}.libs"):
                os.symlink(entry, f"{copies[-1]}/{entry.name}")
    return copies


def another_triton() -> None:
    """What pip says when Triton 3.9.0 is installed beside torch 2.11.0, and afterwards.

    Both packages are empty here; what they ask for is what PyPI says that the real ones do. It happens in a folder of
    its own and needs no network.
    """
    asks = 'Requires-Dist: triton==3.6.0; platform_system == "Linux"\n'
    with tempfile.TemporaryDirectory() as name:
        folder, wheel = Path(name), "triton-3.9.0-py3-none-any.whl"
        (folder / "torch-2.11.0.dist-info").mkdir()
        entry = folder / "torch-2.11.0.dist-info" / "METADATA"
        entry.write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: 2.11.0\n{asks}")
        with zipfile.ZipFile(folder / wheel, "w") as archive:
            archive.writestr("triton-3.9.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: triton\nVersion: 3.9.0\n")
            archive.writestr("triton-3.9.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            archive.writestr("triton-3.9.0.dist-info/RECORD", "")
        for command in (["install", "--no-index", f"--target={folder}", folder / wheel], ["check"]):
            call = [sys.executable, "-m", "pip", *command]
            more = {"PYTHONPATH": name, "PIP_CONFIG_FILE": os.devnull}
            done = subprocess.run(call, env=os.environ | more, capture_output=True, text=True)
            lines = [line for line in (done.stdout + done.stderr).splitlines() if re.match("ERROR|torch ", line)]
            print("pip", command[0])
            for line in lines:
                print(textwrap.fill(line, WIDTH, initial_indent="    ", subsequent_indent="    "))


def the_check() -> None:
    """What ``install.py`` says of the interpreter here: of Triton 3.6 under NumPy 2.4 or newer, nothing good."""
    from snippets.start import install

    call = [sys.executable, install.__file__]
    done = subprocess.run(call, env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    print("\n".join(textwrap.fill(line, WIDTH, subsequent_indent=" " * 9) for line in done.stdout.splitlines()))


def main():
    in_a_process("no_gpu", CUDA_VISIBLE_DEVICES="")
    in_a_process("asks_the_driver", "loop", CUDA_VISIBLE_DEVICES="", TRITON_INTERPRET="1")
    in_a_process("no_file", "old_names", "set_too_late")
    in_a_process("without_NumPy", without="numpy", TRITON_INTERPRET="1")
    print("## another Triton", flush=True)
    another_triton()
    print("## the check")
    the_check()
    if GPU:
        in_a_process("cpu_tensor")
        in_a_process("without_a_C_compiler", PATH="/nowhere", CC=None)
        model = "import torch; torch.compile(torch.sin)(torch.zeros(1, device='cuda'))"
        in_a_process("without_Triton", without="triton", code=model)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--pieces"]:
        for piece in sys.argv[2:]:
            print("##", piece.replace("_", " "))
            globals()[piece]()
    else:
        main()
