# SPDX-License-Identifier: Apache-2.0
"""A kernel for a program in C: compiled to machine code in advance, then launched without Python, torch or Triton.

``triton.tools.compile`` writes a C file for each version of a kernel, with the machine code in it as an array, and
``triton.tools.link`` one that chooses among them. The kernel is RMS norm of rows,
``out = x / sqrt(mean(x²) + eps) * weight``. Then come programs that get something wrong, and kernels that are refused.

Shapes: ``x`` and ``out`` (rows, columns), ``weight`` (columns,), float32, contiguous, columns up to ``BLOCK``.
Source: ``triton/tools/compile.py``, ``triton/tools/link.py``, and what these write.

Run it on an NVIDIA GPU with ``python ahead_of_time.py``, with gcc on the path.
"""

import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import files
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.driver import include_dirs, libcuda_dirs, ty_to_cpp
from triton.tools.compile import CompileArgs, compile_kernel


# --8<-- [start:kernel]
@triton.jit
def rms_norm_kernel(
    x_ptr,
    weight_ptr,
    out_ptr,
    rows,  # for the grid alone
    columns,
    eps,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + column, mask=mask)
    mean = tl.sum(x * x) / columns
    scale = tl.rsqrt((mean + eps).to(tl.float32))
    out = x * scale * weight
    tl.store(out_ptr + row * columns + column, out, mask=mask)
# --8<-- [end:kernel]


# --8<-- [start:no_gpu]
class NoGPU:
    """Stands in for a GPU's driver, and says what to compile for."""

    map_python_to_cpp_type = staticmethod(ty_to_cpp)

    def __init__(self, arch: int):
        self.target = GPUTarget("cuda", arch, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target
# --8<-- [end:no_gpu]


# --8<-- [start:to_c]
ALIGNED = "*fp32:16, *fp32:16, *fp32:16, i32, i32:16, fp64, 1024"
ANY = "*fp32, *fp32, *fp32, i32, i32, fp64, 1024"
H200, A100 = 90, 80


def to_c(folder: Path, *signatures: str, arch: int = H200) -> list[Path]:
    """Write C files: one for each version, and one that chooses."""
    triton.runtime.driver.set_active(NoGPU(arch))
    written = []
    for signature in signatures:
        _, pair = compile_kernel(
            CompileArgs(
                path=__file__,
                kernel_name="rms_norm_kernel",
                signature=signature,
                grid="rows, 1, 1",
                num_warps=4,
                out_name="rms_norm",
                out_path=folder / "rms_norm",
            )
        )
        written += pair
    headers = [file for file in written if file.suffix == ".h"]
    link = [sys.executable, "-m", "triton.tools.link", *headers]
    subprocess.run([*link, "-o", folder / "rms_norm"], check=True)
    chooses = folder / "rms_norm.c"
    return [*(file for file in written if file.suffix == ".c"), chooses]
# --8<-- [end:to_c]


MAIN = r"""
// --8<-- [start:main]
#include <stdio.h>
#include "rms_norm.h"

static CUdeviceptr on_gpu(const float *from, size_t bytes) {
    CUdeviceptr to;
    cuMemAlloc(&to, bytes);
    cuMemcpyHtoD(to, from, bytes);
    return to;
}

int main(void) {
    float x[2][4] = {{3, 4, 0, 0}}, weight[4] = {1, 1, 1, 1};
    CUdevice device;
    CUcontext context;
    cuInit(0);
    cuDeviceGet(&device, 0);
    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxSetCurrent(context);
    CUdeviceptr x_there = on_gpu(x[0], sizeof x);
    CUdeviceptr weight_there = on_gpu(weight, sizeof weight);
    CUdeviceptr out_there = on_gpu(x[0], sizeof x);

    CUresult result = rms_norm_default(
        0, x_there, weight_there, out_there, 2, 4, 1e-6);
    if (result == CUDA_SUCCESS)
        result = cuCtxSynchronize();
    if (result != CUDA_SUCCESS) {
        printf("error %d\n", result);
        return 1;
    }
    cuMemcpyDtoH(x, out_there, sizeof x);
    for (int row = 0; row < 2; row++)
        printf("%.1f %.1f %.1f %.1f\n",
               x[row][0], x[row][1], x[row][2], x[row][3]);
}
// --8<-- [end:main]
"""


# --8<-- [start:build]
def build(folder: Path, sources: list[Path]) -> Path:
    """Compile these C files and the main one into a program."""
    main, program = folder / "main.c", folder / "program"
    main.write_text(MAIN)
    command = ["gcc", "-w", main, *sources, "-o", program]
    command += [f"-I{path}" for path in include_dirs]
    command += [f"-L{path}" for path in libcuda_dirs()]
    subprocess.run([*command, "-l:libcuda.so.1"], check=True)
    return program
# --8<-- [end:build]


# --8<-- [start:programs]
# The versions that each program contains, and for which GPU.
PROGRAMS = {
    "eps as fp64": ([ANY, ALIGNED], H200),
    "eps as fp32": ([ANY.replace("fp64", "fp32")], H200),
    "columns a multiple of 16 or nothing": ([ALIGNED], H200),
    "machine code for an A100": ([ANY], A100),
}
# --8<-- [end:programs]


# --8<-- [start:refused]
@triton.jit
def descriptor_kernel(x_ptr, rows, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(
        x_ptr, [rows, 64], [64, 1], [BLOCK, 64]
    )
    x.store([0, 0], x.load([0, 0]) * 2)


tuned_kernel = triton.autotune([triton.Config({"BLOCK": 64})], key=[])(
    descriptor_kernel
)
# --8<-- [end:refused]


def refusals(folder: Path) -> dict[str, str]:
    """Return what ``triton.tools.compile`` says to kernels, targets and machines that it does not take."""
    triton.runtime.driver.set_active(NoGPU(H200))
    given = dict(path=__file__, signature="*fp32:16, i32, 64", grid="1, 1, 1", out_path=folder / "refused")
    cases = {
        "a target without its warp size": {"kernel_name": "descriptor_kernel", "target": "cuda:90"},
        "a kernel with a tuner": {"kernel_name": "tuned_kernel"},
        "a descriptor made within the kernel": {"kernel_name": "descriptor_kernel"},
    }
    said = {}
    for case, more in cases.items():
        try:
            compile_kernel(CompileArgs(**given | more))
            said[case] = "compiled"
        except Exception as error:
            said[case] = f"{type(error).__name__}: {error}"
    said["no GPU, and nothing in its place"] = by_command_line(folder)
    return said


def by_command_line(folder: Path) -> str:
    """Return what the command says at its end on a machine without a GPU."""
    options = ["-n", "rms_norm_kernel", "-t", "cuda:90:32", "-w", "4", "-on", "rms_norm", "-s", ANY, "-g", "rows, 1, 1"]
    without = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "triton.tools.compile", *options, "-o", folder / "command", __file__]
    done = subprocess.run(command, env=without, capture_output=True, text=True)
    return done.stderr.strip().splitlines()[-1] if done.returncode else "compiled"


def megabytes(package: str) -> float:
    """Return what an installed package takes on disk, without those that it needs."""
    return sum(file.size or 0 for file in files(package)) / 1e6


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; the programs launch a kernel on one")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for number, (what, (signatures, arch)) in enumerate(PROGRAMS.items()):
            print(f"## {what}")
            folder = root / str(number)
            folder.mkdir()
            program = build(folder, to_c(folder, *signatures, arch=arch))
            print(subprocess.run([program], capture_output=True, text=True).stdout.strip())
            if not number:
                needs = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
                size = program.stat().st_size
        print("## what one ships")
        print(f"the program, kB: {size / 1e3:.0f}")
        print("its libraries:", ", ".join(sorted(set(re.findall(r"(lib(?:cuda|c)\.so\.\d+)", needs)))))
        print(f"torch, MB: {megabytes('torch'):,.0f}")
        print("## what it does not take")
        for case, message in refusals(root).items():
            print(f"{case}: {message}")
    triton.runtime.driver.reset_active()


if __name__ == "__main__":
    main()
