# SPDX-License-Identifier: Apache-2.0
"""Vector add, measured: how near ``vector_add.py`` comes to the speed of torch and of a copy, and what a call costs.

- :func:`bandwidth`: GB/s, by the number of elements
- :func:`call_time`: microseconds from one call to the next, with and without Python between them

float32. Units: GB/s of 10**9 bytes, of two elements read and one written; microseconds.

``python vector_add_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
import statistics

import torch
import triton

from snippets.programs.vector_add import add, add_kernel
from snippets.tools.benchmarking import compare


# --8<-- [start:bandwidth]
@functools.lru_cache(maxsize=1)
def measure(n, rounds=8):
    """Return a ``Timing`` for each side.

    The sides take turns, on the same data: what a GPU delivers drifts by a percent within a second.
    """
    x, y = torch.rand(n, device="cuda"), torch.rand(n, device="cuda")
    source = torch.rand(3 * n // 2, device="cuda")  # half of the bytes of a copy are read, half are written
    target = torch.empty_like(source)
    sides = {"triton": lambda: add(x, y), "torch": lambda: torch.add(x, y), "copy": lambda: target.copy_(source)}
    return compare(sides, rounds=rounds)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="bandwidth",
        x_names=["n"],
        x_vals=[2**k for k in range(12, 29)],
        x_log=True,
        xlabel="elements (float32)",
        ylabel="GB/s",
        line_arg="provider",
        line_vals=["triton", "torch", "copy"],
        line_names=["add (Triton)", "torch.add", "copy of as many bytes"],
        args={},
    )
)
def bandwidth(n, provider):
    """Bytes moved per second, in GB/s: median, slowest and fastest round. L2 is cold and clean before each run."""
    return measure(n)[provider].rate(3 * n * 4)  # two float32 loads and one store for each element
# --8<-- [end:bandwidth]


# --8<-- [start:call_time]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="call_time",
        x_names=["n"],
        x_vals=[2**k for k in range(6, 27, 2)],
        x_log=True,
        y_log=True,
        xlabel="elements (float32)",
        ylabel="µs",
        line_arg="provider",
        line_vals=["triton", "kernel", "torch", "graph"],
        line_names=["add (Triton)", "its kernel launch alone", "torch.add", "add in a CUDA graph"],
        args={},
    )
)
def call_time(n, provider, calls=1000):
    """Microseconds from one call to the next when calls follow each other: median, fastest and slowest of 7 rounds."""
    # The GPU's clock is read before and after ``calls`` calls, queued by one Python loop.
    x, y, out = torch.rand(3, n, device="cuda")
    launch = add_kernel[(triton.cdiv(n, 1024),)]
    alone = lambda x, y: launch(x, y, out, n, BLOCK_SIZE=1024, num_warps=8)
    run = {"torch": torch.add, "kernel": alone}.get(provider, add)

    def loop():
        for _ in range(calls):
            run(x, y)

    loop()
    if provider == "graph":  # which replays the same launches without Python between them
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loop()
        loop = graph.replay
    times = []
    for _ in range(7):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        begin.record()
        loop()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / calls)
    return statistics.median(times), min(times), max(times)
# --8<-- [end:call_time]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (bandwidth, call_time):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
