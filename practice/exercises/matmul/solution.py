# SPDX-License-Identifier: Apache-2.0
"""Fill in the gaps. A matrix product c = a @ b, one tile of c per program.

If a row of a is 1 2 3 and a column of b is 4 5 6, their element of c is 1·4 + 2·5 + 3·6 = 32. Each program adds up such
sums for a tile of 4 × 4 elements of c, in float32. It walks along K, 16 at a time. When K is 24, that takes two steps,
and in the second one 8 of the 16 are past the end. The result has to be right for any sizes and any strides.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    rows = pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    # gap 1: the accumulator, and the loop along K, which loads a tile of a and one of b in each step
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a_ptrs = a_ptr + rows[:, None] * stride_am + k[None, :] * stride_ak
        b_ptrs = b_ptr + k[:, None] * stride_bk + columns[None, :] * stride_bn
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (k[None, :] < K), other=0)
        b = tl.load(b_ptrs, mask=(k[:, None] < K) & (columns[None, :] < N), other=0)
        accumulator = tl.dot(a, b, accumulator)
    # end of gap 1
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], accumulator, mask=mask)  # rounded to c's dtype


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a @ b, of two float16 matrices of any strides."""
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    large = min(M, N, K) >= 1024  # small tiles are for pictures, these are for speed
    tile = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64} if large else {"BLOCK_M": 4, "BLOCK_N": 4, "BLOCK_K": 16}
    # gap 2: how many programs: one for each tile of c
    programs = triton.cdiv(M, tile["BLOCK_M"]) * triton.cdiv(N, tile["BLOCK_N"])
    # end of gap 2
    warps = 8 if large else 4
    matmul_kernel[(programs,)](a, b, c, M, N, K, *a.stride(), *b.stride(), **tile, num_warps=warps, num_stages=3)
    return c
