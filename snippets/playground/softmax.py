# SPDX-License-Identifier: Apache-2.0
"""Softmax of each row of a matrix, a program per row.

Run it on a GPU with ``python softmax.py``, or with ``TRITON_INTERPRET=1 python softmax.py`` without one.
"""

# --8<-- [start:script]
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(
        x_ptr + row * columns + column, mask=mask, other=-float("inf")
    )
    power = tl.exp(x - tl.max(x, axis=0))
    share = power / tl.sum(power, axis=0)
    tl.store(out_ptr + row * columns + column, share, mask=mask)
# --8<-- [end:script]


def main():
    # --8<-- [start:launch]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.tensor([[1.0, 2, 3, 4, 5, 6], [0, 0, 0, 0, 0, 0]], device=device)
    out = torch.empty_like(x)
    softmax_kernel[(2,)](x, out, 6, BLOCK=8)
    for row in out.tolist():
        print(*(f"{share:.3f}" for share in row))
    # --8<-- [end:launch]


if __name__ == "__main__":
    main()
