# SPDX-License-Identifier: Apache-2.0
"""Measure what an epilogue saves: a linear layer with its activation in one kernel, in two, and by other tools.

- ``by_k``, ``share``: milliseconds by the length ``K`` of the sums, and as a share of those of torch
- ``by_shape``: milliseconds of layers as transformers have them
- ``by_activation``: what each activation adds to our product and to torch's, with short sums; ours also by the other
  config, one program with large tiles in place of two
- ``parts``: milliseconds of what a layer with short sums consists of, each alone: storing and multiplying
- ``counted``: what NVIDIA's ``ncu`` counted in these: bytes moved, and cycles in which the matrix units were busy

bfloat16, random numbers. Units: milliseconds of a call, on operands in rotation in a CUDA graph: without Python, of
which all sides have much before each launch. Bytes by hand as :func:`bytes_of` counts; MB of 10**6 bytes.

``python fused_measured.py`` says what there is to measure; measuring needs a GPU, and ``counted`` the counters ``ncu``.
"""

import functools
import statistics
import sys
from unittest import mock

import torch
import triton

from snippets.gpu.counters import counters
from snippets.matmul import fused
from snippets.matmul.fused import ACTIVATIONS, LARGE, PAIR, bytes_of, in_torch, linear
from snippets.tools.benchmarking import compare
from snippets.tools.benchmarking_cold import Rotation, compare_in_rotation, operands_in_rotation


def operands(M, N, K):
    x, weight = torch.randn(M, K, device="cuda").bfloat16(), torch.randn(N, K, device="cuda").bfloat16()
    return x, weight / K**0.5, torch.randn(N, device="cuda").bfloat16()  # results of about 1, where gelu is curved


def sides(activation):
    """Return the same layer by what one could use, as functions of the operands."""
    function = in_torch(activation)
    found = {
        "fused": lambda x, weight, bias: linear(x, weight, bias, activation),
        "two": lambda x, weight, bias: function(linear(x, weight, bias)),
        "torch": lambda x, weight, bias: function(torch.nn.functional.linear(x, weight, bias)),
    }
    if activation in ("relu", "gelu_tanh"):  # those that cuBLASLt has; this function of torch's is the way to them
        use_gelu = activation == "gelu_tanh"
        found["cublaslt"] = lambda x, weight, bias: torch._addmm_activation(bias, x, weight.T, use_gelu=use_gelu)
    return found


def measured(sides, M, N, K):
    """Return the milliseconds of each call, in turns, each side of a large product at its own clock."""
    return compare_in_rotation(sides, lambda: operands(M, N, K), rounds=4, steady=2 * M * N * K > 1e11)


# --8<-- [start:by_k]
@functools.cache
def measure_by_k(K, M, N):
    return measured(sides("relu"), M, N, K)


NAMES = {
    "torch": "torch, two kernels",
    "two": "ours, two kernels",
    "fused": "ours, fused",
    "cublaslt": "cuBLASLt, fused",
}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="by_k",
        x_names=["K"],
        x_vals=[2**k for k in range(6, 14)],
        x_log=True,
        y_log=True,
        xlabel="K",
        ylabel="ms",
        line_arg="side",
        line_vals=list(NAMES),
        line_names=list(NAMES.values()),
        args={"M": 8192, "N": 8192},
    )
)
def by_k(K, side, M, N):
    """Milliseconds of relu(linear(x, weight, bias)) with 8192 rows and 8192 columns: median and range of 4 rounds."""
    times = measure_by_k(K, M, N)[side]
    return times.median, min(times.rounds), max(times.rounds)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="share",
        x_names=["K"],
        x_vals=by_k.benchmarks.x_vals,
        x_log=True,
        xlabel="K",
        ylabel="share of torch's time",
        line_arg="side",
        line_vals=[*NAMES, "bytes"],
        line_names=[*NAMES.values(), "bytes, fused, by hand"],
        args={"M": 8192, "N": 8192},
    )
)
def share(K, side, M, N):
    """The medians of by_k divided by that of torch, and the bytes of one kernel divided by those of two."""
    if side == "bytes":
        moved = bytes_of(M, N, K, 2)
        return moved["one kernel"] / moved["two kernels"]
    times = measure_by_k(K, M, N)
    return times[side].median / times["torch"].median
# --8<-- [end:by_k]


# --8<-- [start:by_shape]
SHAPES = {  # rows (tokens), columns, K
    "16 × 16384 × 4096": (16, 16384, 4096),
    "4096 × 16384 × 4096": (4096, 16384, 4096),
    "16384 × 4096 × 1024": (16384, 4096, 1024),
    "65536 × 1024 × 256": (65536, 1024, 256),
}


@functools.lru_cache(maxsize=1)
def measure_by_shape(shape):
    layer = torch.compile(
        lambda x, weight, bias: in_torch("gelu_tanh")(torch.nn.functional.linear(x, weight, bias)), dynamic=False
    )
    return measured(sides("gelu_tanh") | {"compile": layer}, *SHAPES[shape])


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="by_shape",
        x_names=["shape"],
        x_vals=list(SHAPES),
        xlabel="rows × columns × K",
        ylabel="ms",
        line_arg="side",
        line_vals=[*NAMES, "compile"],
        line_names=[*NAMES.values(), "torch.compile"],
        args={},
    )
)
def by_shape(shape, side):
    """Milliseconds of gelu(linear(x, weight, bias)), gelu by tanh: median, fastest and slowest of 4 rounds."""
    times = measure_by_shape(shape)[side]
    return times.median, min(times.rounds), max(times.rounds)
# --8<-- [end:by_shape]


# --8<-- [start:by_activation]
@functools.lru_cache(maxsize=1)
def measure_by_activation(activation, M, N, K):
    timed = sides(None if activation == "none" else activation)
    timed = {"fused": timed["fused"], "large": by_config(timed["fused"], LARGE), "torch": timed["torch"]}
    return measured(timed, M, N, K)


def by_config(run, config):
    def run_so(*given):
        with mock.patch.object(fused, "choose_config", lambda *size: config):
            return run(*given)

    return run_so


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="by_activation",
        x_names=["activation"],
        x_vals=["none", *ACTIVATIONS],
        xlabel="activation",
        ylabel="ms",
        line_arg="side",
        line_vals=["fused", "large", "torch"],
        line_names=["ours, fused", "in large tiles", "torch, two kernels"],
        args={"M": 8192, "N": 8192, "K": 256},
    )
)
def by_activation(activation, side, M, N, K):
    """Milliseconds of a layer with each activation: median, fastest and slowest of 4 rounds in turns."""
    times = measure_by_activation(activation, M, N, K)[side]
    return times.median, min(times.rounds), max(times.rounds)
# --8<-- [end:by_activation]


# --8<-- [start:parts]
PARTS = {  # rows, columns, K
    "8192 × 8192 × 256": (8192, 8192, 256),
    "8192 × 8192 × 64": (8192, 8192, 64),  # stores as much, multiplies a quarter: one step for each tile
    "2048 × 2048 × 4096": (2048, 2048, 4096),  # multiplies as much, stores a sixteenth
}
ZEROS, FILL = "8192 × 8192 × 256, of zeros", "8192 × 8192, filled by torch"


def layer_alone(x, weight, bias):
    """Compute a layer with a bias and no activation, by the config of short sums."""
    return by_config(linear, PAIR)(x, weight, bias)


@functools.cache
def measure_parts():
    first = next(iter(PARTS.values()))
    given = {name: (layer_alone, functools.partial(operands, *shape)) for name, shape in PARTS.items()}
    # Zeros are the same work for less power: if power holds the clock down, they take less time.
    given[ZEROS] = layer_alone, lambda: [x.zero_() for x in operands(*first)]
    out = lambda: [torch.empty(first[:2], dtype=torch.bfloat16, device="cuda")]
    given[FILL] = (lambda x: x.fill_(1)), out
    # Kept, for a graph knows only their addresses.
    sets = {name: operands_in_rotation(make) for name, (_, make) in given.items()}
    rotations = {name: Rotation(run, sets[name], steady=True) for name, (run, _) in given.items()}
    return compare(rotations, rounds=4, timer=lambda rotation: rotation.milliseconds())


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="parts",
        x_names=["part"],
        x_vals=[*PARTS, ZEROS, FILL],
        xlabel="rows × columns × K",
        ylabel="",
        line_arg="unit",
        line_vals=["ms"],
        line_names=["ms"],
        args={},
    )
)
def parts(part, unit):
    """Milliseconds of a layer without activation, and of what it consists of: median and range of 4 rounds in turns."""
    times = measure_parts()[part]
    return times.median, min(times.rounds), max(times.rounds)
# --8<-- [end:parts]


# --8<-- [start:counted]
LAUNCHES = 3  # of each are counted, for no two run alike
COUNTED = {  # the counter, and what one of it is worth
    "µs": ("gpu__time_duration.sum", 1e-3),
    "cycles": ("sm__cycles_elapsed.max", 1),
    "matrix units busy, % of cycles": ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", 1),
    "MB from memory": ("dram__bytes_read.sum", 1e-6),
    "MB to memory": ("dram__bytes_write.sum", 1e-6),  # during the launch: what stays in L2 is written later
    "MB asked of L2": ("lts__t_sectors_srcunit_tex.sum", 32e-6),  # to read or to write, by multiprocessors
}


def run_parts():
    """Run what ``ncu`` watches."""
    for shape in PARTS:
        given = operands(*PARTS[shape])
        layer_alone(*given)  # compiles, outside of the count
        torch.cuda.synchronize()
        with torch.cuda.profiler.profile():
            for _ in range(LAUNCHES):
                layer_alone(*given)
            torch.cuda.synchronize()


@functools.cache
def measure_counted() -> dict[str, list[dict]]:
    """Return, by shape, what ``ncu`` says of each launch, which begins with empty caches."""
    launches = counters([metric for metric, _ in COUNTED.values()], __file__, "run", cache="all")
    if len(launches) != LAUNCHES * len(PARTS):
        raise RuntimeError(f"a layer took more than one kernel: {[launch['kernel'] for launch in launches]}")
    return {shape: launches[i * LAUNCHES : (i + 1) * LAUNCHES] for i, shape in enumerate(PARTS)}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="counted",
        x_names=["what"],
        x_vals=list(COUNTED),
        xlabel="counted",
        ylabel="",
        line_arg="side",
        line_vals=["layer", "short", "few"],
        line_names=list(PARTS),
        args={},
    )
)
def counted(what, side):
    """What ``ncu`` counted in a layer without activation: median, least and most of three launches."""
    metric, worth = COUNTED[what]
    shape = dict(zip(counted.benchmarks.line_vals, PARTS, strict=True))[side]
    readings = [launch[metric] * worth for launch in measure_counted()[shape]]
    return statistics.median(readings), min(readings), max(readings)
# --8<-- [end:counted]


def main():
    """Say what there is to measure: what comes out is different every time."""
    if sys.argv[1:2] == ["run"]:
        return run_parts()
    for mark in (by_k, share, by_shape, by_activation, parts, counted):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
