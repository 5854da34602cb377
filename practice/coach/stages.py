# SPDX-License-Identifier: Apache-2.0
"""Make the checks that need the interpreter, in their order. The first one that fails raises :class:`Fault`."""

import inspect
from collections.abc import Callable, Iterator

import torch

from . import judge, mistakes
from .finding import Fault, Finding
from .run import Case, Run, perform, raised, repeat
from .spec import Size, Spec


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


def block_of(run: Run) -> int:
    """Return the number of lanes of the reader's widest store, along its last axis."""
    return max((a.shape[-1] for launch in run.launches for a in launch.accesses if a.op != "load"), default=4)


def check(spec: Spec, function: Callable, file: str, begin: Callable[[str], None]):
    """Make all checks. ``begin`` is called with the name of each stage before it begins."""
    torch.manual_seed(0)
    made: dict[str, Run] = {}

    def run(case: Case) -> Run:
        key = repr(case)
        if key not in made:
            made[key] = perform(spec, function, file, case)
        return made[key]

    begin("shape")
    first = Case(spec.sizes[0])
    judge.shape(run(first))
    if judge.crowded(run(first)):
        crowded(run(first), begin)
    cases = [Case(size) for size in awkward_sizes(spec, block_of(run(first)))]
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
        judge.properties(run(case), lambda case=case, **changes: repeat(run(case), function, **changes))

    begin("strides")
    for layout in spec.layouts:
        for size in spec.sizes:
            strides(spec, run(Case(size, layout)))

    begin("nan")
    for case in [*cases, *(Case(size, layout) for layout in spec.layouts for size in spec.sizes)]:
        poisoned = run(case.poisoned())
        if not refused(spec, poisoned):
            judge.values(poisoned)

    begin("seed")
    others = [*spec.sizes, *many_blocks(spec, block_of(run(first))), *spec.last]
    for case in [*cases, *(Case(size, seed=1) for size in others)]:
        judge.honest(run(case))
        judge.bounds(run(case))
        judge.values(run(case))

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
    contiguous = all(not isinstance(value, torch.Tensor) or value.is_contiguous() for value in run.inputs.values())
    if spec.strides == "refused" and not contiguous:
        got = "returned a result" if run.error is None else "raised " + raised(run.error, run.file)[0]
        message = f"{spec.function} should refuse a tensor that is not contiguous, with a ValueError. It {got}."
        raise Fault(Finding(message, str(run.case)))
    judge.shape(run)
    judge.bounds(run)
    judge.values(run)
