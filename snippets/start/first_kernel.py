# SPDX-License-Identifier: Apache-2.0
"""A first kernel: add ten numbers to ten others, four at a time, and print the sums.

The home page shows this file as one script: imports, kernel, launch, print. For a function to copy into your own code,
which checks its arguments and takes tensors of any length, see ``snippets/programs/vector_add.py``.

Run it on a GPU with ``python first_kernel.py``, or without one in Triton's interpreter with
``TRITON_INTERPRET=1 python first_kernel.py``.
"""

# --8<-- [start:script]
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n,
               BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)
# --8<-- [end:script]


def main():
    # --8<-- [start:launch]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.arange(10, device=device)
    y = 100 * x
    out = torch.empty_like(x)
    add_kernel[(3,)](x, y, out, 10, BLOCK_SIZE=4)
    print(out.tolist())
    # --8<-- [end:launch]


if __name__ == "__main__":
    main()
