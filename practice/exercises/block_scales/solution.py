# SPDX-License-Identifier: Apache-2.0
"""Fill in the gap: a matrix product whose numbers have a scale for each block. y = x @ w.T, in float32.

A number of x stands for itself times its scale. In each row of x, 16 neighbors share one: x_scales is (M, groups), and
x_scales[2, 1] belongs to row 2 and to columns 16 to 31. Of w, squares of 16 × 16 share one: w_scales[3, 1] belongs to
its rows 48 to 63 and columns 16 to 31. Two neighbors in a row of x, 3 and 4 with a scale of 0.5, stand for 1.5 and 2.

The loop takes 16 along K in a step, so that in a step the scales are the same. A program computes 4 rows of x by 4 rows
of w, and the latter may begin anywhere in a square.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def scaled_kernel(
    x_ptr, w_ptr, y_ptr, x_scales_ptr, w_scales_ptr, M, N, K, groups, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    m = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for group in range(groups):
        k = group * 16 + tl.arange(0, 16)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0)
        w = tl.load(w_ptr + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0)
        # gap 1: load the scales of this step, and add to acc what x @ w.T stands for
        x_scale = tl.load(x_scales_ptr + m * groups + group, mask=m < M, other=0)
        w_scale = tl.load(w_scales_ptr + n // 16 * groups + group, mask=n < N, other=0)
        acc += tl.dot(x, w.T) * x_scale[:, None] * w_scale[None, :]
        # end of gap 1
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(y_ptr + m[:, None] * N + n[None, :], acc, mask=mask)


def scaled_matmul(x: torch.Tensor, w: torch.Tensor, x_scales: torch.Tensor, w_scales: torch.Tensor) -> torch.Tensor:
    """Return what x @ w.T stands for, of two float16 matrices, (M, K) and (N, K), and their float32 scales."""
    if not all(each.is_contiguous() for each in (x, w, x_scales, w_scales)):
        raise ValueError(f"x has the strides {x.stride()}; it takes contiguous tensors")
    (M, K), N = x.shape, len(w)
    y = torch.empty(M, N, dtype=torch.float32, device=x.device)
    BLOCK_M = BLOCK_N = 4
    grid = triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N)
    if y.numel():
        scaled_kernel[grid](
            x, w, y, x_scales, w_scales, M, N, K, x_scales.shape[1], BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N
        )
    return y
