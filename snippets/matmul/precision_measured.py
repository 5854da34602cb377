# SPDX-License-Identifier: Apache-2.0
"""Precision, measured: the speed of each way to multiply float32, and the errors of formats and sums by K.

- ``speed``: TFLOP/s by size; ours, and torch's with its setting for the same precision; on operands in rotation
- ``errors``: against the product of the original float32 numbers in float64, by format and K
- ``sums``: of positive numbers, against the product of the numbers as rounded to their format: what is left is how
  they are added up

Random numbers, for ``sums`` from 0 to 1 and otherwise normal. TFLOP/s count 2 * M * N * K operations, whatever the
units do inside.

``python precision_measured.py`` says what there is to measure; measuring needs a GPU, for float8 one that has it.
"""

import functools

import torch
import triton

from snippets.matmul.fp8 import quantize, scaled_matmul
from snippets.matmul.precision import matmul, relative_error
from snippets.tools.benchmarking_cold import rates


# --8<-- [start:speed]
def in_torch(a, b, precision):
    """Compute torch's product under its own setting: "highest" is float32, "high" is TF32."""
    torch.set_float32_matmul_precision(precision)
    return a @ b


@functools.cache
def measure_speed(n):
    make = lambda: [torch.randn(n, n, device="cuda") for _ in range(3)]
    # A layer has its weight by columns: so do all sides but one.
    ours = lambda precision: lambda a, weight, _: matmul(a, weight.T, input_precision=precision)
    sides = {precision: ours(precision) for precision in LINES}
    sides |= {
        "tf32_rows": lambda a, _, b_by_rows: matmul(a, b_by_rows, input_precision="tf32"),
        "torch_tf32": lambda a, weight, _: in_torch(a, weight.T, "high"),
        "torch_float32": lambda a, weight, _: in_torch(a, weight.T, "highest"),
    }
    before = torch.get_float32_matmul_precision()
    try:
        return rates(sides, make, 2 * n**3)
    finally:
        torch.set_float32_matmul_precision(before)


LINES = {"tf32": "tf32", "tf32x3": "tf32x3", "ieee": "ieee"}
ALL_LINES = LINES | {
    "tf32_rows": "tf32, b by rows",
    "torch_tf32": 'torch, "high"',
    "torch_float32": 'torch, "highest"',
}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="speed",
        x_names=["n"],
        x_vals=[1024, 2048, 4096, 8192],
        x_log=True,
        y_log=True,
        xlabel="M = N = K",
        ylabel="TFLOP/s",
        line_arg="side",
        line_vals=list(ALL_LINES),
        line_names=list(ALL_LINES.values()),
        args={},
    )
)
def speed(n, side):
    """TFLOP/s of float32 products, b by columns: median, slowest and fastest of 4 rounds in turns."""
    return measure_speed(n)[side]
# --8<-- [end:speed]


# --8<-- [start:errors]
@functools.lru_cache(maxsize=1)
def measure_errors(K, M, N):
    """Return ``{line: error}`` against the product of the original numbers."""
    torch.manual_seed(K)
    a, b = torch.randn(M, K, device="cuda"), torch.randn(N, K, device="cuda").T
    exact = a.double() @ b.double()
    a16, b16 = a.half(), b.half()
    results = {precision: matmul(a, b, input_precision=precision) for precision in LINES}
    results["float16"] = matmul(a16, b16, out_dtype=torch.float32)
    results["float16_float16"] = matmul(a16, b16, sums=torch.float16, out_dtype=torch.float32)
    results["bfloat16"] = matmul(a.bfloat16(), b.bfloat16(), out_dtype=torch.float32)
    (qa, scale_a), (qb, scale_b) = quantize(a, dim=1), quantize(b, dim=0)
    results["fp8"] = scaled_matmul(qa, qb, scale_a, scale_b, torch.float32)
    return {line: relative_error(c, exact) for line, c in results.items()}


@functools.lru_cache(maxsize=1)
def measure_sums(K, M, N):
    """Return ``{line: error}`` against the product of the numbers as rounded; all are positive, so that sums grow."""
    torch.manual_seed(K)
    a, b = torch.rand(M, K, device="cuda"), torch.rand(N, K, device="cuda").T
    a16, b16 = a.half(), b.half()
    exact = a16.double() @ b16.double()
    found = {
        "float16": relative_error(matmul(a16, b16, out_dtype=torch.float32), exact),
        "float16_float16": relative_error(matmul(a16, b16, sums=torch.float16, out_dtype=torch.float32), exact),
    }
    (qa, scale_a), (qb, scale_b) = quantize(a), quantize(b)
    exact = (qa.double() * scale_a) @ (qb.double() * scale_b)
    for line, fast in (("fp8", False), ("fp8_fast", True)):
        c = scaled_matmul(qa, qb, scale_a, scale_b, torch.float32, use_fast_accum=fast)
        found[line] = relative_error(c, exact)
    return found


FORMATS = LINES | {
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float16_float16": "float16, sums in float16",
    "fp8": "float8_e4m3fn by rows",
}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="errors",
        x_names=["K"],
        x_vals=[2**k for k in range(5, 18, 2)],
        x_log=True,
        y_log=True,
        xlabel="K",
        ylabel="error",
        line_arg="side",
        line_vals=list(FORMATS),
        line_names=list(FORMATS.values()),
        args={"M": 256, "N": 256},
    )
)
def errors(K, side, M, N):
    """Relative error against the product of the original numbers in float64."""
    return measure_errors(K, M, N)[side]


SUMS = {
    "float16": "float16, sums in float32",
    "float16_float16": "float16, sums in float16",
    "fp8": "float8, 128 at a time",
    "fp8_fast": "float8, use_fast_accum",
}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="sums",
        x_names=["K"],
        x_vals=errors.benchmarks.x_vals,
        x_log=True,
        y_log=True,
        xlabel="K",
        ylabel="error",
        line_arg="side",
        line_vals=list(SUMS),
        line_names=list(SUMS.values()),
        args={"M": 256, "N": 256},
    )
)
def sums(K, side, M, N):
    """Relative error of sums of positive numbers, against the product in float64 of the numbers as rounded."""
    return measure_sums(K, M, N)[side]
# --8<-- [end:errors]


def main():
    """Say what there is to measure."""
    for mark in (speed, errors, sums):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
