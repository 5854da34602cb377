# SPDX-License-Identifier: Apache-2.0
"""Find the bugs. A product of two float16 matrices that goes wrong as soon as its sums get large.

In float16, 2048 + 1 is 2048, because above 2048 there are no odd numbers left. Add up 4,096 ones, one at a time, and
you get 2,048. That is why a kernel keeps its sums in float32 and rounds only once, when it stores them. This kernel
also rounds in between, in two places. With K = 2 nobody notices; with K = 40 it gives 5,468 instead of 5,464. Fix both.
The result stays float16.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn,
    SUMS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    m = pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak
    b_ptrs = b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), SUMS)
    # gap 1: one of these lines has a bug
    for start in range(0, K, BLOCK_K):
        inside = k < K - start
        a = tl.load(a_ptrs, mask=(m[:, None] < M) & inside[None, :], other=0)
        b = tl.load(b_ptrs, mask=inside[:, None] & (n[None, :] < N), other=0)
        acc = tl.dot(a, b, acc, out_dtype=SUMS)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    # end of gap 1
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a @ b, of two float16 matrices of any strides."""
    (M, K), N = a.shape, b.shape[1]
    # gap 2: so does this one
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    tile = {"BLOCK_M": 8, "BLOCK_N": 8, "BLOCK_K": 32}
    programs = triton.cdiv(M, 8) * triton.cdiv(N, 8)
    matmul_kernel[(programs,)](a, b, c, M, N, K, *a.stride(), *b.stride(), SUMS=tl.float32, **tile)
    # end of gap 2
    return c
