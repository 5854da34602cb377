# SPDX-License-Identifier: Apache-2.0
"""The sectors and bytes of the lesson *Coalescing*, by the GPU's hardware counters.

``python coalescing_counted.py`` runs itself under NVIDIA's ``ncu``, for each step of ``take_every``, each order of
``gather`` and each tile of ``transpose``. Caches are emptied before each.

Units: sectors of 32 bytes for each load or store instruction of a warp, a *request*; bytes from memory for each
element that was wanted; accesses of shared memory.
Source: NVIDIA's documentation of Nsight Compute, on the metrics of ``l1tex``.
"""

import functools
import sys

import torch
import triton

from snippets.gpu.coalescing import STEPS, gather, take_every, transpose
from snippets.gpu.coalescing_measured import ORDERS, TILES, N, indices
from snippets.gpu.counters import counters

SIDE = 8192  # of the matrix that is transposed
PER_THREAD = {"four": 4, "one": 32}  # elements of a block of 1,024, by the number of warps
LEAST = 2 * SIDE * SIDE * 4 // 128  # accesses of 128 bytes that put it into shared memory and take it out again
METRICS = {
    "load": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "loads": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "store": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "stores": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "memory": "dram__bytes_read.sum",
    "shared": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
}


def run_all():
    """What ``ncu`` watches: all steps, all orders, all tiles."""
    x = torch.rand(N * max(STEPS), device="cuda")
    warps = PER_THREAD.values()
    cases = [(take_every, (x[: N * step], step), {"num_warps": number}) for step in STEPS for number in warps]
    x = x[: 2**28]
    cases += [(gather, (x, indices(order, len(x))), {}) for order in ORDERS]
    matrix = x[: SIDE * SIDE].view(SIDE, SIDE)
    cases += [(transpose, (matrix,), {"rows": rows, "columns": columns}) for rows, columns in TILES]
    for function, arguments, options in cases:
        torch.cuda.synchronize()
        with torch.cuda.profiler.profile():
            function(*arguments, **options)
            torch.cuda.synchronize()


@functools.lru_cache(maxsize=1)
def measure():
    """What was counted, by case: a step, the name of an order, or a tile."""
    launches = counters(list(METRICS.values()), __file__, "run", cache="all")
    names = [(step, each) for step in STEPS for each in PER_THREAD] + [*ORDERS.values()]
    names += [f"{rows} × {columns}" for rows, columns in TILES]
    return {
        name: {what: launch[metric] for what, metric in METRICS.items()}
        for name, launch in zip(names, launches, strict=True)
    }


def per_request(name, what):
    seen = measure()[name]
    if what == "memory":
        return seen["memory"] / N
    return seen[what] / seen[f"{what}s"]


def report(plot_name, x_name, x_vals, xlabel, lines, **options):
    benchmark = triton.testing.Benchmark(
        plot_name=plot_name,
        x_names=[x_name],
        x_vals=x_vals,
        xlabel=xlabel,
        ylabel="",
        line_arg="what",
        line_vals=list(lines),
        line_names=list(lines.values()),
        args={},
        **options,
    )
    return triton.testing.perf_report(benchmark)


STEP_LINES = {
    "four": "sectors a load, 4 elements a thread",
    "one": "sectors a load, 1 element a thread",
    "memory": "bytes from memory an element",
}
LINES = {"load": "sectors a load", "store": "sectors a store", "memory": "bytes from memory an element"}


@report("steps", "step", list(STEPS), "step (float32)", STEP_LINES, x_log=True)
def steps(step, what):
    """Sectors for each load of a warp in ``x[::step]``; bytes read from memory for each element (4 a thread)."""
    return per_request((step, "four"), what) if what == "memory" else per_request((step, what), "load")


@report("orders", "order", list(ORDERS.values()), "order of the indices", LINES)
def orders(order, what):
    """The same for ``x[index]``. Loads are those of indices and of elements together, and so are the bytes."""
    return per_request(order, what)


@report(
    "tiles", "tile", [f"{rows} × {columns}" for rows, columns in TILES], "tile",
    {"load": "sectors a load", "store": "sectors a store", "shared": "accesses of shared memory, least = 1",
     "conflicts": "of those, bank conflicts"},
)  # fmt: skip
def tiles(tile, what):
    """The same for a transpose; and the accesses of shared memory as a multiple of the least possible number."""
    if what in ("shared", "conflicts"):
        return measure()[tile][what] / LEAST
    return per_request(tile, what)


def main():
    if sys.argv[1:] == ["run"]:
        run_all()
    else:
        for mark in (steps, orders, tiles):
            print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
