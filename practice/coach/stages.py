# SPDX-License-Identifier: Apache-2.0
"""Make the checks that call the reader's function, in their order. The first one that fails raises :class:`Fault`.

They are the same in Triton's interpreter and in the site's model of it, each of which has a ``perform`` of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch

from . import judge, mistakes
from .case import Case, awkward_sizes, many_blocks, raised
from .finding import Fault, Finding
from .launch import is_tensor
from .spec import Size, Spec

if TYPE_CHECKING:
    from .run import Run


def importing(make: Callable, file: str):
    """Return what ``make`` returns. Raise :class:`Fault` where the reader's file raises an error on the way."""
    try:
        return make()
    except Exception as error:
        message, line = raised(error, file)
        where = f", on line {line}:" if line else ":"
        raise Fault(
            Finding(
                f"Your file raised {message}{where}",
                details=[judge.source(file, line)],
                guess=mistakes.about_error(message, file, line),
            )
        ) from error


def block_of(run: Run) -> int:
    """Return the number of lanes of the reader's widest store, along its last axis."""
    stores = [a for launch in run.launches for a in launch.accesses if a.op != "load"]
    return max((a.shape[-1] if a.shape else 1 for a in stores), default=4)


def check(
    spec: Spec,
    function: Callable,
    file: str,
    begin: Callable[[str], None],
    perform: Callable[..., Run],
    fits: Callable[[Size], bool] = lambda size: True,
):
    """Make all checks.

    Args:
        begin: Called with the name of each stage before it begins.
        perform: Calls the function, as ``run.perform``.
        fits: Says of a size whether it can be tried at all.
    """
    torch.manual_seed(0)
    made: dict[str, Run] = {}

    def run(case: Case) -> Run:
        key = repr(case)
        if key not in made:
            made[key] = perform(spec, function, file, case)
        return made[key]

    def repeat(case: Case, **changes):
        again = perform(spec, function, file, case, **changes)
        if again.error:
            raise again.error
        return again.results["out"]

    begin("shape")
    first = Case(spec.sizes[0])
    judge.shape(run(first))
    if judge.crowded(run(first)):
        crowded(run(first), begin)
    cases = [Case(size) for size in awkward_sizes(spec, block_of(run(first))) if fits(size)]
    layouts = [Case(size, layout) for layout in spec.layouts for size in spec.sizes if fits(size)]
    if judge.first_trouble(run(first)) is None:  # else ``bounds`` ends it, before larger sizes take their time
        for case in cases:
            judge.shape(run(case))

    begin("bounds")
    for case in cases:
        judge.bounds(run(case))

    begin("values")
    for case in cases:
        judge.ordered(run(case))
    for case in cases:
        judge.values(run(case))
        judge.properties(run(case), partial(repeat, case))

    begin("strides")
    for case in layouts:
        strides(spec, run(case))

    begin("nan")
    for case in [*cases, *layouts]:
        poisoned = run(case.poisoned())
        if not refused(spec, poisoned):
            judge.values(poisoned)

    begin("seed")
    others = [*spec.sizes, *many_blocks(spec, block_of(run(first))), *spec.last]
    for case in [*cases, *(Case(size, seed=1) for size in others if fits(size))]:
        judge.honest(run(case))
        judge.bounds(run(case))
        judge.values(run(case))
    for case in layouts:
        if not refused(spec, run(case)):
            judge.honest(run(case))

    begin("speed")
    for case in cases:
        judge.counts(run(case))


def crowded(run: Run, begin: Callable[[str], None]):
    """Let ``counts`` refuse a launch of too many programs at once, for other sizes would take long to run."""
    for name, judged in {"bounds": judge.bounds, "values": judge.values}.items():
        try:
            judged(run)
        except Fault:
            begin(name)
            raise
    begin("speed")  # so the stages between, which were not checked, are not said to be right
    judge.counts(run)


def refused(spec: Spec, run: Run) -> bool:
    return spec.strides != "served" and bool(run.case.layout) and isinstance(run.error, ValueError)


def strides(spec: Spec, run: Run):
    """Check that other strides are served like any other, or refused by a ValueError: as the spec says."""
    if refused(spec, run):
        return
    contiguous = all(not is_tensor(value) or value.is_contiguous() for value in run.inputs.values())
    if spec.strides == "refused" and not contiguous:
        got = "returned a result" if run.error is None else "raised " + raised(run.error, run.file)[0]
        message = f"{spec.function} should refuse a tensor that is not contiguous, with a ValueError. It {got}."
        raise Fault(Finding(message, str(run.case)))
    judge.shape(run)
    judge.bounds(run)
    judge.values(run)
