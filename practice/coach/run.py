# SPDX-License-Identifier: Apache-2.0
"""Call the reader's function once, in guarded memory, and record what it does."""

from dataclasses import dataclass, field
from typing import Any

import torch

from .arena import Arena
from .case import Case, call, gradient_like, make_inputs, reference
from .record import Recorder
from .spec import Spec


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
