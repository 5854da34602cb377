# SPDX-License-Identifier: Apache-2.0
"""Average each number with its two neighbors: three loads, each with a mask of its own.

Run it on a GPU with ``python average.py``, or with ``TRITON_INTERPRET=1 python average.py`` without one.
"""

# --8<-- [start:script]
import torch
import triton
import triton.language as tl


@triton.jit
def average_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    left = tl.load(x_ptr + i - 1, mask=inside & (i > 0), other=0.0)
    here = tl.load(x_ptr + i, mask=inside, other=0.0)
    right = tl.load(x_ptr + i + 1, mask=i + 1 < n, other=0.0)
    tl.store(out_ptr + i, (left + here + right) / 3, mask=inside)
# --8<-- [end:script]


def main():
    # --8<-- [start:launch]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.tensor([0, 0, 9, 0, 0, 0, 3, 3, 3, 0], device=device).float()
    out = torch.empty_like(x)
    average_kernel[(triton.cdiv(10, 4),)](x, out, 10, BLOCK=4)
    print(out.tolist())
    # --8<-- [end:launch]


if __name__ == "__main__":
    main()
