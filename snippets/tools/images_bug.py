# SPDX-License-Identifier: Apache-2.0
"""Make a GPU refuse compiled code, and a number of 32 bits overflow, on purpose. Do not copy from here.

Triton compiles for the GPU that is here, and naming another by ``TRITON_OVERRIDE_ARCH`` does not make it fail.
A damaged file in the cache does. PTX has a version, which the driver and ``ptxas`` must know.
Each attempt runs in a process of its own and is printed, with the last line of its error.

Run it on an NVIDIA GPU with ``python images_bug.py``.
Source: Triton, ``knobs.py`` and ``semantic.py``; NVIDIA, *CUDA Driver API*, ``CUresult``.
"""

import ctypes
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import triton
import triton.language as tl

PTX = """
.version {version}
.target {target}
.address_size 64
.visible .entry nothing() {{ ret; }}
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


ATTEMPTS = {"overflow": lambda debug: overflow(bool(debug)), "launch": launch, "load": load, "assemble": assemble}


def outcome(*attempt: str, **environment: str) -> str:
    """Return what an attempt printed, in a process of its own, or the line of its error that says most.

    A process that a signal ends may leave no such line. Then it's the last one, with the exit code.
    """
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with tempfile.TemporaryDirectory() as cache:
        given = os.environ | path | {"TRITON_CACHE_DIR": cache} | environment
        done = subprocess.run([sys.executable, __file__, *attempt], env=given, capture_output=True, text=True)
    if done.returncode == 0:
        return done.stdout.strip()
    lines = done.stderr.strip().splitlines()
    telling = [line for line in lines if "Assertion" in line] or [line for line in reversed(lines) if "Error" in line]
    return telling[0] if telling else f"code {done.returncode}: {lines[-1] if lines else 'no message'}"


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
    print("## int32 overflow")
    print("without debug:", outcome("overflow", ""))
    said = outcome("overflow", "yes")
    print("debug=True:", re.sub(r"^\S*/|: block: .*?(?=Assertion)", " ", said).strip())
    print("## code for another GPU")
    major, minor = torch.cuda.get_device_capability()
    print(f"this GPU: sm{major}{minor}")
    for arch in ("sm80", "sm89", "sm90", "sm100", "sm120"):
        print(f"code for {arch}:", outcome("launch", TRITON_OVERRIDE_ARCH=arch))
    print("## a damaged file in the cache")
    print("half a file:", damaged())
    print("## PTX, given to the driver")
    for version, target in (("8.0", "sm_80"), ("8.0", "sm_90"), ("8.6", "sm_100"), ("9.9", "sm_90")):
        print(f"version {version}, {target}:", outcome("load", version, target))
    print("## PTX, given to ptxas")
    for version, target in (("8.0", "sm_90"), ("9.9", "sm_90")):
        print(f"ptxas, version {version}, {target}:", outcome("assemble", version, target))


if __name__ == "__main__":
    main()
