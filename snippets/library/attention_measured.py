# SPDX-License-Identifier: Apache-2.0
"""Attention to copy, measured, beside the lesson's, cuDNN's, FlashAttention-2 and flex_attention, as torch has them.

- :func:`forward`: TFLOP/s of the forward
- :func:`both`: the same of forward and backward together

4 sequences of 16 heads, 4,096 queries and keys, causal, bfloat16, normally distributed; *packed*: 16 sequences of 256,
512 … 4,096 rows one after another. Which side takes part: who has a function for the case. cuDNN and FlashAttention-2
are backends of ``scaled_dot_product_attention``, and for packed sequences FlashAttention-2 is torch's ``varlen_attn``;
``flex_attention`` is compiled. How it is measured: ``fusion/attention_measured.py``.

FLOPs: two for each multiplication with what is seen: 2 * (head_dim + value_dim) for each query and key forward, and
6 * head_dim + 4 * value_dim more backward. What a kernel computes beyond that, as columns of a tile that are no columns
of a head, is not counted. Units: TFLOP/s of 10**12.

``python attention_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
import math
from typing import NamedTuple

import torch
import triton
from torch.nn.attention import flex_attention as flex

from snippets.fusion import attention_measured as lesson_measured
from snippets.fusion import attention_variable_measured as packed_measured
from snippets.fusion.attention_backward import attention as lesson_attention
from snippets.fusion.attention_variable import attention_variable as lesson_variable
from snippets.fusion.long_softmax_measured import check_alike, with_backward
from snippets.library.attention import attention, attention_variable
from snippets.tools.benchmarking import Timing, compare
from snippets.tools.benchmarking_cold import Rotation, operands_in_rotation

DEVICE, BATCH, HEADS = "cuda", 4, 16
LENGTHS = packed_measured.CASES["mixed"]
WINDOW = 1024


# --8<-- [start:cases]
class Case(NamedTuple):
    """Hold a case of the tables.

    Attributes:
        sides: Who takes part, beside ours.
        length: Queries and keys; 0 for ``LENGTHS``, packed.
        window: How many keys a query sees, itself among them; 0 for all before it.
    """

    sides: str
    length: int = 4096
    head_dim: int = 128
    value_dim: int = 128
    window: int = 0


CASES = {
    "head_dim 64": Case("cudnn", head_dim=64, value_dim=64),
    "head_dim 80": Case("cudnn", head_dim=80, value_dim=80),
    "head_dim 96": Case("cudnn", head_dim=96, value_dim=96),
    "head_dim 128": Case("lesson cudnn flash"),
    "head_dim 160": Case("cudnn", head_dim=160, value_dim=160),
    "head_dim 192, values 128": Case("cudnn", head_dim=192),
    "head_dim 256": Case("flash", head_dim=256, value_dim=256),
    "packed": Case("lesson flash", length=0),
    "window of 1,024": Case("flex", window=WINDOW),
}
# --8<-- [end:cases]


# --8<-- [start:sides]
def in_torch(backend: str):
    """Call a backend of torch's ``scaled_dot_product_attention``."""

    def run(q, k, v):
        with lesson_measured.sdpa_kernel(lesson_measured.BACKENDS[backend]):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    return run


def in_flex(case: Case):
    """Call torch's ``flex_attention``, compiled, with a mask that it knows by blocks."""

    def seen(batch, head, query, key):
        return (query >= key) & (query - key < case.window)

    mask = flex.create_block_mask(seen, None, None, case.length, case.length, device=DEVICE)
    return torch.compile(functools.partial(flex.flex_attention, block_mask=mask), dynamic=False)


def sides_of(case: Case, step: str) -> dict:
    """Return the functions of q, k and v that take part. The lesson's for packed sequences has no gradient."""
    if not case.length:
        cu = packed_measured.begins(LENGTHS, DEVICE)
        sides = {
            "ours": lambda q, k, v: attention_variable(q, k, v, cu, cu, causal=True),
            "lesson": lambda q, k, v: lesson_variable(q, k, v, cu, cu, causal=True),
            "flash": packed_measured.in_torch(cu, max(LENGTHS)),
        }
        return sides if step == "forward" else {name: run for name, run in sides.items() if name != "lesson"}
    window = (case.window - 1 if case.window else None, 0)
    sides = {"ours": functools.partial(attention, window=window)}
    if "lesson" in case.sides:
        sides["lesson"] = functools.partial(lesson_attention, causal=True)
    sides |= {name: in_torch(name) for name in lesson_measured.BACKENDS if name in case.sides}
    return sides | ({"flex": in_flex(case)} if "flex" in case.sides else {})


def flops(case: Case, step: str) -> float:
    """
    >>> flops(Case(""), "forward") / 1e12
    0.274877906944
    """
    seen = sum(length**2 for length in LENGTHS) / 2 if not case.length else BATCH * case.length**2 / 2
    if case.window:
        seen = BATCH * (case.length - case.window / 2) * case.window
    columns = {"forward": case.head_dim + case.value_dim, "both": 4 * case.head_dim + 3 * case.value_dim}[step]
    return 2 * columns * HEADS * seen


# --8<-- [end:sides]


# --8<-- [start:measure]
def operands(case: Case, step: str) -> list[torch.Tensor]:
    """Return q, k, v, and for both directions the gradient of the result."""
    widths = case.head_dim, case.head_dim, case.value_dim, case.value_dim
    shapes = [(BATCH, HEADS, case.length, width) if case.length else (sum(LENGTHS), HEADS, width) for width in widths]
    shapes = shapes[: 3 if step == "forward" else 4]
    return [torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16) for shape in shapes]


@functools.cache
def measure(name: str, step: str) -> dict[str, Timing]:
    """Return the milliseconds of each side, forward or both."""
    torch.manual_seed(0)
    case = CASES[name]
    sides = sides_of(case, step)
    if step == "both":
        sides = {side: with_backward(run) for side, run in sides.items()}
    sets = operands_in_rotation(lambda: operands(case, step))
    check_alike(sides, sets[0], "ours")
    rotations = {side: Rotation(run, sets, steady=True) for side, run in sides.items()}
    for rotation in rotations.values():
        rotation.before = math.ceil(rotation.before / lesson_measured.SHORTER)
    return compare(rotations, rounds=3, timer=lambda rotation: rotation.milliseconds())


# --8<-- [end:measure]


# --8<-- [start:tables]
def table(name: str, side: str, step: str) -> float | tuple[float, float, float]:
    found = measure(name, step)
    if side == "of_best":
        peers = [timing.median for each, timing in found.items() if each not in ("ours", "lesson")]
        return min(peers) / found["ours"].median
    return found[side].rate(flops(CASES[name], step), unit=1e12) if side in found else float("nan")


COLUMNS = {
    "x_names": ["case"],
    "x_vals": list(CASES),
    "ylabel": "TFLOP/s",
    "line_arg": "side",
    "line_vals": ["ours", "lesson", "cudnn", "flash", "flex", "of_best"],
    "line_names": ["this file", "the lesson's", "cuDNN", "FlashAttention-2", "flex_attention", "of the best peer"],
}


@triton.testing.perf_report(triton.testing.Benchmark(plot_name="forward", args={}, **COLUMNS))
def forward(case, side):
    """TFLOP/s of the forward: median, slowest and fastest of 3 rounds. NaN where a side has no such."""
    return table(case, side, "forward")


@triton.testing.perf_report(triton.testing.Benchmark(plot_name="both", args={}, **COLUMNS))
def both(case, side):
    """TFLOP/s of forward and backward: median, slowest and fastest of 3 rounds. NaN where a side has no such."""
    return table(case, side, "both")


# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (forward, both):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__.strip()}")


if __name__ == "__main__":
    main()
