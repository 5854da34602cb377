# SPDX-License-Identifier: Apache-2.0
"""What an epilogue saves, measured: a linear layer with its activation in one kernel, in two, and by other tools.

- ``by_k``, ``share``: milliseconds by the length ``K`` of the sums, and as a share of those of torch
- ``by_shape``: milliseconds of layers as transformers have them
- ``by_activation``: what each activation adds to our product and to torch's, with short sums; ours also by the other
  config, one program with large tiles in place of two

bfloat16, random numbers. Units: milliseconds of a call in a CUDA graph after L2
was emptied: without Python, of which all sides have much before each launch. Bytes by hand as :func:`bytes_of` counts.

``python fused_measured.py`` says what there is to measure; measuring needs a GPU.
"""

import functools
from unittest import mock

import torch
import triton

from snippets.matmul import fused
from snippets.matmul.fused import ACTIVATIONS, LARGE, bytes_of, in_torch, linear
from snippets.tools.benchmarking import compare, milliseconds
from snippets.tools.benchmarking_graph import captured


def operands(M, N, K):
    x, weight = torch.randn(M, K, device="cuda").bfloat16(), torch.randn(N, K, device="cuda").bfloat16()
    return x, weight / K**0.5, torch.randn(N, device="cuda").bfloat16()  # results of about 1, where gelu is curved


def sides(M, N, K, activation):
    """The same layer by what one could use."""
    x, weight, bias = operands(M, N, K)
    function = in_torch(activation)
    found = {
        "fused": lambda: linear(x, weight, bias, activation),
        "two": lambda: function(linear(x, weight, bias)),
        "torch": lambda: function(torch.nn.functional.linear(x, weight, bias)),
    }
    if activation in ("relu", "gelu_tanh"):  # those that cuBLASLt has; this function of torch's is the way to them
        use_gelu = activation == "gelu_tanh"
        found["cublaslt"] = lambda: torch._addmm_activation(bias, x, weight.T, use_gelu=use_gelu)
    return found


def in_a_graph(run):
    """Milliseconds of a call that a CUDA graph repeats: next to no work for the host."""
    return milliseconds(captured(run))


# --8<-- [start:by_k]
@functools.cache
def measure_by_k(K, M, N):
    return compare(sides(M, N, K, "relu"), rounds=4, timer=in_a_graph)


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
    M, N, K = SHAPES[shape]
    timed = sides(M, N, K, "gelu_tanh")
    x, weight, bias = operands(M, N, K)
    layer = torch.compile(
        lambda x, weight, bias: in_torch("gelu_tanh")(torch.nn.functional.linear(x, weight, bias)), dynamic=False
    )
    return compare(timed | {"compile": lambda: layer(x, weight, bias)}, rounds=4, timer=in_a_graph)


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
    timed = sides(M, N, K, None if activation == "none" else activation)
    timed = {"fused": timed["fused"], "large": in_large_tiles(timed["fused"]), "torch": timed["torch"]}
    return compare(timed, rounds=4, timer=in_a_graph)


def in_large_tiles(run):
    def run_so():
        with mock.patch.object(fused, "choose_config", lambda *size: LARGE):
            return run()

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


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (by_k, share, by_shape, by_activation):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
