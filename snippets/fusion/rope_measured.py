# SPDX-License-Identifier: Apache-2.0
"""Rotary embedding, measured: how near the kernel of ``rope.py`` comes to the time of a copy.

- :func:`forward`: GB/s of ours, of torch's and of a copy, and both as shares of the copy
- :func:`both`: the same of forward and backward together

Three quarters of the heads are queries', a quarter keys'; at 1000 × 3000 a fifth. Rows are tokens, in sequences of at
most 4096; columns are those of all heads, of 128 each, or of 120. Torch's side is the formula of the models in Hugging
Face's transformers. It has tables of full width in bfloat16, ours of half the width in float32, unless it says
otherwise. bfloat16, normally distributed. How it is measured, and what the copy is: ``long_softmax_measured.py``.

Bytes: those of a kernel that reads and writes each element of ``q`` and ``k`` once and reads our tables once, so of all
sides the same; with the backward twice as many. The tables are not in rotation: a model's layers share them.
Units: GB/s of 10**9 bytes.

``torch.compile`` takes no part: our Triton is newer than the one that this torch was made for.

``python rope_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import torch
import triton

from snippets.fusion.long_softmax_measured import COLUMNS, check_alike, result, with_backward
from snippets.fusion.rope import rope, rope_tables
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation


# --8<-- [start:kinds]
class Shape(NamedTuple):
    batches: int
    tokens: int  # of each
    q_heads: int
    k_heads: int
    head_dim: int

    def __str__(self):
        return f"{self.batches * self.tokens} × {(self.q_heads + self.k_heads) * self.head_dim}"


class Kind(NamedTuple):
    dtype: torch.dtype  # of our tables
    shapes: tuple[Shape, ...]


SHAPES = (
    Shape(2, 4096, 24, 8, 128),
    Shape(1, 4096, 96, 32, 128),
    Shape(4, 4096, 6, 2, 128),
    Shape(1, 512, 768, 256, 128),
    Shape(1, 1000, 20, 5, 120),
)
KINDS = {
    "half-split": Kind(torch.float32, SHAPES),
    "half-split, tables in bfloat16": Kind(torch.bfloat16, SHAPES[:3:2]),
}
NAMED = {f"{name}, {shape}": (name, shape) for name, kind in KINDS.items() for shape in kind.shapes}
# --8<-- [end:kinds]


# --8<-- [start:sides]
def as_transformers(q, k, cos, sin, turned):
    """Rotate as the transformers library does; ``turned`` is ``rotate_half``, or another way to pair columns."""
    return q * cos + turned(q) * sin, k * cos + turned(k) * sin


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def sides_of(kind: Kind, shape: Shape, device: str = "cuda") -> dict[str, Callable[..., tuple[torch.Tensor, ...]]]:
    """Return functions of queries and keys, each with its tables."""
    cos, sin = rope_tables(shape.tokens, shape.head_dim, device=device)
    wide = [table.repeat(1, 2)[:, None].to(torch.bfloat16) for table in (cos, sin)]
    return {
        "ours": functools.partial(rope, cos=cos.to(kind.dtype), sin=sin.to(kind.dtype)),
        "torch": lambda q, k: as_transformers(q, k, *wide, rotate_half),
    }


# --8<-- [end:sides]


# --8<-- [start:measure]
def operands(shape: Shape, step: str) -> list[torch.Tensor]:
    """Return queries and keys; in the second step also gradients of both results."""
    heads = [shape.q_heads, shape.k_heads] * (1 if step == "forward" else 2)
    random = functools.partial(torch.randn, device="cuda", dtype=torch.bfloat16)
    return [random(shape.batches, shape.tokens, each, shape.head_dim) for each in heads]


def bytes_moved(kind: Kind, shape: Shape, step: str) -> int:
    elements = shape.batches * shape.tokens * (shape.q_heads + shape.k_heads) * shape.head_dim
    tables = 2 * shape.tokens * shape.head_dim // 2 * kind.dtype.itemsize
    once = 2 * elements * torch.bfloat16.itemsize + tables
    return once if step == "forward" else 2 * once


@functools.cache
def measure(name: str, shape: Shape, step: str) -> dict[str, Timing]:
    """Return the milliseconds of each side, forward or both."""
    torch.manual_seed(0)
    sides = sides_of(KINDS[name], shape)
    if step == "both":
        sides = {side: with_backward(run, results=2) for side, run in sides.items()}
    make = functools.partial(operands, shape, step)
    check_alike(sides, make(), "torch")
    return compare_in_rotation(sides, make, rounds=3)


# --8<-- [end:measure]


# --8<-- [start:tables]
def table(case: str, what: str, step: str) -> float | tuple[float, float, float]:
    name, shape = NAMED[case]
    return result(measure(name, shape, step), bytes_moved(KINDS[name], shape, step), what)


AXIS = {"x_names": ["case"], "x_vals": list(NAMED), "xlabel": "pairs, rows × columns"}


@triton.testing.perf_report(
    triton.testing.Benchmark(plot_name="forward", args={}, **AXIS, **COLUMNS)
)  # fmt: skip
def forward(case, what):
    """GB/s of each: median, slowest and fastest of 3 rounds; and shares of those of a copy."""
    return table(case, what, "forward")


@triton.testing.perf_report(
    triton.testing.Benchmark(plot_name="both", args={}, **AXIS, **COLUMNS)
)  # fmt: skip
def both(case, what):
    """GB/s of each and its gradients together: median, slowest and fastest of 3 rounds; shares of the copy's."""
    return table(case, what, "both")


# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (forward, both):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
