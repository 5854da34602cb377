# SPDX-License-Identifier: Apache-2.0
"""Call the reader's function once, in guarded memory, and record what it does."""

from dataclasses import dataclass, field
from typing import Any

import torch

from .arena import Arena, Region
from .case import Case, call, gradient_like, make_inputs, reference, wrong_elements
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
    patient = True  # whether what known mistakes give may be computed

    launches = property(lambda self: self.recorder.launches)
    troubles = property(lambda self: self.recorder.troubles)
    ops = property(lambda self: self.recorder.ops)
    elsewhere = property(lambda self: self.recorder.elsewhere)
    tf32 = property(lambda self: self.recorder.tf32)
    regions = property(lambda self: self.arena.regions)

    def region_of(self, tensor: torch.Tensor) -> Region | None:
        return self.arena.region_of(tensor)

    def wrong(self, name: str) -> list[int]:
        """Return the numbers of the elements of a result that are not right."""
        wrong = wrong_elements(self.results[name], self.expected[name], self.spec.rtol, self.spec.atol)
        return wrong.flatten().nonzero().flatten().tolist()


def perform(spec: Spec, function, file: str, case: Case, **changes) -> Run:
    """Call the function in guarded memory, with some inputs changed, and record what it does.

    What it raises is in ``error``.
    """
    plain = make_inputs(spec, case) | changes
    arena = Arena(case.fill)
    inputs = {
        name: arena.place(value, name, given=True) if isinstance(value, torch.Tensor) else value
        for name, value in plain.items()
    }
    recorder = Recorder(arena, file, spec.torch_ops, spec.writes)

    def gradient(out):
        with recorder.aside():
            return arena.place(gradient_like(out), "the gradient", given=True)

    run = Run(spec, case, file, inputs, arena, recorder)
    run.expected = reference(spec, plain)
    try:
        with recorder:
            run.results = call(spec, function, dict(inputs), gradient)
    except Exception as error:
        run.error = error
    return run
