# SPDX-License-Identifier: Apache-2.0
"""Split-K and stream-K, measured: where splitting along K wins, and where it loses.

- :func:`long`: 512 x K @ K x 512, by the length of K
- :func:`sharing`: one program for each tile, split-K and stream-K, with one tile
- :func:`decode`: M x 4096 @ 4096 x 4096, by the number of rows
- :func:`splitting`: the same, the chosen plan beside the same tile without splitting

bfloat16; operands in rotation, all calls in one CUDA graph (``snippets/tools/benchmarking_cold.py``).
Units: microseconds. Source: ``torch.matmul`` calls cuBLAS.

``python split_k_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools

import torch
import triton

from snippets.matmul.split_k import FINISH, Plan, limits_of, matmul, plans, split
from snippets.tools.benchmarking_cold import compare_in_rotation


# --8<-- [start:measure]
def best_plans(M, N, K, **limits):
    """Return the best plan by the estimate for each way to finish; the chosen one is among them."""
    ranked = sorted(plans(M, N, K, **limits), key=lambda found: (found[0], -found[1].block_m))
    return {finish: next(plan for _, plan in ranked if plan.finish == finish) for finish in FINISH}


def timed(M, N, K, found, rounds=4):
    """Return the microseconds of plans, of the chosen one and of cuBLAS: median, fastest and slowest round.

    In bfloat16, on operands in rotation, in a CUDA graph: they are cold, and no time of the host is measured.
    """
    random = lambda *shape: torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    make = lambda: (random(M, K), random(K, N))
    counters = torch.zeros(4096, dtype=torch.int32, device="cuda")  # else each graph would have to clear some
    ours = functools.partial(matmul, counters=counters)
    sides = {name: functools.partial(ours, plan=plan) for name, plan in found.items()}
    sides |= {"chosen": ours, "cublas": torch.matmul}
    return {
        name: tuple(1e3 * ms for ms in (timing.median, min(timing.rounds), max(timing.rounds)))
        for name, timing in compare_in_rotation(sides, make, rounds=rounds).items()
    }


@functools.lru_cache(maxsize=1)
def measure(M, N, K):
    """Return what ``timed`` does, of the best plan for each way to finish."""
    return timed(M, N, K, best_plans(M, N, K, **limits_of(torch.device("cuda"))))


def bench(plot_name, x_name, x_vals, **arguments):
    return triton.testing.Benchmark(
        plot_name=plot_name,
        x_names=[x_name],
        x_vals=x_vals,
        x_log=True,
        xlabel=x_name,
        ylabel="µs",
        y_log=True,
        line_arg="side",
        line_vals=["alone", "last", "second", "chosen", "cublas"],
        line_names=["not split", "split, the last adds", "split, a second kernel adds", "as split() chooses", "cuBLAS"],
        args=arguments,
    )


LONG, DECODE = [2**k for k in range(9, 15)], [2**k for k in range(8)]


@triton.testing.perf_report(bench("long", "K", LONG, M=512, N=512))
def long(M, N, K, side):
    """Microseconds of 512 x K @ K x 512 in bfloat16, by the length of K: median, fastest and slowest of 4 rounds."""
    return measure(M, N, K)[side]


SHAPES = {
    "512 × 512 × 16384": (512, 512, 16384),
    "1536 × 1536 × 1536": (1536, 1536, 1536),
    "1536 × 1536 × 16384": (1536, 1536, 16384),
}


def ways_to_share(M, N, K, multiprocessors=132):
    """Return plans with one tile, of 128 x 128, whose pieces the last program adds."""
    tile, tiles = (128, 128, 64, 4, 6), triton.cdiv(M, 128) * triton.cdiv(N, 128)
    return {
        "alone": Plan(*tile, tiles, "alone"),
        "equal": Plan(*tile, tiles * max(2, multiprocessors // tiles), "last"),
        "stream": Plan(*tile, multiprocessors, "last"),
    }


@functools.lru_cache(maxsize=1)
def measure_sharing(M, N, K):
    """Return what ``timed`` does, of the ways to share."""
    return timed(M, N, K, ways_to_share(M, N, K, limits_of(torch.device("cuda"))["multiprocessors"]))


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="sharing",
        x_names=["shape"],
        x_vals=list(SHAPES),
        xlabel="M × N × K",
        ylabel="µs",
        line_arg="side",
        line_vals=["alone", "equal", "stream", "chosen", "cublas"],
        line_names=["a program for each tile", "split-K", "stream-K", "as split() chooses", "cuBLAS"],
        args={},
    )
)
def sharing(shape, side):
    """Microseconds by how the steps are shared out, in bfloat16: median, fastest and slowest of 4 rounds."""
    return measure_sharing(*SHAPES[shape])[side]


@triton.testing.perf_report(bench("decode", "M", DECODE, N=4096, K=4096))
def decode(M, N, K, side):
    """Microseconds of M x 4096 @ 4096 x 4096 in bfloat16, by the number of rows: median, fastest and slowest of 4."""
    return measure(M, N, K)[side]


def unsplit(plan, M, N):
    """Return the plan with its tile and options, but a program for each tile."""
    tiles = triton.cdiv(M, plan.block_m) * triton.cdiv(N, plan.block_n)
    return plan._replace(programs=tiles, finish="alone")


@functools.lru_cache(maxsize=1)
def measure_splitting(M, N, K):
    """Return what ``timed`` does, of the chosen plan unsplit."""
    plan = split(M, N, K, **limits_of(torch.device("cuda")))
    return timed(M, N, K, {"unsplit": unsplit(plan, M, N)})


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="splitting",
        x_names=["M"],
        x_vals=[1, 4, 16],
        x_log=True,
        xlabel="M",
        ylabel="µs",
        y_log=True,
        line_arg="side",
        line_vals=["unsplit", "chosen", "cublas"],
        line_names=["the same tile, not split", "as split() chooses", "cuBLAS"],
        args={"N": 4096, "K": 4096},
    )
)
def splitting(M, N, K, side):
    """Microseconds of M x 4096 @ 4096 x 4096 in bfloat16, with one tile: median, fastest and slowest of 4 rounds."""
    return measure_splitting(M, N, K)[side]
# --8<-- [end:measure]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (long, sharing, decode, splitting):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
