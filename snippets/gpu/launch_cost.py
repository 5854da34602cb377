# SPDX-License-Identifier: Apache-2.0
"""Measure what a launch costs: kernels that do nothing or almost nothing, by three clocks.

- ``host``: until the call has returned, by the clock of the CPU; nobody waits for the GPU
- ``queue``: from one call to the next when calls follow each other, by the clock of the GPU
- ``graph``: the same from a CUDA graph, with no Python between the launches

Units: microseconds a call. Adding is that of the lesson *Vector add*, on 1,024 float32. ``small`` and ``large`` are
four calls in a row as torch's profiler saw them, which slows the host down.

``python launch_cost.py`` says what there is to measure; measuring needs a GPU.
"""

import functools
import statistics
import time

import torch
import triton

from snippets.gpu.launch_and_latency import powers
from snippets.programs.vector_add import add, add_kernel


# --8<-- [start:nothing]
@triton.jit
def nothing_kernel():
    pass


@triton.jit
def nothing_of_eight_kernel(a_ptr, b_ptr, c_ptr, d_ptr, e_ptr, f_ptr, g_ptr, h_ptr):
    pass
# --8<-- [end:nothing]


# --8<-- [start:clocks]
def host(run, calls):
    """Return the seconds until ``calls`` calls have returned. They fit into the queue, so that none has to wait."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        run()
    return time.perf_counter() - begin


def queue(run, calls):
    """Return the seconds from the first of ``calls`` launches to the end of the last, on the GPU."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    for _ in range(calls):
        run()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e-3
# --8<-- [end:clocks]


def subjects(n=1024):
    """Return the functions to launch, by name."""
    x, y, out = torch.rand(3, n, device="cuda")
    tensors = [torch.rand(n, device="cuda") for _ in range(8)]
    return {
        "an empty kernel": lambda: nothing_kernel[(1,)](),
        "an empty kernel, 8 tensors": lambda: nothing_of_eight_kernel[(1,)](*tensors),
        "add_kernel": lambda: add_kernel[(1,)](x, y, out, n, BLOCK_SIZE=1024, num_warps=8),
        "add": lambda: add(x, y),
        "torch.add": lambda: torch.add(x, y),
        "torch.add, out=": lambda: torch.add(x, y, out=out),
    }


NAMES = [
    "an empty kernel", "an empty kernel, 8 tensors", "add_kernel", "add", "torch.add", "torch.add, out=",
]  # fmt: skip


@functools.lru_cache(maxsize=1)
def measure(rounds=9, calls=500):
    """Return ``{(name, clock): [microseconds a call, …]}``, one for each round; all take turns."""
    found = {(name, clock): [] for name in NAMES for clock in ("host", "queue", "graph")}
    graphs = {}
    runs = subjects()
    for name, run in runs.items():
        run()  # compiled before it is recorded
        graph = graphs[name] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(calls):
                run()
    for _ in range(rounds):
        for name, run in runs.items():
            found[name, "host"].append(host(run, calls) * 1e6 / calls)
            found[name, "queue"].append(queue(run, calls) * 1e6 / calls)
            found[name, "graph"].append(queue(graphs[name].replay, 1) * 1e6 / calls)
    return found


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="launch",
        x_names=["what"],
        x_vals=NAMES,
        xlabel="what is launched",
        ylabel="µs",
        line_arg="clock",
        line_vals=["host", "queue", "graph"],
        line_names=["until the call returns", "from call to call", "in a CUDA graph"],
        args={},
    )
)
def launch(what, clock):
    """Microseconds a call, on 1,024 numbers: median, fastest and slowest of 9 rounds of 500 calls."""
    times = measure()[what, clock]
    return statistics.median(times), min(times), max(times)


# --8<-- [start:timeline]
@functools.lru_cache(maxsize=1)
def measure_timeline(n, k=1, calls=4):
    """Return ``{line: [microsecond of each call]}`` of ``powers``: in it on the host, and in its kernel on the GPU."""
    x = torch.rand(n, device="cuda")
    activities = torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(3):  # the first calls under the profiler are slow
            torch.cuda.synchronize()
            for _ in range(calls):
                with torch.profiler.record_function("the call"):
                    powers(x, k)
        torch.cuda.synchronize()
    events = [event for event in profiler.events() if event.name in ("the call", "powers_kernel")]
    on_gpu = [event.device_type == torch.autograd.DeviceType.CUDA for event in events]
    ranges = {
        "host": [e.time_range for e, gpu in zip(events, on_gpu, strict=True) if e.name == "the call" and not gpu],
        "kernel": [e.time_range for e, gpu in zip(events, on_gpu, strict=True) if e.name == "powers_kernel" and gpu],
    }
    assert all(len(found) == 3 * calls for found in ranges.values()), ranges
    last = {kind: sorted(found, key=lambda range: range.start)[-calls:] for kind, found in ranges.items()}
    zero = last["host"][0].start
    return {
        f"{kind}_{edge}": [getattr(busy, attribute) - zero for busy in found]
        for kind, found in last.items()
        for edge, attribute in (("begin", "start"), ("end", "end"))
    }


EDGES = {
    "x_names": ["call"],
    "x_vals": [1, 2, 3, 4],
    "xlabel": "call",
    "ylabel": "µs",
    "line_arg": "edge",
    "line_vals": ["host_begin", "host_end", "kernel_begin", "kernel_end"],
    "line_names": ["powers is called", "powers returns", "kernel begins", "kernel ends"],
}


@triton.testing.perf_report(triton.testing.Benchmark(plot_name="small", args={"n": 2**12}, **EDGES))
def small(call, edge, n):
    """When the host was inside each of four calls on 4,096 numbers, and when the GPU ran their kernels."""
    return measure_timeline(n)[edge][call - 1]


@triton.testing.perf_report(triton.testing.Benchmark(plot_name="large", args={"n": 2**26}, **EDGES))
def large(call, edge, n):
    """The same on 67 million numbers."""
    return measure_timeline(n)[edge][call - 1]
# --8<-- [end:timeline]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (launch, small, large):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
