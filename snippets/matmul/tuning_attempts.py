# SPDX-License-Identifier: Apache-2.0
"""Find out what cuBLAS does differently: settings that we tried against it, and what counters say of both kernels.

- :func:`tried`: at 2048 x 2048 x 2048, where ours loses, one field of the config after another
- :func:`parts`: the nearest to cuBLAS, a tile stored in 4 parts, once more, in 20 rounds
- :func:`counted`, a table for each size: what NVIDIA's ``ncu`` counted in a launch that began with empty caches,
  such as instructions, bytes, threads and registers

Units: TFLOP/s, 2 * M * N * K FLOPs each; shares of cuBLAS's rate; instructions of warps; MB of 10**6 bytes; µs.
Source: ``torch.matmul`` calls cuBLAS; NVIDIA's documentation of Nsight Compute.

``python tuning_attempts.py`` prints the names of the kernels. It needs an NVIDIA GPU, and the counters ``ncu``.
"""

import functools
import statistics
import sys

import torch
import triton

from snippets.gpu.counters import counters
from snippets.matmul.persistent import LARGE, matmul
from snippets.matmul.persistent_measured import random_pair
from snippets.tools.benchmarking_cold import compare_in_rotation, rates

# --8<-- [start:tried]
TRIED = {
    "as chosen": LARGE,
    "stored in 1 part": LARGE._replace(subtiles=1),
    "stored in 4 parts": LARGE._replace(subtiles=4),
    "stored by pointers": LARGE._replace(subtiles=0),
    "4 stages": LARGE._replace(num_stages=4),
    "groups of 4": LARGE._replace(group_m=4),
    "groups of 16": LARGE._replace(group_m=16),
    "a program for each tile": LARGE._replace(per_sm=0, flatten=False),
    "not begun early": LARGE._replace(early=False),
    "tiles of 256 × 128": LARGE._replace(block_m=256, block_n=128),
    "steps of 128, 2 stages": LARGE._replace(block_k=128, num_stages=2),
    "steps of 32, 6 stages": LARGE._replace(block_k=32, num_stages=6),
}


@functools.cache
def measure_tried(zeros, n):
    """Return TFLOP/s of each, all in turns."""
    make = lambda: [x.zero_() if zeros else x for x in random_pair(n)]
    sides = {name: functools.partial(matmul, config=config) for name, config in TRIED.items()}
    return rates(sides | {"cuBLAS": torch.matmul}, make, 2 * n**3, steady=True)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="tried",
        x_names=["config"],
        x_vals=[*TRIED, "cuBLAS"],
        xlabel="config",
        ylabel="",
        line_arg="what",
        line_vals=["rate", "share", "zeros"],
        line_names=["TFLOP/s", "share of cuBLAS", "share, on zeros"],
        args={"n": 2048},
    )
)
def tried(config, what, n):
    """2048 x 2048 x 2048 in bfloat16 by config: of random numbers, and of zeros, which draw less power."""
    found = measure_tried(what == "zeros", n)
    return found[config] if what == "rate" else found[config][0] / found["cuBLAS"][0]
# --8<-- [end:tried]


# --8<-- [start:parts]
NEAREST = ("as chosen", "stored in 4 parts")


@functools.cache
def measure_parts(n, rounds=20):
    """Return a :class:`~snippets.tools.benchmarking.Timing` of each, in ms, timed as ``tried`` does, in more rounds."""
    sides = {name: functools.partial(matmul, config=TRIED[name]) for name in NEAREST}
    return compare_in_rotation(sides | {"cuBLAS": torch.matmul}, lambda: random_pair(n), rounds=rounds, steady=True)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="parts",
        x_names=["config"],
        x_vals=[*NEAREST, "cuBLAS"],
        xlabel="config",
        ylabel="",
        line_arg="what",
        line_vals=["rate", "share", "won", "beaten"],
        line_names=["TFLOP/s", "share of cuBLAS", "rounds faster than as chosen", "faster than cuBLAS"],
        args={"n": 2048},
    )
)
def parts(config, what, n):
    """2048 x 2048 x 2048 in bfloat16, 20 rounds: rates, and in how many rounds a side was the faster one."""
    found = measure_parts(n)
    if what == "rate":
        return found[config].rate(2 * n**3, 1e12)
    if what == "share":
        return found["cuBLAS"].median / found[config].median
    other = found["as chosen" if what == "won" else "cuBLAS"]
    return sum(mine < its for mine, its in zip(found[config].rounds, other.rounds, strict=True))
# --8<-- [end:parts]


# --8<-- [start:counted]
SIZES = (1024, 2048, 4096, 8192)
SIDES = {"cublas": torch.matmul, "ours": matmul}
LAUNCHES = 3  # of each are counted, for no two run alike
COUNTED = {  # the counter, and what one of it is worth
    "instructions, millions": ("sm__inst_executed.sum", 1e-6),  # one for the 32 threads of a warp
    "MB to multiprocessors": ("l1tex__m_xbar2l1tex_read_sectors.sum", 32e-6),
    "of it by multicast": ("l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld_dest_multicast.sum", 32e-6),
    "MB asked of L2": ("lts__t_sectors_srcunit_tex_op_read.sum", 32e-6),
    "MB from memory": ("dram__bytes_read.sum", 1e-6),
    "blocks": ("launch__grid_size", 1),
    "blocks of a cluster": ("launch__cluster_size", 1),  # 0: no clusters
    "threads of a block": ("launch__block_size", 1),
    "registers of a thread": ("launch__registers_per_thread", 1),
    "µs": ("gpu__time_duration.sum", 1e-3),
}


def run_all(sizes):
    """Run what ``ncu`` watches."""
    for n in sizes:
        a, b = random_pair(n)
        for run in SIDES.values():
            run(a, b)  # compiles, outside of the count
            torch.cuda.synchronize()
            with torch.cuda.profiler.profile():
                for _ in range(LAUNCHES):
                    run(a, b)
                torch.cuda.synchronize()


@functools.cache
def measure_counted() -> dict[tuple[int, str], list[dict]]:
    """Return, by size and side, what ``ncu`` says of each launch."""
    metrics = [metric for metric, _ in COUNTED.values()]
    launches = counters(metrics, __file__, "run", *map(str, SIZES), cache="all")
    cases = [(n, side) for n in SIZES for side in SIDES]
    if len(launches) != LAUNCHES * len(cases):
        raise RuntimeError(f"a product took more than one kernel: {[launch['kernel'] for launch in launches]}")
    return {case: launches[i * LAUNCHES : (i + 1) * LAUNCHES] for i, case in enumerate(cases)}


@triton.testing.perf_report([
    triton.testing.Benchmark(
        plot_name=f"counted_{n}",
        x_names=["what"],
        x_vals=list(COUNTED),
        xlabel="counted",
        ylabel="",
        line_arg="side",
        line_vals=list(SIDES),
        line_names=["cuBLAS", "ours"],
        args={"n": n},
    )
    for n in SIZES
])  # fmt: skip
def counted(what, side, n):
    """What ``ncu`` counted in a launch: median, least and most of three."""
    metric, worth = COUNTED[what]
    readings = [launch[metric] * worth for launch in measure_counted()[n, side]]
    return statistics.median(readings), min(readings), max(readings)
# --8<-- [end:counted]


def main():
    if sys.argv[1:2] == ["run"]:
        return run_all([int(n) for n in sys.argv[2:]])
    try:
        launches = measure_counted()
    except RuntimeError as error:
        raise SystemExit(error) from error
    for (n, side), (first, *_) in launches.items():
        print(f"{n} x {n} x {n}, {side}: {first['kernel']}")


if __name__ == "__main__":
    main()
