# SPDX-License-Identifier: Apache-2.0
"""Export a model with a Triton kernel to ONNX: what fails, and two ways that work.

The kernel is the RMS norm of ``compile.py``, as an operator. An exporter knows PyTorch's operators, not ours. So either
it is told what ours becomes, by a function that builds it from ONNX's operators, or ours is replaced by PyTorch's own
after ``torch.export``. The second takes no package, and is the same for other backends. What comes out is run by the
evaluator of ``onnx``, beside PyTorch's norm.

It takes 43 MB of packages, which it fetches once into the folder that the variable ``ONNX`` names. Nothing of it runs
the kernel, so it needs no GPU.

Run it with ``python export_onnx.py``.
"""

import logging
import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from snippets.pytorch.compile import WAYS

FOLDER = Path(os.environ.get("ONNX", ".cache/onnx")).resolve()
PACKAGES = "onnx==1.23.2", "onnxscript==0.7.2", "onnx-ir==1.1.0", "ml-dtypes==0.6.0", "protobuf==7.36.2"
COLUMNS, WIDTH = 64, 72  # of the model's rows; of a line that is printed


class Norm(nn.Module):
    """A model of nothing but our kernel."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm
        self.weight = nn.Parameter(torch.linspace(0.5, 2, COLUMNS), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x, self.weight, 1e-6)


# --8<-- [start:as_torch]
def as_torch(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """The same, by PyTorch's operators."""
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)


def replaced(program: torch.export.ExportedProgram):
    """Return the program with PyTorch's norm in the place of ours."""
    ours = torch.ops.course.rms_norm_closed.default
    return program.run_decompositions({ours: as_torch})
# --8<-- [end:as_torch]


# --8<-- [start:translated]
def translated(program: torch.export.ExportedProgram):
    """Export with a function that says what our operator becomes."""
    from onnxscript import opset23 as op

    def norm(x, weight, eps=1e-6):
        return op.RMSNormalization(x, weight, axis=-1, epsilon=eps)

    ours = torch.ops.course.rms_norm_closed.default
    return torch.onnx.export(
        program,
        custom_translation_table={ours: norm},
        opset_version=23,  # the first with such a norm
        verbose=False,
    )
# --8<-- [end:translated]


def cause(error: BaseException) -> str:
    """Return the line of a summary that says what was wrong, or the first line of an error.

    >>> cause(RuntimeError("Failed.\\n## Exception summary\\n\\n<class 'A'>: no such operator\\n⬆️\\n<class 'B'>: why"))
    'no such operator'
    """
    _, _, summary = str(error).partition("## Exception summary")
    line = (summary or str(error)).strip().splitlines()[0]
    return line.partition(">: ")[2] if line.startswith("<class") else line


def operators(program: torch.export.ExportedProgram) -> str:
    """Return the operators of a program, in its order."""
    return ", ".join(str(node.target) for node in program.graph.nodes if node.op == "call_function")


def judged(made, x: Tensor) -> str:
    """Return the operators of an ONNX model, and whether onnx's evaluator computes what PyTorch does."""
    from onnx.reference import ReferenceEvaluator

    (name,) = (each.name for each in made.model_proto.graph.input)
    (found,) = ReferenceEvaluator(made.model_proto).run(None, {name: x.numpy()})
    right = torch.allclose(torch.from_numpy(found), as_torch(x, Norm(None).weight), atol=1e-5)
    return f"{', '.join(node.op_type for node in made.model.graph)}: {'right' if right else 'WRONG'}"


def install() -> None:
    """Fetch the packages, unless they are here."""
    if not FOLDER.is_dir():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(FOLDER)]
        subprocess.run([*pip, *PACKAGES], check=True, stdout=subprocess.DEVNULL)


def export() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    x = torch.randn(8, COLUMNS, generator=torch.Generator().manual_seed(0))
    print("## as it is")
    for name in ("triton_op", "custom_op"):
        try:
            torch.onnx.export(Norm(WAYS[name]), (x,), verbose=False)
            print(f"{name}: exported")
        except Exception as error:
            print(textwrap.fill(f"{name}: {cause(error)}", WIDTH, subsequent_indent="    "))
    program = torch.export.export(Norm(WAYS["custom_op"]), (x,))
    print("## replaced")
    print(f"before: {operators(program)}")
    print(f"after: {operators(replaced(program))}")
    print(f"in parts: {operators(replaced(program).run_decompositions())}")
    print(f"in ONNX: {judged(torch.onnx.export(replaced(program), verbose=False), x)}")
    print("## translated")
    print(f"in ONNX: {judged(translated(program), x)}")
    print("## packages", *PACKAGES[:2], sep="\n")


def main():
    if sys.argv[1:] == ["export"]:
        return export()
    install()
    path = os.pathsep.join([*filter(None, sys.path), str(FOLDER)])
    again = [sys.executable, os.path.abspath(__file__), "export"]  # by a Python that finds them
    subprocess.run(again, env=os.environ | {"PYTHONPATH": path}, check=True)


if __name__ == "__main__":
    main()
