# SPDX-License-Identifier: Apache-2.0
"""Few rows, measured: how near the product of ``few_rows.py`` comes to the time that reading the weight takes.

- :func:`times`: microseconds, beside those of ``torch.matmul`` and of a kernel that does nothing
- :func:`bandwidth`: bytes of the weight in a second, and as a share of those that a copy of it reads and writes

The weights are those of ``model_shapes.py`` that are multiplied by a few rows there; here each by 1, 2, 4, 8 and 16.
``b`` is a weight's transpose, as ``torch.nn.Linear`` has it, of random numbers in bfloat16. All sides run in turns, on
operands in rotation, all calls in one CUDA graph (``snippets/tools/benchmarking_cold.py``). The copy is timed by
itself, in rotation, too, in the same run.

Units: microseconds; GB/s of 10**9 bytes, of a product the weight's, of a copy twice as many, read and written. Reading
alone may be faster than a copy, so a share may be above 1.
Source: ``torch.matmul`` calls cuBLAS.

``python few_rows_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools

import torch
import triton

from snippets.matmul import few_rows
from snippets.matmul.matmul_measured import check_alike, operands, result
from snippets.matmul.model_shapes import SHAPES
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation, empty

ROWS = (1, 2, 4, 8, 16)
WEIGHTS = list(dict.fromkeys((shape.n, shape.k) for shape in SHAPES["decode"]))
NAMED = {f"{m} × {n} × {k}": (m, n, k) for n, k in WEIGHTS for m in ROWS}
SIDES = {"ours": few_rows.few_rows, "cublas": torch.matmul}


# --8<-- [start:measure]
@functools.cache
def measure(M: int, N: int, K: int) -> dict[str, Timing]:
    """Return the milliseconds of each side."""
    torch.manual_seed(0)
    make = functools.partial(operands, M, N, K)
    check_alike(SIDES, make())
    return compare_in_rotation(SIDES | {"empty": empty}, make, rounds=3)


@functools.cache
def measure_copy(N: int, K: int) -> Timing:
    """Return the milliseconds of copying a weight; the target rotates, too, or it would stay in L2."""
    torch.manual_seed(0)
    copy = lambda source, target: target.copy_(source)
    make = lambda: torch.randn(2, N, K, device="cuda", dtype=torch.bfloat16).unbind()
    return compare_in_rotation({"copy": copy}, make, rounds=3)["copy"]
# --8<-- [end:measure]


# --8<-- [start:times]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="times",
        x_names=["shape"],
        x_vals=list(NAMED),
        xlabel="M × N × K",
        ylabel="µs",
        line_arg="what",
        line_vals=["ours", "cublas", "empty", "share"],
        line_names=["ours", "cuBLAS", "empty kernel", "share of cuBLAS"],
        args={},
    )
)
def times(shape, what):
    """Microseconds, median, fastest and slowest of 3 rounds; and cuBLAS's time by ours."""
    return result(measure(*NAMED[shape]), what)
# --8<-- [end:times]


# --8<-- [start:bandwidth]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="bandwidth",
        x_names=["shape"],
        x_vals=list(NAMED),
        xlabel="M × N × K",
        ylabel="GB/s",
        line_arg="what",
        line_vals=["ours", "cublas", "copy", "share", "cublas_share"],
        line_names=["ours", "cuBLAS", "copy", "ours, share of copy", "cuBLAS, share of copy"],
        args={},
    )
)
def bandwidth(shape, what):
    """Bytes of the weight in a second; of a copy those read and written; and the two products as shares of it."""
    M, N, K = NAMED[shape]
    weight = N * K * torch.bfloat16.itemsize
    rates = {side: timing.rate(weight) for side, timing in measure(M, N, K).items()}
    rates["copy"] = measure_copy(N, K).rate(2 * weight)
    if what in ("share", "cublas_share"):
        return rates["ours" if what == "share" else "cublas"][0] / rates["copy"][0]
    return rates[what]
# --8<-- [end:bandwidth]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (times, bandwidth):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
