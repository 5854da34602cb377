# SPDX-License-Identifier: Apache-2.0
"""The largest number of each row, the simplest kernel that's right: a program per row, a row per block, ``other`` -inf.

For rows of any length and any strides, in a function that checks its arguments, see ``row_max`` in ``masks.py``.

Run it on a GPU with ``python masks_first.py``, or with ``TRITON_INTERPRET=1 python masks_first.py`` without one.
"""

# --8<-- [start:script]
import torch
import triton
import triton.language as tl


@triton.jit
def row_max_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(
        x_ptr + row * columns + column, mask=mask, other=-float("inf")
    )
    tl.store(out_ptr + row, tl.max(x, axis=0))
# --8<-- [end:script]


def main():
    # --8<-- [start:launch]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    row = torch.tensor([-1.0, -2.0, -3.0, -4.0, -5.0], device=device)
    x = torch.stack([row, 10 * row])
    rows, columns = x.shape
    out = torch.empty(rows, device=device)
    block = triton.next_power_of_2(columns)  # 8
    row_max_kernel[(rows,)](x, out, columns, BLOCK=block)
    print(out.tolist())
    # --8<-- [end:launch]


if __name__ == "__main__":
    main()
