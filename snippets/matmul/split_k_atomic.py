# SPDX-License-Identifier: Apache-2.0
"""Split-K by atomic additions: short, and not the same bits in every run.

``c = a @ b``. Each program adds its part of the way along K to the result in memory. Sums of floats depend on the order
of the additions, and here the order is that in which the programs happen to end. Besides, the result must be float32
until the last has added, and zeros before the first: one kernel more before, and for other dtypes one after.

Shapes: ``a`` is (M, K), ``b`` is (K, N), ``c`` is (M, N).
Source: compare ``split_k.py``, which adds in a fixed order.

Run it on a GPU with ``python split_k_atomic.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import functools

import torch
import triton
import triton.language as tl

from snippets.matmul import split_k

BLOCKS = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}


# --8<-- [start:kernel]
@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn,
    PARTS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tile, part = tl.program_id(axis=0), tl.program_id(axis=1)
    tiles_n = tl.cdiv(N, BLOCK_N)
    rows = (tile // tiles_n).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = (tile % tiles_n).to(tl.int64) * BLOCK_N + tl.arange(
        0, BLOCK_N
    )
    k = part * BLOCK_K + tl.arange(0, BLOCK_K).to(tl.int64)
    a_ptrs = a_ptr + rows[:, None] * stride_am + k[None, :] * stride_ak
    b_ptrs = b_ptr + k[:, None] * stride_bk + columns[None, :] * stride_bn
    step = tl.full((), PARTS * BLOCK_K, tl.int64)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K - part * BLOCK_K, PARTS * BLOCK_K):
        inside = k < K - start
        a = tl.load(
            a_ptrs, mask=(rows[:, None] < M) & inside[None, :], other=0.0
        )
        b = tl.load(
            b_ptrs, mask=inside[:, None] & (columns[None, :] < N), other=0.0
        )
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += step * stride_ak
        b_ptrs += step * stride_bk
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    c_ptrs = c_ptr + rows[:, None] * N + columns[None, :]
    tl.atomic_add(c_ptrs, acc, mask=mask, sem="relaxed")
# --8<-- [end:kernel]


# --8<-- [start:host]
def matmul(a: torch.Tensor, b: torch.Tensor, *, parts: int, blocks: dict[str, int] | None = None) -> torch.Tensor:
    """Return ``a @ b``, added up in float32, in an order that differs from run to run.

    Args:
        a, b: As for ``matmul`` of ``split_k.py``.
        parts: Programs for each tile, at most 65,535.
        blocks: Sides of a tile; by default ``BLOCKS``.

    Raises:
        ValueError: If an argument is something the kernel can't serve.

    >>> matmul(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]), parts=2)
    tensor([[11.]])
    """
    split_k.check_arguments(a, b, "ieee")
    if not isinstance(parts, int) or not 1 <= parts <= 65_535:
        raise ValueError(f"parts must be a whole number from 1 to 65,535; got {parts!r}")
    blocks = blocks or BLOCKS
    (M, K), N = a.shape, b.shape[1]
    if K + parts * blocks["BLOCK_K"] >= 2**31:
        raise ValueError(f"K = {K} is too large for {parts} parts: steps are counted in 32 bits")
    c = torch.zeros(M, N, dtype=torch.float32, device=a.device)
    tiles = -(-M // blocks["BLOCK_M"]) * -(-N // blocks["BLOCK_N"])
    if tiles >= 2**31:
        raise ValueError(f"{M} x {N} elements are too many tiles")
    if tiles:
        with torch.cuda.device_of(a):
            matmul_kernel[(tiles, parts)](
                a, b, c, M, N, K, *a.stride(), *b.stride(), PARTS=parts, **blocks, num_warps=4, num_stages=4
            )
    return c.to(a.dtype)
# --8<-- [end:host]


# --8<-- [start:measure]
@functools.lru_cache(maxsize=1)
def measure(parts, n=512, K=4096, runs=200):
    """Return how many different results ``runs`` runs give, and microseconds, by atomics and in a fixed order; float32.
    """
    from snippets.tools.benchmarking import compare
    from snippets.tools.benchmarking_graph import captured

    a, b = torch.randn(n, K, device="cuda"), torch.randn(K, n, device="cuda")
    plan = split_k.Plan(64, 64, 16, 4, 4, parts * (n // 64) ** 2, "last")
    counters = torch.zeros(plan.programs, dtype=torch.int32, device="cuda")
    sides = {
        "atomic": functools.partial(matmul, a, b, parts=parts, blocks=BLOCKS | {"BLOCK_K": 16}),
        "ordered": functools.partial(split_k.matmul, a, b, plan=plan, counters=counters),
    }
    bits = lambda run: run().cpu().numpy().tobytes()
    found = {f"{name}_results": len({bits(run) for _ in range(runs)}) for name, run in sides.items()}
    timings = compare({name: captured(run) for name, run in sides.items()}, rounds=4)
    return found | {f"{name}_us": 1e3 * timing.median for name, timing in timings.items()}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="results",
        x_names=["parts"],
        x_vals=[2, 4, 8],
        xlabel="programs for each tile",
        ylabel="",
        line_arg="what",
        line_vals=["atomic_results", "ordered_results", "atomic_us", "ordered_us"],
        line_names=["different results of 200, atomics", "… in a fixed order", "µs, atomics", "µs, in a fixed order"],
        args={},
    )
)
def results(parts, what):
    """512 x 4096 @ 4096 x 512 in float32, 200 times: how many different results, and how long a product takes."""
    return measure(parts)[what]
# --8<-- [end:measure]


def main():
    device = "cuda" if isinstance(matmul_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)
    a, b = (torch.randint(-3, 4, shape).to(device, torch.float16) for shape in ((20, 300), (300, 100)))
    for parts in (1, 3):  # whole numbers: no order changes their sums
        equal = torch.equal(matmul(a, b, parts=parts).double(), a.double() @ b.double())
        print(f"{parts} parts:", "equal" if equal else "NOT equal")


if __name__ == "__main__":
    main()
