# SPDX-License-Identifier: Apache-2.0
"""Find the bugs. Copy a matrix of any strides, one tile per program."""

import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(
    x_ptr, out_ptr, n_rows, n_columns, stride_row, stride_column, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    rows = tl.program_id(axis=0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(axis=1) * COLUMNS + tl.arange(0, COLUMNS)
    # gap 1: two lines, each with a bug
    offsets = rows[:, None] * stride_row + columns[None, :] * stride_column
    mask = (rows[:, None] < n_rows) & (columns[None, :] < n_columns)
    # end of gap 1
    tile = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + rows[:, None] * n_columns + columns[None, :], tile, mask=mask)


def copy(x: torch.Tensor) -> torch.Tensor:
    """Return a contiguous copy of a matrix, whatever its strides are."""
    n_rows, n_columns = x.shape
    out = torch.empty(n_rows, n_columns, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(n_rows, 4), triton.cdiv(n_columns, 8))
    copy_kernel[grid](x, out, n_rows, n_columns, x.stride(0), x.stride(1), ROWS=4, COLUMNS=8)
    return out
