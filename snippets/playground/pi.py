# SPDX-License-Identifier: Apache-2.0
"""Estimate pi: throw random points into a square, and count those inside the quarter circle.

Run it on a GPU with ``python pi.py``, or with ``TRITON_INTERPRET=1 python pi.py`` without one.
"""

# --8<-- [start:script]
import torch
import triton
import triton.language as tl


@triton.jit
def count_kernel(count_ptr, seed, BLOCK: tl.constexpr):
    pid = tl.program_id(axis=0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.rand(seed, 2 * i)
    y = tl.rand(seed, 2 * i + 1)
    hits = tl.sum((x * x + y * y < 1).to(tl.int32), axis=0)
    tl.store(count_ptr + pid, hits)
# --8<-- [end:script]


def main():
    # --8<-- [start:launch]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    hits = torch.empty(8, dtype=torch.int32, device=device)
    count_kernel[(8,)](hits, 2026, BLOCK=128)
    print(hits.tolist())
    print("pi is about", 4 * hits.sum().item() / (8 * 128))
    # --8<-- [end:launch]


if __name__ == "__main__":
    main()
