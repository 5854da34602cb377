# SPDX-License-Identifier: Apache-2.0
"""The same matrix product on random numbers and on zeros: its rate, and the clock and the power of the GPU meanwhile.

- :func:`data`: rates on random numbers and on zeros, in turns
- :func:`power`: rate, clock and power of one product after another, all three read in the same second, and what the
  matrix units could do at that clock

Units: TFLOP/s, 2 * M * N * K FLOPs each; MHz, watts, millijoules.
Source: ``torch.matmul`` calls cuBLAS; ``nvidia-smi`` comes with NVIDIA's driver. A multiprocessor of a Hopper GPU does
4096 FLOPs of bfloat16 in a cycle, by NVIDIA's white paper on the H100.

``python power_and_clock.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable

import torch
import triton

from snippets.matmul.persistent import configuration, matmul
from snippets.matmul.persistent_measured import random_pair
from snippets.tools.benchmarking_cold import rates
from snippets.tools.benchmarking_graph import captured

SIZES = [1024, 2048, 4096, 8192]
FLOPS_IN_A_CYCLE = 4096  # of a multiprocessor of compute capability 9.0, in bfloat16


def operands(side: int, numbers: str) -> tuple[torch.Tensor, torch.Tensor]:
    a, b = random_pair(side)
    return (a.zero_(), b.zero_()) if numbers == "zeros" else (a, b)


def late(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Compute our product, not begun before the one ahead of it has ended."""
    config = configuration(a.shape[0], b.shape[1], a.itemsize, torch.cuda.get_device_properties().multi_processor_count)
    return matmul(a, b, config=config._replace(early=False))


SIDES = {"ours": matmul, "late": late, "cublas": torch.matmul}
DATA = {
    "random_ours": "random numbers, ours",
    "random_cublas": "random numbers, cuBLAS",
    "zeros_ours": "zeros, ours",
    "zeros_cublas": "zeros, cuBLAS",
}


# --8<-- [start:data]
@functools.lru_cache(maxsize=1)
def measure_data(side):
    def run(name):
        numbers, who = name.split("_")
        first = 0 if numbers == "random" else 2
        return lambda *both: SIDES[who](*both[first : first + 2])

    make = lambda: (*operands(side, "random"), *operands(side, "zeros"))
    return rates({name: run(name) for name in DATA}, make, 2 * side**3, steady=True)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="data",
        x_names=["side"],
        x_vals=SIZES,
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
    """Return the medians of what ``nvidia-smi`` printed; ``capped`` is the percentage of lines with "Active".

    >>> medians(["1500, 699.5, 700.00, Active", "1510, 690.5, 700.00, Active", "1980, 600.0, 700.00, Not Active"])
    {'clock': 1510.0, 'power': 690.5, 'limit': 700.0, 'capped': 66.66666666666667}
    """
    *numbers, capped = zip(*(line.split(", ") for line in lines), strict=True)
    found = {name: statistics.median(map(float, column)) for name, column in zip(QUERY, numbers, strict=False)}
    return found | {"capped": 100 * capped.count("Active") / len(lines)}


def replayed(run: Callable[[], object], seconds: float) -> float:
    """Return how many times per second ``run`` ended, in the second half of so many seconds.

    The GPU never waits for the host.

    It should take the GPU a millisecond or more.
    """
    ended, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        run()
        ended.append(torch.cuda.Event(enable_timing=True))
        ended[-1].record()
        if len(ended) > 2:
            ended[-3].synchronize()  # two are always waiting
    torch.cuda.synchronize()
    half = len(ended) // 2
    return (len(ended) - 1 - half) / (1e-3 * ended[half].elapsed_time(ended[-1]))


def under_load(run: Callable[[], object], seconds: float = 1.5) -> dict[str, float]:
    """Return how many times per second ``run`` ended, with the clock, the power, its limit and its cap meanwhile.

    Raises:
        RuntimeError: There is no ``nvidia-smi``, or it says nothing of this GPU.
    """
    if shutil.which("nvidia-smi") is None:
        raise RuntimeError("nvidia-smi was not found; it comes with NVIDIA's driver")
    gpu = f"GPU-{torch.cuda.get_device_properties().uuid}"
    asked = [f"--query-gpu={','.join(QUERY.values())}", "--format=csv,noheader,nounits", "--loop-ms=50"]
    with subprocess.Popen(["nvidia-smi", f"--id={gpu}", *asked], stdout=subprocess.PIPE, text=True) as watching:
        often = replayed(run, seconds)
        watching.terminate()
        lines = watching.stdout.read().splitlines()
    lines = [line for line in lines[len(lines) // 2 :] if line.count(",") == len(QUERY) - 1]
    if len(lines) < 3:
        raise RuntimeError(f"nvidia-smi said next to nothing of {gpu} in {seconds} s: {lines}")
    return medians(lines) | {"often": often}


CASES = {
    f"{side}, {numbers}, {who}": (side, numbers, who)
    for side in SIZES for numbers in ("random", "zeros") for who in SIDES
}  # fmt: skip


@functools.cache
def measure_power(side, numbers, who):
    """Return TFLOP/s, MHz, watts, the percentage of the matrix units' peak at this clock, and millijoules of a product.
    """
    calls, flops = max(1, min(200, round(1e13 / side**3))), 2 * side**3
    found = under_load(captured(functools.partial(SIDES[who], *operands(side, numbers)), calls=calls))
    products = found["often"] * calls
    cores = torch.cuda.get_device_properties().multi_processor_count
    return found | {
        "rate": products * flops / 1e12,
        "share": 100 * products * flops / (cores * FLOPS_IN_A_CYCLE * found["clock"] * 1e6),
        "energy": 1e3 * found["power"] / products,
    }


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="power",
        x_names=["case"],
        x_vals=list(CASES),
        xlabel="M = N = K, numbers, side",
        ylabel="",
        line_arg="what",
        line_vals=["rate", "clock", "share", "power", "energy", "capped"],
        line_names=[
            "TFLOP/s", "clock, MHz", "% of what is possible at it", "power, W", "mJ a product",
            "clock held down by power, % of readings",
        ],
        args={},
    )
)  # fmt: skip
def power(case, what):
    """Rate, clock and power of one product after another, in bfloat16, all read in the same second."""
    return measure_power(*CASES[case])[what]
# --8<-- [end:power]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (data, power):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
