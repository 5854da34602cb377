# SPDX-License-Identifier: Apache-2.0
"""Measure what it costs to add in the same order every time.

``python determinism_measured.py`` says what there is to measure; measuring needs a GPU.
"""

import functools

import torch
import triton

from snippets.pytorch.determinism import sum_atomic, sum_integers, sum_last, sum_parts
from snippets.tools.benchmarking_cold import compare_in_rotation

ARRIVED = {}


def last(x):
    """Add with one counter for all calls, as a module would keep it."""
    if x.device not in ARRIVED:
        ARRIVED[x.device] = torch.zeros((), dtype=torch.int32, device=x.device)
    return sum_last(x, ARRIVED[x.device], block=block_for(x))


def block_for(x) -> int:
    return min(max(triton.next_power_of_2(x.numel() // 4096), 1024), 8192)


SIDES = {
    "atomics": lambda x: sum_atomic(x, block_for(x)),
    "parts": lambda x: sum_parts(x, block_for(x)),
    "last": last,
    "integers": sum_integers,
    "torch": torch.sum,
}


@functools.lru_cache
def measure(n: int):
    return compare_in_rotation(SIDES, lambda: (torch.randn(n, device="cuda"),))


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="sums",
        x_names=["n"],
        x_vals=[2**16, 2**20, 2**24, 2**28],
        xlabel="numbers",
        ylabel="µs",
        line_arg="side",
        line_vals=list(SIDES),
        line_names=["atomics", "parts, two launches", "parts, one launch", "atomics on integers", "torch.sum"],
        args={},
    )
)
def sums(n, side):
    """Microseconds of a sum of float32, operands in rotation, in a CUDA graph: median, fastest, slowest of 10 rounds."""  # noqa: E501
    timing = measure(n)[side]
    return tuple(1e3 * ms for ms in (timing.median, min(timing.rounds), max(timing.rounds)))


def main():
    """Say what there is to measure: what comes out is different every time."""
    print(f"{sums.benchmarks.plot_name}.run(print_data=True)  # {sums.fn.__doc__.splitlines()[0]}")


if __name__ == "__main__":
    main()
