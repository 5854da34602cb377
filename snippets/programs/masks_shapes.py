# SPDX-License-Identifier: Apache-2.0
"""What ``tl.load`` does with a mask, an ``other`` or pointers of another shape, and with an ``other`` of another dtype.

- ``tile_kernel``: a tile of pointers, a mask with one row, and an ``other`` with one column
- ``rows_kernel``: one row of pointers, and a mask with one column: the load has the shape of both
- ``cast_kernel``: an ``other`` that the dtype of the tensor does not hold

Source: none is needed; the first two do what NumPy's broadcasting does.

Run it with ``TRITON_INTERPRET=1 python masks_shapes.py``.
"""

import torch
import triton
import triton.language as tl


# --8<-- [start:tile]
@triton.jit
def tile_kernel(x_ptr, out_ptr, columns):
    row, column = tl.arange(0, 2)[:, None], tl.arange(0, 4)[None, :]
    inside = column < columns  # 1 × 4: the same lanes of each row
    instead = -10 * (row + 1)  # 2 × 1: another number for each row
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=instead)
    tl.store(out_ptr + row * 4 + column, x)
# --8<-- [end:tile]


# --8<-- [start:rows]
@triton.jit
def rows_kernel(x_ptr, out_ptr):
    row, column = tl.arange(0, 2)[:, None], tl.arange(0, 4)[None, :]
    first = row == 0  # 2 × 1: row 0 is on, row 1 is off
    x = tl.load(x_ptr + column, mask=first, other=-1)  # 1 × 4 pointers
    tl.store(out_ptr + row * 4 + column, x)
# --8<-- [end:rows]


@triton.jit
def cast_kernel(x_ptr, out_ptr, OTHER: tl.constexpr):
    lane = tl.arange(0, 4)
    tl.store(out_ptr + lane, tl.load(x_ptr + lane, mask=lane < 3, other=OTHER))


def main():
    device = "cuda" if isinstance(tile_kernel, triton.JITFunction) else "cpu"
    print("## shapes")
    x = torch.arange(6, device=device)
    out = x.new_empty(2, 4)
    tile_kernel[(1,)](x, out, 3)
    print("mask 1 × 4, other 2 × 1:", out.tolist())
    rows_kernel[(1,)](x, out)
    print("pointers 1 × 4, mask 2 × 1:", out.tolist())
    print("## dtypes")
    for dtype, other in ((torch.int32, 2.7), (torch.uint8, -1)):
        x = torch.arange(4, device=device).to(dtype)
        out = torch.empty_like(x)
        cast_kernel[(1,)](x, out, OTHER=other)
        print(f"{str(dtype).removeprefix('torch.')}, other={other}:", out.tolist())


if __name__ == "__main__":
    main()
