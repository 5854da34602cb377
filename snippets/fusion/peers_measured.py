# SPDX-License-Identifier: Apache-2.0
"""The kernels of Fusion beside those of others: PyTorch's, ``torch.compile``'s and Liger-Kernel's.

- :func:`forward`: milliseconds of each side, and of a copy of as many bytes
- :func:`both`: the same, forward and backward together
- :func:`losses`: of cross-entropy, alone and after a linear layer, forward and backward

*compiled* is what ``torch.compile`` makes of the PyTorch functions that are the side *torch*, for just this shape.
*liger* is Liger-Kernel (https://github.com/linkedin/Liger-Kernel), which is written in Triton, too. It is needed here
alone: ``pip install liger-kernel==0.8.5``. Some of its functions write over what they are given, so its results are
compared on copies of the operands. Its losses wait for the GPU by ``.item()``, which no CUDA graph can hold, so they
take no part. bfloat16, normally distributed; RoPE of 24 heads of queries and 8 of keys, 128 wide.

All sides run in turns, on the same operands in rotation, all calls in one CUDA graph
(``snippets/tools/benchmarking_cold.py``). The copy is ``torch.clone``, of as many bytes as a kernel reads and writes
that takes each element once. Units: milliseconds.

``python peers_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
import triton

from snippets.fusion.cross_entropy_measured import layer_operands, milliseconds, random, torch_linear, with_gradients
from snippets.fusion.cross_entropy_measured import operands as logits_and_targets
from snippets.fusion.long_softmax import softmax
from snippets.fusion.long_softmax_measured import check_alike, measure_copy, with_backward
from snippets.fusion.norms_measured import EPS, torch_layer_norm, torch_rms_norm
from snippets.fusion.rope import rope, rope_tables
from snippets.fusion.rope_measured import as_transformers, rotate_half
from snippets.fusion.swiglu import in_torch as torch_swiglu
from snippets.fusion.swiglu import swiglu
from snippets.library.cross_entropy import cross_entropy, linear_cross_entropy
from snippets.library.norms import layer_norm, rms_norm
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation


# --8<-- [start:liger]
def liger(name: str) -> Callable[..., object]:
    """Return a function of Liger-Kernel. Raise ``ModuleNotFoundError`` if it is not installed."""
    try:
        functions = importlib.import_module("liger_kernel.transformers.functional")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"peers_measured.py times Liger-Kernel, and there is no {error.name}: pip install liger-kernel==0.8.5"
        ) from error
    return getattr(functions, name)


def liger_rope(q, k, cos, sin):
    """Return a function for queries and keys that lie as ours do; Liger's takes views that have heads before tokens."""
    turned = liger("liger_rope")(q.transpose(1, 2), k.transpose(1, 2), cos, sin)
    return tuple(each.transpose(1, 2) for each in turned)


# --8<-- [end:liger]


# --8<-- [start:kernels]
class Kernel(NamedTuple):
    """Functions that do the same, what they take, and how many elements the copy moves for each of the first."""

    sides: Callable[[tuple[int, ...]], dict[str, Callable[..., object]]]
    operands: Callable[..., list[torch.Tensor]]
    shapes: list[tuple[int, ...]]
    forward: int = 0
    both: int = 0
    results: int = 1  # with gradients that come in: a loss has none

    def moved(self, shape: tuple[int, ...], step: str) -> int:
        """Return the bytes moved, 2 for each element."""
        rows, columns = (shape[0] * shape[1], (shape[2] + shape[3]) * shape[4]) if len(shape) == 5 else shape
        return 2 * getattr(self, step) * rows * columns


def softmax_sides(shape):
    return {"ours": softmax, "torch": functools.partial(torch.softmax, dim=-1), "liger": liger("liger_softmax")}


def rms_norm_sides(shape):
    theirs = functools.partial(liger("liger_rms_norm"), eps=EPS)
    return {"ours": functools.partial(rms_norm, eps=EPS), "torch": torch_rms_norm, "liger": theirs}


def layer_norm_sides(shape):
    theirs = lambda x, weight, bias: liger("liger_layer_norm")(x, weight, bias, EPS)
    return {"ours": functools.partial(layer_norm, eps=EPS), "torch": torch_layer_norm, "liger": theirs}


def swiglu_sides(shape):
    return {"ours": swiglu, "torch": torch_swiglu, "liger": liger("liger_swiglu")}


def rope_sides(shape):
    _, tokens, *_, dim = shape
    cos, sin = rope_tables(tokens, dim, device="cuda")
    wide = [table.repeat(1, 2).to(torch.bfloat16) for table in (cos, sin)]
    apart = [table[:, None] for table in wide]
    return {
        "ours": functools.partial(rope, cos=cos, sin=sin),
        "torch": lambda q, k: as_transformers(q, k, *apart, rotate_half),
        "liger": lambda q, k: liger_rope(q, k, *wide),
    }


def cross_entropy_sides(shape):
    return {"ours": cross_entropy, "torch": torch.nn.functional.cross_entropy}


def linear_sides(shape):
    return {"ours": linear_cross_entropy, "torch": torch_linear}


def rows_and_weights(rows: int, columns: int, weights: int) -> list[torch.Tensor]:
    return [random(rows, columns), *(random(columns) for _ in range(weights))]


def pairs(rows: int, columns: int) -> list[torch.Tensor]:
    return [random(rows, columns), random(rows, columns)]


def heads(batches: int, tokens: int, q_heads: int, k_heads: int, dim: int) -> list[torch.Tensor]:
    return [random(batches, tokens, each, dim) for each in (q_heads, k_heads)]


ROWS = [(8192, 4096), (4096, 16384), (1000, 3000)]
LINEAR = "linear, cross-entropy"
KERNELS = {
    "softmax": Kernel(softmax_sides, functools.partial(rows_and_weights, weights=0), ROWS, 2, 5),
    "RMS norm": Kernel(rms_norm_sides, functools.partial(rows_and_weights, weights=1), ROWS, 2, 5),
    "layer norm": Kernel(layer_norm_sides, functools.partial(rows_and_weights, weights=2), ROWS, 2, 5),
    "SwiGLU": Kernel(swiglu_sides, pairs, ROWS, 3, 8),
    "RoPE": Kernel(rope_sides, heads, [(2, 4096, 24, 8, 128)], 2, 4, results=2),
    "cross-entropy": Kernel(cross_entropy_sides, logits_and_targets, [(4096, 128256), (4096, 50257)], results=0),
    LINEAR: Kernel(linear_sides, layer_operands, [(8192, 4096, 128256)], results=0),
}
NAMED = {
    f"{name}, {' × '.join(map(str, shape))}": (name, shape)
    for name, kernel in KERNELS.items()
    for shape in kernel.shapes
}
# --8<-- [end:kernels]


# --8<-- [start:measure]
def on_copies(run: Callable[..., object]) -> Callable[..., object]:
    return lambda *given: run(*(x.clone() for x in given))


def operands(name: str, shape: tuple[int, ...], step: str) -> list[torch.Tensor]:
    """Return what the function takes; in the second step also a gradient of each result that is not a loss."""
    given = list(KERNELS[name].operands(*shape))
    return given if step == "forward" else [*given, *(random(*x.shape) for x in given[: KERNELS[name].results])]


@functools.cache
def measure(name: str, shape: tuple[int, ...], step: str) -> dict[str, Timing]:
    """Return the milliseconds of each side, forward or both."""
    torch.manual_seed(0)
    torch.compiler.reset()  # for it compiles a function for some shapes, and then no more
    sides = KERNELS[name].sides(shape)
    sides["compiled"] = torch.compile(sides["torch"], dynamic=False)
    if step == "both":
        results = KERNELS[name].results
        sides = {
            side: with_backward(run, results) if results else with_gradients(run) for side, run in sides.items()
        }  # fmt: skip
    make = functools.partial(operands, name, shape, step)
    check_alike({side: on_copies(run) for side, run in sides.items()}, make(), "torch")
    return compare_in_rotation(sides, make, rounds=3, steady=name == LINEAR)


# --8<-- [end:measure]


# --8<-- [start:tables]
def result(found: Mapping[str, Timing], what: str) -> float | tuple[float, float, float]:
    """Return a cell of a table: milliseconds; or how many times as fast as the fastest other ours is, or as the copy.
    """
    if what == "gain":
        others = [timing.median for side, timing in found.items() if side not in ("ours", "copy")]
        return min(others) / found["ours"].median
    return found["copy"].median / found["ours"].median if what == "share" else milliseconds(found[what])


def table(case: str, what: str, step: str) -> float | tuple[float, float, float]:
    name, shape = NAMED[case]
    return result(measure(name, shape, step) | {"copy": measure_copy(KERNELS[name].moved(shape, step))}, what)


def cases(losses: bool) -> list[str]:
    return [case for case, (name, _) in NAMED.items() if (KERNELS[name].results == 0) == losses]


AXIS = {"x_names": ["case"], "xlabel": "kernel, shape", "ylabel": "ms", "line_arg": "what", "args": {}}
LINES = {
    "line_vals": ["ours", "torch", "compiled", "liger", "copy", "gain", "share"],
    "line_names": ["ours", "torch", "compiled", "Liger", "copy", "times as fast as the best other", "share of copy"],
}


@triton.testing.perf_report(
    triton.testing.Benchmark(plot_name="forward", x_vals=cases(losses=False), **AXIS, **LINES)
)  # fmt: skip
def forward(case, what):
    """Milliseconds: median, fastest and slowest of 3 rounds; the fastest other and the copy by ours."""
    return table(case, what, "forward")


@triton.testing.perf_report(
    triton.testing.Benchmark(plot_name="both", x_vals=cases(losses=False), **AXIS, **LINES)
)  # fmt: skip
def both(case, what):
    """Milliseconds with the gradients: median, fastest and slowest of 3 rounds; the fastest other, the copy by ours."""
    return table(case, what, "both")


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="losses",
        x_vals=cases(losses=True),
        line_vals=["ours", "torch", "compiled", "gain"],
        line_names=["ours", "torch", "compiled", "times as fast as the best other"],
        **AXIS,
    )
)
def losses(case, what):
    """Milliseconds of a loss and its gradients: median, fastest and slowest of 3 rounds; the fastest other by ours."""
    return result(measure(*NAMED[case], "both"), what)


# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (forward, both, losses):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
