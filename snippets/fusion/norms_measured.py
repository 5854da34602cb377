# SPDX-License-Identifier: Apache-2.0
"""RMS norm and layer norm, measured: how near our kernels come to the time of a copy.

- :func:`forward`: GB/s of ours, of torch's and of a copy, and both as shares of the copy
- :func:`both`: the same of forward and backward together

The RMS norm is the lesson's, ``norms.py``; the other two are those to copy, ``library/norms.py``. Each norm has a
weight, layer norm a bias too. The second is RMS norm of a sum, ``x + residual``, which torch adds by itself; the sum
is another result and has a gradient of its own. bfloat16, normally distributed. How it is measured,
and what the copy is: ``long_softmax_measured.py``.

Bytes: those of kernels that read and write each element of a tensor of rows once, so of all sides the same. Forward 1
read and 1 written, with the backward 3 and 2; of the sum forward 2 and 2, with the backward 5 and 3. What weights and
their gradients take is left out. Units: GB/s of 10**9 bytes.

``torch.compile`` takes no part: our Triton is newer than the one that this torch was made for.

``python norms_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import torch
import triton

from snippets.fusion.long_softmax_measured import COLUMNS, check_alike, result, with_backward
from snippets.fusion.norms import rms_norm
from snippets.library.norms import add_rms_norm, layer_norm
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation

SHAPES = ((8192, 4096), (4096, 16384), (16384, 1024), (1000, 3000))
EPS = 1e-6


# --8<-- [start:norms]
class Norm(NamedTuple):
    ours: Callable[..., object]
    torch: Callable[..., object]
    rows: int  # inputs and results, each of rows
    weights: int  # inputs of a number for each column
    forward: int  # elements for each of x, read and written
    both: int


def torch_rms_norm(x, weight):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, EPS)


def torch_add_rms_norm(x, residual, weight):
    total = x + residual
    return torch_rms_norm(total, weight), total


def torch_layer_norm(x, weight, bias):
    return torch.nn.functional.layer_norm(x, weight.shape, weight, bias, EPS)


NORMS = {
    "RMS norm": Norm(functools.partial(rms_norm, eps=EPS), torch_rms_norm, 1, 1, 2, 5),
    "RMS norm of a sum": Norm(functools.partial(add_rms_norm, eps=EPS), torch_add_rms_norm, 2, 1, 4, 8),
    "layer norm": Norm(functools.partial(layer_norm, eps=EPS), torch_layer_norm, 1, 2, 2, 5),
}
NAMED = {f"{name}, {rows} × {columns}": (name, rows, columns) for name in NORMS for rows, columns in SHAPES}
# --8<-- [end:norms]


# --8<-- [start:measure]
def operands(name: str, rows: int, columns: int, step: str) -> list[torch.Tensor]:
    """Return what a norm's function takes: tensors of rows, weights; in the second step also gradients of its results.
    """
    norm = NORMS[name]
    random = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    given = [random(rows, columns) for _ in range(norm.rows)] + [random(columns) for _ in range(norm.weights)]
    return given if step == "forward" else [*given, *(random(rows, columns) for _ in range(norm.rows))]


@functools.cache
def measure(name: str, rows: int, columns: int, step: str) -> dict[str, Timing]:
    """Return the milliseconds of each side, forward or both."""
    torch.manual_seed(0)
    norm = NORMS[name]
    sides = {"ours": norm.ours, "torch": norm.torch}
    if step == "both":
        sides = {side: with_backward(run, results=norm.rows) for side, run in sides.items()}
    make = functools.partial(operands, name, rows, columns, step)
    check_alike(sides, make(), "torch")
    return compare_in_rotation(sides, make, rounds=3)
# --8<-- [end:measure]


# --8<-- [start:tables]
def table(case: str, what: str, step: str) -> float | tuple[float, float, float]:
    name, rows, columns = NAMED[case]
    moved = getattr(NORMS[name], step) * rows * columns * torch.bfloat16.itemsize
    return result(measure(name, rows, columns, step), moved, what)


AXIS = {"x_names": ["case"], "x_vals": list(NAMED), "xlabel": "norm, rows × columns"}


@triton.testing.perf_report(
    triton.testing.Benchmark(plot_name="forward", args={}, **AXIS, **COLUMNS)
)  # fmt: skip
def forward(case, what):
    """GB/s of each norm: median, slowest and fastest of 3 rounds; and shares of those of a copy."""
    return table(case, what, "forward")


@triton.testing.perf_report(
    triton.testing.Benchmark(plot_name="both", args={}, **AXIS, **COLUMNS)
)  # fmt: skip
def both(case, what):
    """GB/s of each norm and its gradients together: median, slowest and fastest of 3 rounds; shares of the copy's."""
    return table(case, what, "both")
# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (forward, both):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
