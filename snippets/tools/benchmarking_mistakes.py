# SPDX-License-Identifier: Apache-2.0
"""Mistakes that people publish, each with its wrong number and the right one beside it. Do not copy the wrong ones.

Each table is a benchmark of ``perf_report``. Subjects: the add kernel of the lesson *Vector add* and ``torch.matmul``.
``python benchmarking_mistakes.py`` lists them. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
import json
import time

import torch
import triton

from snippets.programs.vector_add import add
from snippets.tools.benchmarking import compare
from snippets.tools.benchmarking_measured import by_do_bench, in_a_graph, in_a_new_process


# --8<-- [start:clocks]
def by_the_clock_bug(run):
    """Return the milliseconds until the call returns: the kernel has only been queued by then."""
    begin = time.perf_counter()
    run()
    return (time.perf_counter() - begin) * 1e3


def by_the_clock(run):
    """Return the milliseconds by the host's clock, from an idle GPU until it is done: launch and wait included."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1e3
# --8<-- [end:clocks]


@functools.lru_cache(maxsize=1)
def measure_clocks(n):
    x, y = torch.rand(2, n, device="cuda")
    run = lambda: add(x, y)
    found = {}
    timers = {"returned": by_the_clock_bug, "waited": by_the_clock, "do_bench": by_do_bench, "graph": in_a_graph}
    for name, timer in timers.items():
        run()
        torch.cuda.synchronize()
        timing = compare({name: run}, rounds=40 if timer in (by_the_clock_bug, by_the_clock) else 3, timer=timer)[name]
        found[name] = tuple(ms * 1e3 for ms in (timing.median, min(timing.rounds), max(timing.rounds)))
    torch.cuda.synchronize()
    return found


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="clocks",
        x_names=["n"],
        x_vals=[2**k for k in range(12, 29, 2)],
        x_log=True,
        y_log=True,
        xlabel="elements (float32)",
        ylabel="µs",
        line_arg="timer",
        line_vals=["returned", "waited", "do_bench", "graph"],
        line_names=["clock, not waiting", "clock, waiting", "do_bench", "CUDA graph"],
        args={},
    )
)
def clocks(n, timer):
    """Microseconds of one and the same add by four timers: median, fastest and slowest."""
    return measure_clocks(n)[timer]


# --8<-- [start:interpreter]
def time_interpreter(n, blocks):
    """Print the milliseconds of add in the interpreter by block size, as JSON."""
    x, y = torch.rand(2, n)
    add(x[:1], y[:1])  # so that the interpreter itself is ready
    times = {}
    for block in blocks:
        begin = time.perf_counter()
        add(x, y, block_size=block)
        times[block] = (time.perf_counter() - begin) * 1e3
    print(json.dumps(times))


@functools.lru_cache(maxsize=1)
def measure_blocks(n, blocks):
    """Return milliseconds by side and block size: in the interpreter, in a process of its own, and on the GPU."""
    interpreted = in_a_new_process(f"benchmarking_mistakes.time_interpreter({n}, {blocks})", TRITON_INTERPRET="1")
    x, y = torch.rand(2, n, device="cuda")
    timings = compare({str(block): lambda block=block: add(x, y, block_size=block) for block in blocks}, rounds=4)
    return {
        "interpreter": interpreted,
        "gpu": {block: timing.median for block, timing in timings.items()},
    }
# --8<-- [end:interpreter]


BLOCKS = (256, 1024, 4096, 16384, 65536)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="blocks",
        x_names=["block"],
        x_vals=list(BLOCKS),
        x_log=True,
        y_log=True,
        xlabel="block size",
        ylabel="ms",
        line_arg="where",
        line_vals=["interpreter", "gpu"],
        line_names=["Triton's interpreter, on the CPU", "GPU"],
        args={"n": 2**20},
    )
)
def blocks(block, where, n):
    """Milliseconds of add on 2**20 elements by block size."""
    return measure_blocks(n, BLOCKS)[where][str(block)]


# --8<-- [start:matmul]
def products(n):
    """Return the same product of two n by n matrices of normally distributed numbers, by precision."""
    a, b = torch.randn(2, n, n, device="cuda")
    a16, b16 = a.bfloat16(), b.bfloat16()

    def matmul(precision):
        torch.set_float32_matmul_precision(precision)
        return a @ b

    sides = {"float32": lambda: matmul("highest"), "tf32": lambda: matmul("high"), "bfloat16": lambda: a16 @ b16}
    return sides, a[:64].double() @ b.double()  # and its first rows, exactly


@functools.cache
def measure_matmul(n):
    """Return a Timing by precision, and the largest error as a share of the largest element."""
    before = torch.get_float32_matmul_precision()
    sides, exact = products(n)
    try:
        errors = {name: (run()[:64] - exact).abs().max() / exact.abs().max() for name, run in sides.items()}
        return compare(sides, rounds=2), {name: error.item() for name, error in errors.items()}
    finally:
        torch.set_float32_matmul_precision(before)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="matmul_bytes",
        x_names=["n"],
        x_vals=[2**k for k in range(5, 14)],
        x_log=True,
        y_log=True,
        xlabel="n, for two n × n matrices of float32",
        ylabel="GB/s",
        line_arg="formula",
        line_vals=["wrong", "right"],
        line_names=["12 n bytes", "12 n² bytes"],
        args={},
    )
)
def matmul_bytes(n, formula):
    """GB/s of a float32 product, by two ways to count its bytes."""
    counted = {"wrong": 12 * n, "right": 12 * n * n}[formula]
    return measure_matmul(n)[0]["float32"].rate(counted, 1e9)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="matmul_flops",
        x_names=["n"],
        x_vals=[2**k for k in range(5, 14)],
        x_log=True,
        y_log=True,
        xlabel="n, for two n × n matrices",
        ylabel="TFLOP/s",
        line_arg="precision",
        line_vals=["float32", "tf32", "bfloat16"],
        line_names=["float32", "float32, multiplied as TF32", "bfloat16"],
        args={},
    )
)
def matmul_flops(n, precision):
    """Floating-point operations per second of torch.matmul: 2 n³ for each product."""
    return measure_matmul(n)[0][precision].rate(2 * n**3, 1e12)
# --8<-- [end:matmul]


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="matmul_errors",
        x_names=["n"],
        x_vals=[256, 1024, 4096],
        x_log=True,
        y_log=True,
        xlabel="n, for two n × n matrices",
        ylabel="largest error ÷ largest element",
        line_arg="precision",
        line_vals=["float32", "tf32", "bfloat16"],
        line_names=["float32", "float32, multiplied as TF32", "bfloat16"],
        args={},
    )
)
def matmul_errors(n, precision):
    """The largest error in 64 rows of torch.matmul, against float64, as a share of the largest element."""
    return measure_matmul(n)[1][precision]


# --8<-- [start:zeros]
@functools.lru_cache(maxsize=1)
def measure_data(n):
    data = {
        "normal": torch.randn(2, n, n, device="cuda", dtype=torch.bfloat16),
        "ones": torch.ones(2, n, n, device="cuda", dtype=torch.bfloat16),
        "zeros": torch.zeros(2, n, n, device="cuda", dtype=torch.bfloat16),
    }
    sides = {name: lambda a=a, b=b: a @ b for name, (a, b) in data.items()}
    return compare(sides, rounds=4)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="data",
        x_names=["n"],
        x_vals=[1024, 4096, 8192, 16384],
        xlabel="n, for two n × n matrices of bfloat16",
        ylabel="TFLOP/s",
        line_arg="filled",
        line_vals=["normal", "ones", "zeros"],
        line_names=["normally distributed", "all ones", "all zeros"],
        args={},
    )
)
def data(n, filled):
    """TFLOP/s of the same product on different numbers: 2 n³ operations for each."""
    return measure_data(n)[filled].rate(2 * n**3, 1e12)
# --8<-- [end:zeros]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (clocks, blocks, matmul_bytes, matmul_flops, matmul_errors, data):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
