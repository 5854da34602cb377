# SPDX-License-Identifier: Apache-2.0
"""The order of programs in the product as one calls it, ``matmul(a, b, group=…)``: two programs on a multiprocessor.

``grouped_counted.py`` measures with four stages, where one program fits and the model is simple. This file leaves the
options as they are. Beside the groups stands ``naive.py``, in row-major order as groups of 1 are: what these two differ
by is not the order.

- :func:`speed`: TFLOP/s, all in turns, on operands in rotation
- :func:`memory`: GB read from memory, by NVIDIA's ``ncu``, in launches that began with empty caches

Square matrices of bfloat16. Units: 2 * size**3 FLOPs; 10**9 bytes.
Source: NVIDIA's documentation of Nsight Compute, on the metric of ``dram``.

``python grouped_by_default.py`` says what there is to measure, for which it takes an NVIDIA GPU and ``ncu``.
"""

import functools
import statistics
import sys

import torch
import triton

from snippets.gpu.counters import counters
from snippets.matmul import grouped, naive
from snippets.matmul.grouped_counted import LAUNCHES, matrices
from snippets.tools.benchmarking_cold import rates

SIZES = (4096, 8192, 16384)
SIDES = {"naive": naive.matmul} | {
    f"groups of {group}": functools.partial(grouped.matmul, group=group) for group in (1, 2, 4, 8, 16, 32)
}


@functools.cache
def measure_speed(size):
    return rates(SIDES, lambda: matrices(size).unbind(), 2 * size**3)


def run_all(sizes):
    """Run what ``ncu`` watches."""
    for size in sizes:
        a, b = matrices(size)
        for run in SIDES.values():
            run(a[:128, :128], b[:128, :128])  # compiles, outside of the count
            torch.cuda.synchronize()
            for _ in range(LAUNCHES):
                with torch.cuda.profiler.profile():
                    run(a, b)
                    torch.cuda.synchronize()


@functools.cache
def measure_memory() -> dict[tuple[int, str], list[float]]:
    """Return, by size and side, the bytes that each launch read from memory."""
    cases, metric = [(size, side) for size in SIZES for side in SIDES], "dram__bytes_read.sum"
    found = [launch[metric] for launch in counters([metric], __file__, "run", *map(str, SIZES), cache="all")]
    if len(found) != LAUNCHES * len(cases):
        raise RuntimeError(f"{len(found)} launches were counted, not {LAUNCHES * len(cases)}")
    return {case: found[i * LAUNCHES : (i + 1) * LAUNCHES] for i, case in enumerate(cases)}


def report(plot_name, ylabel):
    return triton.testing.Benchmark(
        plot_name=plot_name,
        x_names=["side"],
        x_vals=list(SIDES),
        xlabel="order",
        ylabel=ylabel,
        line_arg="size",
        line_vals=[f"size_{size}" for size in SIZES],
        line_names=[f"{size:,}" for size in SIZES],
        args={},
    )


@triton.testing.perf_report(report("speed", "TFLOP/s"))
def speed(side, size):
    """TFLOP/s by order and size, all of a size in turns."""
    return measure_speed(int(size.removeprefix("size_")))[side]


@triton.testing.perf_report(report("memory", "GB"))
def memory(side, size):
    """GB read from memory, by order and size: median, least and most of three launches."""
    read = [count / 1e9 for count in measure_memory()[int(size.removeprefix("size_")), side]]
    return statistics.median(read), min(read), max(read)


def main():
    if sys.argv[1:2] == ["run"]:
        return run_all([int(size) for size in sys.argv[2:]])
    for mark in (speed, memory):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
