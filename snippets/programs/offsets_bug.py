# SPDX-License-Identifier: Apache-2.0
"""Copies of matrices, wrong on purpose in four ways. Do not copy these kernels.

- ``swapped_bug`` multiplies rows by the stride of the columns, and columns by that of the rows.
- ``forgotten_bug`` is given no stride: it takes the number of columns for the distance between rows.
- ``axis_bug`` takes its rows from the axis of the grid that counts tiles across.
- ``overflow_bug`` computes its offsets in 32 bits.

The matrices lie inside larger buffers, so that what the kernels read beside them is seen and hurts nobody.
Run it on a GPU with ``python offsets_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl


# --8<-- [start:swapped]
@triton.jit
def swapped_bug(
    x_ptr, out_ptr, n_rows, n_columns, stride_row, stride_column,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(axis=1) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    columns = tl.program_id(axis=0) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    rows, columns = rows[:, None], columns[None, :]
    mask = (rows < n_rows) & (columns < n_columns)
    tile = tl.load(x_ptr + rows * stride_column + columns * stride_row, mask=mask)
    tl.store(out_ptr + rows * n_columns + columns, tile, mask=mask)
# --8<-- [end:swapped]


# --8<-- [start:forgotten]
@triton.jit
def forgotten_bug(
    x_ptr, out_ptr, n_rows, n_columns, stride_row, stride_column,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(axis=1) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    columns = tl.program_id(axis=0) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    rows, columns = rows[:, None], columns[None, :]
    mask = (rows < n_rows) & (columns < n_columns)
    # --8<-- [start:forgotten_line]
    tile = tl.load(x_ptr + rows * n_columns + columns, mask=mask)
    # --8<-- [end:forgotten_line]
    tl.store(out_ptr + rows * n_columns + columns, tile, mask=mask)
# --8<-- [end:forgotten]


# --8<-- [start:axis]
@triton.jit
def axis_bug(
    x_ptr, out_ptr, n_rows, n_columns, stride_row, stride_column,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr,
):  # fmt: skip
    # --8<-- [start:axis_lines]
    rows = tl.program_id(axis=0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    columns = tl.program_id(axis=1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    rows, columns = rows[:, None], columns[None, :]
    # --8<-- [end:axis_lines]
    mask = (rows < n_rows) & (columns < n_columns)
    tile = tl.load(x_ptr + rows * stride_row + columns * stride_column, mask=mask)
    tl.store(out_ptr + rows * n_columns + columns, tile, mask=mask)
# --8<-- [end:axis]


# --8<-- [start:overflow]
@triton.jit
def overflow_bug(
    x_ptr, out_ptr, n_rows, n_columns, stride_row, stride_column,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr,
):  # fmt: skip
    # --8<-- [start:overflow_lines]
    rows = tl.program_id(axis=1) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    columns = tl.program_id(axis=0) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    rows, columns = rows[:, None], columns[None, :]
    # --8<-- [end:overflow_lines]
    mask = (rows < n_rows) & (columns < n_columns)
    tile = tl.load(x_ptr + rows * stride_row + columns * stride_column, mask=mask)
    tl.store(out_ptr + rows * n_columns + columns, tile, mask=mask)
# --8<-- [end:overflow]


def copy(kernel, x: torch.Tensor, block: tuple[int, int] = (2, 4)) -> torch.Tensor:
    """Launch one of the kernels over a grid of two axes: tiles across, tiles down. -1 stands for: nobody wrote here."""
    out = torch.full(x.shape, -1, dtype=x.dtype, device=x.device)
    grid = triton.cdiv(x.shape[1], block[1]), triton.cdiv(x.shape[0], block[0])
    kernel[grid](x, out, *x.shape, *x.stride(), BLOCK_ROWS=block[0], BLOCK_COLUMNS=block[1])
    return out


# --8<-- [start:far_rows]
def far_rows(stride: int, device: str) -> torch.Tensor:
    """Return three rows of five int8 elements, ``stride`` elements apart, with 2**31 elements of guard before them.

    Row i holds 10 * i + 1 to 10 * i + 5. The rows begin in the middle of the buffer, where the guard ends; an offset
    that has wrapped around to -2**31 points to the first element of the guard, which holds -7, as its neighbors do.
    """
    guard = 2**31
    buffer = torch.empty(guard + 2 * stride + 5, dtype=torch.int8, device=device)  # nothing touches most of it
    buffer[:16] = -7
    x = buffer.as_strided((3, 5), (stride, 1), storage_offset=guard)
    x.copy_(torch.arange(1, 6, device=device) + 10 * torch.arange(3, device=device)[:, None])
    return x
# --8<-- [end:far_rows]


def main():
    device = "cuda" if isinstance(swapped_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    # 24 numbers, of which the matrices below take a part: what a wrong kernel reads beside them is somebody else's.
    numbers = torch.arange(24, dtype=torch.int32, device=device)

    print("## swapped")
    symmetric = torch.tensor([[0, 1, 2], [1, 3, 4], [2, 4, 5]], dtype=torch.int32, device=device)
    print("symmetric:", copy(swapped_bug, symmetric).tolist())
    print("square:", copy(swapped_bug, numbers[:9].view(3, 3)).tolist())
    print("3 x 5:", copy(swapped_bug, numbers[:15].view(3, 5)).tolist())

    print("## forgotten")
    print("contiguous:", copy(forgotten_bug, numbers[:15].view(3, 5)).tolist())
    print("3 x 5 of 3 x 8:", copy(forgotten_bug, numbers.view(3, 8)[:, :5]).tolist())

    print("## axis")
    print("as many tiles across as down:", copy(axis_bug, numbers[:15].view(3, 5)).tolist())
    out = copy(axis_bug, numbers[:16].view(2, 8))
    print("2 x 8:", out.tolist())
    print("never written:", int((out == -1).sum()))

    print("## overflow")
    for stride in (2**30 - 1, 2**30, 2**31):
        x = far_rows(stride, device)
        print(f"stride {stride:,}: last row {copy(overflow_bug, x)[2].tolist()}")
        del x


if __name__ == "__main__":
    main()
