# SPDX-License-Identifier: Apache-2.0
"""Measure what fusing saves: bytes by the GPU's own counters, then time; and the price of a fill nobody needs.

- ``counted``: bytes from and to memory of each kernel of ``relu(x @ w)``, in one kernel and in two, by ``ncu``
- ``by_k``, ``share``: milliseconds by the length ``K`` of the sums, and as a share of those of torch
- ``by_tool``: milliseconds of what else one could use
- ``fill``: an add into ``torch.empty_like`` and into ``torch.zeros_like``

bfloat16, random numbers. Units: GB, milliseconds, microseconds.

``python fusion_bytes_measured.py`` says what there is to measure; measuring needs a GPU, and counting ``ncu``.
"""

import functools
import sys

import torch
import triton

from snippets.gpu.counters import counters
from snippets.gpu.fusion_bytes import count_elements, matmul
from snippets.gpu.launch_and_latency_measured import back_to_back
from snippets.programs.vector_add import add_kernel
from snippets.tools.benchmarking import compare
from snippets.tools.benchmarking_cold import compare_in_rotation


def operands(M, N, K):
    return torch.randn(M, K, device="cuda").bfloat16(), torch.randn(K, N, device="cuda").bfloat16()


# --8<-- [start:counted]
METRICS = {"read": "dram__bytes_read.sum", "written": "dram__bytes_write.sum"}
LAUNCHES = ("product with relu", "product", "relu")
CASES = {f"K = {K}: {kernel}": (K, kernel) for K in (64, 4096) for kernel in LAUNCHES}


def launch_both(K, M=2**14, N=2**14):
    """Run what ``ncu`` watches: the fused kernel, then the two of torch, each with a cache that holds nothing new."""
    x, w = operands(M, N, K)
    fused = lambda: matmul(x, w, relu=True)
    pair = lambda: torch.relu(x @ w)
    other_data = torch.rand(2**26, device="cuda")  # 256 MiB
    for run in (fused, pair):
        run()  # compile, load
        other_data.sum()  # reading pushes out what an earlier kernel wrote, so that it is not counted now
        torch.cuda.synchronize()
        with torch.cuda.profiler.profile():
            run()
            torch.cuda.synchronize()


@functools.lru_cache(maxsize=1)
def measure_counted(K):
    seen = counters(list(METRICS.values()), __file__, "launch_both", str(K))
    if len(seen) != len(LAUNCHES):
        raise RuntimeError(f"expected {LAUNCHES}, saw {[launch['kernel'] for launch in seen]}")
    return dict(zip(LAUNCHES, seen, strict=True))


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="counted",
        x_names=["case"],
        x_vals=list(CASES),
        xlabel="kernel",
        ylabel="GB",
        line_arg="what",
        line_vals=["read_by_hand", "read", "written_by_hand", "written"],
        line_names=["read, by hand", "read, counted", "written, by hand", "written, counted"],
        args={"M": 2**14, "N": 2**14},
    )
)
def counted(case, what, M, N):
    """GB that each kernel of relu(x @ w) moves between memory and chip: by hand, and by the GPU's counters."""
    K, kernel = CASES[case]
    if what in METRICS:
        return measure_counted(K)[kernel][METRICS[what]] / 1e9
    reads, writes = count_elements(M, N, K)[kernel]
    return 2 * (reads if what == "read_by_hand" else writes) / 1e9
# --8<-- [end:counted]


# --8<-- [start:time]
@functools.cache
def measure_by_k(K, M, N):
    sides = {
        "one": lambda x, w: matmul(x, w, relu=True),
        "two": lambda x, w: torch.relu(matmul(x, w)),
        "torch": lambda x, w: torch.relu(x @ w),
    }
    return compare_in_rotation(sides, lambda: operands(M, N, K), rounds=6)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="by_k",
        x_names=["K"],
        x_vals=[2**k for k in range(5, 13)],
        x_log=True,
        y_log=True,
        xlabel="K",
        ylabel="ms",
        line_arg="side",
        line_vals=["torch", "two", "one"],
        line_names=["torch.relu(x @ w)", "torch.relu(matmul(x, w))", "matmul(x, w, relu=True)"],
        args={"M": 2**14, "N": 2**14},
    )
)
def by_k(K, side, M, N):
    """Milliseconds of relu(x @ w), with x 16384 × K and w K × 16384: median, fastest and slowest of 6 rounds."""
    times = measure_by_k(K, M, N)[side]
    return times.median, min(times.rounds), max(times.rounds)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="share",
        x_names=["K"],
        x_vals=by_k.benchmarks.x_vals,
        x_log=True,
        xlabel="K",
        ylabel="share of torch's time",
        line_arg="side",
        line_vals=["torch", "two", "one"],
        line_names=["torch.relu(x @ w)", "torch.relu(matmul(x, w))", "matmul(x, w, relu=True)"],
        args={"M": 2**14, "N": 2**14},
    )
)
def share(K, side, M, N):
    """The medians of by_k, divided by that of torch."""
    times = measure_by_k(K, M, N)
    return times[side].median / times["torch"].median
# --8<-- [end:time]


# --8<-- [start:tools]
@functools.lru_cache(maxsize=1)
def measure_by_tool(K, M, N):
    bias = torch.zeros(N, device="cuda", dtype=torch.bfloat16)
    sides = {
        "one": lambda x, w: matmul(x, w, relu=True),
        "torch": lambda x, w: torch.relu(x @ w),
        "in_place": lambda x, w: torch.relu_(x @ w),
        "compile": torch.compile(lambda x, w: torch.relu(x @ w), dynamic=False),
        "cublaslt": lambda x, w: torch._addmm_activation(bias, x, w, use_gelu=False),
    }
    return compare_in_rotation(sides, lambda: operands(M, N, K), rounds=6)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="by_tool",
        x_names=["K"],
        x_vals=[64, 4096],
        xlabel="K",
        ylabel="ms",
        line_arg="side",
        line_vals=["one", "torch", "in_place", "compile", "cublaslt"],
        line_names=["matmul(x, w, relu=True)", "torch.relu", "torch.relu_", "torch.compile", "cuBLASLt with relu"],
        args={"M": 2**14, "N": 2**14},
    )
)
def by_tool(K, side, M, N):
    """Milliseconds of relu(x @ w) by what one could use: median, fastest and slowest of 6 rounds in turns."""
    times = measure_by_tool(K, M, N)[side]
    return times.median, min(times.rounds), max(times.rounds)
# --8<-- [end:tools]


# --8<-- [start:fill]
def add_into(allocate, x, y):
    out = allocate(x)
    with torch.cuda.device_of(x):
        add_kernel[(triton.cdiv(out.numel(), 1024),)](x, y, out, out.numel(), BLOCK_SIZE=1024, num_warps=8)
    return out


@functools.lru_cache(maxsize=1)
def measure_fill(n):
    x, y = torch.rand(2, n, device="cuda")
    sides = {
        "empty": lambda: add_into(torch.empty_like, x, y),
        "zeros": lambda: add_into(torch.zeros_like, x, y),
    }
    in_turns = compare(sides, rounds=6)
    called = compare(sides, rounds=6, timer=back_to_back)
    return in_turns | {f"{side}_called": timing for side, timing in called.items()}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="fill",
        x_names=["n"],
        x_vals=[2**12, 2**16, 2**20, 2**24, 2**28],
        x_log=True,
        y_log=True,
        xlabel="elements (float32)",
        ylabel="µs",
        line_arg="side",
        line_vals=["empty", "zeros", "empty_called", "zeros_called"],
        line_names=["empty_like", "zeros_like", "empty_like, from call to call", "zeros_like, from call to call"],
        args={},
    )
)
def fill(n, side):
    """Microseconds of an add with its allocation, alone and when calls follow each other: median of 6 rounds."""
    return 1e3 * measure_fill(n)[side].median
# --8<-- [end:fill]


def main():
    """Say what there is to measure: what comes out is different every time."""
    if sys.argv[1:2] == ["launch_both"]:  # the run that ncu watches
        launch_both(int(sys.argv[2]))
        return
    for mark in (counted, by_k, share, by_tool, fill):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
