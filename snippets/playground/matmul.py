# SPDX-License-Identifier: Apache-2.0
"""Multiply two matrices: a program per tile of the result, and a loop over K.

Run it on a GPU with ``python matmul.py``, or with ``TRITON_INTERPRET=1 python matmul.py`` without one.
"""

# --8<-- [start:script]
import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, N, K, TILE: tl.constexpr):
    m = tl.program_id(axis=0) * TILE + tl.arange(0, TILE)[:, None]
    n = tl.program_id(axis=1) * TILE + tl.arange(0, TILE)[None, :]
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, K, TILE):
        k = start + tl.arange(0, TILE)
        a = tl.load(a_ptr + m * K + k[None, :])
        b = tl.load(b_ptr + k[:, None] * N + n)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m * N + n, total)
# --8<-- [end:script]


def main():
    # --8<-- [start:launch]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = (torch.arange(16 * 32, device=device) % 3).reshape(16, 32).float()
    b = (torch.arange(32 * 32, device=device) % 5).reshape(32, 32).float()
    c = torch.empty(16, 32, device=device)
    matmul_kernel[(1, 2)](a, b, c, 32, 32, TILE=16)
    print(c[0, :8].tolist())
    print("as torch:", torch.equal(c, a @ b))
    # --8<-- [end:launch]


if __name__ == "__main__":
    main()
