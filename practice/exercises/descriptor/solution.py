# SPDX-License-Identifier: Apache-2.0
"""Fill in the gaps. A transpose with tensor descriptors, one tile per program.

The tile of x that begins at row 16 and column 32 becomes the tile of the result that begins at row 32 and column 16,
and its 16 × 32 elements become 32 × 16. A descriptor knows where its matrix ends and how large a tile is, so you need
no offsets and no masks. A kernel names a tile by its first row and first column, counted in elements.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def transpose_kernel(x, out, tiles_n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    pid = tl.program_id(axis=0)
    # gap 1: where the tile of x begins, in elements; then load it, turn it, and store it
    m = pid // tiles_n * ROWS
    n = pid % tiles_n * COLUMNS
    tile = x.load([m, n])
    out.store([n, m], tile.T)
    # end of gap 1


def transpose(x: torch.Tensor) -> torch.Tensor:
    """Return the transpose, contiguous, of a float32 matrix; rows of both must begin at multiples of 16 bytes."""
    M, N = x.shape
    if x.stride(1) != 1 or x.stride(0) % 4 or M % 4 or x.data_ptr() % 16:
        raise ValueError(f"no descriptor describes {tuple(x.shape)} with the strides {x.stride()}, or its transpose")
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    if x.numel() == 0:
        return out  # nothing to describe
    rows, columns = 16, 32  # of a tile of x
    # gap 2: two descriptors, with TensorDescriptor.from_tensor(tensor, shape of a tile)
    x_tiles = TensorDescriptor.from_tensor(x, [rows, columns])
    out_tiles = TensorDescriptor.from_tensor(out, [columns, rows])
    # end of gap 2
    tiles_n = triton.cdiv(N, columns)
    programs = triton.cdiv(M, rows) * tiles_n
    transpose_kernel[(programs,)](x_tiles, out_tiles, tiles_n, ROWS=rows, COLUMNS=columns)
    return out
