# SPDX-License-Identifier: Apache-2.0
"""8-bit products against ``torch._scaled_mm``, measured, with fast sums and without, by tensor and by rows.

- ``tensorwise``, ``rowwise``: TFLOP/s by size; like is compared with like: both sides add up fast, or both do not

Random numbers, quantized to float8_e4m3fn before the clock runs; the result is bfloat16. TFLOP/s count 2 * n**3.

``python fp8_measured.py`` says what there is to measure; measuring needs a GPU with matrix units for 8 bits.
"""

import functools

import torch
import triton

from snippets.matmul.fp8 import quantize, scaled_matmul
from snippets.tools.benchmarking import compare

SIZES = [1024, 2048, 4096, 8192, 16384]


# --8<-- [start:speed]
@functools.lru_cache(maxsize=1)
def measure_speed(n, by_rows):
    a, scale_a = quantize(torch.randn(n, n, device="cuda"), dim=1 if by_rows else None)
    b, scale_b = quantize(torch.randn(n, n, device="cuda").T, dim=0 if by_rows else None)
    in_torch = functools.partial(torch._scaled_mm, a, b, scale_a, scale_b, out_dtype=torch.bfloat16)
    ours = functools.partial(scaled_matmul, a, b, scale_a, scale_b)
    sides = {
        "torch": lambda: in_torch(use_fast_accum=False),
        "ours": lambda: ours(),
        "torch_fast": lambda: in_torch(use_fast_accum=True),
        "ours_fast": lambda: ours(use_fast_accum=True),
    }
    return {side: timing.rate(2 * n**3, 1e12) for side, timing in compare(sides, rounds=10).items()}


def benchmark(name):
    return triton.testing.Benchmark(
        plot_name=name,
        x_names=["n"],
        x_vals=SIZES,
        x_log=True,
        xlabel="M = N = K",
        ylabel="TFLOP/s",
        line_arg="side",
        line_vals=["torch", "ours", "torch_fast", "ours_fast"],
        line_names=["torch._scaled_mm", "scaled_matmul", "torch._scaled_mm, fast sums", "scaled_matmul, fast sums"],
        args={},
    )


@triton.testing.perf_report(benchmark("tensorwise"))
def tensorwise(n, side):
    """TFLOP/s with one scale for a and one for b: median, slowest and fastest of 10 rounds in turns."""
    return measure_speed(n, False)[side]


@triton.testing.perf_report(benchmark("rowwise"))
def rowwise(n, side):
    """TFLOP/s with a scale for each row of a and each column of b: median, slowest and fastest of 10 rounds."""
    return measure_speed(n, True)[side]
# --8<-- [end:speed]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (tensorwise, rowwise):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
