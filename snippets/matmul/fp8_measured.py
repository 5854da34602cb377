# SPDX-License-Identifier: Apache-2.0
"""8-bit products against ``torch._scaled_mm``, measured, with fast sums and without, by tensor and by rows.

- ``tensorwise``, ``rowwise``: TFLOP/s by size; like is compared with like: both sides add up fast, or both do not
- ``ways``: what sums in float32 (its lines call them exact) cost: two tiles, each with these and with fast sums
- ``sums``: what each of the four is off by when sums are long

Random numbers, quantized to float8_e4m3fn before the clock runs; the result is bfloat16. TFLOP/s count 2 * n**3; a
CUDA graph repeats each call, with L2 emptied before. For ``sums`` the numbers lie between 0 and 1, so that sums grow,
there is one scale each, and the result is float32; errors are against the product in float64 of the 8-bit numbers, so
that what is left is how they are added up.

``python fp8_measured.py`` says what there is to measure; measuring needs a GPU with matrix units for 8 bits.
"""

import functools

import torch
import triton

from snippets.matmul.fp8 import Config, quantize, scaled_matmul
from snippets.matmul.precision import relative_error
from snippets.tools.benchmarking import compare
from snippets.tools.benchmarking_graph import captured

SIZES = [1024, 2048, 4096, 8192, 16384]


# --8<-- [start:speed]
def products(a, b, scale_a, scale_b, out_dtype):
    """``{side: function}``: torch and ours, each with sums in float32 and with fast sums."""
    in_torch = functools.partial(torch._scaled_mm, a, b, scale_a, scale_b, out_dtype=out_dtype)
    ours = functools.partial(scaled_matmul, a, b, scale_a, scale_b, out_dtype)
    return {
        "torch": lambda: in_torch(use_fast_accum=False),
        "ours": lambda: ours(),
        "torch_fast": lambda: in_torch(use_fast_accum=True),
        "ours_fast": lambda: ours(use_fast_accum=True),
    }


@functools.lru_cache(maxsize=1)
def measure_speed(n, by_rows):
    a, scale_a = quantize(torch.randn(n, n, device="cuda"), dim=1 if by_rows else None)
    b, scale_b = quantize(torch.randn(n, n, device="cuda").T, dim=0 if by_rows else None)
    sides = products(a, b, scale_a, scale_b, torch.bfloat16)
    found = compare({side: captured(run) for side, run in sides.items()}, rounds=8)
    return {side: timing.rate(2 * n**3, 1e12) for side, timing in found.items()}


SIDES = {
    "torch": "torch._scaled_mm",
    "ours": "scaled_matmul",
    "torch_fast": "torch._scaled_mm, fast sums",
    "ours_fast": "scaled_matmul, fast sums",
}


def benchmark(name, sizes):
    return triton.testing.Benchmark(
        plot_name=name,
        x_names=["n"],
        x_vals=sizes,
        x_log=True,
        xlabel="M = N = K",
        ylabel="TFLOP/s",
        line_arg="side",
        line_vals=list(SIDES),
        line_names=list(SIDES.values()),
        args={},
    )


@triton.testing.perf_report(benchmark("tensorwise", SIZES))
def tensorwise(n, side):
    """TFLOP/s with one scale for a and one for b: median, slowest and fastest of 8 rounds in turns."""
    return measure_speed(n, False)[side]


@triton.testing.perf_report(benchmark("rowwise", SIZES[2:]))
def rowwise(n, side):
    """TFLOP/s with a scale for each row of a and each column of b: median, slowest and fastest of 8 rounds."""
    return measure_speed(n, True)[side]
# --8<-- [end:speed]


# --8<-- [start:ways]
WAYS = {  # config, and whether sums are fast
    "wide_fast": (Config((128, 256, 128), 2, 8, 4), True),
    "small_fast": (Config((128, 128, 128), 2, 4, 3, flatten=False, per_sm=2), True),
    "small": (Config((128, 128, 128), 2, 4, 3, flatten=False, per_sm=2), False),
    "wide": (Config((256, 128, 128), 2, 8, 4), False),
}


@functools.lru_cache(maxsize=1)
def measure_ways(n):
    a, scale_a = quantize(torch.randn(n, n, device="cuda"))
    b, scale_b = quantize(torch.randn(n, n, device="cuda").T)
    run = lambda config, fast: lambda: scaled_matmul(a, b, scale_a, scale_b, use_fast_accum=fast, config=config)
    found = compare({way: captured(run(*how)) for way, how in WAYS.items()}, rounds=8)
    return {way: timing.rate(2 * n**3, 1e12) for way, timing in found.items()}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="ways",
        x_names=["n"],
        x_vals=SIZES[2:],
        x_log=True,
        xlabel="M = N = K",
        ylabel="TFLOP/s",
        line_arg="way",
        line_vals=list(WAYS),
        line_names=[
            "fast sums, 128 × 256, a program per multiprocessor",
            "fast sums, 128 × 128, two",
            "exact sums, 128 × 128, two",
            "exact sums, 256 × 128, one",
        ],
        args={},
    )
)
def ways(n, way):
    """TFLOP/s by tile and by sums: median, slowest and fastest of 8 rounds in turns."""
    return measure_ways(n)[way]
# --8<-- [end:ways]


# --8<-- [start:sums]
@functools.lru_cache(maxsize=1)
def measure_sums(K, M, N):
    torch.manual_seed(K)
    a, scale_a = quantize(torch.rand(M, K, device="cuda"))
    b, scale_b = quantize(torch.rand(N, K, device="cuda").T)
    exact = (a.double() * scale_a) @ (b.double() * scale_b)
    found = products(a, b, scale_a, scale_b, torch.float32)
    return {side: relative_error(product(), exact) for side, product in found.items()}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="sums",
        x_names=["K"],
        x_vals=[2**k for k in range(7, 18, 2)],
        x_log=True,
        y_log=True,
        xlabel="K",
        ylabel="error",
        line_arg="side",
        line_vals=list(SIDES),
        line_names=list(SIDES.values()),
        args={"M": 256, "N": 256},
    )
)
def sums(K, side, M, N):
    """Relative error of sums of positive numbers, against the product in float64 of the 8-bit numbers."""
    return measure_sums(K, M, N)[side]
# --8<-- [end:sums]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (tensorwise, rowwise, ways, sums):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
