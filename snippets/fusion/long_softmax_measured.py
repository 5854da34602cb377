# SPDX-License-Identifier: Apache-2.0
"""Softmax of rows of many lengths, measured: how near ``long_softmax.py`` comes to the time of a copy.

- :func:`forward`: GB/s of ours, of ``torch.softmax`` and of a copy, and both as shares of the copy
- :func:`both`: the same of forward and backward together

bfloat16, normally distributed. All sides run on operands in rotation, all calls in one CUDA graph
(``snippets/tools/benchmarking_cold.py``); ours and torch's in turns, and after their results were compared. The copy is
``torch.clone``, of as many bytes: its result lies, like theirs, where that of the call before lay. The backward follows
its forward at once, so it finds in L2 what of a small result is still there; the copy of as many bytes never does.

Bytes: those of kernels that read and write each element once, so of all sides the same; forward 1 read and 1 written,
with the backward 3 read and 2 written. Whoever goes through a row twice moves more, and gets a lower number.
Units: GB/s of 10**9 bytes.

``torch.compile`` takes no part: our Triton is newer than the one that this torch was made for.

``python long_softmax_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
from collections.abc import Callable, Mapping, Sequence

import torch
import triton

from snippets.fusion.long_softmax import softmax
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation

SHAPES = ((8192, 4096), (4096, 16384), (16384, 1024), (512, 131072), (64, 262144), (1000, 3000))
NAMED = {f"{rows} × {columns}": (rows, columns) for rows, columns in SHAPES}
SIDES = {"ours": softmax, "torch": functools.partial(torch.softmax, dim=-1)}
MOVED = {"forward": 2, "both": 5}  # elements for each of x, read and written
LARGEST_ERROR = 0.01  # between two right results, by norm: a number of 16 bits is off by 0.002 at most


# --8<-- [start:backward]
def with_backward(function: Callable[..., object], results: int = 1) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Return a function that takes the inputs of ``function`` and a gradient for each of its ``results``.

    It gives the gradients of the inputs.
    """

    def run(*given):
        inputs = [x.detach().requires_grad_() for x in given[:-results]]  # the same memory
        return torch.autograd.grad(function(*inputs), inputs, given[-results:])

    return run
# --8<-- [end:backward]


# --8<-- [start:alike]
def check_alike(sides: Mapping[str, Callable[..., object]], given: Sequence[torch.Tensor], expected: str) -> None:
    """Raise ``RuntimeError`` if the results of a side are not those of the one whose name is ``expected``."""
    as_tuple = lambda found: found if isinstance(found, tuple) else (found,)
    wanted = as_tuple(sides[expected](*given))
    for name, run in sides.items():
        for number, (a, b) in enumerate(zip(as_tuple(run(*given)), wanted, strict=True)):
            size = torch.linalg.vector_norm(b, dtype=torch.float32)
            error = (torch.linalg.vector_norm(a - b, dtype=torch.float32) / size).item()
            if not error <= LARGEST_ERROR:  # nor is NaN
                shape = " × ".join(map(str, given[0].shape))
                raise RuntimeError(f"{name} differs from {expected} by {error:.2g} in result {number} of {shape}")
# --8<-- [end:alike]


# --8<-- [start:measure]
@functools.cache
def measure(rows: int, columns: int, step: str) -> dict[str, Timing]:
    """Return the milliseconds of each side, forward or both."""
    torch.manual_seed(0)
    sides = SIDES if step == "forward" else {name: with_backward(run) for name, run in SIDES.items()}
    tensors = 1 if step == "forward" else 2  # x, and the gradient of the result
    make = lambda: [torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16) for _ in range(tensors)]
    check_alike(sides, make(), "torch")
    return compare_in_rotation(sides, make, rounds=3)


@functools.cache
def measure_copy(moved: int) -> Timing:
    """Return the milliseconds of a copy that reads and writes so many bytes in all."""
    torch.manual_seed(0)
    make = lambda: [torch.randn(moved // 4, device="cuda", dtype=torch.bfloat16)]
    return compare_in_rotation({"copy": torch.clone}, make, rounds=3)["copy"]


def result(found: Mapping[str, Timing], moved: int, what: str) -> float | tuple[float, float, float]:
    """Return a cell of a table: GB/s, of the median, slowest and fastest round; or a share of those of the copy."""
    copy = measure_copy(moved)
    if what == "copy":
        return copy.rate(moved)
    if what in ("share", "torch_share"):
        return copy.median / found["ours" if what == "share" else "torch"].median
    return found[what].rate(moved)
# --8<-- [end:measure]


COLUMNS = {
    "ylabel": "GB/s",
    "line_arg": "what",
    "line_vals": ["ours", "torch", "copy", "share", "torch_share"],
    "line_names": ["ours", "torch", "copy", "ours, share of copy", "torch, share of copy"],
}


# --8<-- [start:tables]
def table(shape: str, what: str, step: str) -> float | tuple[float, float, float]:
    rows, columns = NAMED[shape]
    moved = MOVED[step] * rows * columns * torch.bfloat16.itemsize
    return result(measure(rows, columns, step), moved, what)


AXIS = {"x_names": ["shape"], "x_vals": list(NAMED), "xlabel": "rows × columns"}


@triton.testing.perf_report(
    triton.testing.Benchmark(plot_name="forward", args={}, **AXIS, **COLUMNS)
)  # fmt: skip
def forward(shape, what):
    """GB/s of softmax: median, slowest and fastest of 3 rounds; and shares of those of a copy."""
    return table(shape, what, "forward")


@triton.testing.perf_report(
    triton.testing.Benchmark(plot_name="both", args={}, **AXIS, **COLUMNS)
)  # fmt: skip
def both(shape, what):
    """GB/s of softmax and its gradient together: median, slowest and fastest of 3 rounds; and shares of the copy's."""
    return table(shape, what, "both")
# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (forward, both):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
