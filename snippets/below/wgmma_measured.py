# SPDX-License-Identifier: Apache-2.0
"""The matrix products of ``wgmma.py``, measured beside cuBLAS: each step changes one thing.

All sides run in turns, on operands in rotation, all calls in one CUDA graph (``snippets/tools/benchmarking_cold.py``).
Large products are read steady: each side runs by itself before it is read, for the GPU lowers its clock under load.

Units: TFLOP/s of 10**12 floating-point operations, of bfloat16.
Source: ``torch.matmul`` calls cuBLAS.

``python wgmma_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools

import torch
import triton

from snippets.below.wgmma import WAYS, matmul
from snippets.tools.benchmarking_cold import rates

SIDES = (1024, 2048, 4096, 8192)


# --8<-- [start:ladder]
@functools.cache
def measure(side: int) -> dict:
    """Return the rates of all steps of the ladder, and of cuBLAS."""
    torch.manual_seed(0)
    make = lambda: torch.randn(2, side, side, device="cuda", dtype=torch.bfloat16).unbind()
    sides = {way: functools.partial(matmul, way=way) for way in WAYS} | {"cublas": torch.matmul}
    return rates(sides, make, 2 * side**3, rounds=3)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="ladder", x_names=["side"], x_vals=list(SIDES), x_log=True, xlabel="M = N = K (bfloat16)",
        ylabel="TFLOP/s", line_arg="way", line_vals=[*WAYS, "cublas"],
        line_names=["one tile at a time", "pipelined", "persistent", "specialized", "two share b", "cuBLAS"], args={},
    )
)  # fmt: skip
def ladder(side, way):
    """Rates of the five ways, and of torch's product."""
    return measure(side)[way]
# --8<-- [end:ladder]


def main():
    """Say what there is to measure: what comes out is different every time."""
    print(f"{ladder.benchmarks.plot_name}.run(print_data=True)  # {ladder.fn.__doc__}")


if __name__ == "__main__":
    main()
