# SPDX-License-Identifier: Apache-2.0
"""Write it from scratch. Flip a matrix, so that each row runs backward.

[[1, 2, 3], [4, 5, 6]] becomes [[3, 2, 1], [6, 5, 4]]. With n columns, out[i, j] = x[i, n - 1 - j]. Write one kernel, in
which each program takes a tile, and its launch. x may have any strides and any number of rows and columns, even none.
The result is contiguous.
"""

import torch
import triton
import triton.language as tl


# gap 1: the kernel. Each program flips one tile
@triton.jit
def flip_kernel(
    x_ptr, out_ptr, n_rows, n_columns, stride_row, stride_column, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    rows = tl.program_id(axis=1) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(axis=0) * COLUMNS + tl.arange(0, COLUMNS)
    rows, columns = rows[:, None], columns[None, :]
    mask = (rows < n_rows) & (columns < n_columns)
    tile = tl.load(x_ptr + rows * stride_row + (n_columns - 1 - columns) * stride_column, mask=mask)
    tl.store(out_ptr + rows * n_columns + columns, tile, mask=mask)


# end of gap 1


def flip(x: torch.Tensor) -> torch.Tensor:
    """Return x with the columns in reverse, for a matrix of any strides; the result is contiguous."""
    # gap 2: allocate the result, launch the kernel, return the result
    n_rows, n_columns = x.shape
    out = torch.empty(n_rows, n_columns, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(n_columns, 64), triton.cdiv(n_rows, 16))
    flip_kernel[grid](x, out, n_rows, n_columns, x.stride(0), x.stride(1), ROWS=16, COLUMNS=64)
    return out
    # end of gap 2
