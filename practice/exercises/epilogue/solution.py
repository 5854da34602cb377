# SPDX-License-Identifier: Apache-2.0
"""Fill in the gaps. A linear layer in one kernel: gelu(x @ weight.T + bias).

Take a sum of 100.03 and a bias of -100: gelu(0.03) is 0.0154. In float16, 100.03 rounds to 100, and nothing would be
left. So bias and gelu work on the accumulator, which is float32, and only the store rounds. When the loop ends, a
program holds a tile of sums. Add to each column its number from the bias, apply gelu, and store the tile.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu(x):
    """Apply gelu to float32, with tanh: 0.5 * x * (1 + tanh(y)) is x / (1 + exp(-2 * y))."""
    return x / (1 + tl.exp2(-2.302208198144325 * (x + 0.044715 * x * x * x)))


@triton.jit
def linear_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, M, N, K,
    stride_xm, stride_xk, stride_wn, stride_wk, stride_b,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    rows = pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x_ptrs = x_ptr + rows[:, None] * stride_xm + k[None, :] * stride_xk
        weight_ptrs = weight_ptr + k[:, None] * stride_wk + columns[None, :] * stride_wn
        x = tl.load(x_ptrs, mask=(rows[:, None] < M) & (k[None, :] < K), other=0)
        weight = tl.load(weight_ptrs, mask=(k[:, None] < K) & (columns[None, :] < N), other=0)
        acc = tl.dot(x, weight, acc)
    # gap 1: the epilogue: bias, gelu, and the store into out, which is contiguous
    acc += tl.load(bias_ptr + columns * stride_b, mask=columns < N)[None, :]
    acc = gelu(acc)
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], acc, mask=mask)  # rounded to out's dtype
    # end of gap 1


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Return gelu(x @ weight.T + bias), for float16 of any strides: x is (M, K), weight (N, K), bias (N,)."""
    (M, K), N = x.shape, weight.shape[0]
    tile = {"BLOCK_M": 8, "BLOCK_N": 8, "BLOCK_K": 16}
    programs = triton.cdiv(M, 8) * triton.cdiv(N, 8)
    # gap 2: the result, whose dtype is that of x
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    # end of gap 2
    linear_kernel[(programs,)](
        x, weight, bias, out, M, N, K, *x.stride(), *weight.stride(), *bias.stride(), **tile
    )  # fmt: skip
    return out
