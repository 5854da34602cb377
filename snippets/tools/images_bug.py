# SPDX-License-Identifier: Apache-2.0
"""Make a GPU refuse compiled code, and a number of 32 bits overflow, on purpose. Do not copy from here.

Triton compiles for the GPU that is here, and naming another by ``TRITON_OVERRIDE_ARCH`` does not make it fail.
A damaged file in the cache does, and so does a kernel that was compiled for another GPU in advance. PTX has a version,
which the driver and ``ptxas`` must know.
Attempts that spoil a process, or are about its environment, run in one of their own. Each is printed, with the line of
its error that says most.

Run it on an NVIDIA GPU with ``python images_bug.py``, with CUDA's ``nvcc`` on the path.
Source: Triton, ``knobs.py`` and ``semantic.py``; NVIDIA, *CUDA Driver API*, ``CUresult``.
"""

import ctypes
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

PTX = """
.version {version}
.target {target}
.address_size 64
.visible .entry nothing() {{ ret; }}
"""
CUDA = """
__global__ void nothing() {}
extern "C" int launch() { nothing<<<1, 1>>>(); return cudaPeekAtLastError(); }
"""


# --8<-- [start:overflow]
@triton.jit
def rows_kernel(out_ptr, stride):
    row = tl.program_id(axis=0)
    tl.store(out_ptr + row, row * stride)
# --8<-- [end:overflow]


def overflow(debug: bool) -> None:
    """Multiply up to 2 by 2**30, in 32 bits, and print what was stored."""
    out = torch.zeros(3, dtype=torch.int64, device="cuda")
    rows_kernel[3,](out, 2**30, debug=debug)
    print("stored", out.tolist())


def launch() -> None:
    out = torch.zeros(1, dtype=torch.int64, device="cuda")
    rows_kernel[1,](out, 5)
    print("accepted" if out.item() == 0 else "wrong")


# --8<-- [start:in_advance]
def in_advance(arch: int):
    """Compile for a GPU that need not be here."""
    source = ASTSource(rows_kernel, {"out_ptr": "*i64", "stride": "i32"})
    return triton.compile(source, target=GPUTarget("cuda", arch, 32))


def launch_compiled(arch: int) -> None:
    out = torch.zeros(3, dtype=torch.int64, device="cuda")
    in_advance(arch)[3, 1, 1](out, 5)
    print("accepted" if out.tolist() == [0, 5, 10] else "wrong")
# --8<-- [end:in_advance]


def library(code: str) -> None:
    """Launch a kernel of CUDA C++ that ``nvcc`` compiled to this code, then let PyTorch launch one of its own."""
    with tempfile.TemporaryDirectory() as name:
        source, compiled = Path(name, "nothing.cu"), Path(name, "nothing.so")
        source.write_text(CUDA)
        command = ["nvcc", "-shared", "-Xcompiler", "-fPIC", "-cudart", "shared"]
        made_for = ["-gencode", f"arch=compute_{code.split('_')[1]},code={code}"]
        subprocess.run([*command, *made_for, source, "-o", compiled], check=True, capture_output=True)
        x = torch.zeros(1, device="cuda")
        failed = ctypes.CDLL(compiled).launch()
    x.add_(1)  # PyTorch asks after each launch whether all is well
    print(f"error {failed}" if failed else "accepted")


def load(version: str, target: str) -> None:
    """Give PTX to the driver, which compiles it, and raise its words if it doesn't."""
    torch.zeros(1, device="cuda")
    cuda, module, words = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_char_p()
    text = PTX.format(version=version, target=target).encode()
    if failed := cuda.cuModuleLoadData(ctypes.byref(module), text):
        cuda.cuGetErrorString(failed, ctypes.byref(words))
        raise RuntimeError(f"{words.value.decode()} ({failed})")
    print("accepted")


def assemble(version: str, target: str) -> None:
    """Give PTX to the ``ptxas`` that Triton brings."""
    ptxas = Path(triton.__file__).parent / "backends/nvidia/bin/ptxas"
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "nothing.ptx")
        file.write_text(PTX.format(version=version, target=target))
        done = subprocess.run([ptxas, "--gpu-name", target, file, "-o", f"{name}/out"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(re.sub(r"\S*/nothing", "nothing", done.stderr.strip().splitlines()[0]))
    print("accepted")


def refused() -> None:
    """Print what the driver, Triton's loader, CUDA's library and ``ptxas`` say to code. None of it spoils a process."""
    cases = {
        "## compiled in advance, by Triton": {
            f"for sm_{arch}": partial(launch_compiled, arch) for arch in (80, 89, 90, 100, 120)
        },
        "## compiled in advance, by nvcc": {
            f"{code}, then PyTorch": partial(library, code) for code in ("sm_80", "compute_80", "sm_90")
        },
        "## PTX, given to the driver": {
            f"version {version}, {target}": partial(load, version, target)
            for version, target in (("8.0", "sm_80"), ("8.0", "sm_90"), ("8.6", "sm_100"), ("9.9", "sm_90"))
        },
        "## PTX, given to ptxas": {
            f"ptxas, version {version}, sm_90": partial(assemble, version, "sm_90") for version in ("8.0", "9.9")
        },
    }
    for section, attempts in cases.items():
        print(section)
        for case, attempt in attempts.items():
            print(f"{case}: ", end="")
            try:
                attempt()
            except Exception as error:
                print(f"{type(error).__name__}: {str(error).strip().splitlines()[0]}")


ATTEMPTS = {"overflow": lambda debug: overflow(bool(debug)), "launch": launch, "refused": refused}


def outcome(*attempt: str, **environment: str) -> str:
    """Return what an attempt printed, in a process of its own, or the line of its error that says most."""
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with tempfile.TemporaryDirectory() as cache:
        given = os.environ | path | {"TRITON_CACHE_DIR": cache} | environment
        done = subprocess.run([sys.executable, __file__, *attempt], env=given, capture_output=True, text=True)
    if done.returncode == 0:
        return done.stdout.strip()
    lines = done.stderr.strip().splitlines()
    return next((line for line in lines if "Assertion" in line), next(x for x in reversed(lines) if "Error" in x))


def damaged() -> str:
    """Compile, cut the compiled file in the cache in half, as a full disk does, and start again."""
    with tempfile.TemporaryDirectory() as cache:
        outcome("launch", TRITON_CACHE_DIR=cache)
        for file in Path(cache).rglob("*.cubin"):
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        return outcome("launch", TRITON_CACHE_DIR=cache)


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; these errors take one")
    if len(sys.argv) > 1:
        return ATTEMPTS[sys.argv[1]](*sys.argv[2:])
    with ThreadPoolExecutor() as pool:  # a process takes long to begin
        overflows = [pool.submit(outcome, "overflow", debug) for debug in ("", "yes")]
        half, code = pool.submit(damaged), pool.submit(outcome, "refused")
        overridden = {
            arch: pool.submit(outcome, "launch", TRITON_OVERRIDE_ARCH=arch) for arch in ("sm80", "sm90", "sm100")
        }
        print("## int32 overflow")
        without, said = (each.result() for each in overflows)
        print("without debug:", without)
        print("debug=True:", re.sub(r"^\S*/|: block: .*?(?=Assertion)", " ", said).strip())
        print("## code for another GPU")
        major, minor = torch.cuda.get_device_capability()
        print(f"this GPU: sm{major}{minor}")
        for arch, said in overridden.items():
            print(f"code for {arch}: {said.result()}")
        print("## a damaged file in the cache")
        print("half a file:", half.result())
        print(code.result())


if __name__ == "__main__":
    main()
