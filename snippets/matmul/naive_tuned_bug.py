# SPDX-License-Identifier: Apache-2.0
"""The product without a mask along K, with tiles as an auto-tuned kernel takes them. Do not copy this kernel.

Tiles of 64 × 32 and steps of 32 along K, one of the configs that tutorials try. Where K is a multiple of 32, the kernel
is right. Where it is not, the last step reads behind the matrices, and what lies there decides.

Shapes: a (M, K), b (K, N), c (M, N), contiguous float32.
Source: the kernel is ``no_k_mask_bug`` of ``naive_bug.py``.

Run it on a GPU with ``python naive_tuned_bug.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import torch
import triton

from snippets.matmul.naive_bug import no_k_mask_bug

TILE = {"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32}
BEHIND = 32 * 64  # numbers behind each matrix: at least what the last step reads


# --8<-- [start:product]
def matrix(rows: int, columns: int, behind: float, device: str) -> torch.Tensor:
    """Return integers from -3 to 3; ``BEHIND`` numbers of our choice follow in memory."""
    size = rows * columns
    memory = torch.full((size + BEHIND,), behind, device=device)
    memory[:size] = torch.arange(size, device=device) % 7 - 3.0
    return memory[:size].view(rows, columns)


def product(M: int, N: int, K: int, behind: float, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Multiply matrices of small integers behind which ``behind`` lies; the result, and the right one."""
    a, b = (matrix(*shape, behind, device) for shape in ((M, K), (K, N)))
    c = torch.empty(M, N, device=device)
    grid = (triton.cdiv(M, TILE["BLOCK_M"]) * triton.cdiv(N, TILE["BLOCK_N"]),)
    no_k_mask_bug[grid](a, b, c, M, N, K, **TILE)
    return c, (a.double() @ b.double()).float()
# --8<-- [end:product]


def main():
    device = "cuda" if isinstance(no_k_mask_bug, triton.JITFunction) else "cpu"
    print("    K  behind   wrong results of 4,000")
    for K in (32, 40, 64, 72):
        for behind in (0.0, 7.0):
            c, right = product(100, 40, K, behind, device)
            print(f"{K:>5}{behind:>8.0f}{(c != right).sum().item():>10,}")


if __name__ == "__main__":
    main()
