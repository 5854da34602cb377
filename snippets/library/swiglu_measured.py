# SPDX-License-Identifier: Apache-2.0
"""The gated activations to copy, measured, beside the lesson's, torch's, ``torch.compile``'s and Liger-Kernel's.

- :func:`both`: GB/s of forward and backward together

*compiled* is what ``torch.compile`` makes of torch's side for just this shape, and *liger* takes part where it has such
a function and is installed (``pip install liger-kernel==0.8.5``). *gpt-oss* has gate and up in turns, a bias, a
limit, and its own sizes. bfloat16, normally distributed. How it is measured: ``fusion/long_softmax_measured.py``.

Bytes: those of kernels that read and write each element once: for each of the result forward 2 read and 1 written,
backward 3 and 2; of an activation alone 1 and 1, and 2 and 1. What the bias takes is left out. Units: GB/s of 10**9
bytes.

``python swiglu_measured.py`` lists the benchmark. It needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
import importlib
from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple

import torch
import triton

from snippets.fusion import swiglu as lesson
from snippets.fusion.long_softmax_measured import check_alike, with_backward
from snippets.library.swiglu import activate, glu, in_torch
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation

DTYPE = torch.bfloat16
GPT_OSS = {"alpha": 1.702, "limit": 7.0, "up_offset": 1.0, "interleaved": True}


# --8<-- [start:cases]
class Case(NamedTuple):
    tensors: int  # that the function takes, without the bias
    options: dict
    lessons: Callable[..., torch.Tensor] | None = None
    shape: tuple[int, int] = (8192, 4096)
    has_bias: bool = False


CASES = {
    "two tensors": Case(2, {}, lesson.swiglu),
    "two tensors, 1000 × 3000": Case(2, {}, lesson.swiglu, (1000, 3000)),
    "halves": Case(1, {}, lesson.swiglu),
    "interleaved": Case(1, {"interleaved": True}),
    "halves, bias": Case(1, {}, has_bias=True),
    "gpt-oss": Case(1, GPT_OSS, shape=(8192, 2880), has_bias=True),
    "GEGLU, tanh, halves": Case(1, {"activation": "gelu_tanh"}, functools.partial(lesson.geglu, approximate="tanh")),
    "ReLU² alone": Case(1, {"activation": "relu2", "gated": False}),
}
# --8<-- [end:cases]


# --8<-- [start:sides]
def as_people_write(gate, up=None, *, bias=None, interleaved=False):
    """Call torch's own silu, one kernel: ``in_torch`` has two, for the sake of alpha."""
    x = gate if bias is None else gate + bias
    if up is None:
        x, up = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, dim=-1)
    return torch.nn.functional.silu(x) * up


def sides_of(case: Case) -> dict[str, Callable[..., torch.Tensor]]:
    """Return functions of gate, up where there is such, and bias where there is such."""
    options = dict(case.options)
    gated = options.pop("gated", True)

    def call(function, *given, **more):
        *tensors, bias = given if case.has_bias else (*given, None)
        return function(*tensors, bias=bias, **more)

    plain = case.options.keys() <= {"interleaved"}
    theirs = functools.partial(call, as_people_write if plain else in_torch, **case.options)
    sides = {"ours": functools.partial(call, glu if gated else activate, **options), "torch": theirs}
    if case.lessons:
        sides["lesson"] = case.lessons
    if case.tensors == 2 and find_spec("liger_kernel"):
        sides["liger"] = liger("liger_swiglu")
    return sides
# --8<-- [end:sides]


# --8<-- [start:measure]
def liger(name: str) -> Callable[..., object]:
    return getattr(importlib.import_module("liger_kernel.transformers.functional"), name)


def on_copies(run: Callable[..., object]) -> Callable[..., object]:
    return lambda *given: run(*(x.clone() for x in given))


def operands(case: Case) -> list[torch.Tensor]:
    """Return what the function takes, and a gradient of the result."""
    rows, columns = case.shape
    twice = 2 if case.tensors == 1 and case.options.get("gated", True) else 1
    random = lambda *shape: torch.randn(*shape, device="cuda", dtype=DTYPE)
    given = [random(rows, columns * twice) for _ in range(case.tensors)]
    given += [random(columns * twice)] if case.has_bias else []
    return [*given, random(rows, columns)]


@functools.cache
def measure(name: str) -> dict[str, Timing]:
    """Return the milliseconds of each side, forward and backward."""
    torch.manual_seed(0)
    torch.compiler.reset()  # for it compiles a function for some shapes, and then no more
    sides = sides_of(CASES[name])
    sides["compiled"] = torch.compile(sides["torch"], dynamic=False)
    sides = {side: with_backward(run) for side, run in sides.items()}
    make = functools.partial(operands, CASES[name])
    check_alike({side: on_copies(run) for side, run in sides.items()}, make(), "torch")
    return compare_in_rotation(sides, make, rounds=3)
# --8<-- [end:measure]


# --8<-- [start:tables]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="both",
        x_names=["case"],
        x_vals=list(CASES),
        xlabel="case",
        ylabel="GB/s",
        line_arg="side",
        line_vals=["ours", "lesson", "torch", "compiled", "liger"],
        line_names=["this file", "the lesson's", "torch", "compiled", "Liger"],
        args={},
    )
)
def both(case, side):
    """GB/s of forward and backward together: median, slowest and fastest of 3 rounds. NaN where a side has no such."""
    if side not in measure(case):
        return float("nan")
    elements = 8 if CASES[case].options.get("gated", True) else 5
    return measure(case)[side].rate(elements * torch.Size(CASES[case].shape).numel() * DTYPE.itemsize)
# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    print(f"{both.benchmarks.plot_name}.run(print_data=True)  # {both.fn.__doc__}")


if __name__ == "__main__":
    main()
