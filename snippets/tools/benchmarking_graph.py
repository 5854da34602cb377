# SPDX-License-Identifier: Apache-2.0
"""Time single calls without the host's time, yet with a cold cache: record one in a CUDA graph, and time its replay.

``captured`` is what to copy. ``launches`` measures what it is good for, on calls that take Python longer and longer.
``benchmarking_cold.py`` records many calls, on operands in rotation, and needs no flush.

Units: microseconds.
Source: PyTorch's documentation of ``torch.cuda.CUDAGraph``.

``python benchmarking_graph.py`` says what there is to measure. That needs a GPU, and ``.run`` pandas and matplotlib.
"""

import functools
import time
from collections.abc import Callable

import torch
import triton

from snippets.programs.vector_add import add
from snippets.tools.benchmarking import compare


# --8<-- [start:captured]
def captured(run: Callable[[], object], calls: int = 1) -> Callable[[], None]:
    """Return a function that repeats ``calls`` calls by a CUDA graph: next to no work for the host.

    ``run`` must not wait for the GPU, as ``.item()`` does. Each replay reads and writes the same memory.

    Raises:
        ValueError: ``calls`` is not positive.
    """
    if calls < 1:
        raise ValueError(f"calls must be at least 1; got {calls}")
    run()  # compiles, which cannot be recorded
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            run()
    return graph.replay
# --8<-- [end:captured]


def after(microseconds: float, run: Callable[[], object]) -> object:
    """Keep Python busy for a while, then call ``run``."""
    end = time.perf_counter() + microseconds / 1e6
    while time.perf_counter() < end:
        pass
    return run()


# --8<-- [start:launches]
@functools.cache
def measure(microseconds: int, n: int):
    x, y = torch.rand(2, n, device="cuda")
    slow = functools.partial(after, microseconds, lambda: add(x, y))
    return compare({"call": slow, "graph": captured(slow)}, rounds=4)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="launches",
        x_names=["python"],
        x_vals=[0, 10, 20, 40, 80, 160, 320],
        xlabel="µs that Python takes before it launches",
        ylabel="µs, flush before",
        line_arg="side",
        line_vals=["call", "graph"],
        line_names=["called", "replayed by a graph"],
        args={"n": 2**12},
    )
)
def launches(python, side, n):
    """Microseconds of a small add that Python is slow to launch, each flushed: median, fastest and slowest round."""
    timing = measure(python, n)[side]
    return tuple(ms * 1e3 for ms in (timing.median, min(timing.rounds), max(timing.rounds)))
# --8<-- [end:launches]


def main():
    """Say what there is to measure: what comes out is different every time."""
    print(f"{launches.benchmarks.plot_name}.run(print_data=True)  # {launches.fn.__doc__}")


if __name__ == "__main__":
    main()
