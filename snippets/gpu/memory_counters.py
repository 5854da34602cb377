# SPDX-License-Identifier: Apache-2.0
"""Which level answered? The GPU's hardware counters for walks through sets of several sizes.

``python memory_counters.py`` runs itself under NVIDIA's ``ncu``, which counts, for each walk, the loads that L1
answered, those that L2 answered, the bytes that came from memory, and what one half of L2 handed to the other. Each
walk begins with empty caches; the steps that fill them are counted too, and are a small part.

Units: percent of the loads; bytes and sectors for each load.
Source: NVIDIA's documentation of Nsight Compute, on the metrics of ``l1tex`` and ``lts``.
"""

import functools
import sys

import torch
import triton

from snippets.gpu.counters import counters
from snippets.gpu.memory import LINE, chase, cycle

# --8<-- [start:walks]
WALKS = {  # bytes walked through, modifier, steps
    "64 KiB": (2**16, "", 2**15),
    "64 KiB, past L1": (2**16, ".cg", 2**15),
    "16 MiB": (2**24, "", 2**21),
    "48 MiB": (3 * 2**24, "", 2**22),
    "1 GiB": (2**30, "", 2**20),
}
METRICS = {
    "loads": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "asked": "lts__t_sectors_srcunit_tex.sum",
    "l2": "lts__t_sectors_srcunit_tex_lookup_hit.sum",
    "halves": "lts__t_sectors_srcunit_ltcfabric.sum",
    "memory": "dram__bytes_read.sum",
}


def walk_all():
    """What ``ncu`` watches."""
    for size, modifier, steps in WALKS.values():
        following = cycle(size // LINE)
        torch.cuda.synchronize()
        with torch.cuda.profiler.profile():
            chase(following, steps, modifier=modifier)
            torch.cuda.synchronize()
# --8<-- [end:walks]


@functools.lru_cache(maxsize=1)
def measure():
    """By walk: percent of the loads answered by L1 and by L2, bytes from memory and sectors between halves a load."""
    launches = counters(list(METRICS.values()), __file__, "walk", cache="all")
    found = {}
    for name, launch in zip(WALKS, launches, strict=True):
        seen = {what: launch[metric] for what, metric in METRICS.items()}
        found[name] = {what: 100 * seen[what] / seen["loads"] for what in ("l1", "l2")}
        found[name] |= {what: seen[what] / seen["loads"] for what in ("memory", "halves")}
    return found


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="counted",
        x_names=["walk"],
        x_vals=list(WALKS),
        xlabel="walk",
        ylabel="a load",
        line_arg="what",
        line_vals=["l1", "l2", "memory", "halves"],
        line_names=["answered by L1, %", "answered by L2, %", "bytes from memory", "transfers between halves of L2"],
        args={},
    )
)
def counted(walk, what):
    """Which level answered the loads of a walk, by the GPU's counters."""
    return measure()[walk][what]


def main():
    if sys.argv[1:] == ["walk"]:
        walk_all()
    else:
        print("counted.run(print_data=True)  #", counted.fn.__doc__)


if __name__ == "__main__":
    main()
