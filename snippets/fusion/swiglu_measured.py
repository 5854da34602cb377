# SPDX-License-Identifier: Apache-2.0
"""SwiGLU and GEGLU, measured: how near the kernels of ``swiglu.py`` come to the time of a copy.

- :func:`forward`: GB/s of ours, of torch's and of a copy, and both as shares of the copy
- :func:`both`: the same of forward and backward together

Of two tensors, and of the halves of one; torch takes those by ``chunk``, and multiplies by itself. bfloat16, normally
distributed. How it is measured, and what the copy is: ``long_softmax_measured.py``. Rows and columns are the result's.

Bytes: those of kernels that read and write each element once, so of all sides the same. Forward 2 read and 1 written,
with the backward 5 and 3. Units: GB/s of 10**9 bytes.

``torch.compile`` takes no part: our Triton is newer than the one that this torch was made for.

``python swiglu_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import torch
import triton

from snippets.fusion.long_softmax_measured import COLUMNS, check_alike, result, with_backward
from snippets.fusion.swiglu import geglu, halves_in_torch, in_torch, swiglu
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation

SHAPES = ((8192, 4096), (4096, 16384), (16384, 1024), (512, 131072), (1000, 3000))
MOVED = {"forward": 3, "both": 8}  # elements for each of the result, read and written


# --8<-- [start:kinds]
class Kind(NamedTuple):
    ours: Callable[..., torch.Tensor]
    torch: Callable[..., torch.Tensor]
    halves: bool  # of one tensor
    shapes: tuple[tuple[int, int], ...]


KINDS = {
    "SwiGLU": Kind(swiglu, in_torch, False, SHAPES),
    "SwiGLU, halves": Kind(swiglu, halves_in_torch, True, SHAPES),
    "GEGLU": Kind(geglu, functools.partial(in_torch, activation="gelu"), False, SHAPES[:2]),
    "GEGLU, tanh": Kind(
        functools.partial(geglu, approximate="tanh"),
        functools.partial(in_torch, activation="gelu_tanh"),
        False,
        SHAPES[:2],
    ),
}
NAMED = {
    f"{name}, {rows} × {columns}": (name, rows, columns)
    for name, kind in KINDS.items()
    for rows, columns in kind.shapes
}
# --8<-- [end:kinds]


# --8<-- [start:measure]
def operands(name: str, rows: int, columns: int, step: str) -> list[torch.Tensor]:
    """Return what the function takes; in the second step also a gradient of its result."""
    shapes = [(rows, 2 * columns)] if KINDS[name].halves else [(rows, columns)] * 2
    shapes += [(rows, columns)] if step == "both" else []
    return [torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in shapes]


@functools.cache
def measure(name: str, rows: int, columns: int, step: str) -> dict[str, Timing]:
    """Return the milliseconds of each side, forward or both."""
    torch.manual_seed(0)
    sides = {"ours": KINDS[name].ours, "torch": KINDS[name].torch}
    if step == "both":
        sides = {side: with_backward(run) for side, run in sides.items()}
    make = functools.partial(operands, name, rows, columns, step)
    check_alike(sides, make(), "torch")
    return compare_in_rotation(sides, make, rounds=3)


# --8<-- [end:measure]


# --8<-- [start:tables]
def table(case: str, what: str, step: str) -> float | tuple[float, float, float]:
    name, rows, columns = NAMED[case]
    moved = MOVED[step] * rows * columns * torch.bfloat16.itemsize
    return result(measure(name, rows, columns, step), moved, what)


AXIS = {"x_names": ["case"], "x_vals": list(NAMED), "xlabel": "layer, rows × columns"}


@triton.testing.perf_report(
    triton.testing.Benchmark(plot_name="forward", args={}, **AXIS, **COLUMNS)
)  # fmt: skip
def forward(case, what):
    """GB/s of each layer: median, slowest and fastest of 3 rounds; and shares of those of a copy."""
    return table(case, what, "forward")


@triton.testing.perf_report(
    triton.testing.Benchmark(plot_name="both", args={}, **AXIS, **COLUMNS)
)  # fmt: skip
def both(case, what):
    """GB/s of each layer and its gradients together: median, slowest and fastest of 3 rounds; shares of the copy's."""
    return table(case, what, "both")


# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (forward, both):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
