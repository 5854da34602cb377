# SPDX-License-Identifier: Apache-2.0
"""The losses to copy, measured, beside the lesson's, torch's, ``torch.compile``'s and Liger-Kernel's.

- :func:`losses`: milliseconds of a loss of logits and its gradient
- :func:`linear`: milliseconds of the last linear layer, its loss, and the gradients of its input, weight and bias
- :func:`memory`: GB that are allocated at the most, beside the inputs, until the gradients of that layer are there
- :func:`logarithms`: milliseconds of ``log_softmax``, forward and backward
- :func:`host`: microseconds that Python takes to start a call and its backward, where the GPU has next to nothing to do

bfloat16, normally distributed; the mean of the rows, none ignored, and an incoming gradient of 1. *with options* is a
label smoothing, a softcap and a z-loss; *autocast* a layer with a bias, whose weight and bias are float32. *compiled*
is what ``torch.compile`` makes of the functions that are the side *torch*, for just this shape. *Liger* is
Liger-Kernel (https://github.com/linkedin/Liger-Kernel): ``pip install liger-kernel==0.8.5``; it adds up its chunks in
float32, too (``accum_dtype``). A side has no number where it does not serve the case, or was not timed.

Results are compared with torch's first. Then all sides run in turns: the losses of logits and ``log_softmax`` on
operands in rotation, all calls in one CUDA graph (``tools/benchmarking_cold.py``); the layers each call by itself, from
Python (``tools/benchmarking.py``), for Liger waits for the GPU by ``.item()``, which no graph can hold. It so takes no
part in the losses of logits: there a call's time on the host would be a good part of it.

Units: milliseconds, in :func:`host` microseconds; GB of 10**9 bytes.

``python cross_entropy_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
import importlib
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
import triton

from snippets.fusion import cross_entropy as lesson
from snippets.fusion import linear_cross_entropy as lesson_layer
from snippets.fusion.cross_entropy_measured import milliseconds, peak, random, with_gradients
from snippets.fusion.long_softmax_measured import check_alike, with_backward
from snippets.library.cross_entropy import cross_entropy, in_torch, linear_cross_entropy
from snippets.library.log_softmax import log_softmax
from snippets.tools.benchmarking import Timing, compare
from snippets.tools.benchmarking_cold import compare_in_rotation

MORE = {"label_smoothing": 0.1, "softcap": 30.0, "z_loss": 1e-4}


# --8<-- [start:sides]
def liger(name: str) -> Callable[..., object]:
    """Return a function of Liger-Kernel. Raise ``ModuleNotFoundError`` if it is not installed."""
    try:
        return getattr(importlib.import_module("liger_kernel.transformers.functional"), name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"there is no {error.name}: pip install liger-kernel==0.8.5") from error


def as_liger(options: dict) -> dict:
    """Return the options under Liger's names."""
    return {"lse_square_scale" if name == "z_loss" else name: value for name, value in options.items()}


def loss_sides(options: dict) -> dict[str, Callable[..., torch.Tensor]]:
    """Return functions of logits and targets, those that serve the options."""
    sides = {"ours": functools.partial(cross_entropy, **options)}
    sides["torch"] = torch.nn.functional.cross_entropy
    if options:
        sides["torch"] = lambda logits, target: in_torch(logits, target, **options)[0]
    else:
        sides["lesson"] = lesson.cross_entropy
    return sides


def layer(loss: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return a function of hidden, weight and, it may be, a bias, before the target."""
    return lambda *given: loss(torch.nn.functional.linear(*given[:-1]), given[-1])


def under_autocast(loss: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def run(*given):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return loss(*given)

    return run


def target_third(loss: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return a function whose target comes last, as autograd's inputs come first; here it is third, before a bias."""
    return lambda hidden, weight, *more: loss(hidden, weight, more[-1], *more[:-1])


def linear_sides(options: dict, autocast: bool) -> dict[str, Callable[..., torch.Tensor]]:
    theirs = loss_sides(options)["torch"]
    sides = {"ours": target_third(functools.partial(linear_cross_entropy, **options)), "torch": layer(theirs)}
    if autocast:
        return {name: under_autocast(side) for name, side in sides.items()}
    if not options:
        sides["lesson"] = lesson_layer.linear_cross_entropy
    liger_options = as_liger(options) | {"accum_dtype": torch.float32}
    sides["Liger"] = target_third(functools.partial(liger("liger_fused_linear_cross_entropy"), **liger_options))
    return sides


# --8<-- [end:sides]


# --8<-- [start:cases]
class Case(NamedTuple):
    """Hold the sides of a comparison, and what makes their operands."""

    sides: Callable[[], dict[str, Callable[..., object]]]
    make: Callable[[], list[torch.Tensor]]


def logits_of(rows: int, columns: int) -> list[torch.Tensor]:
    return [random(rows, columns), torch.randint(columns, (rows,), device="cuda")]


def layer_of(rows: int, k: int, columns: int, autocast: bool = False) -> list[torch.Tensor]:
    """Return operands of a layer whose logits are normally distributed; for autocast, weight and bias in float32."""
    given = [random(rows, k), random(columns, k) / k**0.5]
    if autocast:
        given = [given[0], given[1].float(), random(columns).float()]
    return [*given, torch.randint(columns, (rows,), device="cuda")]


def with_gradient(sides: dict[str, Callable[..., torch.Tensor]]) -> dict[str, Callable[..., object]]:
    return {name: with_gradients(side) for name, side in sides.items()}


def logarithm_sides() -> dict[str, Callable[..., torch.Tensor]]:
    sides = {"ours": log_softmax, "torch": functools.partial(torch.log_softmax, dim=-1)}
    return {name: with_backward(side) for name, side in sides.items()}


def two_of(rows: int, columns: int) -> list[torch.Tensor]:
    return [random(rows, columns), random(rows, columns)]  # x, and the gradient of the result


LARGE = (4096, 128256)
LOSSES = {
    f"{rows} × {columns}": Case(functools.partial(loss_sides, {}), functools.partial(logits_of, rows, columns))
    for rows, columns in (LARGE, (4096, 50257))
}
LOSSES["4096 × 128256, with options"] = Case(functools.partial(loss_sides, MORE), functools.partial(logits_of, *LARGE))
WIDE = (8192, 4096, 128256)
LINEAR = {
    "8192 × 4096 × 128256": Case(functools.partial(linear_sides, {}, False), functools.partial(layer_of, *WIDE)),
    "8192 × 4096 × 128256, with options": Case(
        functools.partial(linear_sides, MORE, False), functools.partial(layer_of, *WIDE)
    ),
    "8192 × 4096 × 128256, autocast": Case(
        functools.partial(linear_sides, {}, True), functools.partial(layer_of, *WIDE, True)
    ),
}
LOGARITHMS = {
    f"{rows} × {columns}": Case(logarithm_sides, functools.partial(two_of, rows, columns))
    for rows, columns in ((8192, 4096), (4096, 16384), (2048, 128256), (4096, 50257))
}
SMALL = (64, 1000)
HOST = {
    "cross_entropy": Case(lambda: with_gradient(loss_sides({})), functools.partial(logits_of, *SMALL)),
    "log_softmax": Case(logarithm_sides, functools.partial(two_of, *SMALL)),
}
CASES = {**LOSSES, **LINEAR, **{f"log_softmax, {shape}": case for shape, case in LOGARITHMS.items()}}
# --8<-- [end:cases]


# --8<-- [start:measure]
def on_copies(run: Callable[..., object]) -> Callable[..., object]:
    """Return the same function, which leaves its operands as they are: Liger's writes over them."""
    return lambda *given: run(*(x.clone() for x in given))


def sides_of(case: str) -> dict[str, Callable[..., object]]:
    """Return all sides, with their gradients."""
    sides = CASES[case].sides()
    if case in LOSSES or case in LINEAR:
        if "autocast" not in case:
            torch.compiler.reset()  # for it compiles a function for some shapes, and then no more
            sides["compiled"] = torch.compile(sides["torch"], dynamic=False)
        sides = with_gradient(sides)
    return sides


@functools.cache
def measure(case: str) -> dict[str, Timing]:
    """Return the milliseconds of each side, with the gradients."""
    torch.manual_seed(0)
    sides, make = sides_of(case), CASES[case].make
    given = make()
    check_alike({name: on_copies(side) for name, side in sides.items()}, given, "torch")
    if case in LINEAR:
        return compare({name: functools.partial(side, *given) for name, side in sides.items()}, rounds=3)
    return compare_in_rotation(sides, make, rounds=3)


@functools.cache
def measure_memory(case: str) -> dict[str, float]:
    """Return the GB of each side."""
    torch.manual_seed(0)
    return {name: peak(side, LINEAR[case].make()) for name, side in LINEAR[case].sides().items()}


@functools.cache
def measure_host(case: str) -> dict[str, Timing]:
    """Return the microseconds that a call and its backward keep the host busy, for each side."""
    given = HOST[case].make()
    sides = {name: functools.partial(side, *given) for name, side in HOST[case].sides().items()}
    return compare(sides, rounds=5, timer=microseconds_of_host)


def microseconds_of_host(run: Callable[[], object], calls: int = 100) -> float:
    """Return what a call takes on the host; the GPU works on calls before it, and is not waited for."""
    for _ in range(10):
        run()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        run()
    taken = time.perf_counter() - begin
    torch.cuda.synchronize()
    return taken / calls * 1e6


# --8<-- [end:measure]


# --8<-- [start:tables]
def cell(found: dict[str, Timing], side: str) -> tuple[float, float, float] | float:
    return milliseconds(found[side]) if side in found else float("nan")


AXIS = {"x_names": ["case"], "ylabel": "ms", "line_arg": "side", "args": {}}
NAMES = {"ours": "this file", "lesson": "the lesson's", "torch": "torch", "compiled": "torch.compile", "Liger": "Liger"}


def lines(*names: str) -> dict[str, list[str]]:
    return {"line_vals": list(names), "line_names": [NAMES[name] for name in names]}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="losses",
        x_vals=list(LOSSES),
        xlabel="rows × columns",
        **AXIS,
        **lines("ours", "lesson", "torch", "compiled"),
    )
)
def losses(case, side):
    """Milliseconds of a loss and its gradient: median, fastest and slowest of 3 rounds. NaN where a side has none."""
    return cell(measure(case), side)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="linear",
        x_vals=list(LINEAR),
        xlabel="rows × K × columns",
        **AXIS,
        **lines("ours", "lesson", "torch", "compiled", "Liger"),
    )
)
def linear(case, side):
    """Milliseconds of layer, loss and all gradients: median, fastest and slowest of 3 rounds."""
    return cell(measure(case), side)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="memory",
        x_vals=list(LINEAR),
        xlabel="rows × K × columns",
        **(AXIS | {"ylabel": "GB"}),
        **lines("ours", "lesson", "torch", "Liger"),
    )
)
def memory(case, side):
    """GB beside the inputs, at the most, of layer, loss and all gradients."""
    return measure_memory(case).get(side, float("nan"))


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="logarithms",
        x_vals=list(LOGARITHMS),
        xlabel="rows × columns",
        **AXIS,
        **lines("ours", "torch"),
    )
)
def logarithms(case, side):
    """Milliseconds of ``log_softmax``, forward and backward: median, fastest and slowest of 3 rounds."""
    return cell(measure(f"log_softmax, {case}"), side)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="host",
        x_vals=list(HOST),
        xlabel="64 × 1000",
        **(AXIS | {"ylabel": "µs"}),
        **lines("ours", "lesson", "torch"),
    )
)
def host(case, side):
    """Microseconds on the host, a call and its backward: median, fastest and slowest of 5 rounds."""
    return cell(measure_host(case), side)


# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (losses, linear, memory, logarithms, host):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
