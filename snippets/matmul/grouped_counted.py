# SPDX-License-Identifier: Apache-2.0
"""The order of programs, measured: L2 hits and bytes from memory by hardware counters, TFLOP/s, and the real order.

For square bfloat16 matrices of several sizes and groups of several sizes, the product of ``grouped.py``:

- ``hits_SIZE`` and ``memory_SIZE``: what NVIDIA's ``ncu`` counted in launches that began with empty caches, beside
  what ``tile_reads`` predicts for the whole L2 cache of this GPU, and for half of it
- ``received`` and ``asked``: sectors that reached the multiprocessors, and that L2 was asked for on their behalf
- ``coalescer_in`` and ``coalescer_out``: sectors that the coalescer between L2 and multiprocessors got and sent on
- ``halves``: sectors that one half of L2 asked of the other
- ``sides_SIZE``: bytes from memory and between the halves of L2, counted, and by a model of two halves
- ``speed``: TFLOP/s, all groups of a size in turns by one timer
- ``schedule_row_major`` and ``schedule_groups_of_8``: which multiprocessor took up which program, and when
- ``drift_SIZE``: bytes from memory in one launch, and the model once more, with the times at which its programs ran;
  of some groups in three launches, for no two drift alike
- ``apart``: how far the programs of a wave were apart when they began

Units: percent of the 32-byte sectors that the multiprocessors asked L2 for; GB from memory; ``2 * size**3`` FLOPs.
Source: NVIDIA's documentation of Nsight Compute, on the metrics of ``lts`` and ``dram``.

``python grouped_counted.py`` needs an NVIDIA GPU, and the counters ``ncu``.
"""

import functools
import random
import statistics
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from snippets.gpu.counters import counters
from snippets.gpu.schedule import Schedule, check_gpu, count_multiprocessors, multiprocessor, time_now
from snippets.gpu.schedule_occupancy import programs_at_once
from snippets.matmul.grouped import TILE_BYTES, Reads, matmul, matmul_kernel, predict, tile_order
from snippets.tools.benchmarking_cold import rates

# --8<-- [start:cases]
SIZES = (2048, 4096, 8192, 16384)
GROUPS = (1, 2, 4, 8, 16, 32, 64)
TILE, OPTIONS = (128, 128, 64), {"num_warps": 8, "num_stages": 4}
LAUNCHES = 3  # of each case are counted, for no two run alike
METRICS = {
    "ncu": "lts__t_sector_hit_rate.pct",  # of all that L2 was asked, also by its other half
    "received": "l1tex__m_xbar2l1tex_read_sectors.sum",  # by multiprocessors
    "coalescer_out": "lrc__xbar2gpc_sectors_op_read.sum",  # from the coalescer, which sits before L2
    "coalescer_in": "lrc__lts2lrc_sectors_op_read.sum",  # from L2 to the coalescer
    "asked": "lts__t_sectors_srcunit_tex.sum",  # of L2, for multiprocessors
    "answered": "lts__t_sectors_srcunit_tex_lookup_hit.sum",
    "halves": "lts__t_sectors_srcunit_ltcfabric.sum",
    "memory": "dram__bytes_read.sum",
}


def matrices(size):
    return torch.randn(2, size, size, dtype=torch.bfloat16, device="cuda")


def run_all(sizes):
    """Run what ``ncu`` watches."""
    for size in sizes:
        a, b = matrices(size)
        for group in GROUPS:
            matmul(a[:128, :128], b[:128, :128], group=group, tile=TILE, **OPTIONS)  # compiles, outside of the count
            torch.cuda.synchronize()
            for _ in range(LAUNCHES):
                with torch.cuda.profiler.profile():
                    matmul(a, b, group=group, tile=TILE, **OPTIONS)
                    torch.cuda.synchronize()
# --8<-- [end:cases]


@functools.lru_cache(maxsize=1)
def capacity() -> dict[str, int]:
    """Return what the model wants to know of this GPU: programs that run at once, and tiles that its L2 cache holds."""
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
    """Return, by size and group, each launch's counts and the model's, with the whole cache and with half of it."""
    gpu = capacity()
    half = gpu | {"cache": gpu["cache"] // 2}
    cases = [(size, group) for size in SIZES for group in GROUPS]
    with ThreadPoolExecutor() as pool:  # ncu's process counts while this one computes
        counting = pool.submit(counters, list(METRICS.values()), __file__, "run", *map(str, SIZES), cache="all")
        found = {case: {"whole": predict(*case, **gpu), "half": predict(*case, **half)} for case in cases}
    launches = [{what: launch[metric] for what, metric in METRICS.items()} for launch in counting.result()]
    for i, case in enumerate(cases):
        found[case]["launches"] = launches[i * LAUNCHES : (i + 1) * LAUNCHES]
    assert len(launches) == len(cases) * LAUNCHES
    return found
# --8<-- [end:measure]


def of_launches(size: int, group: int, value: Callable[[dict], float]) -> tuple[float, float, float]:
    """Return median, least and most of ``value`` over the counted launches of a case."""
    return ranged([value(launch) for launch in measure()[size, group]["launches"]])


def ranged(readings: list[float]) -> tuple[float, float, float]:
    """Return median, least and most: of a single reading, three times the same."""
    return statistics.median(readings), min(readings), max(readings)


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


# --8<-- [start:keep]
def keep(kept: OrderedDict, what: int, cache: int) -> bool:
    """Say whether it is in the cache. Now it is, and was asked for last."""
    found = what in kept
    kept[what] = None
    kept.move_to_end(what)
    if len(kept) > cache:
        kept.popitem(last=False)
    return found
# --8<-- [end:keep]


class Halves(NamedTuple):
    """Tiles that programs read, that one half of L2 asked of the other, and that were read from memory."""

    reads: int
    crossed: float
    memory: float


def two_halves(
    order: Sequence[tuple[int, int]], tiles_k: int, *,
    resident: int, cache: int, seed: int = 0,
) -> Halves:
    """Count as ``tile_reads`` does, for a cache of two halves, each near to half of the programs.

    Half of each tile belongs to either half of L2. A program asks its near half
    for both. If that has not kept what belongs to the other, it asks there. Each
    keeps all that it was asked for, up to half of ``cache`` tiles. Which half a
    program is near to, chance decides.

    >>> both = [(0, 0), (0, 1)]  # two programs, A shared
    >>> two_halves(both, 1, resident=2, cache=99)
    Halves(reads=4, crossed=2.0, memory=3.0)
    """
    near = random.Random(seed).sample([0, 1] * ((resident + 1) // 2), resident)
    halves, crossed, memory = (OrderedDict(), OrderedDict()), 0, 0
    # --8<-- [start:halves]
    for first in range(0, len(order), resident):
        wave = order[first : first + resident]
        for k in range(tiles_k):
            for mine, (m, n) in zip(near, wave, strict=False):
                for tile in m * tiles_k + k, -1 - (n * tiles_k + k):  # A's, B's
                    for owner in 0, 1:  # each has half of the tile
                        piece = 2 * tile + owner
                        if keep(halves[mine], piece, cache):
                            continue
                        if owner != mine:
                            crossed += 1
                            if keep(halves[owner], piece, cache):
                                continue
                        memory += 1
    # --8<-- [end:halves]
    return Halves(2 * len(order) * tiles_k, crossed / 2, memory / 2)


@triton.testing.perf_report([
    report(f"hits_{size}", HITS, list(GROUPS), "rows of tiles in a group", "%", size=size) for size in SIZES
])  # fmt: skip
def hits(group, what, size):
    """Percent of what the multiprocessors asked L2 for that it answered, counted and predicted."""
    if what in ("whole", "half"):
        seen = measure()[size, group][what]
        return 100 * seen.hits / seen.reads
    values = {
        "ncu": lambda seen: seen["ncu"],
        "answered": lambda seen: 100 * seen["answered"] / seen["asked"],
        "spared": lambda seen: 100 * (1 - seen["memory"] / 32 / seen["asked"]),
    }
    return of_launches(size, group, values[what])


@triton.testing.perf_report([
    report(f"memory_{size}", MEMORY, list(GROUPS), "rows of tiles in a group", "GB", size=size) for size in SIZES
])  # fmt: skip
def memory(group, what, size):
    """GB read from memory, counted and predicted."""
    if what == "least":
        return 2 * size * size * 2 / 1e9
    if what == "memory":
        return of_launches(size, group, lambda seen: seen["memory"] / 1e9)
    return measure()[size, group][what].misses * TILE_BYTES / 1e9


SHARES = {
    "received": ("received", "% of the model's reads"),
    "coalescer_out": ("coalescer_out", "% of the model's reads"),
    "coalescer_in": ("coalescer_in", "% of the model's reads"),
    "asked": ("asked", "% of the model's reads"),
    "halves": ("halves", "% of what the multiprocessors asked"),
}
LINES = {f"size_{size}": f"{size}" for size in SIZES}


@triton.testing.perf_report([
    report(name, LINES, list(GROUPS), "rows of tiles in a group", ylabel, line_arg="side", what=what)
    for name, (what, ylabel) in SHARES.items()
])  # fmt: skip
def shares(group, side, what):
    """Percent: sectors that multiprocessors received, L2 was asked for, and one half of L2 asked of the other."""
    size = int(side.removeprefix("size_"))
    reads = measure()[size, group]["whole"].reads * TILE_BYTES / 32
    return of_launches(
        size, group, lambda seen: 100 * seen[what] / (seen["asked"] if what == "halves" else reads)
    )


SIDED = {size: list(GROUPS) for size in (4096, 8192)}
SIDES = {
    "memory": "memory, measured", "sides": "memory, two halves", "half": "memory, half of L2",
    "crossed": "between halves, measured", "crossing": "between halves, two halves",
}  # fmt: skip


@functools.cache
def sided(size: int, group: int) -> Halves:
    gpu, tiles = capacity(), size // TILE[0]
    return two_halves(tile_order(tiles, tiles, group), size // TILE[2], **gpu)


@triton.testing.perf_report([
    report(f"sides_{size}", SIDES, groups, "rows of tiles in a group", "GB", size=size)
    for size, groups in SIDED.items()
])  # fmt: skip
def sides(group, what, size):
    """GB read from memory, and asked by one half of L2 of the other: counted, and by a model of two halves."""
    if what in ("memory", "half"):
        return memory.fn(group, what, size)
    if what == "crossed":
        return of_launches(size, group, lambda seen: 32 * seen["halves"] / 1e9)
    return getattr(sided(size, group), "memory" if what == "sides" else "crossed") * TILE_BYTES / 1e9


# --8<-- [start:speed]
@functools.cache
def timings(size):
    sides = {
        group: functools.partial(matmul, group=group, tile=TILE, **OPTIONS)
        for group in GROUPS
    }
    return rates(sides, lambda: matrices(size).unbind(), 2 * size**3)


@triton.testing.perf_report([
    report("speed", LINES, list(GROUPS), "rows of tiles in a group", "TFLOP/s", line_arg="side")
])  # fmt: skip
def speed(group, side):
    """TFLOP/s, all groups of a size in turns by one timer."""
    size = int(side.removeprefix("size_"))
    return timings(size)[group]
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


SIDE, DEPTH = 22 * 128, 8192  # 22 x 22 tiles: a few hundred programs, which a picture can show
RECORDED = {"schedule_row_major": 1, "schedule_groups_of_8": 8}


def recorder(group: int, side: int, depth: int) -> tuple[Callable[[], object], torch.Tensor]:
    """Return a function that launches ``(side, depth)`` times ``(depth, side)``, and where programs write.

    They write their SM, begin and end.
    """
    check_gpu()
    a = torch.randn(side, depth, dtype=torch.bfloat16, device="cuda")
    b = torch.randn(depth, side, dtype=torch.bfloat16, device="cuda")
    c = torch.empty(side, side, dtype=a.dtype, device="cuda")
    programs = (side // TILE[0]) * (side // TILE[1])
    written = torch.empty(3, programs, dtype=torch.int64, device="cuda")
    launch = functools.partial(
        recorded_kernel[(programs,)],
        *written, a, b, c, side, side, depth, *a.stride(), *b.stride(), *c.stride(),
        BLOCK_M=TILE[0], BLOCK_N=TILE[1], BLOCK_K=TILE[2], GROUP_M=group, **OPTIONS,
    )
    return launch, written


@functools.cache
def recorded(group: int) -> Schedule:
    """Return when and where the programs of one small launch ran."""
    launch, written = recorder(group, SIDE, DEPTH)
    launch()  # the first loads the code onto the GPU
    launch()
    return Schedule.of(*written)


@triton.testing.perf_report([
    report(name, {"sm": "multiprocessor", "begin": "began", "end": "ended"}, list(range((SIDE // 128) ** 2)), "program",
           "µs", x_name="program", group=group)
    for name, group in RECORDED.items()
])  # fmt: skip
def schedules(program, what, group):
    """The multiprocessor that ran a program, and the microseconds from the first beginning to its beginning and end."""
    return getattr(recorded(group), what)[program]


def timed_reads(order: Sequence[tuple[int, int]], schedule: Schedule, tiles_k: int, *, cache: int) -> Reads:
    """Count as ``tile_reads`` does, but with the times at which programs really ran.

    A program does its steps evenly spread from when it began to when it ended.

    >>> one_after_the_other = Schedule(sm=(0, 0), begin=(0.0, 1.0), end=(1.0, 2.0))
    >>> timed_reads([(0, 0), (0, 1)], one_after_the_other, 3, cache=2)
    Reads(reads=12, hits=0)
    >>> at_once = Schedule(sm=(0, 1), begin=(0.0, 0.1), end=(1.0, 1.1))
    >>> timed_reads([(0, 0), (0, 1)], at_once, 3, cache=2)
    Reads(reads=12, hits=3)
    """
    # --8<-- [start:timed]
    begin, end = torch.tensor(
        [schedule.begin, schedule.end], dtype=torch.float64
    )
    step = torch.arange(tiles_k)
    times = begin[:, None] + (end - begin)[:, None] * (step + 0.5) / tiles_k
    m, n = torch.tensor(order).T[:, :, None]
    tiles = torch.stack(
        [m * tiles_k + step, -1 - (n * tiles_k + step)], dim=-1  # A's, B's
    )
    asked_for = tiles.reshape(-1, 2)[
        times.flatten().argsort(stable=True)
    ].flatten().tolist()
    kept = OrderedDict()
    return Reads(
        len(asked_for), sum(keep(kept, tile, cache) for tile in asked_for)
    )
    # --8<-- [end:timed]


def apart(schedule: Schedule, resident: int) -> float:
    """Return how far apart a wave's programs begin, in lengths of a program; the median of all waves.

    >>> apart(Schedule(sm=(0, 1, 0, 1), begin=(0.0, 1.0, 4.0, 7.0), end=(4.0, 7.0, 8.0, 9.0)), resident=2)
    0.5
    """
    begin, end = schedule.begin, schedule.end
    length = statistics.fmean(end) - statistics.fmean(begin)
    waves = [begin[first : first + resident] for first in range(0, len(begin), resident)]
    return statistics.median(max(wave) - min(wave) for wave in waves) / length


TIMED = {"size_8192": "8192", "size_16384": "16384"}
DRIFT = {"memory": "measured", "half": "model, in step", "timed": "model, recorded times"}
DRIFTING = {(16384, group) for group in (8, 16, 32)}  # more in some launches than in others: of these, LAUNCHES each


def timed_cases(sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return size, group and number of each launch of ``run_timed`` that is counted.

    >>> timed_cases([8192])[:2], timed_cases([16384])[2:5]
    ([(8192, 1, 0), (8192, 2, 0)], [(16384, 4, 0), (16384, 8, 0), (16384, 8, 1)])
    """
    cases = [(size, group) for size in sizes for group in GROUPS]
    return [(*case, i) for case in cases for i in range(LAUNCHES if case in DRIFTING else 1)]


def run_timed(folder, sizes):
    """Run what ``ncu`` watches: launches that write down when their programs ran, for ``paired`` to read."""
    for size, group, i in timed_cases(sizes):
        if i == 0:
            launch, written = recorder(group, size, size)
            launch()  # compiles, outside of the count
            torch.cuda.synchronize()
        with torch.cuda.profiler.profile():
            launch()
            torch.cuda.synchronize()
        torch.save(written.cpu(), Path(folder, f"{size}_{group}_{i}"))


@functools.lru_cache(maxsize=1)
def paired() -> dict[tuple[int, int], list[tuple[float, Schedule]]]:
    """Return, by size and group, for each launch: GB that it read from memory, and when its programs ran."""
    cases, metric = timed_cases([int(size) for size in TIMED.values()]), METRICS["memory"]
    with tempfile.TemporaryDirectory() as folder:
        launches = counters([metric], __file__, "timed", folder, *TIMED.values(), cache="all")
        schedules = [Schedule.of(*torch.load(Path(folder, f"{size}_{group}_{i}"))) for size, group, i in cases]
    found = {}
    for (size, group, _), launch, schedule in zip(cases, launches, schedules, strict=True):
        found.setdefault((size, group), []).append((launch[metric] / 1e9, schedule))
    return found


@functools.cache
def drifted(size: int, group: int) -> list[tuple[float, float]]:
    """Return, for each launch, the GB that it read from memory, and those of the model with half of L2 and its times.
    """
    order, cache = tile_order(size // TILE[0], size // TILE[1], group), capacity()["cache"] // 2
    by_model = functools.partial(timed_reads, order, tiles_k=size // TILE[2], cache=cache)
    return [(read, by_model(schedule).misses * TILE_BYTES / 1e9) for read, schedule in paired()[size, group]]


@triton.testing.perf_report([
    report(f"drift_{size}", DRIFT, list(GROUPS), "rows of tiles in a group", "GB", size=int(size))
    for size in TIMED.values()
])  # fmt: skip
def drift(group, what, size):
    """GB read from memory: counted; by the model with half of L2, in step and with the times of the same launch.

    Median, least and most of three launches at 16384 in groups of 8, 16 and 32, else of one.
    """
    if what == "half":
        return memory.fn(group, what, size)
    return ranged([read if what == "memory" else by_model for read, by_model in drifted(size, group)])


@triton.testing.perf_report([
    report("apart", TIMED, list(GROUPS), "rows of tiles in a group", "% of a program's time", line_arg="side")
])  # fmt: skip
def spread(group, side):
    """How far apart the programs of a wave begin, in the launches of ``drift``."""
    launches, resident = paired()[int(side.removeprefix("size_")), group], capacity()["resident"]
    return ranged([100 * apart(schedule, resident) for _, schedule in launches])


def main():
    if sys.argv[1:2] == ["run"]:
        return run_all([int(size) for size in sys.argv[2:]])
    if sys.argv[1:2] == ["timed"]:
        return run_timed(sys.argv[2], [int(size) for size in sys.argv[3:]])
    try:
        gpu = capacity()
    except ValueError as error:
        raise SystemExit(error) from error
    print(f"programs at once: {gpu['resident']}")
    print(f"tiles that L2 holds: {gpu['cache']}")
    for group in RECORDED.values():
        seen = recorded(group)
        lasted = [end - begin for begin, end in zip(seen.begin, seen.end, strict=True)]
        print(f"## groups of {group}")
        print(f"groups of {group}, programs: {len(seen.sm)}")
        print(f"groups of {group}, programs that began before one with a smaller pid: {seen.overtakers}")
        print(f"groups of {group}, most at once on a multiprocessor: {seen.most_at_once}")
        print(f"groups of {group}, shortest program: {min(lasted):.1f} µs")
        print(f"groups of {group}, longest program: {max(lasted):.1f} µs")


if __name__ == "__main__":
    main()
