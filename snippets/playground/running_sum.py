# SPDX-License-Identifier: Apache-2.0
"""Add up numbers as they come: one program takes a block at a time and carries the total along.

Run it on a GPU with ``python running_sum.py``, or with ``TRITON_INTERPRET=1 python running_sum.py`` without one.
"""

# --8<-- [start:script]
import torch
import triton
import triton.language as tl


@triton.jit
def running_sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = 0.0
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0)
        tl.store(out_ptr + i, total + tl.cumsum(x, axis=0), mask=i < n)
        total += tl.sum(x, axis=0)
# --8<-- [end:script]


def main():
    # --8<-- [start:launch]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.ones(10, device=device)
    out = torch.empty_like(x)
    running_sum_kernel[(1,)](x, out, 10, BLOCK=4)
    print(out.tolist())
    # --8<-- [end:launch]


if __name__ == "__main__":
    main()
