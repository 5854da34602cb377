# SPDX-License-Identifier: Apache-2.0
"""Attention, measured: TFLOP/s of ours, of cuDNN's and of FlashAttention-2, as torch calls them.

- :func:`ladder`: TFLOP/s of the forward step by step: four kernels of torch, ours by pointers, ours by descriptors
- :func:`forward`: TFLOP/s of each, and ours as shares of the others
- :func:`both`: the same of forward and backward together

4 sequences of 16 heads, as many keys as queries, bfloat16, normally distributed. The peers are two backends of
``torch.nn.functional.scaled_dot_product_attention``, chosen by ``torch.nn.attention.sdpa_kernel``. All results are
compared with cuDNN's before they are timed: in turns, on operands in rotation, all calls in one CUDA graph
(``snippets/tools/benchmarking_cold.py``). Before each reading a side runs by itself for 80 ms, for the GPU's clock
follows the power that is drawn.

FLOPs: forward two products of 2 * queries * keys * head_dim for each head, so 4; half of them if causal. With the
backward 3.5 times as many: it has five products, of which one computes the scores again. What a kernel computes beyond
that is not counted. Units: TFLOP/s of 10**12.
Source: the same counts as in Tri Dao, *FlashAttention-2*, 2023.

``python attention_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
import math

import torch
import triton
from torch.nn.attention import SDPBackend, sdpa_kernel

from snippets.fusion import attention as snippet
from snippets.fusion.attention_backward import attention
from snippets.fusion.long_softmax_measured import check_alike, with_backward
from snippets.tools.benchmarking import Timing, compare
from snippets.tools.benchmarking_cold import Rotation, operands_in_rotation

BATCH, HEADS = 4, 16
CASES = [
    (queries, head_dim, causal)
    for causal in (False, True) for head_dim in (64, 128) for queries in (2048, 8192, 16384)
]  # fmt: skip
NAMED = {f"{case[0]} × {case[1]}{', causal' if case[2] else ''}": case for case in CASES}
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
LADDER = {f"8192 × {head_dim}": (8192, head_dim, False) for head_dim in (64, 128)}
SHORTER = 3  # times: a third of the usual time, or the whole would take two minutes


# --8<-- [start:sides]
def in_torch(backend: SDPBackend, causal: bool):
    def run(q, k, v):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return run


def naive(q, k, v):
    """Compute attention by four kernels, through three tensors of all scores."""
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(dim=-1) @ v


def ours(described: bool, q, k, v):
    return snippet.forward(q, k, v, q.shape[-1] ** -0.5, False, described=described)[0]


def sides_of(causal: bool, step: str) -> dict:
    peers = {name: in_torch(backend, causal) for name, backend in BACKENDS.items()}
    if step == "ladder":
        steps = {"pointers": functools.partial(ours, False), "descriptors": functools.partial(ours, True)}
        return {"naive": naive} | steps | peers
    sides = {"ours": functools.partial(attention, causal=causal)} | peers
    return sides if step == "forward" else {name: with_backward(run) for name, run in sides.items()}


def flops(queries: int, head_dim: int, causal: bool, step: str) -> float:
    """
    >>> flops(8192, 128, True, "forward") / 1e12
    1.099511627776
    """
    forward = 4 * BATCH * HEADS * queries**2 * head_dim
    return forward * (0.5 if causal else 1) * (3.5 if step == "both" else 1)
# --8<-- [end:sides]


# --8<-- [start:measure]
@functools.cache
def measure(queries: int, head_dim: int, causal: bool, step: str) -> dict[str, Timing]:
    """Return the milliseconds of each side: ladder, forward or both."""
    torch.manual_seed(0)
    tensors = 4 if step == "both" else 3  # q, k, v, and the gradient of the result
    shape = BATCH, HEADS, queries, head_dim
    make = lambda: [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(tensors)]
    sides = sides_of(causal, step)
    sets = operands_in_rotation(make)
    check_alike(sides, sets[0], "cudnn")
    rotations = {name: Rotation(run, sets, steady=True) for name, run in sides.items()}
    for rotation in rotations.values():
        rotation.before = math.ceil(rotation.before / SHORTER)
    return compare(rotations, rounds=3, timer=lambda rotation: rotation.milliseconds())
# --8<-- [end:measure]


# --8<-- [start:tables]
def table(case: str, what: str, step: str) -> float | tuple[float, float, float]:
    found = measure(*NAMED[case], step)
    if what in ("of_cudnn", "of_flash"):
        return found[what.removeprefix("of_")].median / found["ours"].median
    return found[what].rate(flops(*NAMED[case], step), unit=1e12)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="ladder",
        args={},
        x_names=["case"],
        x_vals=list(LADDER),
        xlabel="queries × head_dim",
        ylabel="TFLOP/s",
        line_arg="what",
        line_vals=["naive", "pointers", "descriptors", "flash", "cudnn"],
        line_names=["four kernels of torch", "by pointers", "by descriptors", "FlashAttention-2", "cuDNN"],
    )
)  # fmt: skip
def ladder(case, what):
    """TFLOP/s of the forward, not causal, step by step: median, slowest and fastest of 3 rounds."""
    return measure(*LADDER[case], "ladder")[what].rate(flops(*LADDER[case], "ladder"), unit=1e12)


COLUMNS = {
    "x_names": ["case"],
    "x_vals": list(NAMED),
    "xlabel": "queries × head_dim",
    "ylabel": "TFLOP/s",
    "line_arg": "what",
    "line_vals": ["ours", "cudnn", "flash", "of_cudnn", "of_flash"],
    "line_names": ["ours", "cuDNN", "FlashAttention-2", "ours, share of cuDNN", "ours, share of FlashAttention-2"],
}


@triton.testing.perf_report(
    triton.testing.Benchmark(plot_name="forward", args={}, **COLUMNS)
)  # fmt: skip
def forward(case, what):
    """TFLOP/s of attention: median, slowest and fastest of 3 rounds; and ours as shares of cuDNN's and of FA2's."""
    return table(case, what, "forward")


@triton.testing.perf_report(
    triton.testing.Benchmark(plot_name="both", args={}, **COLUMNS)
)  # fmt: skip
def both(case, what):
    """TFLOP/s of attention and its gradients together: median, slowest and fastest of 3 rounds; and ours as shares."""
    return table(case, what, "both")
# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (ladder, forward, both):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
