# SPDX-License-Identifier: Apache-2.0
"""A matrix product by plain pointers, with a bias for each column and one for each row, in one kernel.

``c[m, n] = Σₖ a[m, k] · b[k, n] + column_bias[n] + row_bias[m]``.

Shapes: ``a (M, K)``, ``b (K, N)``, ``column_bias (N,)``, ``row_bias (M,)``, ``c (M, N)``; any strides, but both biases
are contiguous. Offsets have 32 bits, so no tensor may span 2**31 elements or more; ``naive.py`` has no such limit.
Traffic: that of ``naive.py``, and each element of a bias once for every tile in its column or row of tiles.
Source: ``a @ b + column_bias + row_bias[:, None]`` in torch defines the result.

Run it on a GPU with ``python naive_bias.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import torch
import triton
import triton.language as tl


# --8<-- [start:kernel]
@triton.jit
def bias_kernel(
    a_ptr, b_ptr, column_bias_ptr, row_bias_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # --8<-- [start:loop]
    pid, tiles_n = tl.program_id(axis=0), tl.cdiv(N, BLOCK_N)
    rows = pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a_ptrs = a_ptr + rows[:, None] * stride_am + k[None, :] * stride_ak
        b_ptrs = b_ptr + k[:, None] * stride_bk + columns[None, :] * stride_bn
        a_inside = (rows[:, None] < M) & (k[None, :] < K)
        b_inside = (k[:, None] < K) & (columns[None, :] < N)
        a = tl.load(a_ptrs, mask=a_inside, other=0)
        b = tl.load(b_ptrs, mask=b_inside, other=0)
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
    # --8<-- [end:loop]
    # --8<-- [start:bias]
    column_bias = tl.load(column_bias_ptr + columns, mask=columns < N)
    accumulator += column_bias[None, :]  # N numbers, one for each column
    row_bias = tl.load(row_bias_ptr + rows, mask=rows < M)
    accumulator += row_bias[:, None]  # M numbers, one for each row
    # --8<-- [end:bias]
    # --8<-- [start:store]
    c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn
    c_inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptrs, accumulator, mask=c_inside)
    # --8<-- [end:store]
# --8<-- [end:kernel]


def main():
    device = "cuda" if isinstance(bias_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    shapes = (7, 40), (40, 10), (10,), (7,)
    a, b, column_bias, row_bias = (torch.randint(-4, 5, shape, device=device).float() for shape in shapes)
    c = torch.full((7, 10), torch.nan, device=device)
    strides = *a.stride(), *b.stride(), *c.stride()
    bias_kernel[(6,)](a, b, column_bias, row_bias, c, 7, 10, 40, *strides, BLOCK_M=4, BLOCK_N=4, BLOCK_K=16)
    equal = torch.equal(c, a @ b + column_bias + row_bias[:, None])
    print("a @ b + column_bias + row_bias[:, None]:", "equal to torch" if equal else "NOT equal to torch")


if __name__ == "__main__":
    main()
