# SPDX-License-Identifier: Apache-2.0
"""The bank conflicts of ``shared_memory.py``, by the GPU's hardware counters.

``python shared_memory_counted.py`` runs itself under NVIDIA's ``ncu``, once for each layout.

Units: wavefronts, and conflicts, for each 32 numbers that a warp stores in shared memory or loads from it.
Source: NVIDIA's documentation of Nsight Compute, on the metrics of ``l1tex``.
"""

import functools
import sys

import torch
import triton

from snippets.below.shared_memory import LAYOUTS, transpose
from snippets.gpu.counters import counters

SIDE = 8192
ACCESSES = SIDE * SIDE // 32  # of a warp, four bytes a thread
METRICS = {
    "store": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "load": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "store conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "load conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
}


def run_all():
    """What ``ncu`` watches: each layout once."""
    x = torch.rand(SIDE, SIDE, device="cuda")
    for layout in LAYOUTS.values():
        transpose(x, layout)  # compiled before it is watched
        torch.cuda.synchronize()
        with torch.cuda.profiler.profile():
            transpose(x, layout)
            torch.cuda.synchronize()


@functools.lru_cache(maxsize=1)
def measure() -> dict[str, dict[str, float]]:
    """Return what was counted, by layout."""
    launches = counters(list(METRICS.values()), __file__, "run")
    return {
        name: {what: launch[metric] / ACCESSES for what, metric in METRICS.items()}
        for name, launch in zip(LAYOUTS, launches, strict=True)
    }


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="wavefronts", x_names=["layout"], x_vals=list(LAYOUTS), xlabel="layout", ylabel="",
        line_arg="what", line_vals=list(METRICS),
        line_names=["to store a row", "to load a column", "conflicts, row", "conflicts, column"], args={},
    )
)  # fmt: skip
def wavefronts(layout, what):
    """Wavefronts and conflicts for each row of 32 numbers that is stored, and each column that is loaded."""
    return measure()[layout][what]


def main():
    if sys.argv[1:] == ["run"]:
        run_all()
    else:
        print(f"{wavefronts.benchmarks.plot_name}.run(print_data=True)  # {wavefronts.fn.__doc__}")


if __name__ == "__main__":
    main()
