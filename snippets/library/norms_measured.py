# SPDX-License-Identifier: Apache-2.0
"""The norms to copy, measured, beside the lesson's and torch's.

- :func:`both`: GB/s of forward and backward together

Each norm has a weight, layer norm a bias too; *heads* is an RMS norm of 128 columns with a weight for each of the
32 heads, as some models normalize queries and keys. bfloat16, normally distributed. How it is measured:
``fusion/long_softmax_measured.py``.

Bytes: those of kernels that read and write each element once: forward 1 read and 1 written, backward 2 and 1; of the
sum 2 and 2, and 3 and 1. What weights and their gradients take is left out. Units: GB/s of 10**9 bytes.

``python norms_measured.py`` lists the benchmark. It needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools

import torch
import triton

from snippets.fusion import norms_measured as lesson
from snippets.fusion.long_softmax_measured import check_alike, with_backward
from snippets.fusion.norms import MOST_COLUMNS
from snippets.library.norms import add_layer_norm, add_rms_norm, layer_norm, rms_norm
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation

EPS = 1e-6
MANY = {"8192 × 4096": (8192, 4096), "4096 × 16384": (4096, 16384), "16384 × 1024": (16384, 1024)}
HEADS = (4096, 32, 128)


def torch_heads(x, weight):
    return torch.nn.functional.rms_norm(x, x.shape[-1:], None, EPS) * weight


def torch_add_layer_norm(x, residual, weight, bias):
    total = x + residual
    return lesson.torch_layer_norm(total, weight, bias), total


# --8<-- [start:norms]
# ours, the lesson's if it serves this, torch's; inputs of rows; weights; elements for each of x, read and written
NORMS = {
    "RMS norm": (rms_norm, lesson.rms_norm, lesson.torch_rms_norm, 1, 1, 5),
    "RMS norm of a sum": (add_rms_norm, None, lesson.torch_add_rms_norm, 2, 1, 8),
    "layer norm": (layer_norm, None, lesson.torch_layer_norm, 1, 2, 5),
    "layer norm of a sum": (add_layer_norm, None, torch_add_layer_norm, 2, 2, 8),
}
CASES = {f"{norm}, {shape}": (*NORMS[norm], size, size[-1:]) for norm in NORMS for shape, size in MANY.items()}
CASES["heads, 4096 × 32 × 128"] = (rms_norm, None, torch_heads, 1, 1, 5, HEADS, HEADS[1:])
CASES["RMS norm, 512 × 131072"] = (*NORMS["RMS norm"], (512, 131072), (131072,))
# --8<-- [end:norms]


# --8<-- [start:measure]
@functools.cache
def measure(case: str) -> dict[str, Timing]:
    """Return the milliseconds of each side, forward and backward."""
    torch.manual_seed(0)
    ours, taught, peer, tensors, weights, _, size, of_weight = CASES[case]
    sides = {"ours": functools.partial(ours, eps=EPS), "torch": peer}
    if taught and size[-1] <= MOST_COLUMNS:
        sides["lesson"] = functools.partial(taught, eps=EPS)
    sides = {name: with_backward(run, results=tensors) for name, run in sides.items()}
    random = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    make = lambda: [
        *(random(*size) for _ in range(tensors)),
        *(random(*of_weight) for _ in range(weights)),
        *(random(*size) for _ in range(tensors)),  # gradients of the results
    ]
    check_alike(sides, make(), "torch")
    return compare_in_rotation(sides, make, rounds=3)
# --8<-- [end:measure]


# --8<-- [start:tables]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="both",
        x_names=["case"],
        x_vals=list(CASES),
        xlabel="norm, shape",
        ylabel="GB/s",
        line_arg="side",
        line_vals=["ours", "lesson", "torch"],
        line_names=["this file", "the lesson's", "torch"],
        args={},
    )
)
def both(case, side):
    """GB/s of forward and backward together: median, slowest and fastest of 3 rounds. NaN where a side has no such."""
    *_, moved, size, _ = CASES[case]
    if side not in measure(case):
        return float("nan")
    return measure(case)[side].rate(moved * torch.Size(size).numel() * torch.bfloat16.itemsize)
# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    print(f"both.run(print_data=True)  # {both.fn.__doc__}")


if __name__ == "__main__":
    main()
