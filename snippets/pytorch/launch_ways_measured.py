# SPDX-License-Identifier: Apache-2.0
"""Measure what it costs the host to call one small kernel, by each way to hand it to PyTorch.

``cost``: microseconds until a call has returned, and from one call to the next. Eagerly: a plain launch, the same
through ``wrap_triton``, a launch that wraps only while something traces, a ``triton_op`` and a ``custom_op``. Then the
plain launch under ``torch.compile``, alone and as one of eight. All with the Triton that torch brings.

``python launch_ways_measured.py`` says what there is to measure; measuring needs a GPU.
"""

import functools
from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import custom_op, triton_op, wrap_triton

from snippets.pytorch.launch_overhead_measured import ROUNDS, by_host, by_queue, microseconds
from snippets.tools.benchmarking import Timing, compare

BLOCK = 1024
IN_A_ROW = 8


# --8<-- [start:kernel]
@triton.jit
def add_one_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + 1, mask=i < n)
# --8<-- [end:kernel]


# --8<-- [start:ways]
def launch_by(kernel, x: Tensor) -> Tensor:
    out, n = torch.empty_like(x), x.numel()
    kernel[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK)
    return out


def plain(x: Tensor) -> Tensor:
    return launch_by(add_one_kernel, x)


def wrapped(x: Tensor) -> Tensor:
    return launch_by(wrap_triton(add_one_kernel), x)


def by_need(x: Tensor) -> Tensor:
    traced = torch.compiler.is_compiling()
    return launch_by(
        wrap_triton(add_one_kernel) if traced else add_one_kernel, x
    )


named = triton_op("course::add_one_named", wrapped, mutates_args=())
closed = custom_op("course::add_one_closed", plain, mutates_args=())


def eight(x: Tensor) -> Tensor:
    for _ in range(IN_A_ROW):
        x = plain(x)
    return x
# --8<-- [end:ways]


def compiled(function: Callable) -> Callable:
    return torch.compile(function, fullgraph=True)


def ways() -> dict[str, tuple[Callable, int]]:
    """Return the ways by name, each with the number of launches in a call."""
    return {
        "plain": (plain, 1),
        "by need": (by_need, 1),
        "custom_op": (closed, 1),
        "triton_op": (named, 1),
        "wrapped": (wrapped, 1),
        "compiled": (compiled(plain), 1),
        "eight": (eight, IN_A_ROW),
        "eight, compiled": (compiled(eight), IN_A_ROW),
    }


@functools.lru_cache
def measure(clock: str) -> dict[str, Timing]:
    x = torch.rand(BLOCK, device="cuda")
    sides = {}
    for name, (function, launches) in ways().items():
        assert torch.equal(function(x), eight(x) if launches > 1 else x + 1), name
        sides[name] = functools.partial(function, x)
    timer = {"host": by_host, "queue": by_queue}[clock]
    return compare(sides, rounds=ROUNDS, timer=lambda run: timer(run, 100))


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="cost",
        x_names=["way"],
        x_vals=["plain", "by need", "custom_op", "triton_op", "wrapped", "compiled", "eight", "eight, compiled"],
        xlabel="how it is called",
        ylabel="µs",
        line_arg="clock",
        line_vals=["host", "queue"],
        line_names=["until the call returns", "from call to call"],
        args={},
    )
)
def cost(way, clock):
    """Microseconds for each launch of a kernel that adds 1 to 1,024 float32: median, least and most of 10 rounds.

    A round is 100 calls. Those of eight launches are divided by eight. Each call allocates its results.
    """
    _, launches = ways()[way]
    return tuple(us / launches for us in microseconds(measure(clock)[way]))


def main():
    """Say what there is to measure: what comes out is different every time."""
    print(f"{cost.benchmarks.plot_name}.run(print_data=True)  # {cost.fn.__doc__.splitlines()[0]}")


if __name__ == "__main__":
    main()
