# SPDX-License-Identifier: Apache-2.0
"""The transpose of ``shared_memory.py``, measured: what bank conflicts cost, beside a copy.

- :func:`layouts`: a matrix of 8192 x 8192 float32, by the layout of its tile in shared memory; beside Gluon's
  ``convert_layout`` (the lesson before), torch's transpose and torch's copy
- :func:`phases`: by the number of a swizzle's phases, from 1, which swizzles nothing, to 32

All sides run in turns, on operands in rotation, all calls in one CUDA graph (``snippets/tools/benchmarking_cold.py``).
Each call allocates its result.

Units: GB/s of 10**9 bytes, read and written.

``python shared_memory_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools

import torch
import triton

from snippets.below.gluon_copy_measured import copied, numbers
from snippets.below.shared_memory import LAYOUTS, swizzled, transpose
from snippets.tools.benchmarking_cold import rates

SIDE = 8192
PHASES = (1, 2, 4, 8, 16, 32)


# --8<-- [start:measure]
@functools.cache
def measure() -> dict:
    """Return the rates of the transposes by layout, of those by phases, and of torch's two."""
    torch.manual_seed(0)
    make = lambda: (numbers(SIDE, SIDE, dtype=torch.float32),)
    sides = {name: functools.partial(transpose, shared=layout) for name, layout in LAYOUTS.items()}
    sides |= {phases: functools.partial(transpose, shared=swizzled(1, 1, phases)) for phases in PHASES}
    sides["convert_layout"] = functools.partial(copied, load="rows", store="columns", transposed=True)
    sides |= {"torch": lambda x: x.t().contiguous(), "copy": torch.clone}
    return rates(sides, make, 2 * SIDE**2 * 4, unit=1e9, steady=False)
# --8<-- [end:measure]


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="layouts", x_names=["layout"], x_vals=[*LAYOUTS, "convert_layout", "torch", "copy"],
        xlabel="layout", ylabel="GB/s", line_arg="what", line_vals=["rate"], line_names=["GB/s"], args={},
    )
)  # fmt: skip
def layouts(layout, what):
    """Bytes in a second of a transpose, by the layout of its tile; of torch's transpose; and of torch's copy."""
    return measure()[layout]


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="phases", x_names=["max_phase"], x_vals=list(PHASES), x_log=True, xlabel="max_phase", ylabel="GB/s",
        line_arg="side", line_vals=["transpose", "copy"], line_names=["transpose", "torch.clone"], args={},
    )
)  # fmt: skip
def phases(max_phase, side):
    """Bytes in a second of a transpose, by the phases of its swizzle; and of torch's copy."""
    return measure()[max_phase if side == "transpose" else "copy"]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (layouts, phases):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
