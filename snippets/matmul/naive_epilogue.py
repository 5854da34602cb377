# SPDX-License-Identifier: Apache-2.0
"""The answer to an exercise: the naive product with an epilogue, ``c = relu(a @ b + bias)``, in one kernel.

Shapes: ``a (M, K)``, ``b (K, N)``, ``bias (N,)``, ``c (M, N)``; any strides, but ``bias`` is contiguous.
Traffic: that of ``naive.py``, and each element of ``bias`` once for every row of tiles.
Source: ``torch.relu(a @ b + bias)`` defines the result.

Run it on a GPU with ``python naive_epilogue.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.matmul.naive import my_tile, place


# --8<-- [start:kernel]
@triton.jit
def linear_kernel(
    a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m, n = my_tile(N, BLOCK_M, BLOCK_N)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        a_ptrs, a_inside = place(a_ptr, m, k, M, K, stride_am, stride_ak, BLOCK_M, BLOCK_K)
        b_ptrs, b_inside = place(b_ptr, k, n, K, N, stride_bk, stride_bn, BLOCK_K, BLOCK_N)
        a = tl.load(a_ptrs, mask=a_inside, other=0)
        b = tl.load(b_ptrs, mask=b_inside, other=0)
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
    # --8<-- [start:epilogue]
    columns = n + tl.arange(0, BLOCK_N)
    bias = tl.load(bias_ptr + columns, mask=columns < N)
    accumulator = tl.maximum(accumulator + bias[None, :], 0)
    # --8<-- [end:epilogue]
    c_ptrs, c_inside = place(c_ptr, m, n, M, N, stride_cm, stride_cn, BLOCK_M, BLOCK_N)
    tl.store(c_ptrs, accumulator, mask=c_inside)
# --8<-- [end:kernel]


def main():
    device = "cuda" if isinstance(linear_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    a, b, bias = (torch.randint(-4, 5, shape, device=device).float() for shape in ((7, 40), (40, 10), (10,)))
    c = torch.full((7, 10), torch.nan, device=device)
    linear_kernel[(6,)](
        a, b, bias, c, 7, 10, 40, *a.stride(), *b.stride(), *c.stride(), BLOCK_M=4, BLOCK_N=4, BLOCK_K=16
    )
    print("relu(a @ b + bias):", "equal to torch" if torch.equal(c, torch.relu(a @ b + bias)) else "NOT equal to torch")


if __name__ == "__main__":
    main()
