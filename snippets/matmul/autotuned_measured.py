# SPDX-License-Identifier: Apache-2.0
"""Auto-tuning, measured: what it costs, what leaving configs out costs, and what fewer masks bring.

- :func:`cost`: seconds of the first calls in a new process, by what it finds on disk
- :func:`pruning`: the tuner's choice beside the best, the worst and the middle of all configs that fit
- :func:`by_config`: every config at several shapes
- :func:`masks`: the kernel of ``grouped.py``, ours by the same config, ours tuned, and cuBLAS

bfloat16. Units: seconds; TFLOP/s, 2 * M * N * K FLOPs each.
Source: ``torch.matmul`` calls cuBLAS.

``python autotuned_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import triton

from snippets.matmul import grouped
from snippets.matmul.autotuned import CONFIGS, brief, candidates, config, matmul, prepare, tuned_kernel
from snippets.tools.benchmarking_cold import compare_in_rotation, rates


# --8<-- [start:cost]
def seconds_of_first_calls(side_by_side=False, n=4096, calls=3):
    """Print the seconds of the first products of this process, each waited for."""
    a, b = torch.randn(2, n, n, device="cuda", dtype=torch.bfloat16)
    torch.cuda.synchronize()
    for call in range(calls):
        begin = time.perf_counter()
        if side_by_side and call == 0:
            prepare(a, b)
        matmul(a, b)
        torch.cuda.synchronize()
        print(time.perf_counter() - begin)


@functools.lru_cache(maxsize=1)
def measure_cost():
    """Return the seconds of the first three calls in new processes, which find more and more of it done on disk."""

    def process(folder, **options):
        code = f"from snippets.matmul import autotuned_measured as it; it.seconds_of_first_calls(**{options})"
        path = os.pathsep.join(path for path in sys.path if path)
        environment = {**os.environ, "PYTHONPATH": path, "TRITON_CACHE_DIR": folder}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return [float(line) for line in done.stdout.split()]

    with tempfile.TemporaryDirectory() as folder:
        found = {"side_by_side": process(folder, side_by_side=True)}
    with tempfile.TemporaryDirectory() as folder:
        found["nothing"] = process(folder)
        found["all"] = process(folder)
        for root, _, names in os.walk(folder):
            for name in names:
                if name.endswith(".autotune.json"):  # what the tuner wrote down; compiled code stays
                    os.remove(os.path.join(root, name))
        found["code"] = process(folder)
    return found


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="cost",
        x_names=["call"],
        x_vals=[1, 2, 3],
        xlabel="call of a new process",
        ylabel="s",
        y_log=True,
        line_arg="on_disk",
        line_vals=["nothing", "side_by_side", "code", "all"],
        line_names=[
            "nothing on disk", "nothing on disk, compiled side by side", "compiled code on disk",
            "code and tuning on disk",
        ],
        args={},
    )
)  # fmt: skip
def cost(call, on_disk):
    """Seconds of the first calls of matmul in a new process, 4096 x 4096 x 4096 in bfloat16."""
    return measure_cost()[on_disk][call - 1]
# --8<-- [end:cost]


# --8<-- [start:quality]
SHAPES = {
    "512³": (512, 512, 512),
    "1024³": (1024, 1024, 1024),
    "4096³": (4096, 4096, 4096),
    "8192³": (8192, 8192, 8192),
    "16 × 4096 × 4096": (16, 4096, 4096),
}


@functools.lru_cache
def measure_configs(M, N, K, rounds=4):
    """Return ``{config: median}``, in milliseconds, of every config that fits, and the tuner's choice.

    In bfloat16, all in turns, on operands in rotation.
    """
    random = lambda *shape: torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    make = lambda: (random(M, K), random(K, N))
    sides = {brief(c): functools.partial(matmul, config=c) for c in candidates(M, N, K)["fit"]}
    times = {name: timing.median for name, timing in compare_in_rotation(sides, make, rounds=rounds).items()}
    matmul(*make())
    return times, brief(tuned_kernel.best_config)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="pruning",
        x_names=["shape"],
        x_vals=list(SHAPES),
        xlabel="M × N × K",
        ylabel="TFLOP/s",
        line_arg="which",
        line_vals=["best", "best_timed", "chosen", "first", "median", "worst"],
        line_names=[
            "best of all that fit", "best of the 6 that are timed", "the tuner's choice", "first by the estimate",
            "middle", "worst",
        ],
        args={},
    )
)  # fmt: skip
def pruning(shape, which):
    """What leaving configs out costs, and what a config picked at random would: speed by config, bfloat16."""
    M, N, K = SHAPES[shape]
    times, chosen = measure_configs(M, N, K)
    timed = [times[brief(c)] for c in candidates(M, N, K)["timed"]]
    ms = {
        "best": min(times.values()), "best_timed": min(timed), "chosen": times[chosen], "first": timed[0],
        "median": statistics.median(times.values()), "worst": max(times.values()),
    }[which]  # fmt: skip
    return 2 * M * N * K / (ms * 1e-3) / 1e12


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="by_config",
        x_names=["config"],
        x_vals=[brief(c) for c in CONFIGS],
        xlabel="config",
        ylabel="TFLOP/s",
        line_arg="shape",
        line_vals=["small", "medium", "large", "huge", "rows"],
        line_names=list(SHAPES),
        args={},
    )
)
def by_config(config, shape):
    """Speed of every config at several shapes, bfloat16; 0 where it does not fit."""
    M, N, K = dict(zip(by_config.benchmarks.line_vals, SHAPES.values(), strict=True))[shape]
    ms = measure_configs(M, N, K)[0].get(config)
    return 2 * M * N * K / (ms * 1e-3) / 1e12 if ms else 0.0
# --8<-- [end:quality]


# --8<-- [start:masks]
UNTUNED = config(128, 128, 64, warps=8, stages=3)  # what grouped.matmul takes for bfloat16, whatever the shape


@functools.cache
def measure_masks(n):
    """Return TFLOP/s, in turns: the kernel of ``grouped.py``, ours by the same config, ours tuned, and cuBLAS."""
    make = lambda: torch.randn(2, n, n, device="cuda", dtype=torch.bfloat16).unbind()
    prepare(*make())
    same = functools.partial(matmul, config=UNTUNED)
    sides = {"grouped": grouped.matmul, "same": same, "tuned": matmul, "cublas": torch.matmul}
    return rates(sides, make, 2 * n**3)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="masks",
        x_names=["n"],
        x_vals=[1024, 8192],
        xlabel="n",
        ylabel="TFLOP/s",
        line_arg="side",
        line_vals=["grouped", "same", "tuned", "cublas"],
        line_names=["grouped", "fewer masks", "fewer masks, tuned", "cuBLAS"],
        args={},
    )
)
def masks(n, side):
    """What fewer masks bring, and what tuning adds: n x n x n in bfloat16, all in turns."""
    return measure_masks(n)[side]
# --8<-- [end:masks]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (cost, pruning, by_config, masks):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
