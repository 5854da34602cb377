# SPDX-License-Identifier: Apache-2.0
"""Measure how well an estimate picks: plans that ``matmul.py`` might have taken, timed against the one that it takes.

- :func:`square`: 1536 x 1536 x 1536 by every kernel and tile: the time that was estimated, and the one that it takes
- :func:`chosen`: every shape of ``model_shapes.py`` above 64 rows: the plan that is picked, the quickest of those whose
  estimate is near, and cuBLAS

Of each kernel and tile, one plan is timed: the number of parts with the shortest estimate. bfloat16; ``b`` is the
transpose of a weight; all sides in turns, on operands in rotation (``snippets/tools/benchmarking_cold.py``).

FLOPs: 2 * M * N * K. Units: microseconds.
Source: ``torch.matmul`` calls cuBLAS.

``python plans_measured.py`` prints the plans that are timed. The benchmarks need a GPU, and ``.run`` needs pandas and
matplotlib.
"""

import functools
from collections.abc import Callable
from unittest import mock

import torch
import triton

from snippets.matmul import matmul
from snippets.matmul.matmul import Plan
from snippets.matmul.matmul_measured import NAMED, check_alike, microseconds, operands
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation

H200 = {"multiprocessors": 132, "shared": 232_448}  # what matmul.plan takes for granted
LARGE = {name: shape for name, shape in NAMED.items() if min(shape[:2]) > matmul.FEW}
NEAR = 1.25  # times the shortest estimate: what is estimated to take longer than that is not timed


# --8<-- [start:plans]
def name_of(plan: Plan) -> str:
    """
    >>> name_of(matmul.plan(1536, 1536, 1536))
    'streamed 128 × 192'
    """
    return f"{plan.kernel} {plan.block_m} × {plan.block_n + plan.more_n}"


def plans(M: int, N: int, K: int, near: float = float("inf")) -> dict[str, tuple[float, Plan]]:
    """Return estimated microseconds and plan of each kernel and tile, by name, the shortest first.

    Args:
        M, N, K: Above 64 rows and columns.
        near: How many times the shortest estimate one may be.
    """
    wide = K % 8 == 0  # as operands lie here: rows of a, and columns of b, begin at multiples of 16 bytes
    found = {}
    for plan in matmul.candidates(M, N, K, 2, False, wide, *H200.values()):
        estimated = matmul.estimate(M, N, K, 2, False, *H200.values(), plan) / 1e3
        if estimated < found.get(name_of(plan), (float("inf"),))[0]:
            found[name_of(plan)] = estimated, plan
    shortest = min(estimated for estimated, _ in found.values())
    return {name: x for name, x in sorted(found.items(), key=lambda item: item[1][0]) if x[0] <= near * shortest}


def by(plan: Plan) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Return our product, computed after a plan of one's own."""
    prepare = matmul.prepared.__wrapped__

    @functools.cache
    def prepared(*key):
        with mock.patch.object(matmul, "plan", lambda *sizes, **of: plan):
            return prepare(*key)

    def run(a, b):
        with mock.patch.object(matmul, "prepared", prepared):
            return matmul.matmul(a, b)

    return run
# --8<-- [end:plans]


# --8<-- [start:measure]
@functools.cache
def measure(shape: str, near: float) -> dict[str, Timing]:
    """Return the milliseconds of cuBLAS and of each plan whose estimate is near."""
    M, N, K = NAMED[shape]
    torch.manual_seed(0)
    make = functools.partial(operands, M, N, K)
    sides = {"cublas": torch.matmul} | {name: by(plan) for name, (_, plan) in plans(M, N, K, near).items()}
    check_alike(sides, make())
    return compare_in_rotation(sides, make, rounds=3, steady=2 * M * N * K > 1e11)
# --8<-- [end:measure]


SQUARE = "1536 × 1536 × 1536"


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="square",
        x_names=["plan"],
        x_vals=list(plans(*NAMED[SQUARE])),
        xlabel="kernel and tile",
        ylabel="µs",
        line_arg="what",
        line_vals=["estimated", "takes"],
        line_names=["estimated", "takes"],
        args={},
    )
)
def square(plan, what):
    """Microseconds of 1536 x 1536 x 1536 by every kernel and tile; what it takes: median, fastest and slowest round."""
    if what == "estimated":
        return plans(*NAMED[SQUARE])[plan][0]
    return microseconds(measure(SQUARE, float("inf"))[plan])


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="chosen",
        x_names=["shape"],
        x_vals=list(LARGE),
        xlabel="M × N × K",
        ylabel="µs",
        line_arg="what",
        line_vals=["picked", "quickest", "cublas", "tried", "place", "share"],
        line_names=["picked", "quickest", "cuBLAS", "plans timed", "place of the one picked", "quickest / picked"],
        args={},
    )
)
def chosen(shape, what):
    """Microseconds by the plan that is picked, by the quickest of those near, and cuBLAS: median, fastest, slowest."""
    found = dict(measure(shape, NEAR))
    cublas, picked = found.pop("cublas"), next(iter(found))  # the shortest estimate
    order = sorted(found, key=lambda name: found[name].median)
    numbers = {
        "tried": len(found),
        "place": 1 + order.index(picked),
        "share": found[order[0]].median / found[picked].median,
    }
    timings = {"picked": found[picked], "quickest": found[order[0]], "cublas": cublas}
    return numbers[what] if what in numbers else microseconds(timings[what])


# --8<-- [start:main]
def main():
    for mark in (square, chosen):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__.splitlines()[0]}")
    for shape, sizes in LARGE.items():
        print(f"{shape}: " + ", ".join(f"{name} {us:.1f}" for name, (us, _) in plans(*sizes, NEAR).items()))
# --8<-- [end:main]


if __name__ == "__main__":
    main()
