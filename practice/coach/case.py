# SPDX-License-Identifier: Apache-2.0
"""Say with what the reader's function is called, make that, call it, and compute what it should return.

It needs torch, and nothing else that is installed, so the site's model of torch will do, too.
"""

import inspect
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from .finding import Fault, Finding
from .spec import LAYOUT_WORDS, LAYOUTS, Size, Spec

POISON = 0xFF  # a byte of memory filled with NaN


@dataclass(frozen=True)
class Case:
    size: Size
    layout: str = ""  # of spec.LAYOUTS; "" is contiguous
    seed: int = 0
    fill: int = 0

    def __str__(self) -> str:
        words = ", ".join(f"{name} = {value}" for name, value in self.size.items())
        words += f", {LAYOUT_WORDS[self.layout]}" if self.layout else ""
        words += ", and another seed" if self.seed else ""
        return words + (", in memory filled with NaN" if self.fill else "")

    def poisoned(self) -> "Case":
        return replace(self, fill=POISON)


def function_of(spec: Spec, module, file: str) -> Callable:
    """Return the host function. Raise :class:`Fault` unless the file has it, with the right parameters."""
    function = getattr(module, spec.function, None)
    if not callable(function):
        raise Fault(Finding(f"There is no function {spec.function}({', '.join(spec.signature)}) in your file."))
    try:
        names = tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = spec.signature
    if names[: len(spec.signature)] != spec.signature:
        message = f"{spec.function} takes ({', '.join(names)}); it should take ({', '.join(spec.signature)})."
        raise Fault(Finding(message))
    return function


def next_prime(n: int) -> int:
    while any(n % d == 0 for d in range(2, int(n**0.5) + 1)):
        n += 1
    return n


def awkward_sizes(spec: Spec, block: int) -> Iterator[Size]:
    """Yield the spec's sizes, then around a block: 0, 1, one less, a block, one more, a prime of several blocks."""
    yield from spec.sizes
    for name in spec.awkward:
        size = spec.blocks.get(name, block)
        for n in sorted({0, 1, size - 1, size, size + 1, next_prime(3 * size)}):
            if n >= spec.smallest:
                yield {**spec.sizes[0], name: n}


def many_blocks(spec: Spec, block: int) -> Iterator[Size]:
    """Return sizes of so many blocks that a loop takes many steps, or a launch has more than a few programs."""
    for name in spec.awkward:
        yield {**spec.sizes[0], name: 8 * spec.blocks.get(name, block) + 1}


def make_inputs(spec: Spec, case: Case) -> dict[str, Any]:
    """Return the inputs of a case, always the same, in its layout."""
    inputs = spec.inputs(case.size, torch.Generator().manual_seed(1234 + case.seed))
    if case.seed and spec.another:
        inputs |= spec.another(**inputs)
    if case.layout:
        inputs = {k: LAYOUTS[case.layout](v) if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
    return inputs


def call(spec: Spec, function, inputs: dict[str, Any], gradient=None) -> dict[str, Any]:
    """Return the function's results and, where the exercise has a backward, the gradients for ``gradient(out)``."""
    given = {k: v.requires_grad_() if k in spec.gradients else v for k, v in inputs.items()}
    result = function(*(given[name] for name in spec.signature))
    if not isinstance(result, tuple):
        results = {"out": result}
    else:
        results = {"out" if i == 0 else f"out[{i}]": value for i, value in enumerate(result)}
    first = results["out"]
    if spec.gradients and isinstance(first, torch.Tensor) and first.requires_grad:
        wanted = [given[name] for name in spec.gradients]
        gradients = torch.autograd.grad(first, wanted, (gradient or gradient_like)(first), allow_unused=True)
        results |= {f"grad of {name}": grad for name, grad in zip(spec.gradients, gradients, strict=True)}
    return results


def gradient_like(out: torch.Tensor) -> torch.Tensor:
    """Return a gradient of the output, the same for each call, that is not contiguous, as behind ``cat`` or ``sum``."""
    with torch.no_grad():
        values = 8 * torch.randn(out.shape, generator=torch.Generator().manual_seed(99)).to(out.dtype)
        return LAYOUTS["spread"](values.to(out.device))


def reference(spec: Spec, inputs: dict[str, Any]) -> dict[str, torch.Tensor] | None:
    """Return what the results should be, or None where only properties are checked."""
    if spec.reference is None:
        return None
    fresh = {k: v.detach().clone() if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
    return call(spec, lambda *args: spec.reference(*args), fresh)


def wrong_elements(actual: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> torch.Tensor:
    """Return which elements are off by more than ``atol + rtol · |expected|``; one NaN is as good as another."""
    a, e = actual.detach(), expected.detach()
    if a.device != e.device:
        a, e = a.cpu(), e.cpu()
    if not a.is_floating_point():
        return a != e
    a, e = a.double(), e.double()
    near = (a == e) | (a.isnan() & e.isnan()) | ((a - e).abs() <= atol + rtol * e.abs())
    return ~near


def raised(error: BaseException, file: str) -> tuple[str, int]:
    """Return the error that the reader's code raised, in words, and the line of the file in which (0: none)."""
    line, chain = 0, error
    while chain is not None:
        lines = [frame.lineno for frame in traceback.extract_tb(chain.__traceback__) if frame.filename == file]
        line, error = (lines[-1] if lines else line), chain
        chain = chain.__cause__
    message = str(error).strip().splitlines()
    return f"{type(error).__name__}: {message[0] if message else 'no message'}", line
