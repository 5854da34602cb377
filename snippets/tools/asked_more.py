# SPDX-License-Identifier: Apache-2.0
"""More small kernels that people ask for: sums of rows that an index picks, rows added where an index says, a maximum
by atomics, and rows that a descriptor gathers. Those with pointers run; what compilers make of the others is printed.

Run it with ``TRITON_INTERPRET=1 python asked_more.py``, or without the variable on a machine with a GPU.
"""

import contextlib
import io
import os
import re
import subprocess
import sys

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

GPUS = {"A100": 80, "H200": 90, "B200": 100, "RTX 5090": 120}


# --8<-- [start:bag]
@triton.jit
def bag_kernel(
    table_ptr, index_ptr, start_ptr, out_ptr, columns, BLOCK: tl.constexpr
):
    bag = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(tl.load(start_ptr + bag), tl.load(start_ptr + bag + 1)):
        row = tl.load(index_ptr + i).to(tl.int64)
        total += tl.load(table_ptr + row * columns + column, mask=mask)
    tl.store(out_ptr + bag * columns + column, total, mask=mask)
# --8<-- [end:bag]


# --8<-- [start:scatter]
@triton.jit
def scatter_add_kernel(
    x_ptr, index_ptr, out_ptr, columns, BLOCK: tl.constexpr
):
    source = tl.program_id(axis=0).to(tl.int64)
    target = tl.load(index_ptr + source).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + source * columns + column, mask=mask)
    tl.atomic_add(out_ptr + target * columns + column, x, mask=mask)
# --8<-- [end:scatter]


# --8<-- [start:max]
@triton.jit
def largest_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offset = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offset, mask=offset < n, other=-float("inf"))
    tl.atomic_max(out_ptr, tl.max(x.to(tl.float32), axis=0))
# --8<-- [end:max]


@triton.jit
def largest_directly_kernel(x_ptr, out_ptr):
    tl.atomic_max(out_ptr, tl.load(x_ptr))


# --8<-- [start:gather]
@triton.jit
def gather_kernel(
    x_ptr, index_ptr, out_ptr, rows, columns,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    x = tl.make_tensor_descriptor(
        x_ptr, [rows, columns], [columns, 1], [1, COLUMNS]
    )
    index = tl.load(index_ptr + tl.arange(0, ROWS))
    tile = x.gather(index, 0)  # as many rows as there are indices
    place = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(out_ptr + place, tile)
# --8<-- [end:gather]


def bags(table: torch.Tensor, index: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """Return a sum of rows of ``table`` for each bag: those whose numbers stand in ``index[start[b]:start[b + 1]]``.

    >>> table = torch.tensor([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]])
    >>> bags(table, torch.tensor([0, 2, 1]), torch.tensor([0, 2, 2, 3])).tolist()
    [[101.0, 202.0], [0.0, 0.0], [10.0, 20.0]]
    """
    columns = table.shape[1]
    out = table.new_empty(len(start) - 1, columns)
    bag_kernel[(len(out),)](table, index, start, out, columns, BLOCK=triton.next_power_of_2(columns))
    return out


def scatter_add(x: torch.Tensor, index: torch.Tensor, rows: int) -> torch.Tensor:
    """Add each row of ``x`` to the row of a new tensor that ``index`` names, in float32.

    >>> scatter_add(torch.ones(3, 2), torch.tensor([1, 0, 1]), 3).tolist()
    [[1.0, 1.0], [2.0, 2.0], [0.0, 0.0]]
    """
    columns = x.shape[1]
    out = x.new_zeros(rows, columns, dtype=torch.float32)
    scatter_add_kernel[(len(x),)](x, index, out, columns, BLOCK=triton.next_power_of_2(columns))
    return out


def largest(x: torch.Tensor) -> float:
    """Return the largest element of ``x``, of which each program contributes that of its block.

    >>> largest(torch.arange(40.0).half())
    39.0
    """
    out = torch.full((1,), -float("inf"), device=x.device)
    largest_kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), BLOCK=16)
    return out.item()


def said(found: torch.Tensor, wanted: torch.Tensor) -> str:
    return "as torch's" if torch.allclose(found, wanted, atol=1e-4) else "wrong"


def verdict(kernel, types: dict[str, str], capability: int, **constants) -> str:
    """Return the instruction by which it compiles for a GPU, or the end of the compiler's answer."""
    signature = {name: types.get(name, "constexpr") for name in kernel.arg_names}
    aligned = {(kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in types}
    source = ASTSource(kernel, signature, constants, aligned)
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # where Triton prints the PTX that ptxas refused
            ptx = triton.compile(source, target=GPUTarget("cuda", capability, 32)).asm["ptx"]
    except Exception as error:
        lines = str(error).strip().splitlines()
        why = re.search(r"Feature .*", str(error))
        return f"refused: {why[0] if why else lines[-1]}"
    found = re.search(r"\b(?:cp\.async\.bulk\.tensor\S*gather\S*|atom\.\S*|red\.\S*)", ptx)
    return found[0] if found else f"{len(re.findall(r'ld.global', ptx))} ordinary loads"


def compiled() -> None:
    """Print what compilers make of a gather by descriptor, and of a maximum by atomics of each type."""
    print("## a descriptor's gather")
    types = {"x_ptr": "*fp16", "index_ptr": "*i32", "out_ptr": "*fp16", "rows": "i32", "columns": "i32"}
    for name, capability in GPUS.items():
        print(f"{name}: {verdict(gather_kernel, types, capability, ROWS=32, COLUMNS=64)}")
    print("## tl.atomic_max")
    for dtype in ("fp32", "fp16", "bf16"):
        types = {"x_ptr": f"*{dtype}", "out_ptr": f"*{dtype}"}
        print(f"{dtype}: {verdict(largest_directly_kernel, types, 90)}")


def main():
    if sys.argv[1:] == ["compiled"]:
        return compiled()
    device = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
    torch.manual_seed(0)
    table = torch.randn(50, 70, device=device)
    index = torch.randint(50, (200,), device=device)
    start = torch.tensor([0, 3, 3, 120, 200], device=device)
    wanted = torch.nn.functional.embedding_bag(index, table, start[:-1], mode="sum")
    print("## run")
    print("an embedding bag:", said(bags(table, index, start), wanted))
    rows = torch.randn(200, 70, device=device)
    wanted = torch.zeros_like(table).index_add_(0, index, rows)
    print("scatter-add:", said(scatter_add(rows, index, 50), wanted))
    half = rows.half()
    print("a maximum of float16:", said(torch.tensor(largest(half)), half.max().float().cpu()))
    sys.stdout.flush()
    without = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, os.path.abspath(__file__), "compiled"], env=without | path, check=True)


if __name__ == "__main__":
    main()
