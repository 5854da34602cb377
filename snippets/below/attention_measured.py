# SPDX-License-Identifier: Apache-2.0
"""Attention in Gluon, step by step, measured beside cuDNN's and beside the course's in plain Triton.

4 sequences of 16 heads, as many keys as queries, bfloat16, normally distributed. ``triton`` is
``snippets/library/attention.py``, ``cudnn`` is torch's ``scaled_dot_product_attention`` with that backend, and
``landing`` the kernel of ``attention_bug.py``. All results are compared with cuDNN's before they are timed: in turns,
on operands in rotation, all calls in one CUDA graph (``snippets/tools/benchmarking_cold.py``). Before each reading a
side runs by itself for 50 ms, for the GPU's clock follows the power that is drawn.

FLOPs: two products of 2 * queries * keys * D for each head, half of them if causal. What a kernel computes beyond that
is not counted. Units: TFLOP/s of 10**12.

``python attention_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
import math

import torch
import triton
from torch.nn.attention import SDPBackend, sdpa_kernel

from snippets.below.attention import WAYS, attention
from snippets.below.attention_bug import landing
from snippets.fusion.long_softmax_measured import check_alike
from snippets.library import attention as library
from snippets.tools.benchmarking import Timing, compare
from snippets.tools.benchmarking_cold import STEADY, Rotation, operands_in_rotation

BATCH, HEADS = 4, 16
LENGTHS = (2048, 8192, 16384)
KINDS = {(D, causal): f"{D}{', causal' if causal else ''}" for D in (128, 64) for causal in (False, True)}
NAMED = {f"{length} × {name}": (length, *kind) for kind, name in KINDS.items() for length in LENGTHS}
LANDED = 8192  # tokens at which the kernel of attention_bug.py is measured, too
LONG_ENOUGH = 50.0  # milliseconds by itself before a reading
NAMES = {
    "waiting": "one after another",
    "flying": "in flight",
    "specialized": "two groups",
    "turns": "taking turns",
    "third": "three groups",
    "persistent": "persistent",
    "triton": "plain Triton",
    "cudnn": "cuDNN",
}


# --8<-- [start:sides]
def cudnn(causal: bool, q, k, v):
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def sides_of(length: int, D: int, causal: bool) -> dict:
    ways = [way for way in WAYS if D == 64 or way != "third"]
    sides = {way: functools.partial(attention, causal=causal, way=way) for way in ways}
    if (length, causal) == (LANDED, False):
        sides["landing"] = landing
    sides["triton"] = functools.partial(library.attention, causal=causal)
    return sides | {"cudnn": functools.partial(cudnn, causal)}


def flops(length: int, D: int, causal: bool) -> float:
    """
    >>> flops(8192, 128, True) / 1e12
    1.099511627776
    """
    return 4 * BATCH * HEADS * length**2 * D * (0.5 if causal else 1)
# --8<-- [end:sides]


# --8<-- [start:measure]
@functools.cache
def measure(length: int, D: int, causal: bool) -> dict[str, Timing]:
    """Return the milliseconds of each side."""
    torch.manual_seed(0)
    shape = BATCH, HEADS, length, D
    make = lambda: [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    sides, sets = sides_of(length, D, causal), operands_in_rotation(make)
    check_alike(sides, sets[0], "cudnn")
    rotations = {name: Rotation(run, sets, steady=True) for name, run in sides.items()}
    for rotation in rotations.values():
        rotation.before = math.ceil(rotation.before * LONG_ENOUGH / STEADY)
    return compare(rotations, rounds=3, timer=lambda rotation: rotation.milliseconds())
# --8<-- [end:measure]


# --8<-- [start:tables]
def columns(name: str, D: int, ylabel: str, *without: str) -> dict:
    ways = {way: title for way, title in NAMES.items() if way not in without and (D == 64 or way != "third")}
    rows = [name for name, case in NAMED.items() if case[1] == D]
    return dict(
        plot_name=f"{name}_{D}", x_names=["case"], x_vals=rows, xlabel="tokens × D", ylabel=ylabel, line_arg="way",
        line_vals=list(ways), line_names=list(ways.values()), args={},
    )  # fmt: skip


@triton.testing.perf_report([triton.testing.Benchmark(**columns("ladder", D, "TFLOP/s")) for D in (128, 64)])
def ladder(case, way):
    """TFLOP/s of attention, forward, step by step: median, slowest and fastest of 3 rounds."""
    return measure(*NAMED[case])[way].rate(flops(*NAMED[case]), unit=1e12)


@triton.testing.perf_report(
    [triton.testing.Benchmark(**columns("shares", D, "share of cuDNN", "cudnn")) for D in (128, 64)]
)  # fmt: skip
def shares(case, way):
    """The same as shares of cuDNN's speed."""
    found = measure(*NAMED[case])
    return found["cudnn"].median / found[way].median


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="landed", x_names=["D"], x_vals=[128, 64], xlabel=f"D, {LANDED} tokens", ylabel="TFLOP/s",
        line_arg="way", line_vals=["waiting", "landing", "flying"],
        line_names=["one after another", "landed first", "in flight"], args={},
    )
)  # fmt: skip
def landed(D, way):
    """TFLOP/s of a kernel whose products land before the softmax, between those of the two that it stands between."""
    return measure(LANDED, D, False)[way].rate(flops(LANDED, D, False), unit=1e12)
# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (ladder, shares, landed):
        for benchmark in mark.benchmarks if isinstance(mark.benchmarks, list) else [mark.benchmarks]:
            print(f"{benchmark.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
