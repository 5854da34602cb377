# SPDX-License-Identifier: Apache-2.0
"""The kernel taken from torch.compile's output, and the one made of it, timed beside torch.compile and eager PyTorch.

- ``lifted``: the 32 rows of 256 that the copied kernel was written for, with relu. So small a call is nearly all
  overhead; an empty kernel says how much.
- ``own``: any rows, with silu in place of relu

Traffic: one element read and one written for each of ``h``; the weight stays in the cache.
Source: ``torch_compile_lifted.py``.

Needs a GPU. Run it with ``python torch_compile_lifted_measured.py``.
"""

import functools

import torch
import triton

from snippets.start.torch_compile_lifted import in_torch, lifted, rms_norm_silu
from snippets.tools.benchmarking import compare
from snippets.tools.benchmarking_cold import empty, rates

ELEMENTS = 2048  # that a program takes at least, as in Inductor's kernel: 8 rows of 256


# --8<-- [start:eager]
def norm_relu(h, weight):
    scale = torch.rsqrt(h.square().mean(dim=1, keepdim=True) + 1e-6)
    return torch.relu(h * scale * weight)


def norm_silu(h, weight):
    scale = torch.rsqrt(h.square().mean(dim=1, keepdim=True) + 1e-6)
    return torch.nn.functional.silu(h * scale * weight)
# --8<-- [end:eager]


@functools.cache
def compiled(function):
    """Return a function under torch.compile, for fixed shapes. It is compiled at its first call for each of them."""
    return torch.compile(function, dynamic=False, fullgraph=True)


def own(h: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Compute ``rms_norm_silu`` with as many rows for a program as make ``ELEMENTS``, or one."""
    return rms_norm_silu(h, weight, rows=max(1, ELEMENTS // triton.next_power_of_2(h.shape[1])))


def inputs(rows: int, columns: int, device: str = "cuda") -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(rows, columns, device=device), torch.rand(columns, device=device)


def graphed(run, *arguments):
    """Record one call as a CUDA graph, and return what replays it."""
    run(*arguments)  # compiles, which a graph cannot record
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(*arguments)
    return graph.replay


# --8<-- [start:lifted]
@functools.cache
def measure_lifted():
    """Return a ``Timing`` of each side, a call at a time, each a CUDA graph, with L2 cold and clean before it."""
    h, weight = inputs(32, 256)
    overwritten = h.clone()  # a graph knows addresses only, so its tensors have names here until it has run
    sides = {
        "eager": graphed(norm_relu, h, weight),
        "compiled": graphed(compiled(norm_relu), h, weight),
        "lifted": graphed(lifted, overwritten, weight),
        "empty": graphed(empty),
    }
    return compare(sides, rounds=6)
# --8<-- [end:lifted]


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="lifted",
        x_names=["side"],
        x_vals=["eager", "compiled", "lifted", "empty"],
        xlabel="relu of 32 × 256",
        ylabel="µs",
        line_arg="what",
        line_vals=["call"],
        line_names=["one call"],
        args={},
    )
)
def lifted_time(side, what):
    """Microseconds of a call: median, fastest and slowest round. L2 is cold and clean before each."""
    timing = measure_lifted()[side]
    return tuple(ms * 1e3 for ms in (timing.median, min(timing.rounds), max(timing.rounds)))


SIDES = {
    "eager": norm_silu,
    "compiled": lambda h, weight: compiled(norm_silu)(h, weight),
    "own": own,
    "copy": lambda h, weight: h.clone(),
}
SHAPES = {"262,144 × 256": (2**18, 256), "16,384 × 4096": (2**14, 4096), "22,369 × 3000": (22369, 3000)}


# --8<-- [start:own]
@functools.cache
def measure(shape):
    """Return GB/s by side: median, slowest and fastest round. The sides take turns, on operands in rotation."""
    rows, columns = SHAPES[shape]
    bytes_moved = 2 * rows * columns * 4
    return rates(SIDES, lambda: inputs(rows, columns), bytes_moved, rounds=6, steady=False, unit=1e9)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="own",
        x_names=["shape"],
        x_vals=list(SHAPES),
        xlabel="silu of rows × columns",
        ylabel="GB/s",
        line_arg="side",
        line_vals=list(SIDES),
        line_names=["eager", "torch.compile", "our kernel", "copy"],
        args={},
    )
)
def own_rate(shape, side):
    """Bytes that a fused kernel moves, each element read once and written once, per second."""
    return measure(shape)[side]
# --8<-- [end:own]


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; torch.compile emits Triton for a GPU only")
    agrees = lambda got, expected: torch.allclose(got.double(), expected, rtol=1e-5, atol=1e-6)
    h, weight = inputs(32, 256)
    expected = in_torch(h, weight, torch.relu)
    print("32 × 256, relu, compiled, as in float64:", agrees(compiled(norm_relu)(h, weight), expected))
    print("32 × 256, relu, lifted, as in float64:", agrees(lifted(h.clone(), weight), expected))
    for rows, columns in ((2**10, 256), (100, 4096), (99, 3000)):
        h, weight = inputs(rows, columns)
        expected = in_torch(h, weight, torch.nn.functional.silu)
        print(f"{rows} × {columns}, silu, compiled, as in float64:", agrees(compiled(norm_silu)(h, weight), expected))
        print(f"{rows} × {columns}, silu, our kernel, as in float64:", agrees(own(h, weight), expected))


if __name__ == "__main__":
    main()
