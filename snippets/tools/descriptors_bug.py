# SPDX-License-Identifier: Apache-2.0
"""Which tensors and tiles a tensor descriptor takes, and who says no: the host, the interpreter or the compiler.

Each attempt is printed, and what came of it: the last line of its error, or what was read. A descriptor that is made
in a kernel from numbers that arrive at the launch is checked by the interpreter, and by no compiler. At the end, what
one does about rows that are no multiple of 16 bytes.

Run it with ``TRITON_INTERPRET=1 python descriptors_bug.py``; it needs no GPU.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.tools.tensor_descriptor import TensorDescriptor

BYTES = 16  # of which the start and each stride but the last must be multiples
TARGET = GPUTarget("cuda", 90, 32)  # an H200


# --8<-- [start:kernels]
@triton.jit
def tile_kernel(x, out_ptr, row, column, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    i, j = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    tl.store(out_ptr + i * COLUMNS + j, x.load([row, column]))


@triton.jit
def made_inside_kernel(
    x_ptr, out_ptr, rows, columns, stride_row, stride_column, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    x = tl.make_tensor_descriptor(x_ptr, [rows, columns], [stride_row, stride_column], [ROWS, COLUMNS])
    i, j = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    tl.store(out_ptr + i * COLUMNS + j, x.load([0, 0]))
# --8<-- [end:kernels]


# --8<-- [start:aligned]
def aligned(x: torch.Tensor) -> torch.Tensor:
    """Copy a matrix so that each row begins at a multiple of 16 bytes.

    Args:
        x: ``(rows, columns)``, of any strides.

    Returns:
        A tensor that is equal to ``x``. A few numbers that belong to
        nobody lie between its rows.

    >>> aligned(torch.ones(3, 5)).stride(), aligned(torch.ones(3, 5).half()).stride()
    ((8, 1), (8, 1))
    """
    rows, columns = x.shape
    step = BYTES // x.element_size()
    wide = x.new_empty(rows, triton.cdiv(columns, step) * step)
    return wide[:, :columns].copy_(x)
# --8<-- [end:aligned]


def attempt(action: Callable[[], str | None]) -> str:
    """Return what an action returns, "accepted" for nothing, or the last line of its error."""
    try:
        return action() or "accepted"
    except Exception as error:
        said = str(error).strip().splitlines()[-1]
        return re.sub(r"^\w+Error\('(.*)'\)$", r"\1", said)  # the interpreter quotes the error that it met


def on_the_host() -> None:
    """Describe tensors, each with tiles of 2 × 4 float32."""
    x = torch.arange(64.0).view(8, 8)
    tensors = {
        "x": x,
        "x[:, 4:]": x[:, 4:],
        "x[::2, :6]": x[::2, :6],
        "x[:1].expand(8, 8)": x[:1].expand(8, 8),
        "x[:, ::2]": x[:, ::2],
        "torch.ones(8, 8, 4).mT": torch.ones(8, 8, 4).mT,
        "torch.ones(8, 5)": torch.ones(8, 5),
        "x[:, 1:]": x[:, 1:],
        "x[:0]": x[:0],
    }
    for name, tensor in tensors.items():
        block = [1] * (tensor.ndim - 2) + [2, 4]
        said = attempt(lambda tensor=tensor, block=block: TensorDescriptor.from_tensor(tensor, block) and None)
        print(f"{name}, strides {tensor.stride()}: {said}")
    for name, tensor, block in (("tiles of 3 × 4", x, [3, 4]), ("six axes", x[None, None, None, None], [1] * 6)):
        said = attempt(lambda tensor=tensor, block=block: TensorDescriptor.from_tensor(tensor, block) and None)
        print(f"{name}: {said}")


def read(column: int) -> str:
    """Return the first row of a tile that begins at a column of a float32 matrix."""
    out = torch.empty(2, 4)
    descriptor = TensorDescriptor.from_tensor(torch.arange(64.0).view(8, 8), [2, 4])
    tile_kernel[(1,)](descriptor, out, 0, column, ROWS=2, COLUMNS=4)
    return "read " + ", ".join(str(int(value)) for value in out[0].tolist())


def inside(x: torch.Tensor) -> str:
    """Return the second row of the first tile, by a descriptor that the kernel makes."""
    out = torch.empty(2, 4)
    made_inside_kernel[(1,)](x, out, *x.shape, *x.stride(), ROWS=2, COLUMNS=4)
    return "read " + ", ".join(str(int(value)) for value in out[1].tolist())


def in_the_interpreter() -> None:
    x = torch.arange(64.0).view(8, 8)
    five = torch.arange(40.0).view(8, 5)
    for column in (4, 6, 2):
        print(f"x.load([0, {column}]): {attempt(lambda column=column: read(column))}")
    for name, tensor in {"x": x, "rows of 5": five, "x[:, 1:]": x[:, 1:], "x[:, ::2]": x[:, ::2]}.items():
        print(f"made in the kernel, {name}: {attempt(lambda tensor=tensor: inside(tensor))}")
    print(f"made in the kernel, aligned(rows of 5): {attempt(lambda: inside(aligned(five)))}")


def compiled(columns: int = 4, **given: int) -> str | None:
    """Compile the kernel that makes its own descriptor; arguments that are given are compiled in."""
    constants = given | {"ROWS": 2, "COLUMNS": columns}
    types = {"x_ptr": "*fp32", "out_ptr": "*fp32"}
    signature = {
        name: "constexpr" if name in constants else types.get(name, "i32") for name in made_inside_kernel.arg_names
    }
    triton.compile(ASTSource(made_inside_kernel, signature, constants), target=TARGET)


def by_the_compiler() -> None:
    attempts = {
        "row stride of 5, as an argument": {"stride_column": 1},
        "row stride of 5, compiled in": {"stride_row": 5, "stride_column": 1},
        "last stride of 2, compiled in": {"stride_column": 2},
        "last stride as an argument that is not 1": {},
        "tiles of 2 columns of float32": {"columns": 2, "stride_column": 1},
        "tiles of 3 columns": {"columns": 3, "stride_column": 1},
    }
    for name, given in attempts.items():
        print(f"{name}: {attempt(lambda given=given: compiled(**given))}", flush=True)


def main():
    if sys.argv[1:] == ["--compile"]:
        return by_the_compiler()
    if isinstance(tile_kernel, triton.JITFunction):
        raise SystemExit("set TRITON_INTERPRET=1: two of three parts are about the host and the interpreter")
    print("## on the host")
    on_the_host()
    print("## in the interpreter")
    in_the_interpreter()
    print("## compiled for an H200", flush=True)  # in another process, for nothing compiles under TRITON_INTERPRET
    without = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    subprocess.run([sys.executable, os.path.abspath(__file__), "--compile"], env=without, check=True)


if __name__ == "__main__":
    main()
