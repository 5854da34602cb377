# SPDX-License-Identifier: Apache-2.0
"""The rotary embedding to copy, measured, beside the lesson's, torch's, ``torch.compile``'s and Liger-Kernel's.

- :func:`forward`: GB/s of the turned queries and keys
- :func:`both`: the same of forward and backward together, in two of the cases: both are the same kernel

24 heads of queries and 8 of keys, of 128 columns, two sequences of 4096 tokens; bfloat16, normally distributed. *as
transformers* and *three planes* are called as that library calls them: heads before tokens, views of what the linear
layers wrote, and tables in bfloat16 that hold each number twice; those of the planes are three, as of Qwen2-VL. Torch's
side is the library's formula, *compiled* is what ``torch.compile`` makes of it for just this shape, and *liger* takes
part where it has such a function and is installed (``pip install liger-kernel==0.8.5``). Others may write over
queries and keys; *in place* is our own way to do so. How it is measured: ``fusion/long_softmax_measured.py``.

Bytes: those of a kernel that reads and writes each element of queries and keys once, though in place the columns that
stay need not be; tables are left out. With the backward twice as many. Units: GB/s of 10**9 bytes.

``python rope_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
import importlib
from collections.abc import Callable
from importlib.util import find_spec

import torch
import triton

from snippets.fusion.long_softmax_measured import check_alike, with_backward
from snippets.fusion.rope import rope as lessons_rope
from snippets.fusion.rope_measured import as_transformers, rotate_half
from snippets.library.rope import rope, rope_tables
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation

DTYPE = torch.bfloat16
BATCH, TOKENS, Q_HEADS, K_HEADS, HEAD_DIM = 2, 4096, 24, 8, 128
PART = 64  # columns
SECTIONS = [16, 24, 24]  # Qwen2-VL's


# --8<-- [start:sides]
def rotate_every_two(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def part_in_torch(q, k, cos, sin):
    """Turn the first columns alone, as GPT-NeoX does."""
    parts = as_transformers(q[..., :PART], k[..., :PART], cos, sin, rotate_half)
    return tuple(torch.cat([part, x[..., PART:]], dim=-1) for part, x in zip(parts, (q, k), strict=True))


def planes_in_torch(q, k, cos, sin):
    """Take each section from its plane, as Qwen2-VL does."""
    cos, sin = (
        torch.cat([plane[i % 3] for i, plane in enumerate(table.split(SECTIONS * 2, dim=-1))], dim=-1)[:, None]
        for table in (cos, sin)
    )
    return as_transformers(q, k, cos, sin, rotate_half)


def heads_first(function):
    """Return a function of what linear layers write, ``(batch, tokens, heads, head_dim)``, in views."""
    return lambda q, k: function(q.transpose(1, 2), k.transpose(1, 2))


def sides_of(case: str, device: str = "cuda") -> dict[str, Callable[..., tuple[torch.Tensor, ...]]]:
    """Return functions of queries and keys, each with its tables."""
    tables = rope_tables(TOKENS, PART if "64 of" in case else HEAD_DIM, device=device)
    twice = [table.repeat(1, 2).to(DTYPE) for table in tables]
    apart = [table[:, None] for table in twice]  # for all heads of a token
    of_each = [table.expand(BATCH, -1, -1).contiguous() for table in twice]
    of_planes = [torch.stack([table, table.flip(1), table.roll(1, 1)]) for table in of_each]
    ours = lambda q, k: rope(q, k, *tables)
    lessons = lambda q, k: lessons_rope(q, k, *tables)
    plain = lambda q, k: as_transformers(q, k, *apart, rotate_half)
    liger_rope = heads_first(lambda q, k: liger("liger_rope")(q, k, *twice))
    if case == "interleaved":
        neighbors = [table.repeat_interleave(2, 1).to(DTYPE)[:, None] for table in tables]
        return {
            "ours": lambda q, k: rope(q, k, *tables, interleaved=True),
            "torch": lambda q, k: as_transformers(q, k, *neighbors, rotate_every_two),
        }
    if case == "64 of 128 columns":
        return {"ours": ours, "torch": lambda q, k: part_in_torch(q, k, *apart)}
    if case == "half-split, in place":
        return {"ours": lambda q, k: rope(q, k, *tables, in_place=True), "torch": plain}
    if case == "as transformers":
        each = [table[:, None] for table in of_each]
        return {
            "ours": heads_first(lambda q, k: rope(q, k, *of_each, repeated="halves", heads_first=True)),
            "torch": heads_first(lambda q, k: as_transformers(q, k, *each, rotate_half)),
            "liger": liger_rope,
        }
    if case == "three planes":
        options = {"repeated": "halves", "sections": SECTIONS, "heads_first": True}
        return {
            "ours": heads_first(lambda q, k: rope(q, k, *of_planes, **options)),
            "torch": heads_first(lambda q, k: planes_in_torch(q, k, *of_planes)),
            "liger": heads_first(lambda q, k: liger("liger_qwen2vl_mrope")(q, k, *of_planes, SECTIONS)),
        }
    apart_again = lambda q, k: tuple(x.transpose(1, 2) for x in liger_rope(q, k))
    return {"ours": ours, "lesson": lessons, "torch": plain, "liger": apart_again}
# --8<-- [end:sides]


CASES = ["half-split", "interleaved", "64 of 128 columns", "as transformers", "three planes"]
IN_PLACE = "half-split, in place"
WITH_GRADIENTS = ["half-split", "as transformers"]


# --8<-- [start:measure]
def liger(name: str) -> Callable[..., object]:
    return getattr(importlib.import_module("liger_kernel.transformers.functional"), name)


def on_copies(run: Callable[..., object]) -> Callable[..., object]:
    return lambda *given: run(*(x.clone() for x in given))


def bytes_moved(step: str) -> int:
    once = 2 * BATCH * TOKENS * (Q_HEADS + K_HEADS) * HEAD_DIM * DTYPE.itemsize
    return once if step == "forward" else 2 * once


def operands(step: str) -> list[torch.Tensor]:
    """Return queries and keys; in the second step also gradients of both results, in the order of a layer's memory."""
    heads = [Q_HEADS, K_HEADS] * (1 if step == "forward" else 2)
    return [torch.randn(BATCH, TOKENS, each, HEAD_DIM, device="cuda", dtype=DTYPE) for each in heads]


def sideways(run: Callable[..., object]) -> Callable[..., object]:
    """Return a function whose gradients come in with heads before tokens, as its results do."""
    return lambda *given: run(*given[:2], *(x.transpose(1, 2) for x in given[2:]))


@functools.cache
def measure(case: str, step: str) -> dict[str, Timing]:
    """Return the milliseconds of each side, forward or both."""
    torch.manual_seed(0)
    torch.compiler.reset()  # for it compiles a function for some shapes, and then no more
    sides = sides_of(case)
    if not find_spec("liger_kernel"):
        sides.pop("liger", None)
    sides["compiled"] = torch.compile(sides["torch"], dynamic=False)
    if step == "both":
        sides = {name: with_backward(run, results=2) for name, run in sides.items()}
        if case in ("as transformers", "three planes"):
            sides = {name: sideways(run) for name, run in sides.items()}
    make = functools.partial(operands, step)
    check_alike({name: on_copies(run) for name, run in sides.items()}, make(), "torch")
    return compare_in_rotation(sides, make, rounds=3)
# --8<-- [end:measure]


# --8<-- [start:tables]
def rate(case: str, side: str, step: str) -> float | tuple[float, float, float]:
    found = measure(case, step)
    return found[side].rate(bytes_moved(step)) if side in found else float("nan")


LINES = {
    "x_names": ["case"],
    "xlabel": "case",
    "ylabel": "GB/s",
    "line_arg": "side",
    "line_vals": ["ours", "lesson", "torch", "compiled", "liger"],
    "line_names": ["this file", "the lesson's", "torch", "compiled", "Liger"],
    "args": {},
}


@triton.testing.perf_report(triton.testing.Benchmark(plot_name="forward", x_vals=[*CASES, IN_PLACE], **LINES))
def forward(case, side):
    """GB/s: median, slowest and fastest of 3 rounds. NaN where a side has no such."""
    return rate(case, side, "forward")


@triton.testing.perf_report(triton.testing.Benchmark(plot_name="both", x_vals=WITH_GRADIENTS, **LINES))
def both(case, side):
    """GB/s of forward and backward together: median, slowest and fastest of 3 rounds. NaN where a side has no such."""
    return rate(case, side, "both")
# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (forward, both):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
