# SPDX-License-Identifier: Apache-2.0
"""RMSNorm, measured: the formula eager and compiled, PyTorch's own function, a Triton kernel by hand, and a copy.

bfloat16, 2²⁸ elements. Units: GB/s of 10**9 bytes, each element read once and written once.

``python torch_compile_rms_norm_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas
and matplotlib.
"""

import functools

import torch
import triton

from snippets.start.torch_compile_rms_norm import SIDES, inputs
from snippets.tools.benchmarking import compare


# --8<-- [start:bandwidth]
@functools.cache
def measure(columns):
    """Return GB/s by side: median, slowest and fastest round.

    The sides take turns, on the same data; L2 is cold and clean before each run.
    """
    x, weight = inputs(columns)
    target = torch.empty_like(x)
    sides = {name: functools.partial(side, x, weight) for name, side in SIDES.items()}
    timings = compare(sides | {"copy": lambda: target.copy_(x)}, rounds=6)
    moved = 2 * x.numel() * x.itemsize  # x is read, the result is written; the weight is small
    return {name: timing.rate(moved, 1e9) for name, timing in timings.items()}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="bandwidth",
        x_names=["columns"],
        x_vals=[1024, 2048, 4096, 8192],
        x_log=True,
        xlabel="columns (bfloat16), 2²⁸ elements",
        ylabel="GB/s",
        line_arg="side",
        line_vals=[*SIDES, "copy"],
        line_names=["formula, eager", "torch's rms_norm", "formula, compiled", "Triton by hand", "copy"],
        args={},
    )
)
def bandwidth(columns, side):
    """Bytes that a fused kernel moves, each element read once and written once, per second."""
    return measure(columns)[side]
# --8<-- [end:bandwidth]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (bandwidth,):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
