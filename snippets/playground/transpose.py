# SPDX-License-Identifier: Apache-2.0
"""Transpose a matrix in tiles: the grid has two axes, and so has a block.

Run it on a GPU with ``python transpose.py``, or with ``TRITON_INTERPRET=1 python transpose.py`` without one.
"""

# --8<-- [start:script]
import torch
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(x_ptr, out_ptr, rows, columns, TILE: tl.constexpr):
    row = tl.program_id(axis=0) * TILE + tl.arange(0, TILE)[:, None]
    column = tl.program_id(axis=1) * TILE + tl.arange(0, TILE)[None, :]
    mask = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row * columns + column, mask=mask)
    tl.store(out_ptr + column * rows + row, x, mask=mask)
# --8<-- [end:script]


def main():
    # --8<-- [start:launch]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.arange(30, device=device).reshape(5, 6)
    out = torch.empty(6, 5, dtype=x.dtype, device=device)
    grid = (triton.cdiv(5, 4), triton.cdiv(6, 4))
    transpose_kernel[grid](x, out, 5, 6, TILE=4)
    for row in out.tolist():
        print(row)
    # --8<-- [end:launch]


if __name__ == "__main__":
    main()
