# SPDX-License-Identifier: Apache-2.0
"""The first matrix product, measured: ``naive.py`` beside ``torch.matmul``.

- :func:`speed`: by size
- :func:`odd`: around 4096, for sizes that are multiples of 16, of 8, of nothing

bfloat16, square matrices of random numbers. Units: TFLOP/s, 2·n³ operations each.
Source: ``torch.matmul`` calls cuBLAS.

``python naive_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools

import torch
import triton

from snippets.matmul.naive import matmul
from snippets.tools.benchmarking import compare


@functools.lru_cache(maxsize=1)
def measure(n, rounds=6):
    """Return a ``Timing`` for each side, on two random n × n matrices of bfloat16."""
    a, b = torch.randn(2, n, n, device="cuda").to(torch.bfloat16)
    return compare({"naive": lambda: matmul(a, b), "torch": lambda: torch.matmul(a, b)}, rounds=rounds)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="speed",
        x_names=["n"],
        x_vals=[512, 1024, 2048, 4096, 8192],
        x_log=True,
        xlabel="n",
        ylabel="TFLOP/s",
        line_arg="side",
        line_vals=["naive", "torch"],
        line_names=["naive", "torch.matmul"],
        args={},
    )
)
def speed(n, side):
    """Speed of n × n × n products of bfloat16, 2·n³ operations each: median, slowest and fastest round."""
    return measure(n)[side].rate(2 * n**3, 1e12)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="odd",
        x_names=["n"],
        x_vals=[4080, 4088, 4095, 4096, 4097],
        xlabel="n",
        ylabel="TFLOP/s",
        line_arg="side",
        line_vals=["naive", "torch"],
        line_names=["naive", "torch.matmul"],
        args={},
    )
)
def odd(n, side):
    """The same for sizes that are multiples of 16, of 8, of nothing: median, slowest and fastest round."""
    return measure(n)[side].rate(2 * n**3, 1e12)


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (speed, odd):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
