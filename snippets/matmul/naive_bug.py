# SPDX-License-Identifier: Apache-2.0
"""A matrix product without a mask along K, wrong on purpose in three ways. Do not copy these kernels.

- ``no_k_mask_bug`` wraps indices around along M and N, which is sound, and leaves K alone: past the end of a row of
  ``a`` it reads the next row, past the last row of ``b`` whatever lies behind ``b``. Right if that happens to be zeros.
- ``wrapped_k_bug`` wraps around along K, too. It reads nothing that is not its own, and adds some products twice.
- ``half_k_mask_bug`` masks ``a`` along K and trusts that zero times anything is zero. Zero times NaN is NaN.

Each is run on 3 × 4 @ 4 × 5 with tiles of 16 × 16, by one program, and then caught: on a CPU by the list of accesses,
on a GPU by NVIDIA's compute-sanitizer. Shapes: a (M, K), b (K, N), c (M, N), contiguous float32.
Source: the idiom ``% M`` is that of Triton's tutorial on matrix products, which has the mask along K.

Run it on a GPU with ``python naive_bug.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import math
import os
import subprocess
import sys

import torch
import triton
import triton.language as tl

from snippets.matmul.naive import matmul, my_tile, place
from snippets.programs.masks_caught_bug import essential
from snippets.tools.testing import check_inside, recorded_accesses


# --8<-- [start:no_k_mask]
@triton.jit
def no_k_mask_bug(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m, n = my_tile(N, BLOCK_M, BLOCK_N)
    row, column = ((m + tl.arange(0, BLOCK_M)) % M)[:, None], ((n + tl.arange(0, BLOCK_N)) % N)[None, :]
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + row * K + k[None, :])
        b = tl.load(b_ptr + k[:, None] * N + column)
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
    c_ptrs, c_inside = place(c_ptr, m, n, M, N, N, 1, BLOCK_M, BLOCK_N)
    tl.store(c_ptrs, accumulator, mask=c_inside)
# --8<-- [end:no_k_mask]


@triton.jit
def wrapped_k_bug(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m, n = my_tile(N, BLOCK_M, BLOCK_N)
    row, column = ((m + tl.arange(0, BLOCK_M)) % M)[:, None], ((n + tl.arange(0, BLOCK_N)) % N)[None, :]
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        # --8<-- [start:wrapped_k]
        k = (start + tl.arange(0, BLOCK_K)) % K
        a = tl.load(a_ptr + row * K + k[None, :])
        b = tl.load(b_ptr + k[:, None] * N + column)
        # --8<-- [end:wrapped_k]
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
    c_ptrs, c_inside = place(c_ptr, m, n, M, N, N, 1, BLOCK_M, BLOCK_N)
    tl.store(c_ptrs, accumulator, mask=c_inside)


@triton.jit
def half_k_mask_bug(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m, n = my_tile(N, BLOCK_M, BLOCK_N)
    row, column = ((m + tl.arange(0, BLOCK_M)) % M)[:, None], ((n + tl.arange(0, BLOCK_N)) % N)[None, :]
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        # --8<-- [start:half_k_mask]
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + row * K + k[None, :], mask=k[None, :] < K, other=0)
        b = tl.load(b_ptr + k[:, None] * N + column)
        # --8<-- [end:half_k_mask]
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
    c_ptrs, c_inside = place(c_ptr, m, n, M, N, N, 1, BLOCK_M, BLOCK_N)
    tl.store(c_ptrs, accumulator, mask=c_inside)


BUGS = {"no mask": no_k_mask_bug, "wrapped": wrapped_k_bug, "half a mask": half_k_mask_bug}


def run(kernel, a, b):
    """Return the product of ``a`` and ``b``, contiguous float32, as ``kernel`` computes it by tiles of 16 × 16."""
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), device=a.device)
    grid = (triton.cdiv(M, 16) * triton.cdiv(N, 16),)
    kernel[grid](a, b, c, M, N, K, BLOCK_M=16, BLOCK_N=16, BLOCK_K=16)
    return c


# --8<-- [start:operands]
def operands(device, behind_a=0.0, behind_b=0.0):
    """Return 3 × 4 and 4 × 5; 128 numbers lie behind each."""
    memory_a = torch.full((12 + 128,), behind_a)
    memory_b = torch.full((20 + 128,), behind_b)
    memory_a[:12] = torch.arange(1.0, 13.0)
    memory_b[:20] = torch.arange(1.0, 21.0)
    a = memory_a.to(device)[:12].view(3, 4)
    b = memory_b.to(device)[:20].view(4, 5)
    return a, b
# --8<-- [end:operands]


# --8<-- [start:alone]
def alone(name, device):
    """Run a wrong kernel on two matrices behind which nothing of ours lies, and return them."""
    a = torch.arange(1.0, 13.0, device=device).view(3, 4)
    b = torch.arange(1.0, 21.0, device=device).view(4, 5)
    run(BUGS[name], a, b)
    return a, b
# --8<-- [end:alone]


# --8<-- [start:cpu]
def on_the_cpu(name):
    with recorded_accesses() as accesses:
        a, b = alone(name, "cpu")
    load_a, load_b, _ = accesses
    for load, matrix in ((load_a, {"a": a}), (load_b, {"b": b})):
        try:
            check_inside([load], "load", **matrix)
            print("nothing is loaded outside of", *matrix)
        except AssertionError as error:
            print(f"AssertionError: {error}")
# --8<-- [end:cpu]


# --8<-- [start:gpu]
def on_the_gpu(name):
    options = ["--show-backtrace", "no", "--report-api-errors", "no"]
    program = [sys.executable, __file__, "bug", name]
    # One allocation for each tensor, not a piece of a larger one.
    env = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    command = ["compute-sanitizer", *options, *program]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    print("\n".join(essential(done.stdout)))
# --8<-- [end:gpu]


def shown(c: torch.Tensor, right: torch.Tensor) -> str:
    """Row 0, and whether all is right, such as ``110 120 130 140 150  right``."""
    row = " ".join(f"{x:.0f}" for x in c[0].tolist())
    return f"{row}  {'right' if torch.equal(c, right) else 'WRONG'}"


def main():
    device = "cuda" if isinstance(no_k_mask_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    if sys.argv[1:2] == ["bug"]:
        alone(sys.argv[2], device)
        if device == "cuda":
            torch.cuda.synchronize()
        return
    right = torch.mm(*operands("cpu")).to(device)
    nan = math.nan

    print("## values")
    # --8<-- [start:values]
    for behind in ((0.0, 0.0), (7.0, 0.0), (0.0, 7.0), (nan, 0.0)):
        a, b = operands(device, *behind)
        print(*(f"{x:4.0f}" for x in behind), "|", shown(run(no_k_mask_bug, a, b), right))
    # --8<-- [end:values]

    print("## masked")
    a, b = operands(device, nan, nan)
    print(*(f"{x:4.0f}" for x in (nan, nan)), "|", shown(matmul(a, b, tile=(16, 16, 16)), right))

    print("## wrapped")
    print(shown(run(wrapped_k_bug, *operands(device, nan, nan)), right))

    print("## half a mask")
    for behind_b in (0.0, 7.0, nan):
        print(f"{behind_b:4.0f}", "|", shown(run(half_k_mask_bug, *operands(device, nan, behind_b)), right))

    for name in BUGS:
        print(f"## caught: {name}")
        on_the_gpu(name) if device == "cuda" else on_the_cpu(name)


if __name__ == "__main__":
    main()
