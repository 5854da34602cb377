# SPDX-License-Identifier: Apache-2.0
"""Cross-entropy, measured: how long loss and gradient take, beside torch's and a copy; and how much memory.

- :func:`both`: milliseconds of ``cross_entropy.py``, of the file to copy and of torch, forward and backward, and of a
  copy of the logits
- :func:`forward`: milliseconds of the loss alone, without a gradient
- :func:`linear`: milliseconds of the last linear layer, its loss, and the gradients of its input and its weight
- :func:`memory`: GB that are allocated at the most, beside the inputs, until the gradients are there

bfloat16, normally distributed; the mean of the rows, none ignored, and an incoming gradient of 1, as
``loss.backward()`` has it. *file* is ``library/cross_entropy.py``, the file to copy; *waiting* is that file with the
gradient made in the backward, as it is for ``reduction="none"``. torch's sides are
``torch.nn.functional.cross_entropy``, and ``linear`` before it.

All sides run in turns, on operands in rotation, all calls in one CUDA graph, after their results were compared; matrix
products each at their own clock (``snippets/tools/benchmarking_cold.py``). The copy is ``torch.clone``; it reads and
writes as many bytes as a kernel that reads each logit once and, but for the loss alone, writes each gradient once.

Memory is ``torch.cuda.max_memory_allocated``, less what was allocated before: inputs, and cuBLAS's workspace.
Units: milliseconds; GB of 10**9 bytes.

``torch.compile`` takes no part: our Triton is newer than the one that this torch was made for.

``python cross_entropy_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
from collections.abc import Callable, Mapping, Sequence

import torch
import triton

from snippets.fusion.cross_entropy import cross_entropy
from snippets.fusion.linear_cross_entropy import linear_cross_entropy
from snippets.fusion.long_softmax_measured import check_alike, measure_copy
from snippets.library import cross_entropy as file
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation

SHAPES = ((4096, 128256), (8192, 32000), (4096, 50257), (2048, 262144))
LAYERS = ((8192, 4096, 128256), (8192, 2048, 128256), (2048, 4096, 128256))
NAMED = {f"{rows} × {columns}": (rows, columns) for rows, columns in SHAPES}
LAYERS_NAMED = {f"{rows} × {k} × {columns}": (rows, k, columns) for rows, k, columns in LAYERS}
TALL_NAMED = {"32768 × 4096 × 128256": (32768, 4096, 128256)}  # for memory alone


# --8<-- [start:sides]
def waiting(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return file.cross_entropy(logits, target, reduction="none").mean()


def torch_linear(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(torch.nn.functional.linear(hidden, weight), target)


SIDES = {
    "ours": cross_entropy,
    "file": file.cross_entropy,
    "waiting": waiting,
    "torch": torch.nn.functional.cross_entropy,
}
LINEAR = {"ours": linear_cross_entropy, "torch": torch_linear}


def with_gradients(loss: Callable[..., torch.Tensor]) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Return a function of floating tensors and a target that gives the loss, and the gradients of the tensors."""

    def run(*given):
        inputs = [x.detach().requires_grad_() for x in given[:-1]]  # the same memory
        found = loss(*inputs, given[-1])
        return found.detach(), *torch.autograd.grad(found, inputs)

    return run


# --8<-- [end:sides]


# --8<-- [start:operands]
def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def operands(rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    return random(rows, columns), torch.randint(columns, (rows,), device="cuda")


def layer_operands(rows: int, k: int, columns: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return operands of a layer whose logits are normally distributed, too."""
    return random(rows, k), random(columns, k) / k**0.5, torch.randint(columns, (rows,), device="cuda")


# --8<-- [end:operands]


# --8<-- [start:measure]
@functools.cache
def measure(rows: int, columns: int, step: str) -> dict[str, Timing]:
    """Return the milliseconds of each side, forward or both."""
    torch.manual_seed(0)
    sides = SIDES if step == "forward" else {name: with_gradients(loss) for name, loss in SIDES.items()}
    make = functools.partial(operands, rows, columns)
    check_alike(sides, make(), "torch")
    return compare_in_rotation(sides, make, rounds=3)


@functools.cache
def measure_layer(rows: int, k: int, columns: int) -> dict[str, Timing]:
    """Return the milliseconds of both sides, with their gradients."""
    torch.manual_seed(0)
    sides = {name: with_gradients(loss) for name, loss in LINEAR.items()}
    make = functools.partial(layer_operands, rows, k, columns)
    check_alike(sides, make(), "torch")
    return compare_in_rotation(sides, make, rounds=3, steady=True)


def peak(loss: Callable[..., torch.Tensor], given: Sequence[torch.Tensor]) -> float:
    """Return the most GB allocated until the gradients are there, beside what was allocated before."""
    run = with_gradients(loss)
    run(*given)  # compiles; cuBLAS allocates its workspace
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run(*given)
    return (torch.cuda.max_memory_allocated() - before) / 1e9


@functools.cache
def measure_memory(case: str) -> dict[str, float]:
    """Return the GB of both sides."""
    torch.manual_seed(0)
    if layer := (LAYERS_NAMED | TALL_NAMED).get(case):
        return {name: peak(loss, layer_operands(*layer)) for name, loss in LINEAR.items()}
    return {name: peak(loss, operands(*ALONE[case])) for name, loss in SIDES.items()}


# --8<-- [end:measure]


# --8<-- [start:tables]
def milliseconds(timing: Timing) -> tuple[float, float, float]:
    """Return the milliseconds of the median, fastest and slowest round."""
    return timing.median, min(timing.rounds), max(timing.rounds)


def result(found: Mapping[str, Timing], what: str) -> float | tuple[float, float, float]:
    """Return a cell of a table: milliseconds; or how many times as fast as torch ours is, or as the copy."""
    if what == "faster":
        return found["torch"].median / found["ours"].median
    return found["copy"].median / found["ours"].median if what == "share" else milliseconds(found[what])


def table(shape: str, what: str, step: str) -> float | tuple[float, float, float]:
    rows, columns = NAMED[shape]
    moved = (1 if step == "forward" else 2) * rows * columns * torch.bfloat16.itemsize
    return result(measure(rows, columns, step) | {"copy": measure_copy(moved)}, what)


AXIS = {"x_names": ["shape"], "x_vals": list(NAMED), "xlabel": "rows × columns", "ylabel": "ms", "line_arg": "what"}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="both",
        line_vals=["ours", "file", "waiting", "torch", "copy", "faster", "share"],
        line_names=[
            "ours",
            "the file to copy",
            "the file, waiting",
            "torch",
            "copy",
            "times as fast as torch",
            "share of copy",
        ],
        args={},
        **AXIS,
    )
)
def both(shape, what):
    """Milliseconds of loss and gradient: median, fastest and slowest of 3 rounds; torch's and the copy's by ours."""
    return table(shape, what, "both")


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="forward",
        line_vals=["ours", "file", "torch", "copy", "faster", "share"],
        line_names=["ours", "the file to copy", "torch", "copy", "times as fast as torch", "share of copy"],
        args={},
        **AXIS,
    )
)
def forward(shape, what):
    """Milliseconds of the loss alone: median, fastest and slowest of 3 rounds; torch's and the copy's by ours."""
    return table(shape, what, "forward")


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="linear",
        x_names=["layer"],
        x_vals=list(LAYERS_NAMED),
        xlabel="rows × K × columns",
        ylabel="ms",
        line_arg="what",
        line_vals=["ours", "torch", "faster"],
        line_names=["ours", "torch", "times as fast as torch"],
        args={},
    )
)
def linear(layer, what):
    """Milliseconds of layer, loss and all gradients: median, fastest and slowest of 3 rounds; torch's by ours."""
    return result(measure_layer(*LAYERS_NAMED[layer]), what)


ALONE = {"4096 × 128256": (4096, 128256)}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="memory",
        x_names=["case"],
        x_vals=[*TALL_NAMED, *LAYERS_NAMED, *ALONE],
        xlabel="rows × K × columns, or rows × columns",
        ylabel="GB",
        line_arg="what",
        line_vals=["ours", "torch", "share"],
        line_names=["ours", "torch", "ours, share of torch's"],
        args={},
    )
)
def memory(case, what):
    """GB beside the inputs, at the most: of the layer with its loss, of the loss alone; and ours as a share."""
    found = measure_memory(case)
    return found["ours"] / found["torch"] if what == "share" else found[what]


# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (both, forward, linear, memory):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
