# SPDX-License-Identifier: Apache-2.0
"""Fill in the gaps. Let triton.autotune choose the tile of a matrix product.

Which of two tiles is faster, 8 × 4 or 4 × 16? The tuner tries both and keeps the faster one for these M, N and K. How
many programs there are depends on the tile: a c of 12 × 12 needs 6 programs with the first and 3 with the second. Write
the tuner's lines with these two configs, both with steps of 16 along K, and a grid that is right for every config.
Without a GPU nothing is timed; here, the calls simply use the configs in turn.
"""

import torch
import triton
import triton.language as tl


# gap 1: the tuner: two configs, and the key
@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 8, "BLOCK_N": 4, "BLOCK_K": 16}, num_warps=4),
        triton.Config({"BLOCK_M": 4, "BLOCK_N": 16, "BLOCK_K": 16}, num_warps=4),
    ],
    key=["M", "N", "K"],
)
# end of gap 1
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
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a_ptrs = a_ptr + rows[:, None] * stride_am + k[None, :] * stride_ak
        b_ptrs = b_ptr + k[:, None] * stride_bk + columns[None, :] * stride_bn
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (k[None, :] < K), other=0)
        b = tl.load(b_ptrs, mask=(k[:, None] < K) & (columns[None, :] < N), other=0)
        accumulator = tl.dot(a, b, accumulator)
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], accumulator, mask=mask)  # rounded to c's dtype


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a @ b, of two float16 matrices of any strides."""
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    # gap 2: a grid for any config, and the launch
    grid = lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)
    matmul_kernel[grid](a, b, c, M, N, K, *a.stride(), *b.stride())
    # end of gap 2
    return c
