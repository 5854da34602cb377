# SPDX-License-Identifier: Apache-2.0
"""Measure what pipelines, persistent programs and early starts bring to a matrix product.

- :func:`by_stages`: its rate by the number of stages
- :func:`steps`: from a program for each tile to one loop over all tiles
- :func:`early`: products one after another in a CUDA graph, each begun while the one before ends, or after it
- :func:`data`: random numbers against zeros, which draw less power
- :func:`power`: what ``nvidia-smi`` says of clock and power meanwhile

Both sides of each comparison run in turns, by one timer, on the same data. Products that are large enough to meet the
GPU's limit of power lower its clock in some tenths of a second. So before each reading of one the same side runs for
0.25 s; else each would inherit the clock of the side before it.

Units: TFLOP/s, 2 * M * N * K FLOPs each; MHz and watts.
Source: ``torch.matmul`` calls cuBLAS.

``python persistent_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable

import torch
import triton
from triton.testing import do_bench

from snippets.matmul.persistent import LARGE, matmul
from snippets.tools.benchmarking import compare
from snippets.tools.benchmarking_graph import captured


def random_pair(side: int, dtype: torch.dtype = torch.bfloat16):
    """Two square matrices of random numbers on the GPU."""
    return tuple(torch.randn(side, side, device="cuda", dtype=dtype) for _ in range(2))


# --8<-- [start:rates]
def rates(sides: dict[str, Callable[[], object]], flops: int, calls: int = 1, rounds: int = 6) -> dict[str, tuple]:
    """TFLOP/s by name: median, slowest and fastest round. A graph repeats ``calls`` calls; L2 is emptied before it."""
    warmup, rep = (250, 150) if flops > 1e10 else (10, 40)
    timer = lambda run: do_bench(run, warmup=warmup, rep=rep, return_mode="median") / calls
    timings = compare({name: captured(run, calls) for name, run in sides.items()}, rounds=rounds, timer=timer)
    return {name: timing.rate(flops, 1e12) for name, timing in timings.items()}


def rates_in_a_row(sides: dict[str, Callable[[], object]], flops: int) -> dict[str, tuple]:
    """As :func:`rates`, of up to 20 calls one after another, between which nothing empties L2."""
    return rates(sides, flops, calls=max(1, min(20, round(8e12 / flops))))
# --8<-- [end:rates]


# --8<-- [start:steps]
STEPS = {
    "each_tile": LARGE._replace(per_sm=0, flatten=False),
    "persistent": LARGE._replace(flatten=False),
    "flattened": LARGE,
    "chosen": None,
}


@functools.lru_cache(maxsize=1)
def measure_steps(side):
    a, b = random_pair(side)
    run = lambda config: lambda: matmul(a, b, config=config)
    return rates({name: run(config) for name, config in STEPS.items()} | {"cublas": lambda: a @ b}, 2 * side**3)


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
    a, b = random_pair(side)
    run = lambda stages: lambda: matmul(a, b, config=STEPS["each_tile"]._replace(num_stages=stages))
    return rates({stages: run(stages) for stages in range(1, MOST_STAGES + 1)}, 2 * side**3)


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

    a, b = random_pair(side)
    config = configuration(side, side, a.itemsize, multiprocessors(a.device))
    sides = {
        "early": lambda: matmul(a, b, config=config._replace(early=True)),
        "late": lambda: matmul(a, b, config=config._replace(early=False)),
        "cublas": lambda: a @ b,
    }
    return rates_in_a_row(sides, 2 * side**3)


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


DATA = {
    "random_ours": "random numbers, ours",
    "random_cublas": "random numbers, cuBLAS",
    "zeros_ours": "zeros, ours",
    "zeros_cublas": "zeros, cuBLAS",
}


# --8<-- [start:data]
def on_data(side):
    """The products of random numbers and of zeros."""
    zeros = torch.zeros(side, side, device="cuda", dtype=torch.bfloat16)
    sides = {}
    for name, (a, b) in {"random": random_pair(side), "zeros": (zeros, zeros)}.items():
        sides[f"{name}_ours"] = functools.partial(matmul, a, b)
        sides[f"{name}_cublas"] = functools.partial(torch.matmul, a, b)
    return sides


@functools.lru_cache(maxsize=1)
def measure_data(side):
    return rates_in_a_row(on_data(side), 2 * side**3)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="data",
        x_names=["side"],
        x_vals=[1024, 2048, 4096, 8192],
        x_log=True,
        xlabel="M = N = K (bfloat16)",
        ylabel="TFLOP/s",
        line_arg="provider",
        line_vals=list(DATA),
        line_names=list(DATA.values()),
        args={},
    )
)
def data(side, provider):
    """Rates on random numbers and on zeros: the same instructions, another power."""
    return measure_data(side)[provider]
# --8<-- [end:data]


# --8<-- [start:power]
QUERY = {
    "clock": "clocks.sm",  # MHz
    "power": "power.draw.instant",  # watts
    "limit": "enforced.power.limit",
    "capped": "clocks_event_reasons.sw_power_cap",  # does power hold the clock down?
}


def medians(lines: list[str]) -> dict[str, float]:
    """The medians of what ``nvidia-smi`` printed; ``capped`` is the percentage of lines with "Active".

    >>> medians(["1500, 699.5, 700.00, Active", "1510, 690.5, 700.00, Active", "1980, 600.0, 700.00, Not Active"])
    {'clock': 1510.0, 'power': 690.5, 'limit': 700.0, 'capped': 66.66666666666667}
    """
    *numbers, capped = zip(*(line.split(", ") for line in lines), strict=True)
    found = {name: statistics.median(map(float, column)) for name, column in zip(QUERY, numbers, strict=False)}
    return found | {"capped": 100 * capped.count("Active") / len(lines)}


def under_load(run: Callable[[], object], seconds: float = 1.2) -> dict[str, float]:
    """Clock, power, its limit, and whether it caps the clock, in the second half of so many seconds of ``run``.

    Raises:
        RuntimeError: There is no ``nvidia-smi``, or it says nothing of this GPU.
    """
    if shutil.which("nvidia-smi") is None:
        raise RuntimeError("nvidia-smi was not found; it comes with NVIDIA's driver")
    gpu = f"GPU-{torch.cuda.get_device_properties().uuid}"
    asked = [f"--query-gpu={','.join(QUERY.values())}", "--format=csv,noheader,nounits", "--loop-ms=50"]
    with subprocess.Popen(["nvidia-smi", f"--id={gpu}", *asked], stdout=subprocess.PIPE, text=True) as watching:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            run()
            torch.cuda.synchronize()
        watching.terminate()
        lines = watching.stdout.read().splitlines()
    lines = [line for line in lines[len(lines) // 2 :] if line.count(",") == len(QUERY) - 1]
    if len(lines) < 3:
        raise RuntimeError(f"nvidia-smi said next to nothing of {gpu} in {seconds} s: {lines}")
    return medians(lines)


@functools.cache
def measure_power(numbers, side):
    return under_load(captured(on_data(side)[numbers], calls=20))


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="power",
        x_names=["numbers"],
        x_vals=list(DATA),
        xlabel="numbers",
        ylabel="",
        line_arg="what",
        line_vals=list(QUERY),
        line_names=["clock, MHz", "power, W", "its limit, W", "held down by it, % of readings"],
        args={"side": 4096},
    )
)
def power(numbers, what, side):
    """Clock and power after half a second of products of side 4096, by nvidia-smi."""
    return measure_power(numbers, side)[what]
# --8<-- [end:power]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (by_stages, steps, early, data, power):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
