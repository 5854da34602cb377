# SPDX-License-Identifier: Apache-2.0
"""Count how often each number occurs. Programs may want the same counter at once, so they add to it atomically.

Run it on a GPU with ``python histogram.py``, or with ``TRITON_INTERPRET=1 python histogram.py`` without one.
"""

# --8<-- [start:script]
import torch
import triton
import triton.language as tl


@triton.jit
def histogram_kernel(x_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    number = tl.load(x_ptr + i, mask=mask)
    tl.atomic_add(counts_ptr + number, 1, mask=mask)
# --8<-- [end:script]


def main():
    # --8<-- [start:launch]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7], device=device)
    counts = torch.zeros(10, dtype=torch.int32, device=device)
    histogram_kernel[(triton.cdiv(14, 4),)](x, counts, 14, BLOCK=4)
    print(counts.tolist())
    # --8<-- [end:launch]


if __name__ == "__main__":
    main()
