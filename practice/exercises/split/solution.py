# SPDX-License-Identifier: Apache-2.0
"""Fill in the gaps. A matrix product with few tiles and a long K, where several programs share a tile.

Row 1 of a is 1 2 3 4 and column 2 of b is 1 1 1 1, so c[1, 2] is 10. In steps of 2, part 0 gets 3 and part 1 gets 7.
Here a step covers 16. With 3 parts and 7 steps, part 0 takes steps 0, 3 and 6, part 1 takes 1 and 4, and part 2 takes 2
and 5. The grid has two axes: the pid along the first says which tile, and the pid along the second says which part. A
program doesn't store its sums. It adds them to c in memory, with an atomic addition. There may be more parts than
steps.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, PARTS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tile, part = tl.program_id(axis=0), tl.program_id(axis=1)
    tiles_n = tl.cdiv(N, BLOCK_N)
    rows = tile // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    # gap 1: the loop over the steps of this part
    for start in range(part * BLOCK_K, K, PARTS * BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a_ptrs = a_ptr + rows[:, None] * stride_am + k[None, :] * stride_ak
        b_ptrs = b_ptr + k[:, None] * stride_bk + columns[None, :] * stride_bn
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (k[None, :] < K), other=0)
        b = tl.load(b_ptrs, mask=(k[:, None] < K) & (columns[None, :] < N), other=0)
        acc = tl.dot(a, b, acc)
    # end of gap 1
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    c_ptrs = c_ptr + rows[:, None] * N + columns[None, :]
    # gap 2: add acc to c, where other programs add theirs
    tl.atomic_add(c_ptrs, acc, mask=mask, sem="relaxed")
    # end of gap 2


def matmul(a: torch.Tensor, b: torch.Tensor, parts: int) -> torch.Tensor:
    """Return a @ b in float32, of two float16 matrices of any strides, using this many programs per tile."""
    (M, K), N = a.shape, b.shape[1]
    tile = {"BLOCK_M": 4, "BLOCK_N": 4, "BLOCK_K": 16}
    tiles = triton.cdiv(M, 4) * triton.cdiv(N, 4)
    # gap 3: c, float32, and the grid
    c = torch.zeros((M, N), dtype=torch.float32, device=a.device)
    grid = (tiles, parts)
    # end of gap 3
    matmul_kernel[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), PARTS=parts, **tile)
    return c
