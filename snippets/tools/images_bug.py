# SPDX-License-Identifier: Apache-2.0
"""Make a GPU refuse compiled code, and a number of 32 bits overflow, on purpose. Do not copy from here.

Machine code is for one kind of GPU. Triton compiles for the one that is here, so code for another is made by naming it,
as somebody does who compiles in advance. PTX has a version, which the driver and ``ptxas`` must know.
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
from concurrent.futures import ThreadPoolExecutor
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
PTX_GIVEN = [("8.0", "sm_80"), ("8.0", "sm_90"), ("8.6", "sm_100"), ("9.9", "sm_90")]


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


def load_for(capability: str) -> None:
    """Compile for a GPU of this capability, and load what came of it on the one that is here."""
    torch.zeros(1, device="cuda")
    source = ASTSource(rows_kernel, {"out_ptr": "*i64", "stride": "i32"})
    compiled = triton.compile(source, target=GPUTarget("cuda", int(capability), 32))
    compiled._init_handles()
    print("accepted")


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


ATTEMPTS = {
    "overflow": lambda debug: overflow(bool(debug)),
    "launch": launch,
    "load for": load_for,
    "load": load,
    "assemble": assemble,
}


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
    attempts = {f"code for sm{each}": ["load for", str(each)] for each in (80, 89, 90, 100, 120)}
    attempts |= {f"version {v}, {t}": ["load", v, t] for v, t in PTX_GIVEN}
    attempts |= {f"ptxas, version {v}, {t}": ["assemble", v, t] for v, t in PTX_GIVEN if t == "sm_90"}
    attempts |= {"without debug": ["overflow", ""], "debug=True": ["overflow", "yes"]}
    with ThreadPoolExecutor() as pool:  # at once: each takes as long as torch to import
        half = pool.submit(damaged)
        came = dict(zip(attempts, pool.map(lambda attempt: outcome(*attempt), attempts.values()), strict=True))
        came["half a file"] = half.result()
    came["debug=True"] = re.sub(r"^\S*/|: block: .*?(?=Assertion)", " ", came["debug=True"]).strip()
    major, minor = torch.cuda.get_device_capability()
    print("## int32 overflow")
    for name in ("without debug", "debug=True"):
        print(f"{name}: {came.pop(name)}")
    print(f"## code for another GPU\nthis GPU: sm{major}{minor}")
    for name in [name for name in came if name.startswith("code")]:
        print(f"{name}: {came.pop(name)}")
    print(f"## a damaged file in the cache\nhalf a file: {came.pop('half a file')}")
    print("## PTX, given to the driver")
    for name in [name for name in came if name.startswith("version")]:
        print(f"{name}: {came.pop(name)}")
    print("## PTX, given to ptxas")
    for name, said in came.items():
        print(f"{name}: {said}")


if __name__ == "__main__":
    main()
