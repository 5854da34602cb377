# SPDX-License-Identifier: Apache-2.0
"""Reductions of rows, wrong on purpose in four ways. Do not copy these kernels.

- ``row_sum_no_mask_bug`` has no mask: it also adds what lies behind each row.
- ``row_max_zero_bug`` fills lanes that are off with 0: the maximum of negative numbers is 0.
- ``row_prod_no_other_bug`` does not say what lanes that are off hold: with zeros in them every product is 0.
- ``row_sum_columns_bug`` takes a block as wide as the row: unless that is a power of two, it does not compile.

Each row is one program, and its block is wider than the row of five columns.
Run it on a GPU with ``python masks_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl


# --8<-- [start:no_mask]
@triton.jit
def row_sum_no_mask_bug(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    x = tl.load(x_ptr + row * columns + tl.arange(0, BLOCK))
    tl.store(out_ptr + row, tl.sum(x))
# --8<-- [end:no_mask]


# --8<-- [start:zero]
@triton.jit
def row_max_zero_bug(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(axis=0), tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0.0)
    tl.store(out_ptr + row, tl.max(x))
# --8<-- [end:zero]


@triton.jit
def multiply(a, b):
    return a * b


# --8<-- [start:no_other]
@triton.jit
def row_prod_no_other_bug(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(axis=0), tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask)
    tl.store(out_ptr + row, tl.reduce(x, 0, multiply))
# --8<-- [end:no_other]


# --8<-- [start:columns]
@triton.jit
def row_sum_columns_bug(x_ptr, out_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(axis=0)
    x = tl.load(x_ptr + row * COLUMNS + tl.arange(0, COLUMNS))
    tl.store(out_ptr + row, tl.sum(x))
# --8<-- [end:columns]


# --8<-- [start:table]
def table(device, sign=1.0, rows=2, behind=7000.0):
    """Return rows 1, 2, 3, 4, 5 and 10, 20, … times ``sign``; six numbers ``behind`` follow them in memory."""
    numbers = torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0], [10.0, 20.0, 30.0, 40.0, 50.0]])[:rows]
    memory = torch.full((5 * rows + 6,), behind)
    memory[: 5 * rows] = sign * numbers.flatten()
    memory = memory.to(device)
    return memory[: 5 * rows].view(rows, 5)
# --8<-- [end:table]


def run(kernel, x, **constants):
    """Launch a program for each row of ``x`` and return the results as a list."""
    out = torch.full((len(x),), -1.0, device=x.device)
    kernel[(len(x),)](x, out, **constants)
    return out.tolist()


def innermost(error: BaseException) -> BaseException:
    """Return the error that the others were raised from: the compiler and the interpreter wrap it differently."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def main():
    device = "cuda" if isinstance(row_sum_no_mask_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## no mask")
    for rows, behind in ((2, 7000.0), (1, 7000.0), (1, 0.0)):
        x = table(device, rows=rows, behind=behind)
        sums = run(row_sum_no_mask_bug, x, columns=5, BLOCK=8)
        right = x.sum(dim=1).tolist()
        print(f"{rows} row{'s' * (rows > 1)}, {behind} behind: {sums}, should be {right}")

    print("## a wrong other")
    x = table(device, sign=-1.0)
    print(f"maxima, other 0: {run(row_max_zero_bug, x, columns=5, BLOCK=8)}, should be {x.amax(dim=1).tolist()}")

    print("## no other")
    x = table(device)
    print(f"products: {run(row_prod_no_other_bug, x, columns=5, BLOCK=8)}, should be {x.prod(dim=1).tolist()}")

    print("## as wide as the row")
    try:
        run(row_sum_columns_bug, table(device), COLUMNS=5)
    except Exception as error:
        cause = innermost(error)
        print(f"{type(cause).__name__}: {cause}")


if __name__ == "__main__":
    main()
