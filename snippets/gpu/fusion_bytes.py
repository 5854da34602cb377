# SPDX-License-Identifier: Apache-2.0
"""``relu(x @ w)`` in one kernel, and the bytes that this saves: the product never goes to memory without its relu.

``out[m, n] = max(0, Σₖ x[m, k] · w[k, n])``. A program computes one tile of the result: it walks along ``k``, a tile of
``x`` and one of ``w`` at a time, adds their products in float32, and applies the relu before it stores.

Shapes: ``x (M, K)``, ``w (K, N)``, the result ``(M, N)``; any sizes, any strides.
Traffic, counted in elements: ``M·K + K·N`` read and ``M·N`` written. In two kernels, ``M·N`` more of each.
Source: PyTorch's ``torch.matmul`` and ``torch.relu`` define the result; ``tl.dot`` is in Triton's documentation.

This is a small matrix product to learn from. For large ones cuBLAS is faster; see the lesson *What fusing saves*.

Run it on a GPU with ``python fusion_bytes.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
LONGEST = 2**30  # of a dimension, so that a step beyond its end still fits in 32 bits


# --8<-- [start:kernel]
@triton.jit
def matmul_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K, stride_xm, stride_xk, stride_wk, stride_wn,
    RELU: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # --8<-- [start:tile]
    tiles_n = tl.cdiv(N, BLOCK_N)
    pid = tl.program_id(axis=0)
    m = (pid // tiles_n).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = (pid % tiles_n).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    # --8<-- [end:tile]
    # --8<-- [start:loop]
    k = tl.arange(0, BLOCK_K).to(tl.int64)
    x_ptrs = x_ptr + m * stride_xm + k[None, :] * stride_xk
    w_ptrs = w_ptr + k[:, None] * stride_wk + n * stride_wn
    step = tl.full((), BLOCK_K, tl.int64)
    product = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        inside = k < K - start
        x = tl.load(x_ptrs, mask=(m < M) & inside[None, :], other=0)
        w = tl.load(w_ptrs, mask=inside[:, None] & (n < N), other=0)
        product = tl.dot(x, w, product, input_precision="ieee")
        # moved, because computing them anew takes 64-bit multiplications.
        x_ptrs += step * stride_xk
        w_ptrs += step * stride_wk
    # --8<-- [end:loop]
    # --8<-- [start:epilogue]
    if RELU:  # NaN stays NaN, as in torch
        product = tl.maximum(product, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out_ptr + m * N + n, product, mask=(m < M) & (n < N))
    # --8<-- [end:epilogue]
# --8<-- [end:kernel]


# --8<-- [start:host]
def matmul(x: torch.Tensor, w: torch.Tensor, *, relu: bool = False) -> torch.Tensor:
    """Return ``x @ w``, or with ``relu=True`` ``torch.relu(x @ w)``, computed by one launch of :func:`matmul_kernel`.

    Args:
        x: ``(M, K)`` on a GPU (in the interpreter: on the CPU), with one of ``DTYPES`` and any strides.
        w: ``(K, N)`` of the dtype and on the device of ``x``, with any strides.
        relu: Set what is below zero to zero before it is stored.

    Returns:
        A new, contiguous tensor ``(M, N)`` of the dtype of ``x``. Sums are kept in float32, and float32 is multiplied
        as float32, not as TF32. The kernel may still be running when it is returned.

    Raises:
        ValueError: If ``x`` or ``w`` is something the kernel can't serve.

    >>> x, w = torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 0.0, 5.0], [1.0, 1.0, 1.0]])
    >>> matmul(x, w), matmul(x, w, relu=True)
    (tensor([[ 1., -2.,  3.]]), tensor([[1., 0., 3.]]))
    """
    check_arguments(x, w)
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out  # nothing to launch
    block = choose_block(K, x.dtype)
    grid = (triton.cdiv(M, block["BLOCK_M"]) * triton.cdiv(N, block["BLOCK_N"]),)
    if grid[0] >= 2**31:  # CUDA's limit for programs along one axis
        raise ValueError(f"a result of {M} × {N} is too large: it would take {grid[0]} programs")
    with torch.cuda.device_of(x):
        matmul_kernel[grid](x, w, out, M, N, K, *x.stride(), *w.stride(), RELU=relu, **block)
    return out


def choose_block(K: int, dtype: torch.dtype) -> dict:
    """Return the sides of a tile and the options of the launch: for matrix units, or for float32 without them."""
    if dtype == torch.float32:
        return {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 16, "num_warps": 4, "num_stages": 3}
    depth = 16 if K <= 16 else 32 if K <= 32 else 64
    return {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": depth, "num_warps": 8, "num_stages": 3}
# --8<-- [end:host]


def check_arguments(x: torch.Tensor, w: torch.Tensor) -> None:
    """Raise ``ValueError`` for arguments that :func:`matmul` would get wrong, or can't serve at all."""
    if x.ndim != 2 or w.ndim != 2 or x.shape[1] != w.shape[0]:
        raise ValueError(f"x must be (M, K) and w (K, N); got {tuple(x.shape)} and {tuple(w.shape)}")
    if w.dtype != x.dtype or w.device != x.device:
        raise ValueError(f"x is {x.dtype} on {x.device} and w {w.dtype} on {w.device}; they must be alike")
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    interpreted = not isinstance(matmul_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if interpreted and x.dtype == torch.bfloat16:
        raise ValueError("Triton's interpreter computes bfloat16 wrongly; use float32 there, or a GPU")
    if max(*x.shape, *w.shape) > LONGEST:
        raise ValueError(f"dimensions must be at most 2**30; got {tuple(x.shape)} and {tuple(w.shape)}")
    for name, tensor in (("x", x), ("w", w)):
        if tensor.is_neg():  # its memory doesn't have the sign applied yet
            raise ValueError(f"{name} is negated lazily; pass {name}.resolve_neg()")
        if tensor.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} requires a gradient, which this function does not compute; use torch.no_grad()")


# --8<-- [start:count]
def count_elements(M: int, N: int, K: int) -> dict[str, tuple[int, int]]:
    """Return how many elements each kernel of ``relu(x @ w)`` has to read and to write: ``{kernel: (reads, writes)}``.

    >>> count_elements(4, 6, 2)
    {'product': (20, 24), 'relu': (24, 24), 'product with relu': (20, 24)}
    """
    product, result = (M * K + K * N, M * N), M * N
    return {"product": product, "relu": (result, result), "product with relu": product}
# --8<-- [end:count]


def main():
    device = "cuda" if isinstance(matmul_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    print("## result")
    x = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], device=device)
    w = torch.tensor([[3.0, -1.0, 0.0, 2.0, -5.0, 4.0], [1.0, 2.0, -3.0, 2.0, 1.0, -4.0]], device=device)
    print("x @ w, row 1:      ", matmul(x, w)[1].tolist())
    print("relu(x @ w), row 1:", matmul(x, w, relu=True)[1].tolist())
    torch.manual_seed(0)
    x, w = torch.randint(-8, 9, (70, 33)).float().to(device), torch.randint(-8, 9, (33, 130)).float().to(device)
    equal = torch.equal(matmul(x, w, relu=True), torch.relu(x @ w))
    print("whole numbers, 70×33 @ 33×130:", "equal to torch" if equal else "NOT equal to torch")
    print("## count")
    for M, N, K in ((4, 6, 2), (4, 6, 200)):
        print(f"x {M}×{K}, w {K}×{N}")
        counted = count_elements(M, N, K)
        for kernel, (reads, writes) in counted.items():
            print(f"    {kernel}: reads {reads:,}, writes {writes:,}")
        two, one = sum(counted["product"] + counted["relu"]), sum(counted["product with relu"])
        print(f"    in two kernels {two:,} elements, in one {one:,}, saved: {1 - one / two:.1%}")


if __name__ == "__main__":
    main()
