# SPDX-License-Identifier: Apache-2.0
"""Compute, memory or overhead, measured on ``powers``: time by arithmetic, and what doubling one thing does to it.

- :func:`by_k`: microseconds, by the number of fused multiply-adds for each element
- :func:`doubled`: how many times as long a call takes with twice the bytes, arithmetic or launches
- :func:`base`: the times that ``doubled`` divides

``python launch_and_latency_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas
and matplotlib.
"""

import functools

import torch
import triton

from snippets.gpu.launch_and_latency import powers
from snippets.tools.benchmarking import compare


# --8<-- [start:by_k]
@functools.lru_cache(maxsize=1)
def measure_by_k(k, n):
    x = torch.rand(n, device="cuda")
    halves = x.half()
    return compare({"float32": lambda: powers(x, k), "float16": lambda: powers(halves, k)}, rounds=4)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="by_k",
        x_names=["k"],
        x_vals=[2**e for e in range(13)],
        x_log=True,
        y_log=True,
        xlabel="k, fused multiply-adds for each element",
        ylabel="µs",
        line_arg="stored",
        line_vals=["float32", "float16"],
        line_names=["stored as float32", "stored as float16"],
        args={"n": 2**25},
    )
)
def by_k(k, stored, n):
    """Microseconds of powers, by its arithmetic: median, fastest and slowest of 4 rounds. L2 is cold and clean."""
    times = measure_by_k(k, n)[stored]
    return tuple(1e3 * ms for ms in (times.median, min(times.rounds), max(times.rounds)))
# --8<-- [end:by_k]


# --8<-- [start:doubled]
def back_to_back(run, calls=100):
    """Return the milliseconds from one call to the next when calls follow each other, Python's own work included."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    run()
    torch.cuda.synchronize()
    begin.record()
    for _ in range(calls):
        run()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / calls


SUBJECTS = {  # elements, fused multiply-adds for each
    "overhead": (2**12, 1),
    "memory": (2**26, 1),
    "balanced": (2**26, 28),
    "compute": (2**24, 2048),
}


@functools.lru_cache(maxsize=1)
def measure_doubled(subject):
    n, k = SUBJECTS[subject]
    wide = torch.rand(n, device="cuda")
    x = wide.half()
    first, second = x.chunk(2)
    sides = {
        "base": lambda: powers(x, k),
        "bytes": lambda: powers(wide, k),  # as float32: 4 bytes for each element instead of 2
        "arithmetic": lambda: powers(x, 2 * k),
        "launches": lambda: (powers(first, k), powers(second, k)),  # two launches, each for half of the elements
    }
    return compare(sides, rounds=10, timer=back_to_back)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="doubled",
        x_names=["subject"],
        x_vals=list(SUBJECTS),
        xlabel="kernel",
        ylabel="times as long",
        line_arg="what",
        line_vals=["bytes", "arithmetic", "launches"],
        line_names=["twice the bytes", "twice the arithmetic", "twice the launches"],
        args={},
    )
)
def doubled(subject, what):
    """How many times as long a call takes when one thing is doubled: the median of 10 rounds in turns."""
    times = measure_doubled(subject)
    return times[what].median / times["base"].median
# --8<-- [end:doubled]


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="base",
        x_names=["subject"],
        x_vals=list(SUBJECTS),
        xlabel="kernel",
        ylabel="µs",
        line_arg="what",
        line_vals=["base", "bytes", "arithmetic", "launches"],
        line_names=["as it is", "twice the bytes", "twice the arithmetic", "twice the launches"],
        args={},
    )
)
def base(subject, what):
    """The times that ``doubled`` divides, in microseconds a call."""
    return 1e3 * measure_doubled(subject)[what].median


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (by_k, doubled, base):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
