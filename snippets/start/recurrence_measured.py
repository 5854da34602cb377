# SPDX-License-Identifier: Apache-2.0
"""One operation, a gated linear recurrence, on every rung from eager PyTorch to CUDA C++, each measured.

``RUNGS`` names them. All compute ``h[t] = a[t] * h[t - 1] + b[t]`` over ``(series, time, channels)``, in float32.
Traffic that nobody can avoid: two elements read and one written for each element of the result.
Source: the doubling scan is that of Hillis and Steele, *Data Parallel Algorithms*, 1986; CuPy compiles and launches
the CUDA C++.

Needs a GPU, and CuPy 14 beside torch and Triton. Run it with ``python recurrence_measured.py``.
"""

import functools
import inspect
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tokenize

import torch
import torch.nn.functional as F
import triton
from torch._higher_order_ops.associative_scan import associative_scan

from snippets.start import when_to_write_a_kernel as lesson
from snippets.start.torch_compile_rms_norm import emitted_kernels
from snippets.start.when_to_write_a_kernel import recurrence, recurrence_eager
from snippets.tools.benchmarking import Timing, compare, milliseconds

MODULE = "snippets.start.recurrence_measured"  # __name__, unless this runs as a script
MANY = (16, 2048, 4096)  # series, time steps, channels: much to do at every step
LONG = (1, 16384, 64)  # one long series of few channels


def inputs(shape, device="cuda", dtype=torch.float32):
    """Gates between 0.88 and 1, and what they let in."""
    torch.manual_seed(0)
    a = torch.sigmoid(2 + 2 * torch.rand(shape, device=device))
    return a.to(dtype), torch.randn(shape, device=device).to(dtype)


# The rungs


def graphed(a, b):
    """Record the loop as a CUDA graph for these two tensors, and return what replays it."""
    recurrence_eager(a, b)
    # --8<-- [start:graph]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        h = recurrence_eager(a, b)

    def replay():
        graph.replay()
        return h
    # --8<-- [end:graph]

    return replay


# --8<-- [start:doubling]
def recurrence_doubling(a, b):
    """Join each step with the one before, then the two before, …"""
    step = 1
    while step < a.shape[1]:
        # The steps before the first are gates of 1 that let nothing in.
        a_before = F.pad(a[:, :-step], (0, 0, step, 0), value=1.0)
        b_before = F.pad(b[:, :-step], (0, 0, step, 0))
        a, b = a_before * a, a * b_before + b
        step *= 2
    return b
# --8<-- [end:doubling]


# --8<-- [start:scan]
def join(first, second):
    """Two stretches of time in a row, as one: h becomes a * h + b."""
    (a1, b1), (a2, b2) = first, second
    return a1 * a2, a2 * b1 + b2


def recurrence_scan(a, b):
    return associative_scan(join, (a, b), dim=1, combine_mode="pointwise")[1]
# --8<-- [end:scan]


# --8<-- [start:source]
CUDA_PLAIN = r"""
// --8<-- [start:plain]
extern "C" __global__ void recurrence(
    const float* __restrict__ a, const float* __restrict__ b,
    float* __restrict__ out,
    long long series, long long time, long long channels)
{
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= series * channels) return;
    i = i / channels * time * channels + i % channels;
    float h = 0;
    for (; time > 0; --time, i += channels) {
        h = a[i] * h + b[i];
        out[i] = h;
    }
}
// --8<-- [end:plain]
"""

CUDA_AHEAD = r"""
// --8<-- [start:ahead]
const int AHEAD = 16; // time steps that are loaded ahead

extern "C" __global__ void recurrence(
    const float* __restrict__ a, const float* __restrict__ b,
    float* __restrict__ out,
    long long series, long long time, long long channels)
{
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= series * channels) return;
    i = i / channels * time * channels + i % channels;
    // Two sets of registers: one is computed with while the other fills.
    float h = 0, as[2][AHEAD], bs[2][AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; ++k)
        if (k < time) {
            as[0][k] = a[i + k * channels];
            bs[0][k] = b[i + k * channels];
        }
    for (long long t = 0; t < time; t += 2 * AHEAD)
#pragma unroll
        for (int set = 0; set < 2; ++set) {
            long long now = t + set * AHEAD;
#pragma unroll
            for (int k = 0; k < AHEAD; ++k)
                if (now + AHEAD + k < time) {
                    as[1 - set][k] = a[i + (AHEAD + k) * channels];
                    bs[1 - set][k] = b[i + (AHEAD + k) * channels];
                }
#pragma unroll
            for (int k = 0; k < AHEAD; ++k, i += channels)
                if (now + k < time) {
                    h = as[set][k] * h + bs[set][k];
                    out[i] = h;
                }
        }
}
// --8<-- [end:ahead]
"""
# --8<-- [end:source]


@functools.cache
def cuda_kernel(source: str):
    """Return the kernel of a source; CuPy compiles it at its first launch."""
    import cupy

    return cupy.RawKernel(source, "recurrence")


# --8<-- [start:cuda_launch]
def launch_cuda(a, b, h, source, threads=64):
    import cupy

    series, time, channels = h.shape
    blocks = triton.cdiv(series * channels, threads)
    pointers = (tensor.data_ptr() for tensor in (a, b, h))
    stream = torch.cuda.current_stream(h.device)
    with cupy.cuda.Device(h.device.index), cupy.cuda.Stream.from_external(stream):
        arguments = (*pointers, series, time, channels)
        cuda_kernel(source)((blocks,), (threads,), arguments)
    return h
# --8<-- [end:cuda_launch]


def recurrence_cuda(a: torch.Tensor, b: torch.Tensor, source: str = CUDA_AHEAD) -> torch.Tensor:
    """Return ``h[:, t] = a[:, t] * h[:, t - 1] + b[:, t]``, computed on a GPU in CUDA C++, in float32 only.

    ``source`` is ``CUDA_PLAIN`` or ``CUDA_AHEAD``. Arguments and errors are otherwise those of :func:`recurrence`.
    """
    if a.dtype != torch.float32 or a.device.type != "cuda":
        raise ValueError(f"a must be of float32 on a GPU; got {a.dtype} on {a.device}")
    lesson.check_arguments(a, b, block=64)
    if a.shape[0] * a.shape[2] > 64 * (2**31 - 1):  # CUDA's limit of blocks along one axis
        raise ValueError(f"{a.shape[0]} series of {a.shape[2]} channels are too many")
    h = torch.empty_like(b)
    return launch_cuda(a, b, h, source) if h.numel() else h


def compiled(function):
    """``torch.compile`` for tensors of this shape alone, which is what it does best, started afresh."""
    torch._dynamo.reset()
    return torch.compile(function, dynamic=False, fullgraph=True)


# Each rung, given its inputs, returns a function that computes the result again and again.
RUNGS = {
    "eager": lambda a, b: lambda: recurrence_eager(a, b),
    "graph": graphed,
    "doubling": lambda a, b: functools.partial(compiled(recurrence_doubling), a, b),
    "scan": lambda a, b: functools.partial(compiled(recurrence_scan), a, b),
    "triton": lambda a, b: lambda: recurrence(a, b),
    "plain": lambda a, b: lambda: recurrence_cuda(a, b, CUDA_PLAIN),
    "cuda": lambda a, b: lambda: recurrence_cuda(a, b, CUDA_AHEAD),
}


# What they cost: lines and seconds


def lines_of(*parts) -> int:
    """Count the lines of functions, of kernels and of CUDA C++, without comments, docstrings and empty lines.

    >>> lines_of(lines_of) > 10
    True
    >>> lines_of("// a comment\\n\\nint i = 0;\\n")
    1
    """
    total = 0
    for part in parts:
        if isinstance(part, str):
            total += sum(bool(line.strip()) and not line.strip().startswith("//") for line in part.splitlines())
            continue
        source = inspect.getsource(getattr(part, "fn", part))
        lines, first_of_statement = set(), True
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
                first_of_statement = True
            elif token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER):
                if not (first_of_statement and token.type == tokenize.STRING):
                    lines |= set(range(token.start[0], token.end[0] + 1))
                first_of_statement = False
        total += len(lines)
    return total


LINES = {  # of each rung, with what starts it from Python; and of what checks the arguments
    "eager": (recurrence_eager,),
    "graph": (recurrence_eager, graphed),
    "doubling": (recurrence_doubling,),
    "scan": (join, recurrence_scan),
    "triton": (lesson.recurrence_kernel, lesson.launch),
    "plain": (CUDA_PLAIN, launch_cuda),
    "cuda": (CUDA_AHEAD, launch_cuda),
    "checks": (lesson.recurrence, lesson.check_arguments),
}


def by_the_clock(run):
    """Seconds by the host's clock until the GPU is done."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


UNROLLED = (8, 32, 128)  # time steps of the loop as it stands that torch.compile is given


def time_first_calls():
    """Print the seconds of each rung's first call in this process, and of the compiled loop's by its steps, as JSON."""
    import cupy  # noqa: F401  so that no rung is charged for it

    a, b = inputs(MANY)
    found = {"start": by_the_clock(lambda: compiled(torch.add)(a[0], b[0]))}  # compilers loaded, workers started
    for name, rung in RUNGS.items():
        found[name] = by_the_clock(lambda: rung(a, b)())  # noqa: B023  called at once
    for steps in UNROLLED:
        short = a[:, :steps].contiguous(), b[:, :steps].contiguous()
        found[f"loop {steps}"] = by_the_clock(lambda: compiled(recurrence_eager)(*short))  # noqa: B023
    print(json.dumps(found))


@functools.cache
def measure_first_calls():
    """Seconds by name, in a new process whose compilers find nothing that an earlier one has compiled."""
    with tempfile.TemporaryDirectory() as empty:
        caches = {name: f"{empty}/{name}" for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUPY_CACHE_DIR")}
        done = subprocess.run(
            [sys.executable, "-c", f"from {MODULE} import time_first_calls; time_first_calls()"],
            env=os.environ | caches | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="first_calls",
        x_names=["rung"],
        x_vals=["start", *RUNGS],
        ylabel="s",
        line_arg="what",
        line_vals=["first"],
        line_names=["first call"],
        args={},
    )
)
def first_calls(rung, what):
    """Seconds of the first call, compiling included; "start" is what the first torch.compile of a process adds."""
    return measure_first_calls()[rung]


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="unrolled",
        x_names=["steps"],
        x_vals=list(UNROLLED),
        x_log=True,
        xlabel="time steps",
        ylabel="s",
        line_arg="what",
        line_vals=["first"],
        line_names=["first call of the compiled loop"],
        args={},
    )
)
def unrolled(steps, what):
    """Seconds of the first call of the loop as it stands under torch.compile, by its number of time steps."""
    return measure_first_calls()[f"loop {steps}"]


# How fast they are


@functools.cache
def measure(shape, rounds):
    """Milliseconds by rung, and the largest error against float64, as a share of the largest result."""
    a, b = inputs(shape)
    source = torch.rand(3 * a.numel() // 2, device="cuda")  # half of the bytes of a copy are read, half are written
    target = torch.empty_like(source)
    sides = {name: rung(a, b) for name, rung in RUNGS.items()}
    exact = recurrence_eager(a.double(), b.double())
    errors = {name: ((run() - exact).abs().max() / exact.abs().max()).item() for name, run in sides.items()}
    del exact
    timings = compare(sides | {"copy": lambda: target.copy_(source)}, rounds=rounds)
    return timings, errors | {"copy": 0.0}


MEASURED = {"many": lambda: measure(MANY, rounds=4), "long": lambda: measure(LONG, rounds=2)}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="ladder",
        x_names=["rung"],
        x_vals=[*RUNGS, "copy"],
        y_log=True,
        ylabel="ms",
        line_arg="what",
        line_vals=["many", "long"],
        line_names=["16 series of 2,048 steps, 4,096 channels", "1 series of 16,384 steps, 64 channels"],
        args={},
    )
)
def ladder(rung, what):
    """Milliseconds of a call: median, fastest and slowest round. The sides take turns; L2 is cold and clean."""
    timing: Timing = MEASURED[what]()[0][rung]
    return timing.median, min(timing.rounds), max(timing.rounds)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="ahead",
        x_names=["stages"],
        x_vals=[1, 2, 4, 8, 16],
        xlabel="num_stages",
        ylabel="ms",
        line_arg="what",
        line_vals=["triton"],
        line_names=["Triton"],
        args={},
    )
)
def ahead(stages, what):
    """Milliseconds of the Triton kernel by how many time steps it may have in flight, for many channels."""
    a, b = inputs(MANY)
    h = torch.empty_like(b)
    return milliseconds(lambda: lesson.launch(a, b, h, block=128, stages=stages, num_warps=1))


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="errors",
        x_names=["rung"],
        x_vals=list(RUNGS),
        y_log=True,
        ylabel="share of the largest result",
        line_arg="what",
        line_vals=["many", "long"],
        line_names=["many channels", "long series"],
        args={},
    )
)
def errors(rung, what):
    """The largest difference from the same recurrence in float64."""
    return MEASURED[what]()[1][rung]


@functools.cache
def measure_timeline(steps):
    """``{line: [microsecond of each operation]}`` of a few steps of the eager loop, from torch's profiler."""
    a, b = (tensor[:, :steps].contiguous() for tensor in inputs(MANY))
    activities = torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA
    with torch.profiler.profile(activities=activities, acc_events=True) as profiler:
        for _ in range(3):  # the first calls under the profiler are slow
            torch.cuda.synchronize()
            recurrence_eager(a, b)
        torch.cuda.synchronize()
    on_gpu = [event for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    seen = {
        "host": [e for e in profiler.events() if e.name in ("aten::mul", "aten::add") and e not in on_gpu],
        "kernel": [e for e in on_gpu if re.search(r"MulFunctor|Functor_?add", e.name, re.I)],
    }
    ranges = {kind: sorted((e.time_range for e in events), key=lambda r: r.start) for kind, events in seen.items()}
    assert all(len(found) == 6 * steps for found in ranges.values()), [event.name for event in profiler.events()]
    ranges = {kind: found[4 * steps :] for kind, found in ranges.items()}
    zero = min(found[0].start for found in ranges.values())
    return {
        f"{kind}_{edge}": [getattr(busy, attribute) - zero for busy in found]
        for kind, found in ranges.items()
        for edge, attribute in (("begin", "start"), ("end", "end"))
    }


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="timeline",
        x_names=["operation"],
        x_vals=list(range(1, 9)),
        xlabel="operation",
        ylabel="µs",
        line_arg="edge",
        line_vals=["host_begin", "host_end", "kernel_begin", "kernel_end"],
        line_names=["PyTorch is called", "PyTorch returns", "kernel begins", "kernel ends"],
        args={},
    )
)
def timeline(operation, edge):
    """When the host was inside of each multiplication and addition of four time steps, and when the GPU did them."""
    return measure_timeline(steps=4)[edge][operation - 1]


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; these are times of a GPU")
    print("## Lines of code")
    for name, parts in LINES.items():
        print(f"{name}: {lines_of(*parts)}")
    print("## What torch.compile wrote")
    a, b = inputs(MANY)
    for name, function in (("doubling", recurrence_doubling), ("scan", recurrence_scan)):
        kernels = emitted_kernels(function, a, b)
        print(f"kernels, {name}: {len(kernels)}")
    print("## A line of the last one")
    print(*(line.strip() for line in kernels[0].splitlines() if "tl.associative_scan" in line), sep="\n")


if __name__ == "__main__":
    main()
