# SPDX-License-Identifier: Apache-2.0
"""Kernels under a roofline: what each computes, must move and takes, and what this GPU reaches at most, in one run.

``KERNELS`` are calls of this course and of torch, ``CEILINGS`` the three that bound them: a copy for memory,
multiply-adds for float32, a product by cuBLAS for bfloat16.

Counted: an addition or a multiplication is one FLOP. Bytes are those that must move: each input read once, each output
written once. What a kernel moves beyond that makes it slower, not its count larger.
Units: GFLOP, GB, milliseconds; GB/s and TFLOP/s; MHz and watts.
Source: Williams, Waterman and Patterson, *Roofline*, 2009.

``python roofline.py`` prints what is counted; measuring needs a GPU, and the clocks ``nvidia-smi``.
"""

import functools
import math
import subprocess
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
import triton

from snippets.gpu.fusion_bytes import matmul
from snippets.gpu.launch_and_latency import powers
from snippets.programs.masks import row_sum
from snippets.programs.vector_add import add
from snippets.tools.benchmarking import compare


# --8<-- [start:work]
class Work(NamedTuple):
    """A call to place under the roofline: which ceiling applies, what it computes and must move, how to prepare it."""

    unit: str  # "fp32" or "bf16"
    flop: float
    bytes: float  # each input read once, each output written once
    prepare: Callable[[], Callable[[], object]]


def random(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda").to(dtype)


def sums(n):
    def prepare():
        x, y = random(n), random(n)
        return lambda: add(x, y)

    return Work("fp32", n, 12 * n, prepare)


def rows(rows, columns):
    def prepare():
        x = random(rows, columns)
        return lambda: row_sum(x)

    return Work("fp32", rows * columns, 4 * rows * columns + 4 * rows, prepare)


def fused_multiply_adds(k, n=2**26):
    def prepare():
        x = torch.rand(n, device="cuda")  # below 1, so that no sum overflows
        return lambda: powers(x, k)

    return Work("fp32", 2 * k * n, 8 * n, prepare)


def product(M, N, K, dtype, call=torch.matmul):
    def prepare():
        x, w = random(M, K, dtype=dtype), random(K, N, dtype=dtype)
        return lambda: call(x, w)

    return Work(
        "fp32" if dtype == torch.float32 else "bf16", 2 * M * N * K, (M * K + K * N + M * N) * dtype.itemsize, prepare
    )
# --8<-- [end:work]


# --8<-- [start:kernels]
KERNELS = {
    "add": sums(2**27),
    "row_sum": rows(2**14, 2**13),
    **{f"powers, k = {k}": fused_multiply_adds(k) for k in (2, 8, 64, 512)},
    "x @ w, float32": product(4096, 4096, 4096, torch.float32),
    "x @ w, one column": product(16384, 1, 16384, torch.bfloat16),
    "x @ w, 512": product(512, 512, 512, torch.bfloat16),
    "x @ w, 2048": product(2048, 2048, 2048, torch.bfloat16),
    "x @ w, 8192": product(8192, 8192, 8192, torch.bfloat16),
    "ours, 8192": product(8192, 8192, 8192, torch.bfloat16, matmul),
    "relu(x @ w), two kernels": product(16384, 16384, 64, torch.bfloat16, lambda x, w: torch.relu(x @ w)),
    "relu(x @ w), one kernel": product(16384, 16384, 64, torch.bfloat16, lambda x, w: matmul(x, w, relu=True)),
    "add, 4096 numbers": sums(2**12),
    "row_sum, 4 rows": rows(4, 2**25),
}


def copying(n=2**28):
    def prepare():
        source = random(n)
        target = torch.empty_like(source)
        return lambda: target.copy_(source)

    return Work("copy", 0, 8 * n, prepare)


CEILINGS = {
    "copy": copying(),
    "fp32": fused_multiply_adds(4096, 2**24),
    "bf16": product(8192, 8192, 8192, torch.bfloat16),
}
# --8<-- [end:kernels]


# --8<-- [start:roofline]
@functools.lru_cache(maxsize=1)
def measure_all():
    """Return a Timing for each kernel and each ceiling: all in turns, in one run, L2 cold and clean before each."""
    return compare({name: work.prepare() for name, work in (KERNELS | CEILINGS).items()}, rounds=8)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="ceilings",
        x_names=["ceiling"],
        x_vals=list(CEILINGS),
        xlabel="ceiling",
        ylabel="GB/s, TFLOP/s",
        line_arg="what",
        line_vals=["rate"],
        line_names=["measured"],
        args={},
    )
)
def ceilings(ceiling, what):
    """What this GPU reached in its fastest round: a copy in GB/s, multiply-adds and a product in TFLOP/s."""
    work, timing = CEILINGS[ceiling], measure_all()[ceiling]
    _, slowest, fastest = timing.rate(work.bytes, 1e9) if work.unit == "copy" else timing.rate(work.flop, 1e12)
    return fastest, slowest, fastest  # the first is drawn: a ceiling is what is reached at most


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="roofline",
        x_names=["kernel", "unit"],
        x_vals=[(name, work.unit) for name, work in KERNELS.items()],
        y_log=True,
        xlabel="kernel",
        ylabel="GFLOP, GB or ms",
        line_arg="what",
        line_vals=["gflop", "gbyte", "ms"],
        line_names=["GFLOP of a call", "GB that it must move", "ms of a call"],
        args={},
    )
)
def roofline(kernel, unit, what):
    """What each call computes, must move and takes, next to the ceilings of the same run."""
    work = KERNELS[kernel]
    return {"gflop": work.flop / 1e9, "gbyte": work.bytes / 1e9, "ms": measure_all()[kernel].median}[what]
# --8<-- [end:roofline]


# --8<-- [start:clocks]
QUERIES = {"mhz": "clocks.sm", "mhz_most": "clocks.max.sm", "watt": "power.draw", "watt_most": "power.limit"}


@functools.lru_cache(maxsize=1)
def measure_clock(ceiling, warmup=0.7):
    """Return what NVIDIA's driver says of the GPU after ``warmup`` seconds of this work, and in the middle of it."""
    # By its own name, for nvidia-smi also counts GPUs that this process may not see.
    gpu = "GPU-" + str(torch.cuda.get_device_properties(0).uuid).removeprefix("GPU-")
    command = ["nvidia-smi", "-i", gpu, f"--query-gpu={','.join(QUERIES.values())}", "--format=csv,noheader,nounits"]
    run, begin, asked = CEILINGS[ceiling].prepare(), time.perf_counter(), None
    while asked is None or asked.poll() is None:
        run()  # waits whenever a thousand are queued
        if asked is None and time.perf_counter() - begin > warmup:
            asked = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    torch.cuda.synchronize()
    said = dict(zip(QUERIES, asked.stdout.read().split(","), strict=False))
    return {name: number(said.get(name, "")) for name in QUERIES}


def number(text):
    """Return the number that a text stands for, or NaN, as for the ``[N/A]`` of a driver that does not know."""
    try:
        return float(text)
    except ValueError:
        return math.nan


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="clocks",
        x_names=["ceiling"],
        x_vals=list(CEILINGS),
        xlabel="ceiling",
        ylabel="MHz, W",
        line_arg="what",
        line_vals=list(QUERIES),
        line_names=["clock", "its limit", "power", "its limit"],
        args={},
    )
)
def clocks(ceiling, what):
    """The clock and the power of the GPU in the middle of this work."""
    return measure_clock(ceiling)[what]
# --8<-- [end:clocks]


def main():
    print("FLOP for each byte that must move")
    for name, work in KERNELS.items():
        print(f"    {name:<24} {work.flop / work.bytes:10,.2f}")


if __name__ == "__main__":
    main()
