# SPDX-License-Identifier: Apache-2.0
"""Measure what pipelines, persistent programs and early starts bring to a matrix product.

- :func:`by_stages`: its rate by the number of stages
- :func:`steps`: from a program for each tile to one loop over all tiles
- :func:`early`: products one after another in a CUDA graph, each begun while the one before ends, or after it

Both sides of each comparison run in turns, by one timer, on the same random numbers, in rotation so that they are cold;
large ones by themselves for 0.25 s before each reading (``snippets/tools/benchmarking_cold.py``).

Units: TFLOP/s, 2 * M * N * K FLOPs each.
Source: ``torch.matmul`` calls cuBLAS.

``python persistent_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools

import torch
import triton

from snippets.matmul.persistent import LARGE, matmul
from snippets.tools.benchmarking_cold import rates


def random_pair(side: int, dtype: torch.dtype = torch.bfloat16):
    """Return two square matrices of random numbers on the GPU."""
    return tuple(torch.randn(side, side, device="cuda", dtype=dtype) for _ in range(2))


# --8<-- [start:steps]
STEPS = {
    "each_tile": LARGE._replace(per_sm=0, flatten=False),
    "persistent": LARGE._replace(flatten=False),
    "flattened": LARGE,
    "chosen": None,
}


@functools.lru_cache(maxsize=1)
def measure_steps(side):
    sides = {name: functools.partial(matmul, config=config) for name, config in STEPS.items()}
    return rates(sides | {"cublas": torch.matmul}, lambda: random_pair(side), 2 * side**3)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="steps",
        x_names=["side"],
        x_vals=[2**k for k in range(9, 15)],
        x_log=True,
        xlabel="M = N = K (bfloat16)",
        ylabel="TFLOP/s",
        line_arg="provider",
        line_vals=[*STEPS, "cublas"],
        line_names=[
            "a program for each tile", "a program for each SM", "and one loop", "config by size", "cuBLAS",
        ],
        args={},
    )
)  # fmt: skip
def steps(side, provider):
    """Rates of the steps, all but the last two in tiles of 128 x 256 x 64, and of torch's product."""
    return measure_steps(side)[provider]
# --8<-- [end:steps]


# --8<-- [start:by_stages]
MOST_STAGES = 4  # a fifth would not fit into shared memory


@functools.lru_cache(maxsize=1)
def measure_stages(side=4096):
    run = lambda stages: functools.partial(matmul, config=STEPS["each_tile"]._replace(num_stages=stages))
    sides = {stages: run(stages) for stages in range(1, MOST_STAGES + 1)}
    return rates(sides, lambda: random_pair(side), 2 * side**3)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="by_stages",
        x_names=["stages"],
        x_vals=list(range(1, MOST_STAGES + 1)),
        xlabel="num_stages",
        ylabel="TFLOP/s",
        line_arg="provider",
        line_vals=["rate"],
        line_names=["128 x 256 x 64, a program for each tile"],
        args={},
    )
)
def by_stages(stages, provider):
    """Rate by the number of stages, 4096 x 4096 x 4096, bfloat16."""
    return measure_stages()[stages]
# --8<-- [end:by_stages]


# --8<-- [start:early]
@functools.lru_cache(maxsize=1)
def measure_early(side):
    from snippets.matmul.persistent import configuration, multiprocessors

    config = configuration(side, side, torch.bfloat16.itemsize, multiprocessors(torch.device("cuda")))
    sides = {
        "early": functools.partial(matmul, config=config._replace(early=True)),
        "late": functools.partial(matmul, config=config._replace(early=False)),
        "cublas": torch.matmul,
    }
    return rates(sides, lambda: random_pair(side), 2 * side**3)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="early",
        x_names=["side"],
        x_vals=[2**k for k in range(8, 14)],
        x_log=True,
        xlabel="M = N = K (bfloat16)",
        ylabel="TFLOP/s",
        line_arg="provider",
        line_vals=["early", "late", "cublas"],
        line_names=["begun early", "begun after the one before", "cuBLAS"],
        args={},
    )
)
def early(side, provider):
    """Rates of products one after another, in one CUDA graph."""
    return measure_early(side)[provider]
# --8<-- [end:early]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (by_stages, steps, early):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
