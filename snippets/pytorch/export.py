# SPDX-License-Identifier: Apache-2.0
"""Export a model that holds a Triton kernel, save it, and load it in another process: with and without the operator.

``course::double`` doubles each element, ``out[i] = 2 * x[i]``, by a kernel behind a ``custom_op``. ``torch.export``
takes the model apart into operators and keeps the kernel's by name, with any number of rows. The file that it saves
holds that name and no kernel, so the process that loads it has to import whatever registers the operator.

Shapes: ``x`` (rows, 4), float32; the result likewise.
Source: https://docs.pytorch.org/docs/stable/export.html.

Run it with ``TRITON_INTERPRET=1 python export.py``, or without the variable on a machine with a GPU.
"""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import custom_op

WIDTH = 72  # of what is printed


# --8<-- [start:op]
@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, 2 * x, mask=i < n)


@custom_op("course::double", mutates_args=())
def double(x: Tensor) -> Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    n = x.numel()
    double_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
    return out


@double.register_fake
def _(x):
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)
# --8<-- [end:op]


DEVICE = "cuda" if isinstance(double_kernel, triton.JITFunction) else "cpu"


# --8<-- [start:model]
class Model(torch.nn.Module):
    def forward(self, x):
        return double(x + 1).relu()


def exported() -> torch.export.ExportedProgram:
    x = torch.ones(3, 4, device=DEVICE)
    rows = torch.export.Dim("rows")
    return torch.export.export(Model(), (x,), dynamic_shapes=({0: rows},))
# --8<-- [end:model]


# --8<-- [start:load]
LOAD = """
import sys, torch
{register}
model = torch.export.load(sys.argv[1]).module()
x = torch.full((2, 4), 20.0, device=sys.argv[2])
print("result:", model(x)[0].tolist())
"""
REGISTER = {
    "with the operator": "import snippets.pytorch.export",
    "without it": "",
}
# --8<-- [end:load]


def loaded(path: Path, register: str) -> str:
    """Load the model in a new process, call it, and return the result or the error."""
    code = LOAD.format(register=register)
    path_there = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", code, path, DEVICE],
        env=os.environ | {"PYTHONPATH": path_there},
        capture_output=True,
        text=True,
    )
    return done.stdout.strip() or re.findall(r"SerializeError: (We failed .+? before deserializing\.)", done.stderr)[-1]


def main():
    if DEVICE == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    program = exported()
    print("## the exported graph")
    for node in program.graph.nodes:
        if node.op == "call_function":
            print(node.target)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt2"
        torch.export.save(program, path)
        for name, register in REGISTER.items():
            print(f"## loaded {name}")
            print(textwrap.fill(loaded(path, register), WIDTH, subsequent_indent="  "))


if __name__ == "__main__":
    main()
