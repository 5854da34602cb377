# SPDX-License-Identifier: Apache-2.0
"""Compile a model in advance, and run it from Python and from C++: with PyTorch's own norm, and with a kernel's.

The model is RMS norm between a product and a ReLU. On a GPU the norm is a kernel, launched plainly or in a
``triton_op``, which the compiler looks into, or behind a ``custom_op``, which it doesn't. In the interpreter, whose
launches can't be traced, PyTorch's own norm takes the place of the former two. ``aoti_compile_and_package`` writes one
file, which holds the compiled model as far as the compiler could look into it. Who loads it has imported nothing of
ours, or the operator.

Shapes: ``x`` (rows, columns), ``weight`` (columns,), float32; any number of rows from 2 to 4096.
Source: PyTorch, *torch.export AOTInductor Tutorial for Python runtime*, and ``model_package_loader.h``.

Run it with ``TRITON_INTERPRET=1 python aot_inductor.py``, or without the variable on a machine with a GPU, and with
g++ on the path.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import zipfile
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import torch
import triton
from torch import Tensor
from torch.utils.cpp_extension import include_paths, library_paths

from snippets.pytorch.compile import closed, in_torch, named, plain, rms_norm_kernel

WIDTH = 72  # of what is printed
COLUMNS = 1024
DEVICE = "cuda" if isinstance(rms_norm_kernel, triton.JITFunction) else "cpu"


# --8<-- [start:model]
class Model(torch.nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm = norm
        self.weight = torch.nn.Parameter(torch.ones(COLUMNS))

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(2 * x, self.weight).relu()


def package(norm, path: Path, strict: bool = False) -> Path:
    model = Model(norm).to(DEVICE).eval()
    x = torch.ones(8, COLUMNS, device=DEVICE)
    rows = torch.export.Dim("rows", min=2, max=4096)
    with torch.no_grad():
        exported = torch.export.export(
            model, (x,), dynamic_shapes=({0: rows},), strict=strict
        )
    torch._inductor.aoti_compile_and_package(
        exported, package_path=str(path)
    )
    return path
# --8<-- [end:model]


# --8<-- [start:python]
PYTHON = """
import sys, torch
{first}
model = torch._inductor.aoti_load_package(sys.argv[1])
x = torch.arange(-2.0, 4 * 1024 - 2, device=sys.argv[2])
out = model(x.view(4, 1024))
print(round(out.sum().item()))
"""
FIRST = {
    "in Python": "",
    "in Python, the operator imported": "import snippets.pytorch.compile",
}
# --8<-- [end:python]


CPP = r"""
// --8<-- [start:cpp]
#include <ATen/ATen.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <cstdio>

int main(int, char** arguments) {
  c10::InferenceMode inference;
  torch::inductor::AOTIModelPackageLoader model(arguments[1]);
  auto x = at::arange(-2.0, 4 * 1024 - 2).to(at::Device(arguments[2]));
  auto out = model.run({x.view({4, 1024})});
  std::printf("%.0f\n", out[0].sum().item<double>());
}
// --8<-- [end:cpp]
"""


# --8<-- [start:build]
def build(folder: Path) -> Path:
    """Compile the program in C++, and return it."""
    source, program = folder / "main.cpp", folder / "program"
    source.write_text(CPP)
    libraries = ["torch", "torch_cpu", "c10"]
    if DEVICE == "cuda":
        libraries += ["torch_cuda", "c10_cuda"]
    command = ["g++", "-std=c++20", "-O1", source, "-o", program]
    command += [f"-I{path}" for path in include_paths()]
    for path in library_paths():
        command += [f"-L{path}", f"-Wl,-rpath,{path}"]
    command += ["-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined"]
    command += [f"-l{name}" for name in libraries]
    abi = int(torch.compiled_with_cxx11_abi())
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
    subprocess.run(command, check=True)
    return program
# --8<-- [end:build]


def outcome(command: list, folder: Path) -> str:
    """Return what a command printed, and if it failed the sentence that says why, or the signal that ended it.

    Where Python's faulthandler told in which function a signal came, that is named, too.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    print(f"{time.perf_counter() - begin:.0f} s, code {done.returncode}: {command}\n{done.stderr}", file=sys.stderr)
    said = done.stdout.strip()
    if done.returncode == 0:
        return said
    why = re.search(r"Could not find schema.*?(?=\. |\n|$)", done.stderr) or re.search(r"\w*Error: .*", done.stderr)
    if why:
        return f"fails: {why[0]}"
    if done.returncode < 0:
        function = re.search(
            r"Current thread .*most recent call first\):\n  File \".*\", line \d+ in (\S+)", done.stderr
        )
        where = f" in {function[1]}" if function else ""
        return " ".join([said, f"ends by {signal.Signals(-done.returncode).name}{where}"]).strip()
    return f"fails: {(done.stderr.strip() or 'no message').splitlines()[-1]}"


def machine_code(path: Path) -> str:
    """Return the names of the kernels whose machine code is in a package."""
    with zipfile.ZipFile(path) as package:
        code = [package.read(name) for name in package.namelist() if name.endswith(".cubin")]
    return ", ".join(sorted({name.decode() for each in code for name in re.findall(rb"\.text\.(\w+)", each)})) or "none"


def expected() -> float:
    x = torch.arange(-2.0, 4 * COLUMNS - 2, device=DEVICE).view(4, COLUMNS)
    return in_torch(2 * x, torch.ones(COLUMNS, device=DEVICE)).relu().sum().item()


PLAIN = "a plain launch"  # which export takes only with strict=True
NORMS = {PLAIN: plain, "triton_op": named} if DEVICE == "cuda" else {"PyTorch's norm": in_torch}
NORMS["custom_op"] = closed


def main():
    if len(sys.argv) > 2:
        norm, path = sys.argv[1:]
        # Headers that are compiled in advance pay from the second package on.
        with torch._inductor.config.patch({"aot_inductor.precompile_headers": False}):
            package(NORMS[norm], Path(path), strict=norm == PLAIN)
        return
    if DEVICE == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    print(f"the sum of what PyTorch computes: {expected():.0f}", flush=True)
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor() as pool:  # at once, as all of it takes long
        building = pool.submit(build, Path(name))
        for lines in [pool.submit(tried, norm, Path(name), building) for norm in NORMS]:
            for line in lines.result():
                print(textwrap.fill(line, WIDTH, subsequent_indent="  "), flush=True)


def tried(norm: str, folder: Path, building: Future) -> list[str]:
    """Package a model, load the package in each way, and return what happened."""
    path = folder / f"{''.join(filter(str.isalnum, norm))}.pt2"
    if failed := outcome([sys.executable, os.path.abspath(__file__), norm, path], folder):
        return [f"{norm}, packaged: {failed}"]
    python = [sys.executable, "-X", "faulthandler", "-c"]
    programs = {how: [*python, PYTHON.format(first=first)] for how, first in FIRST.items()}
    programs["in C++"] = [building.result()]
    with ThreadPoolExecutor() as pool:
        said = {how: pool.submit(outcome, [*program, path, DEVICE], folder) for how, program in programs.items()}
    inside = f"{norm}, machine code of kernels in the file: {machine_code(path)}"
    return [inside, *(f"{norm}, {how}: {each.result()}" for how, each in said.items())]


if __name__ == "__main__":
    main()
