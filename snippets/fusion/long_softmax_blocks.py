# SPDX-License-Identifier: Apache-2.0
"""The softmax of a row of twelve in blocks of four: what the kernel keeps after each block, and the shares it writes.

The kernels are those of ``long_softmax.py``. The maximum grows in each block, so that the old sum is rescaled twice.

Source: Milakov and Gimelshein, *Online normalizer calculation for softmax*, 2018.

Run it on a GPU with ``python long_softmax_blocks.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.fusion.long_softmax import Plan, forward, online_kernel, parts_kernel

BLOCK = 4
ROW = (2, 1, 3, 0, 2, 4, 1, 3, 2, 6, 5, 3)


# --8<-- [start:running]
def running(row: torch.Tensor, block: int) -> list[tuple[float, float]]:
    """Return maximum and sum after each block, from the kernel itself: it is given one block more each time."""
    found = []
    for columns in range(block, len(row) + 1, block):
        maximum, total = torch.empty(2, 1, dtype=row.dtype, device=row.device)
        parts_kernel[(1,)](
            row, maximum, total, columns, 0, 1, columns,
            LOWEST=torch.finfo(row.dtype).min, COMPUTE=tl.float32, BLOCK=block,
        )  # fmt: skip
        found.append((maximum.item(), total.item()))
    return found


# --8<-- [end:running]


def main():
    device = "cuda" if isinstance(online_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    row = torch.tensor(ROW, dtype=torch.float32, device=device)
    print("## online softmax")
    print("scores:", *ROW)
    for i, (maximum, total) in enumerate(running(row, BLOCK), 1):
        print(f"after {BLOCK * i}, maximum: {maximum:.0f}")
        print(f"after {BLOCK * i}, sum: {total:.4f}")
    shares = forward(row[None], Plan("online", BLOCK, num_warps=1))[0]
    print("shares:", *(f"{share:.4f}" for share in shares.tolist()))
    print("as torch:", torch.allclose(shares, row.softmax(0)))


if __name__ == "__main__":
    main()
