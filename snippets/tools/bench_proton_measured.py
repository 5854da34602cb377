# SPDX-License-Identifier: Apache-2.0
"""Time one function by ``do_bench``, whose events lie around a call, and by ``do_bench_proton``, which counts kernels.

``python bench_proton_measured.py`` says what there is to measure; measuring needs a GPU, and Triton 3.9.

Source: ``do_bench_proton`` in ``triton/testing.py``.
"""

import functools
import statistics

import torch
import triton
from triton import testing

from snippets.programs.vector_add import add

TIMERS = ("do_bench", "do_bench_proton")


# --8<-- [start:timed]
@functools.lru_cache
def measure(n: int, times: int = 5) -> dict[str, list[float]]:
    """Return the microseconds that each timer says, several times."""
    x, y = torch.rand(2, n, device="cuda")
    said = {name: [] for name in TIMERS}
    for _ in range(times):
        for name, found in said.items():
            timer = getattr(testing, name)
            ms = timer(lambda: add(x, y), return_mode="median")
            found.append(1e3 * ms)
    return said
# --8<-- [end:timed]


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="timers",
        x_names=["n"],
        x_vals=[2**12, 2**20, 2**28],
        xlabel="numbers",
        ylabel="µs",
        line_arg="timer",
        line_vals=list(TIMERS),
        line_names=list(TIMERS),
        args={},
    )
)
def timers(n, timer):
    """Microseconds of add in float32, as each timer has its median: median, least and most of 5 turns."""
    found = measure(n)[timer]
    return statistics.median(found), min(found), max(found)


def main():
    """Say what there is to measure: what comes out is different every time."""
    print(f"{timers.benchmarks.plot_name}.run(print_data=True)  # {timers.fn.__doc__.splitlines()[0]}")


if __name__ == "__main__":
    main()
