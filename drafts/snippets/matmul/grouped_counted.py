# SPDX-License-Identifier: Apache-2.0
"""The order of programs, measured: L2 hits and bytes from memory by hardware counters, TFLOP/s, and the real order.

For square bfloat16 matrices of several sizes and groups of several sizes, the product of ``grouped.py``:

- ``hits_SIZE`` and ``memory_SIZE``: what NVIDIA's ``ncu`` counted in one launch that began with empty caches, beside
  what ``tile_reads`` predicts for the whole L2 cache of this GPU, and for half of it
- ``speed``: TFLOP/s, all groups of a size in turns by one timer
- ``schedule_row_major`` and ``schedule_groups_of_8``: which multiprocessor took up which program, and when

Units: percent of the 32-byte sectors that the multiprocessors asked L2 for; GB from memory; ``2 * size**3`` FLOPs.
Source: NVIDIA's documentation of Nsight Compute, on the metrics of ``lts`` and ``dram``.

``python grouped_counted.py`` needs an NVIDIA GPU, and the counters ``ncu``.
"""

import functools
import sys
from concurrent.futures import ThreadPoolExecutor

import torch
import triton
import triton.language as tl

from snippets.gpu.counters import counters
from snippets.gpu.schedule import Schedule, check_gpu, count_multiprocessors, multiprocessor, time_now
from snippets.gpu.schedule_occupancy import programs_at_once
from snippets.matmul.grouped import TILE_BYTES, matmul, matmul_kernel, predict, tile_order, tile_reads
from snippets.tools.benchmarking import compare

# --8<-- [start:cases]
SIZES = (2048, 4096, 8192, 16384)
GROUPS = (1, 2, 4, 8, 16, 32, 64)
TILE, OPTIONS = (128, 128, 64), {"num_warps": 8, "num_stages": 4}
METRICS = {
    "ncu": "lts__t_sector_hit_rate.pct",  # of all that L2 was asked, also by its other half
    "asked": "lts__t_sectors_srcunit_tex.sum",  # by multiprocessors
    "answered": "lts__t_sectors_srcunit_tex_lookup_hit.sum",
    "halves": "lts__t_sectors_srcunit_ltcfabric.sum",
    "memory": "dram__bytes_read.sum",
}


def matrices(size):
    return torch.randn(2, size, size, dtype=torch.bfloat16, device="cuda")


def run_all(sizes):
    """What ``ncu`` watches."""
    for size in sizes:
        a, b = matrices(size)
        for group in GROUPS:
            matmul(a[:128, :128], b[:128, :128], group=group, tile=TILE, **OPTIONS)  # compiles, outside of the count
            torch.cuda.synchronize()
            with torch.cuda.profiler.profile():
                matmul(a, b, group=group, tile=TILE, **OPTIONS)
                torch.cuda.synchronize()
# --8<-- [end:cases]


@functools.lru_cache(maxsize=1)
def capacity() -> dict[str, int]:
    """What the model wants to know of this GPU: programs that run at once, and tiles that its L2 cache holds."""
    check_gpu()
    a, b = matrices(128)
    c = torch.empty_like(a)
    compiled = matmul_kernel[(1,)](
        a, b, c, 128, 128, 128, *a.stride(), *b.stride(), *c.stride(),
        BLOCK_M=TILE[0], BLOCK_N=TILE[1], BLOCK_K=TILE[2], GROUP_M=1, **OPTIONS,
    )
    cache = torch.cuda.get_device_properties(0).L2_cache_size // TILE_BYTES
    return {"resident": programs_at_once(compiled) * count_multiprocessors(), "cache": cache}


# --8<-- [start:measure]
@functools.lru_cache(maxsize=1)
def measure():
    """By size and group: what was counted, and what the model says with the whole cache and with half of it."""
    gpu = capacity()
    half = gpu | {"cache": gpu["cache"] // 2}
    cases = [(size, group) for size in SIZES for group in GROUPS]
    with ThreadPoolExecutor() as pool:  # ncu's process counts while this one computes
        counting = pool.submit(counters, list(METRICS.values()), __file__, "run", *map(str, SIZES), cache="all")
        found = {case: {"whole": predict(*case, **gpu), "half": predict(*case, **half)} for case in cases}
    for case, launch in zip(cases, counting.result(), strict=True):
        found[case] |= {what: launch[metric] for what, metric in METRICS.items()}
    return found
# --8<-- [end:measure]


def report(plot_name, lines, x_vals, xlabel, ylabel, *, x_name="group", line_arg="what", **arguments):
    return triton.testing.Benchmark(
        plot_name=plot_name,
        x_names=[x_name],
        x_vals=x_vals,
        xlabel=xlabel,
        ylabel=ylabel,
        line_arg=line_arg,
        line_vals=list(lines),
        line_names=list(lines.values()),
        args=arguments,
        x_log=x_name == "group",
    )


HITS = {
    "spared": "not from memory",
    "answered": "hits of multiprocessors",
    "ncu": "hits of all, as ncu sums up",
    "whole": "model, whole L2",
    "half": "model, half of L2",
}
MEMORY = {"memory": "measured", "whole": "model, whole L2", "half": "model, half of L2", "least": "each tile once"}


@triton.testing.perf_report([
    report(f"hits_{size}", HITS, list(GROUPS), "rows of tiles in a group", "%", size=size) for size in SIZES
])  # fmt: skip
def hits(group, what, size):
    """Percent of what the multiprocessors asked L2 for that it answered, counted and predicted."""
    seen = measure()[size, group]
    if what in ("whole", "half"):
        return 100 * seen[what].hits / seen[what].reads
    if what == "ncu":
        return seen["ncu"]
    return 100 * (seen["answered"] / seen["asked"] if what == "answered" else 1 - seen["memory"] / 32 / seen["asked"])


@triton.testing.perf_report([
    report(f"memory_{size}", MEMORY, list(GROUPS), "rows of tiles in a group", "GB", size=size) for size in SIZES
])  # fmt: skip
def memory(group, what, size):
    """GB read from memory, counted and predicted."""
    seen = measure()[size, group]
    if what == "least":
        return 2 * size * size * 2 / 1e9
    return (seen[what] if what == "memory" else seen[what].misses * TILE_BYTES) / 1e9


@triton.testing.perf_report([
    report("asked", {"measured": "of multiprocessors, of the model's", "halves": "of L2's other half, a sector asked"},
           list(SIZES), "size", "", x_name="size")
])  # fmt: skip
def asked(size, what):
    """Sectors that the multiprocessors asked for, as a share of the model's reads; row-major order."""
    seen = measure()[size, 1]
    if what == "halves":
        return seen["halves"] / seen["asked"]
    return 32 * seen["asked"] / (seen["whole"].reads * TILE_BYTES)


# --8<-- [start:speed]
@functools.cache
def timings(size):
    a, b = matrices(size)
    sides = {
        group: functools.partial(matmul, a, b, group=group, tile=TILE, **OPTIONS)
        for group in GROUPS
    }
    return compare(sides, rounds=4)


@triton.testing.perf_report([
    report("speed", {f"size_{size}": f"{size}" for size in SIZES}, list(GROUPS), "rows of tiles in a group", "TFLOP/s",
           line_arg="side")
])  # fmt: skip
def speed(group, side):
    """TFLOP/s, all groups of a size in turns by one timer."""
    size = int(side.removeprefix("size_"))
    return timings(size)[group].rate(2 * size**3, 1e12)
# --8<-- [end:speed]


# --8<-- [start:recorded]
@triton.jit
def recorded_kernel(
    sm_ptr, begin_ptr, end_ptr, a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    begin = time_now()
    matmul_kernel(
        a_ptr, b_ptr, c_ptr, M, N, K,
        stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
        BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
    )
    tl.debug_barrier()  # the end is when the last thread has got here
    pid = tl.program_id(axis=0)
    tl.store(sm_ptr + pid, multiprocessor())
    tl.store(begin_ptr + pid, begin)
    tl.store(end_ptr + pid, time_now())
# --8<-- [end:recorded]


SIDE, DEPTH = 22 * 128, 8192  # 22 x 22 tiles, a few hundred; long enough for the clock, which ticks once a microsecond
RECORDED = {"schedule_row_major": 1, "schedule_groups_of_8": 8}


@functools.cache
def recorded(group: int) -> Schedule:
    """When and where the programs of one launch ran."""
    check_gpu()
    a = torch.randn(SIDE, DEPTH, dtype=torch.bfloat16, device="cuda")
    b = torch.randn(DEPTH, SIDE, dtype=torch.bfloat16, device="cuda")
    c = torch.empty(SIDE, SIDE, dtype=a.dtype, device="cuda")
    programs = (SIDE // TILE[0]) * (SIDE // TILE[1])
    sm, begin, end = torch.empty(3, programs, dtype=torch.int64, device="cuda")
    for _ in range(2):  # the first launch loads the code onto the GPU
        recorded_kernel[(programs,)](
            sm, begin, end, a, b, c, SIDE, SIDE, DEPTH, *a.stride(), *b.stride(), *c.stride(),
            BLOCK_M=TILE[0], BLOCK_N=TILE[1], BLOCK_K=TILE[2], GROUP_M=group, **OPTIONS,
        )
    return Schedule.of(sm, begin, end)


@triton.testing.perf_report([
    report(name, {"sm": "multiprocessor", "begin": "began", "end": "ended"}, list(range((SIDE // 128) ** 2)), "program",
           "µs", x_name="program", group=group)
    for name, group in RECORDED.items()
])  # fmt: skip
def schedules(program, what, group):
    """The multiprocessor that ran a program, and the microseconds from the first beginning to its beginning and end."""
    return getattr(recorded(group), what)[program]


# --8<-- [start:begun]
def in_the_order_begun(order: list, schedule: Schedule) -> list:
    """Return what ``order`` lists by pid in the order in which the programs began.

    >>> in_the_order_begun(["a", "b", "c"], Schedule(sm=(0, 1, 2), begin=(0.0, 2.0, 1.0), end=(3.0, 3.0, 3.0)))
    ['a', 'c', 'b']
    """
    return [tile for _, tile in sorted(zip(schedule.begin, order, strict=True), key=lambda pair: pair[0])]
# --8<-- [end:begun]


def main():
    if sys.argv[1:2] == ["run"]:
        return run_all([int(size) for size in sys.argv[2:]])
    try:
        gpu = capacity()
    except ValueError as error:
        raise SystemExit(error) from error
    print(f"programs at once: {gpu['resident']}")
    print(f"tiles that L2 holds: {gpu['cache']}")
    for group in RECORDED.values():
        seen, tiles = recorded(group), tile_order(SIDE // 128, SIDE // 128, group)
        lasted = [end - begin for begin, end in zip(seen.begin, seen.end, strict=True)]
        print(f"## groups of {group}")
        print(f"groups of {group}, programs: {len(tiles)}")
        print(f"groups of {group}, programs that began before one with a smaller pid: {seen.overtakers}")
        print(f"groups of {group}, most at once on a multiprocessor: {seen.most_at_once}")
        print(f"groups of {group}, shortest program: {min(lasted):.1f} µs")
        print(f"groups of {group}, longest program: {max(lasted):.1f} µs")
        for name, order in (("pids", tiles), ("beginnings", in_the_order_begun(tiles, seen))):
            misses = tile_reads(order, DEPTH // 64, **gpu).misses
            print(f"groups of {group}, model by {name}, from memory: {misses * TILE_BYTES / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
