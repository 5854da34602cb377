# SPDX-License-Identifier: Apache-2.0
"""The least that auto-tuning takes: three configs above a kernel, and a key.

``c = a @ b``, by the kernel of ``naive.py``. Whoever calls it names no tile and no number of warps: the tuner tries the
three configs in the first call of each shape, and remembers the fastest.

Shapes: ``a`` (M, K), ``b`` (K, N), ``c`` (M, N), float16 or bfloat16. FLOPs: 2 * M * N * K.
Source: ``triton.autotune`` in Triton's documentation.

Run it on a GPU with ``python autotuned_minimal.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter, where
nothing is timed: each config runs once, and all count as equally fast.
"""

import torch
import triton
import triton.language as tl

from snippets.matmul.naive import check_arguments, check_span, my_tile, place


# --8<-- [start:tuned]
# --8<-- [start:configs]
@triton.autotune(
    configs=[
        triton.Config(
            {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64},
            num_warps=8, num_stages=3,
        ),
        triton.Config(
            {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64},
            num_warps=4, num_stages=3,
        ),
        triton.Config(
            {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64},
            num_warps=4, num_stages=5,
        ),
    ],
    key=["M", "N", "K"],
)
# --8<-- [end:configs]
@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
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
        accumulator = tl.dot(a, b, accumulator)
    c_ptrs, c_inside = place(c_ptr, m, n, M, N, stride_cm, stride_cn, BLOCK_M, BLOCK_N)
    tl.store(c_ptrs, accumulator, mask=c_inside)
# --8<-- [end:tuned]


# The interpreter has no GPU to time on. There, a config that has run once counts as timed.
def no_timer(call, quantiles):
    call()
    return [1.0 for _ in quantiles]


INTERPRETED = not isinstance(matmul_kernel.fn, triton.JITFunction)
if INTERPRETED:
    matmul_kernel.do_bench = no_timer


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return ``a @ b``, added up in float32. The first product of each shape is slow: it compiles and times.

    Args:
        a: ``(M, K)``, float16 or bfloat16, any strides; on a GPU, or in the interpreter on the CPU (float16 only).
        b: ``(K, N)`` of the dtype and on the device of ``a``, any strides.

    Returns:
        ``(M, N)`` of the dtype of ``a``, contiguous.

    Raises:
        ValueError: If an argument is something the kernel can't serve.

    >>> matmul(torch.tensor([[1.0, 2.0]]).half(), torch.tensor([[3.0], [4.0]]).half())
    tensor([[11.]], dtype=torch.float16)
    """
    check_arguments(a, b)
    if a.dtype == torch.float32:
        raise ValueError("dtype torch.float32 is not supported; these tiles are made for float16 and bfloat16")
    (M, K), N = a.shape, b.shape[1]
    if triton.cdiv(M, 64) * triton.cdiv(N, 64) >= 2**31:  # programs along one axis, smallest tiles
        raise ValueError(f"the result would be too large: {M} x {N}")
    for name, x, sides in (("a", a, (128, 64)), ("b", b, (64, 256))):  # of the largest tiles
        check_span(name, x.shape, x.stride(), sides)
    check_span("c", (M, N), (N, 1), (128, 256))
    # --8<-- [start:launch]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    strides = *a.stride(), *b.stride(), *c.stride()

    def grid(meta):
        tiles_m = triton.cdiv(M, meta["BLOCK_M"])
        tiles_n = triton.cdiv(N, meta["BLOCK_N"])
        return (tiles_m * tiles_n,)

    if c.numel():
        with torch.cuda.device_of(a):
            matmul_kernel[grid](a, b, c, M, N, K, *strides)
    # --8<-- [end:launch]
    return c


# --8<-- [start:main]
def main():
    device = "cpu" if INTERPRETED else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    for M, N, K in ((100, 200, 64), (100, 200, 64), (101, 200, 64)):
        a, b = torch.ones(M, K, device=device).half(), torch.ones(K, N, device=device).half()
        before = len(matmul_kernel.cache)  # one entry for each key
        assert torch.equal(matmul(a, b), torch.full((M, N), K, device=device).half())
        tuned = len(matmul_kernel.cache) > before
        print(f"{M} x {N} x {K}:", "tries 3 configs, keeps the fastest" if tuned else "knows which to take")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
