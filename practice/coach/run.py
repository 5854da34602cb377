# SPDX-License-Identifier: Apache-2.0
"""Call the reader's function once, with given sizes, strides, seed and memory; and compute what it should return."""

import traceback
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from .arena import Arena
from .record import POISON, Recorder
from .spec import LAYOUT_WORDS, LAYOUTS, Size, Spec


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


@dataclass
class Run:
    """One call. ``results`` and ``expected`` are by name: ``out``, and ``grad of x`` for gradients."""

    spec: Spec
    case: Case
    file: str
    inputs: dict[str, Any]
    arena: Arena
    recorder: Recorder
    results: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, torch.Tensor] | None = None
    error: BaseException | None = None

    @property
    def launches(self):
        return self.recorder.launches


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


class _Guarded:
    """Put the inputs into an arena, and call the function under a recorder."""

    def __init__(self, spec: Spec, function, file: str, case: Case):
        self.spec, self.function, self.file, self.case = spec, function, file, case

    def __call__(self, **changes) -> Run:
        plain = make_inputs(self.spec, self.case) | changes
        arena = Arena(self.case.fill)
        inputs = {
            name: arena.place(value, name, given=True) if isinstance(value, torch.Tensor) else value
            for name, value in plain.items()
        }
        recorder = Recorder(arena, self.file, self.spec.torch_ops, self.spec.writes)

        def gradient(out):
            with recorder.aside():
                return arena.place(gradient_like(out), "the gradient", given=True)

        run = Run(self.spec, self.case, self.file, inputs, arena, recorder)
        run.expected = reference(self.spec, plain)
        try:
            with recorder:
                run.results = call(self.spec, self.function, dict(inputs), gradient)
        except Exception as error:
            run.error = error
        return run


def perform(spec: Spec, function, file: str, case: Case) -> Run:
    """Call the function in guarded memory and record what it does. What it raises is in ``error``."""
    return _Guarded(spec, function, file, case)()


def repeat(run: Run, function, **changes) -> Any:
    """Call it once more, with some inputs changed, and return its first result: for ``Spec.properties``."""
    again = _Guarded(run.spec, function, run.file, run.case)(**changes)
    if again.error:
        raise again.error
    return again.results["out"]


def raised(error: BaseException, file: str) -> tuple[str, int]:
    """Return the error that the reader's code raised, in words, and the line of the file in which (0: none)."""
    line, chain = 0, error
    while chain is not None:
        lines = [frame.lineno for frame in traceback.extract_tb(chain.__traceback__) if frame.filename == file]
        line, error = (lines[-1] if lines else line), chain
        chain = chain.__cause__
    message = str(error).strip().splitlines()
    return f"{type(error).__name__}: {message[0] if message else 'no message'}", line
