# SPDX-License-Identifier: Apache-2.0
"""Measure what a careful benchmark takes care of, one care at a time: the cache, launches, noise, the first calls.

Each table is a benchmark of ``perf_report``; the subject is the add kernel of the lesson *Vector add*, in float32;
``flush`` has torch's own add, and cuBLAS.
Units: GB/s count two elements read and one written; times are in microseconds unless the axis says otherwise.

``python benchmarking_measured.py`` lists them. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import triton
from triton.testing import do_bench, do_bench_cudagraph

from snippets.programs.vector_add import add
from snippets.tools.benchmarking import Timing, compare, milliseconds, time_runs
from snippets.tools.benchmarking_cold import Rotation, compare_in_rotation, empty


def numbers(n):
    """Return two tensors of ``n`` random float32 on the GPU."""
    return torch.rand(2, n, device="cuda")


# --8<-- [start:graph]
def in_a_graph(run):
    """Return a call's milliseconds when a CUDA graph repeats it, with no Python between the calls and L2 warm."""
    return do_bench_cudagraph(run, rep=10, return_mode="median")
# --8<-- [end:graph]


def unflushed(run):
    """Return a call's milliseconds, timed as ``do_bench`` does, but with L2 left as the call before left it."""
    return statistics.median(time_runs(run, flush="none"))


def by_do_bench(run):
    """Return a call's milliseconds after a flush that writes, as ``do_bench`` has it, and leaves L2 full of its zeros.
    """
    return do_bench(run, warmup=10, rep=40, return_mode="median")


# --8<-- [start:flush]
SUBJECTS = {
    "cuBLAS, 1 × 4096 × 4096": ("product", 1, 4096, 4096),
    "cuBLAS, 512 × 512 × 16384": ("product", 512, 512, 16384),
    **{f"torch.add, 2**{k}": ("add", 2**k) for k in (20, 22, 24, 26)},
}
FLUSHED = {
    "zeros": "do_bench: zeros written",
    "clean": "zeros written, then others read",
    "rotation": "operands in rotation",
    "hot": "the same operands again and again",
    "empty": "empty kernel, in rotation",
}


def subject(kind, *sizes):
    """Return a function of operands, and one that makes them; the result is one of them, so it is as cold as the rest.
    """
    if kind == "add":
        return (lambda x, y, out: torch.add(x, y, out=out)), lambda: torch.rand(3, *sizes, device="cuda").unbind()
    M, N, K = sizes
    random = lambda *shape: torch.randn(shape, dtype=torch.bfloat16, device="cuda")
    return (lambda a, b, out: torch.matmul(a, b, out=out)), lambda: (random(M, K), random(K, N), random(M, N))


@functools.lru_cache(maxsize=1)
def measure_flush(name, rounds=6):
    """Return a Timing for each way to time; single calls are graphs, so that no way times Python."""
    run, make = subject(*SUBJECTS[name])
    operands = make()
    single = torch.cuda.CUDAGraph()
    run(*operands)
    torch.cuda.synchronize()
    with torch.cuda.graph(single):
        run(*operands)
    hot = Rotation(run, [operands])
    timers = {"zeros": by_do_bench, "clean": milliseconds, "hot": lambda replay: hot.milliseconds()}
    found = {way: compare({way: single.replay}, rounds=rounds, timer=timer)[way] for way, timer in timers.items()}
    rotated = compare_in_rotation({"rotation": run, "empty": empty}, make, rounds=rounds)
    return found | rotated


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="flush",
        x_names=["what"],
        x_vals=list(SUBJECTS),
        xlabel="a call",
        ylabel="µs",
        line_arg="way",
        line_vals=list(FLUSHED),
        line_names=list(FLUSHED.values()),
        args={},
    )
)
def flush(what, way):
    """Microseconds of one and the same call by what is in L2 before it: median, fastest and slowest of 6 rounds."""
    timing = measure_flush(what)[way]
    return tuple(ms * 1e3 for ms in (timing.median, min(timing.rounds), max(timing.rounds)))
# --8<-- [end:flush]


# --8<-- [start:timeline]
@functools.lru_cache(maxsize=1)
def measure_timeline(n, calls=3):
    """Return ``{line: [microsecond of each call]}``, from torch's profiler, which slows the host down a little."""
    x, y = numbers(n)
    other_data = torch.empty(256 * 2**20, dtype=torch.uint8, device="cuda")

    def once():
        other_data.zero_()
        with torch.profiler.record_function("the call"):
            add(x, y)

    activities = torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(2):  # the first calls under the profiler are slow
            torch.cuda.synchronize()
            for _ in range(calls):
                once()
        torch.cuda.synchronize()
    on_gpu = [event for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    seen = {
        "host": [e for e in profiler.events() if e.name == "the call" and e not in on_gpu],
        "flush": [e for e in on_gpu if "FillFunctor" in e.name or "memset" in e.name.lower()],
        "kernel": [e for e in on_gpu if e.name == "add_kernel"],
    }
    ranges = {kind: sorted((e.time_range for e in events), key=lambda r: r.start) for kind, events in seen.items()}
    assert all(len(found) == 2 * calls for found in ranges.values()), [event.name for event in profiler.events()]
    ranges = {kind: found[calls:] for kind, found in ranges.items()}
    zero = min(found[0].start for found in ranges.values())
    return {
        f"{kind}_{edge}": [getattr(busy, attribute) - zero for busy in found]
        for kind, found in ranges.items()
        for edge, attribute in (("begin", "start"), ("end", "end"))
    }


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="timeline",
        x_names=["call"],
        x_vals=[1, 2, 3],
        xlabel="call",
        ylabel="µs",
        line_arg="edge",
        line_vals=["host_begin", "host_end", "flush_begin", "flush_end", "kernel_begin", "kernel_end"],
        line_names=[
            "add is called", "add returns", "emptying begins", "emptying ends", "kernel begins", "kernel ends",
        ],
        args={"n": 2**26},
    )
)  # fmt: skip
def timeline(call, edge, n):
    """When the host was inside each call of add, and when the GPU emptied its cache and ran the kernel."""
    return measure_timeline(n)[edge][call - 1]
# --8<-- [end:timeline]


# --8<-- [start:bandwidth]
@functools.lru_cache(maxsize=1)
def measure_cache(n):
    """Return GB/s by side: median, slowest and fastest round."""
    x, y = numbers(n)
    source = torch.rand(3 * n // 2, device="cuda")  # half of the bytes of a copy are read, half are written
    target = torch.empty_like(source)
    moved = 3 * n * 4  # two float32 loads and one store for each element
    sides = compare({"flushed": lambda: add(x, y), "copy": lambda: target.copy_(source)}, rounds=3)
    sides |= compare({"unflushed": lambda: add(x, y)}, rounds=3, timer=unflushed)
    sides |= compare({"graph": lambda: add(x, y)}, rounds=2, timer=in_a_graph)
    return {side: timing.rate(moved, 1e9) for side, timing in sides.items()}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="cache",
        x_names=["n"],
        x_vals=[2**k for k in range(12, 28)],
        x_log=True,
        xlabel="elements (float32)",
        ylabel="GB/s",
        line_arg="timer",
        line_vals=["flushed", "unflushed", "graph", "copy"],
        line_names=["cache cold and clean", "cache not emptied", "CUDA graph, not emptied", "copy, cold and clean"],
        args={},
    )
)
def cache(n, timer):
    """Bytes that add moves per second, by how it is timed; and a copy of as many bytes, from a cold and clean cache."""
    return measure_cache(n)[timer]
# --8<-- [end:bandwidth]


# --8<-- [start:calls]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="calls",
        x_names=["calls"],
        x_vals=[1, 2, 4, 8, 16, 32, 64],
        x_log=True,
        xlabel="calls of add in the function that is timed",
        ylabel="µs per call of add",
        line_arg="timer",
        line_vals=["do_bench", "graph"],
        line_names=["do_bench", "CUDA graph"],
        args={"n": 2**12},
    )
)
def calls(calls, timer, n):
    """Microseconds for each of several small adds in a row: where Python is slower than the GPU, events time Python."""
    x, y = numbers(n)

    def several():
        for _ in range(calls):
            add(x, y)

    how = {"do_bench": by_do_bench, "graph": in_a_graph}[timer]
    timing = compare({timer: several}, rounds=3, timer=how)[timer]
    return tuple(ms * 1e3 / calls for ms in (timing.median, min(timing.rounds), max(timing.rounds)))
# --8<-- [end:calls]


# --8<-- [start:noise]
@functools.lru_cache(maxsize=1)
def measure_noise(n, pairs=8):
    """Return by how much two timings of one function differ, in percent: median, least and most of ``pairs`` pairs."""
    x, y = numbers(n)
    run = lambda: add(x, y)
    found = {way: [] for way in ("brief", "mean", "median", "turns")}
    for _ in range(pairs):
        brief = [do_bench(run, warmup=1, rep=2) for _ in range(2)]
        every = [do_bench(run, return_mode="all") for _ in range(2)]
        turns = compare({"one": run, "other": run}, rounds=4).values()
        found["brief"].append(brief)
        found["mean"].append([statistics.mean(times) for times in every])
        found["median"].append([statistics.median(times) for times in every])
        found["turns"].append([timing.median for timing in turns])
    percent = {way: [100 * (max(pair) / min(pair) - 1) for pair in all_pairs] for way, all_pairs in found.items()}
    return {way: (statistics.median(all_pairs), min(all_pairs), max(all_pairs)) for way, all_pairs in percent.items()}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="noise",
        x_names=["n"],
        x_vals=[2**14, 2**24],
        xlabel="elements",
        ylabel="%",
        line_arg="way",
        line_vals=["brief", "mean", "median", "turns"],
        line_names=["do_bench for 2 ms", "do_bench as it comes (mean)", "its median", "compare, 4 rounds"],
        args={},
    )
)
def noise(n, way):
    """By how many percent two timings of the same function differ: the median of 8 pairs, the least and the most."""
    return measure_noise(n)[way]


@functools.lru_cache(maxsize=1)
def measure_readings(n):
    x, y = numbers(n)
    found = torch.tensor(do_bench(lambda: add(x, y), return_mode="all"), dtype=torch.float64) * 1e3
    quantiles = {"least": 0, "q20": 0.2, "median": 0.5, "q80": 0.8, "most": 1}
    return {"mean": found.mean().item()} | {name: found.quantile(q).item() for name, q in quantiles.items()}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="readings",
        x_names=["n"],
        x_vals=[2**12, 2**16, 2**20, 2**24],
        xlabel="elements",
        ylabel="µs",
        line_arg="what",
        line_vals=["least", "q20", "median", "q80", "most", "mean"],
        line_names=["least", "quantile 0.2", "median", "quantile 0.8", "most", "mean"],
        args={},
    )
)
def readings(n, what):
    """The readings of one do_bench, 100 ms of them."""
    return measure_readings(n)[what]
# --8<-- [end:noise]


# --8<-- [start:sustained]
@functools.lru_cache(maxsize=1)
def measure_sustained(n=8192, runs=256, repeats=3):
    """Return milliseconds of many products in a row, from a GPU that rested: ``{numbers: [run, …]}`` by repeat."""
    operands = {
        "normal": torch.randn(2, n, n, device="cuda", dtype=torch.bfloat16),
        "zeros": torch.zeros(2, n, n, device="cuda", dtype=torch.bfloat16),
    }
    operands["normal"][0] @ operands["normal"][1]  # loads what cuBLAS needs
    found = {name: [] for name in operands}
    for _ in range(repeats):
        for name, (a, b) in operands.items():
            torch.cuda.synchronize()
            time.sleep(0.5)
            found[name].append(time_runs(lambda a=a, b=b: a @ b, runs=runs, warmups=0, flush="none"))
    return found


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="sustained",
        x_names=["run"],
        x_vals=[2**k for k in range(9)],
        x_log=True,
        xlabel="run, after half a second of rest",
        ylabel="TFLOP/s",
        line_arg="numbers",
        line_vals=["normal", "zeros"],
        line_names=["normally distributed numbers", "zeros"],
        args={"n": 8192},
    )
)
def sustained(run, numbers, n):
    """Speed of the first, second, fourth … of many 8192³ products in bfloat16 in a row: median, least, most of 3."""
    return Timing(tuple(times[run - 1] for times in measure_sustained(n)[numbers])).rate(2 * n**3, 1e12)
# --8<-- [end:sustained]


# --8<-- [start:first]
def time_first_calls(n, calls=4):
    """Print the milliseconds of the first calls of add in this process, each waited for, as a JSON list."""
    device = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    x, y = torch.rand(2, n, device=device)
    torch.add(x, y)  # so that torch itself is ready
    wait()
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        add(x, y)
        wait()
        times.append((time.perf_counter() - begin) * 1e3)
    print(json.dumps(times))


def in_a_new_process(call, **variables):
    """Return what a function of this chapter prints in a new Python, with these environment variables."""
    code = f"import snippets.tools.{call.partition('.')[0]}; snippets.tools.{call}"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)} | variables
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


@functools.lru_cache(maxsize=1)
def measure_first_calls(n):
    with tempfile.TemporaryDirectory() as empty:
        call = f"benchmarking_measured.time_first_calls({n})"
        return {kept: in_a_new_process(call, TRITON_CACHE_DIR=empty) for kept in ("nothing", "disk")}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="first_calls",
        x_names=["call"],
        x_vals=[1, 2, 3, 4],
        xlabel="call of a new process",
        ylabel="ms",
        y_log=True,
        line_arg="kept",
        line_vals=["nothing", "disk"],
        line_names=["nothing compiled yet", "compiled by an earlier process"],
        args={"n": 2**20},
    )
)
def first_calls(call, kept, n):
    """Milliseconds of the first calls of add in a new process, by the host's clock, waiting for each to finish."""
    return measure_first_calls(n)[kept][call - 1]
# --8<-- [end:first]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (timeline, flush, cache, calls, readings, noise, sustained, first_calls):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
