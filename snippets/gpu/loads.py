# SPDX-License-Identifier: Apache-2.0
"""Show where ``tl.load`` puts its data: into registers for an add, into shared memory for the loop of a matrix product.

The first two kernels are those of the lessons *Vector add* and *What fusing saves*. Nothing in their source says where.
The compiler decides, and writes it down in TritonGPU IR: a tensor with a ``#blocked`` layout is in registers, a
``ttg.local_alloc`` is in shared memory, and ``ttg.async_copy_global_to_local`` copies there without passing registers.
The third, :func:`center`, subtracts from each row its mean, and holds the row in registers meanwhile. With few threads
there are not registers enough, and the compiler spills.

Shapes: see ``add``, :func:`product` and :func:`center`.
Source: Triton's documentation of ``num_stages``; NVIDIA's PTX ISA on ``cp.async``.

Run it on a GPU with ``python loads.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import functools

import torch
import triton
import triton.language as tl

from snippets.gpu.fusion_bytes import check_arguments, matmul_kernel
from snippets.programs.vector_add import add
from snippets.tools.benchmarking import compare

TILE = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}
STAGES = 1, 2, 3, 4
WARPS = 1, 2, 4, 8, 16, 32


# --8<-- [start:product]
def product(x: torch.Tensor, w: torch.Tensor, *, num_stages: int) -> torch.Tensor:
    """Return ``x @ w``, by a loop whose loads run up to ``num_stages - 1`` steps ahead of its ``tl.dot``.

    Args:
        x: ``(M, K)`` float16 on a GPU, or in the interpreter on the CPU.
        w: ``(K, N)`` of the dtype and on the device of ``x``.
        num_stages: One of ``STAGES``.

    Raises:
        ValueError: If ``x`` or ``w`` is something the kernel can't serve, or ``num_stages`` is none of ``STAGES``.

    >>> product(torch.ones(2, 3, dtype=torch.float16), torch.ones(3, 1, dtype=torch.float16), num_stages=1).tolist()
    [[3.0], [3.0]]
    """
    check_arguments(x, w)
    if x.dtype != torch.float16:
        raise ValueError(f"x and w must be float16; got {x.dtype}")
    if num_stages not in STAGES:
        raise ValueError(f"num_stages must be one of {STAGES}; got {num_stages!r}")
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty(M, N, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, TILE["BLOCK_M"]) * triton.cdiv(N, TILE["BLOCK_N"]),)
    if grid[0]:
        options = {**TILE, "num_warps": 8, "num_stages": num_stages}
        with torch.cuda.device_of(x):
            matmul_kernel[grid](x, w, out, M, N, K, *x.stride(), *w.stride(), RELU=False, **options)
    return out
# --8<-- [end:product]


# --8<-- [start:center]
@triton.jit
def center_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    start = tl.program_id(axis=0).to(tl.int64) * columns
    lanes = tl.arange(0, BLOCK)
    mask = lanes < columns
    row = tl.load(x_ptr + start + lanes, mask=mask, other=0.0)
    # Every element of the row must be kept until this is known.
    mean = tl.sum(row) / columns
    tl.store(out_ptr + start + lanes, row - mean, mask=mask)
# --8<-- [end:center]


WIDEST = 2**15


def center(x: torch.Tensor, *, num_warps: int = 16) -> torch.Tensor:
    """Return ``x - x.mean(dim=1, keepdim=True)``.

    Args:
        x: ``(rows, columns)`` float32, contiguous, at most ``WIDEST`` columns; on a GPU, or interpreted on the CPU.
        num_warps: A power of two, at most 32.

    Raises:
        ValueError: If an argument is something the kernel can't serve.

    >>> center(torch.tensor([[1.0, 2.0, 6.0, 7.0]])).tolist()
    [[-3.0, -2.0, 2.0, 3.0]]
    """
    interpreted = not isinstance(center_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if x.dtype != torch.float32 or x.ndim != 2 or not x.is_contiguous() or x.requires_grad or x.is_neg():
        raise ValueError(
            f"x must be contiguous float32 of 2 dimensions without a gradient; got {x.dtype}, shape {tuple(x.shape)}, "
            f"strides {x.stride()}, requires_grad {x.requires_grad}, negated lazily {x.is_neg()}"
        )
    rows, columns = x.shape
    if columns > WIDEST or rows >= 2**31:
        raise ValueError(f"x may have {WIDEST} columns and 2**31 - 1 rows at most; got shape {tuple(x.shape)}")
    if num_warps not in WARPS:
        raise ValueError(f"num_warps must be one of {WARPS}; got {num_warps!r}")
    out = torch.empty_like(x)
    if out.numel():
        with torch.cuda.device_of(x):
            center_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns), num_warps=num_warps)
    return out


@functools.lru_cache(maxsize=1)
def measure(n, rounds=6):
    """Return a ``Timing`` for each number of stages and for cuBLAS."""
    x, w = torch.randn(2, n, n, device="cuda", dtype=torch.float16)
    sides = {f"stages_{stages}": functools.partial(product, x, w, num_stages=stages) for stages in STAGES}
    return compare(sides | {"cublas": lambda: x @ w}, rounds=rounds)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="ahead",
        x_names=["n"],
        x_vals=[1024, 2048, 4096],
        xlabel="n",
        ylabel="TFLOP/s",
        line_arg="side",
        line_vals=[f"stages_{stages}" for stages in STAGES] + ["cublas"],
        line_names=[f"num_stages={stages}" for stages in STAGES] + ["cuBLAS"],
        args={},
    )
)
def ahead(n, side):
    """Speed of n × n × n products of float16 by how far the loads run ahead: median, slowest and fastest round."""
    return measure(n)[side].rate(2 * n**3, 1e12)


@functools.lru_cache(maxsize=1)
def measure_center(rows=4096, columns=2**14):
    """Return, by number of warps, GB/s (median, slowest, fastest round), registers of a thread, and spilled values."""
    x = torch.rand(rows, columns, device="cuda")
    sides = {warps: functools.partial(center, x, num_warps=warps) for warps in WARPS}
    rates = {warps: timing.rate(2 * 4 * rows * columns) for warps, timing in compare(sides, rounds=4).items()}
    out, block = torch.empty_like(x), triton.next_power_of_2(columns)
    made = {warps: center_kernel[(rows,)](x, out, columns, BLOCK=block, num_warps=warps) for warps in WARPS}
    return {w: {"rate": rates[w], "registers": made[w].n_regs, "spilled": made[w].n_spills} for w in WARPS}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="spills",
        x_names=["num_warps"],
        x_vals=list(WARPS),
        xlabel="num_warps",
        ylabel="",
        line_arg="what",
        line_vals=["rate", "registers", "spilled"],
        line_names=["GB/s", "registers of a thread", "values of a thread that spilled"],
        args={},
    )
)
def spills(num_warps, what):
    """Centering 4,096 rows of 16,384 float32, a row in the registers of so many warps."""
    return measure_center()[num_warps][what]


def main():
    device = "cuda" if isinstance(matmul_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)
    x, y = torch.rand(2, 4096).to(device)
    print("add:", "equal" if torch.equal(add(x, y), x + y) else "NOT equal")
    x, w = torch.randint(-2, 3, (2, 128, 128)).to(device, torch.float16)  # small integers: every sum is exact
    for num_stages in (1, 3):
        exact = torch.equal(product(x, w, num_stages=num_stages).float(), x.float() @ w.float())
        print(f"product, num_stages {num_stages}:", "equal" if exact else "NOT equal")
    x = torch.randint(-8, 9, (2, 1024)).float().to(device)  # multiples of 1/1024, which are exact
    for num_warps in (1, 16):
        exact = torch.equal(center(x, num_warps=num_warps), x - x.mean(dim=1, keepdim=True))
        print(f"center, num_warps {num_warps}:", "equal" if exact else "NOT equal")


if __name__ == "__main__":
    main()
