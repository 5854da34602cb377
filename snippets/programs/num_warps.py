# SPDX-License-Identifier: Apache-2.0
"""Ask which ``num_warps`` and ``num_ctas`` there are: the compiler, for several GPUs; or the GPU that is here.

A program runs as ``num_ctas`` thread blocks of ``num_warps`` warps each. The compiler needs no GPU, and takes more than
a GPU can start: how many threads its code was made for stands in the code. On a GPU each is launched instead, and the
result compared.

Source: ``.reqntid`` in NVIDIA's documentation of PTX, and ``.max_flat_workgroup_size`` in LLVM's of AMD's code.

Run it with ``python num_warps.py``. For a GPU of your own, add it to ``GPUS``.
"""

import os
import re
import subprocess
import sys

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

GPUS = {
    "A100": GPUTarget("cuda", 80, 32),
    "H200": GPUTarget("cuda", 90, 32),
    "MI300X": GPUTarget("hip", "gfx942", 64),
}
BLOCK = 8192
REFUSALS = (AssertionError, ValueError, RuntimeError, triton.OutOfResources)  # of the compiler, and of the GPU
WARPS = (1, 2, 3, 16, 32, 64)
CTAS = (1, 2, 3, 8, 16, 32)


# --8<-- [start:kernel]
@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, 2 * x, mask=i < n)
# --8<-- [end:kernel]


# --8<-- [start:compile]
def threads(target: GPUTarget, **options: int) -> int:
    """Return the threads of a thread block, as compiled. Raise what the compiler does if it refuses."""
    types = {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    compiled = triton.compile(ASTSource(double_kernel, types, {"BLOCK": BLOCK}), target=target, options=options)
    text = compiled.asm["ptx" if target.backend == "cuda" else "amdgcn"]
    return int(re.search(r"\.(?:reqntid|max_flat_workgroup_size:) *(\d+)", text)[1])
# --8<-- [end:compile]


# --8<-- [start:launch]
def double(x: torch.Tensor, **options: int) -> torch.Tensor:
    """Return ``2 * x``; ``options`` as in a launch.

    Args:
        x: A contiguous float32 tensor on a GPU (in the interpreter, on the CPU), of at most 2**31 - ``BLOCK`` elements.

    Raises:
        ValueError: If ``x`` is something the kernel can't serve.
        Exception: What Triton raises where the compiler refuses, or the GPU.
    """
    check(x)
    out = torch.empty_like(x)
    if x.numel():
        with torch.cuda.device_of(x):
            double_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, out, x.numel(), BLOCK=BLOCK, **options)
    return out
# --8<-- [end:launch]


def check(x: torch.Tensor) -> None:
    """Raise ``ValueError`` for tensors that the kernel would get wrong, or can't serve at all."""
    if x.dtype != torch.float32:
        raise ValueError(f"x must be float32; got {x.dtype}")
    if x.device.type != ("cuda" if isinstance(double_kernel, triton.JITFunction) else "cpu"):
        raise ValueError(f"x is on {x.device}; move it to a GPU, as in x.cuda(), or to the CPU for the interpreter")
    if not x.is_contiguous():
        raise ValueError(f"x has strides {x.stride()}; pass x.contiguous(), which copies it")
    if x.numel() > 2**31 - BLOCK:  # the kernel's offsets are int32
        raise ValueError(f"x has {x.numel()} elements; the kernel takes at most {2**31 - BLOCK}")
    if x.is_neg():  # its memory doesn't have the sign applied yet
        raise ValueError("x is negated lazily; pass x.resolve_neg()")
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError("x requires a gradient, which this function does not compute; use torch.no_grad()")


def why(error: Exception) -> str:
    """Return a refusal in one line."""
    return str(error).strip().splitlines()[0].split(". ")[0]


def compiled(target: GPUTarget, **options: int) -> str:
    """Return what the compiler says: threads of a thread block, or why not."""
    try:
        return f"{threads(target, **options):,} threads"
    except REFUSALS as error:
        return f"refused: {why(error)}"


def launched(x: torch.Tensor, **options: int) -> str:
    """Return what a launch gives: whether the result is right, or why there is none."""
    try:
        return "right" if torch.equal(double(x, **options), 2 * x) else "wrong"
    except REFUSALS as error:
        return f"refused: {why(error)}"


def main():
    if os.environ.get("TRITON_INTERPRET") == "1":  # under which nothing compiles: begin again without it
        without = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
        sys.stdout.flush()
        subprocess.run([sys.executable, os.path.abspath(__file__)], env=without, check=True, stderr=subprocess.DEVNULL)
        return
    tried = [("num_warps", number) for number in WARPS] + [("num_ctas", number) for number in CTAS]
    if torch.cuda.is_available():
        print("## launched")
        x = torch.randn(100_000, device="cuda")
        for name, number in tried:
            print(f"{name}={number}: {launched(x, **{name: number})}", flush=True)
        return
    for option in ("num_warps", "num_ctas"):
        print(f"## {option}, compiled")
        for gpu, target in GPUS.items():
            for name, number in tried:
                if name == option and not (name == "num_ctas" and number > 2 and target != GPUS["H200"]):
                    print(f"{gpu:<8}{name}={number:<4}{compiled(target, **{name: number})}", flush=True)
    print("## as numbers")
    print("threads of 32 warps, MI300X:", threads(GPUS["MI300X"], num_warps=32))


if __name__ == "__main__":
    main()
