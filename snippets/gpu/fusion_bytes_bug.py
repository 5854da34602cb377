# SPDX-License-Identifier: Apache-2.0
"""``relu(x @ w)`` fused in the wrong place: the relu stands in the loop, before the sum is complete. Do not copy it.

Right as long as one step of the loop is enough, ``K <= BLOCK``. Beyond that, each step forgets what was below zero.

Run it on a GPU with ``python fusion_bytes_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl


# --8<-- [start:kernel]
@triton.jit
def relu_in_the_loop_bug(x_ptr, w_ptr, out_ptr, M, N, K, BLOCK: tl.constexpr):
    m, n = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    product = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + m * K + k[None, :], mask=(m < M) & (k[None, :] < K), other=0)
        w = tl.load(w_ptr + k[:, None] * N + n, mask=(k[:, None] < K) & (n < N), other=0)
        product = tl.maximum(tl.dot(x, w, product, input_precision="ieee"), 0.0)
    tl.store(out_ptr + m * N + n, product, mask=(m < M) & (n < N))
# --8<-- [end:kernel]


def run(x, w):
    """Launch the kernel on contiguous float32 ``x`` (M, K) and ``w`` (K, N) with M, N ≤ 16. Return what it stored."""
    (M, K), N = x.shape, w.shape[1]
    out = torch.full((M, N), -1.0, device=x.device)
    relu_in_the_loop_bug[(1,)](x, w, out, M, N, K, BLOCK=16)
    return out


def main():
    device = "cuda" if isinstance(relu_in_the_loop_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    # One row of ones times two columns: sixteen times -1, then 1; and sixteen times 1, then -1.
    sign = torch.where(torch.arange(32, device=device) < 16, -1.0, 1.0)
    w = torch.stack([sign, -sign], dim=1)
    for K in (16, 32):
        x = torch.ones(1, K, device=device)
        print(f"K = {K}: relu(x @ w) is {torch.relu(x @ w[:K])[0].tolist()}, stored was {run(x, w[:K])[0].tolist()}")


if __name__ == "__main__":
    main()
