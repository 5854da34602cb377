# SPDX-License-Identifier: Apache-2.0
"""Compile a model that holds a Triton kernel in advance, and run it from Python and from C++.

The model is RMS norm between a product and a ReLU, with the kernel behind a ``triton_op`` or a ``custom_op``.
``aoti_compile_and_package`` writes one file, which holds the compiled model, kernels included, as far as the compiler
could look into the operator. Who loads it has imported nothing of ours.

Shapes: ``x`` (rows, columns), ``weight`` (columns,), float32; any number of rows from 2 to 4096.
Source: PyTorch, *torch.export AOTInductor Tutorial for Python runtime*, and ``model_package_loader.h``.

Run it on an NVIDIA GPU with ``python aot_inductor.py``, with g++ on the path.
"""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.cpp_extension import include_paths, library_paths

from snippets.pytorch.compile import closed, in_torch, named

WIDTH = 72  # of what is printed
COLUMNS = 1024


# --8<-- [start:model]
class Model(torch.nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm = norm
        self.weight = torch.nn.Parameter(torch.ones(COLUMNS))

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(2 * x, self.weight).relu()


def package(norm, path: Path, device: str = "cuda") -> Path:
    model = Model(norm).to(device).eval()
    x = torch.ones(8, COLUMNS, device=device)
    rows = torch.export.Dim("rows", min=2, max=4096)
    with torch.no_grad():
        exported = torch.export.export(
            model, (x,), dynamic_shapes=({0: rows},)
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
    "Python": "",
    "Python without Triton": "sys.modules['triton'] = None",
    "Python, the operator imported": "import snippets.pytorch.compile",
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
def build(folder: Path, device: str = "cuda") -> Path:
    """Compile the program in C++, and return it."""
    source, program = folder / "main.cpp", folder / "program"
    source.write_text(CPP)
    libraries = ["torch", "torch_cpu", "c10"]
    if device == "cuda":
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
    """Return what a command printed, or the sentence of its error that says why it failed."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode == 0:
        return done.stdout.strip()
    print(done.stderr, file=sys.stderr)
    why = re.search(r"Could not find schema.*?(?=\. |\n|$)", done.stderr) or re.search(r"\w*Error: .*", done.stderr)
    return f"fails: {why[0] if why else done.stderr.strip().splitlines()[-1]}"


def expected(device: str) -> float:
    x = torch.arange(-2.0, 4 * COLUMNS - 2, device=device).view(4, COLUMNS)
    return in_torch(2 * x, torch.ones(COLUMNS, device=device)).relu().sum().item()


def inside(path: Path) -> dict[str, int]:
    """Return how many files of each kind a package holds."""
    names = zipfile.ZipFile(path).namelist()
    kinds = [Path(name).suffix for name in names]
    return {kind: kinds.count(kind) for kind in (".so", ".cubin", ".cpp", ".py")}


OPERATORS = {
    "triton_op": (named, ["Python without Triton"]),
    "custom_op": (closed, ["Python", "Python, the operator imported"]),
}


def main(device: str = "cuda"):
    if len(sys.argv) > 3:
        op, path = sys.argv[2:]
        package(OPERATORS[op][0], Path(path), device)
        return
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; Triton's kernels are compiled for one")
    print(f"PyTorch's sum: {expected(device):.0f}")
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor() as pool:  # at once, as all of it takes long
        folder = Path(name)
        building = pool.submit(build, folder, device)
        packaging = {
            op: pool.submit(outcome, [sys.executable, os.path.abspath(__file__), device, op, f"{op}.pt2"], folder)
            for op in OPERATORS
        }
        for op, (_, firsts) in OPERATORS.items():
            print(f"## {op}")
            said, path = packaging[op].result(), folder / f"{op}.pt2"
            if not path.exists():
                print(f"{op}, packaging {said}")
                continue
            holds = ", ".join(f"{count} {kind}" for kind, count in inside(path).items())
            print(f"{op}, the package: {path.stat().st_size / 1e3:,.0f} kB, {holds}")
            programs = {name: [sys.executable, "-c", PYTHON.format(first=FIRST[name])] for name in firsts}
            programs["C++"] = [building.result()]
            commands = [[*program, path, device] for program in programs.values()]
            for language, said in zip(programs, pool.map(outcome, commands, repeat(folder)), strict=True):
                print(textwrap.fill(f"{op}, in {language}: {said}", WIDTH, subsequent_indent="  "))


if __name__ == "__main__":
    main(*sys.argv[1:2])
