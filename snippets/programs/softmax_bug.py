# SPDX-License-Identifier: Apache-2.0
"""Softmax of rows, wrong on purpose in three ways. Do not copy these kernels.

- ``no_maximum_bug`` does not subtract the row's maximum: ``exp(1000)`` is infinite, and inf / inf is NaN.
- ``other_zero_bug`` fills lanes that are off with 0: each counts in the sum as an element 0 would.
- ``two_rows_bug`` takes two rows a program and subtracts the maximum of both: the row that lies far below it is NaN.

The first two are launched by ``by_rows`` of ``softmax.py``, in place of its own kernel.
Run it on a GPU with ``python softmax_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.programs.softmax import by_rows, named, shown


# --8<-- [start:no_maximum]
@triton.jit
def no_maximum_bug(x_ptr, out_ptr, columns, stride_row, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK_SIZE)
    mask = column < columns
    row_ptr = x_ptr + row * stride_row
    x = tl.load(row_ptr + column, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(x)
    share = numerator / tl.sum(numerator, axis=0)
    tl.store(out_ptr + row * columns + column, share, mask=mask)
# --8<-- [end:no_maximum]


# --8<-- [start:other_zero]
@triton.jit
def other_zero_bug(x_ptr, out_ptr, columns, stride_row, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK_SIZE)
    mask = column < columns
    row_ptr = x_ptr + row * stride_row
    x = tl.load(row_ptr + column, mask=mask, other=0.0).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    share = numerator / tl.sum(numerator, axis=0)
    tl.store(out_ptr + row * columns + column, share, mask=mask)
# --8<-- [end:other_zero]


# --8<-- [start:two_rows]
@triton.jit
def two_rows_bug(x_ptr, out_ptr, rows, columns, BLOCK_SIZE: tl.constexpr):
    row = 2 * tl.program_id(axis=0) + tl.arange(0, 2)
    column = tl.arange(0, BLOCK_SIZE)
    offsets = row[:, None] * columns + column[None, :]
    mask = (row[:, None] < rows) & (column[None, :] < columns)
    x = tl.load(x_ptr + offsets, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x))
    share = numerator / tl.sum(numerator, axis=1, keep_dims=True)
    tl.store(out_ptr + offsets, share, mask=mask)
# --8<-- [end:two_rows]


def by_two_rows(x):
    """Launch ``two_rows_bug`` on ``x``, contiguous, by blocks of the next power of two, and return the result."""
    out = torch.full_like(x, -1)
    rows, columns = x.shape
    two_rows_bug[(triton.cdiv(rows, 2),)](x, out, rows, columns, BLOCK_SIZE=triton.next_power_of_2(columns))
    return out


def rows_of_five(device, *first):
    """Return rows of five: each begins with a number of ``first`` and counts up."""
    return torch.arange(5.0, device=device) + torch.tensor(first, device=device)[:, None]


def main():
    device = "cuda" if isinstance(no_maximum_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## no maximum subtracted")
    x = rows_of_five(device, 0.0, 1000.0)
    for row, share in zip(x, by_rows(no_maximum_bug, x), strict=True):
        print(f"{named(row):>12}:", shown(share))

    print("## other is 0")
    x = rows_of_five(device, 0.0, 1000.0, -1000.0)
    for row, share in zip(x, by_rows(other_zero_bug, x), strict=True):
        print(f"{named(row):>13}:", shown(share), " sum", shown(share.sum()))

    print("## two rows")
    for second in (0.0, 10.0, 1000.0):
        x = rows_of_five(device, 0.0, second)
        out = by_two_rows(x)
        print(f"0 to 4, beside {named(x[1]):>12}:", shown(out[0]))


if __name__ == "__main__":
    main()
