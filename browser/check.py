# SPDX-License-Identifier: Apache-2.0
"""Check an exercise in the browser: the coach's stages, on the model in place of Triton's interpreter.

``coach`` is the folder of that name in ``practice/``: it brings the exercises, their inputs, what is right, and all
that is said of what is not. What only Triton's compiler or a GPU can tell, it tells alone: ``python practice.py check
NAME``.
"""

import linecache
import types
import warnings

from . import autograd
from .launch import SETTINGS
from .memory import MEMORY
from .modules import load, place
from .recorded import Run
from .tensor import Tensor

FILE = "exercise.py"
LARGEST = 20_000  # elements of an input that Python can take its time for
JOINED = "Triton's interpreter keeps only one of the two. `&` binds tighter than `<`: put comparisons in parentheses."
ROUNDED = "Does it round up, with `triton.cdiv`?"


def check(exercise, text: str) -> dict:
    """Check a text in the place of an exercise's file.

    Returns:
        ``passed``, the stages that hold; ``stage``, the one that does not, or ``""``; ``text``, what is wrong; and
        ``launch``, what ``coach.svg`` draws, or None.
    """
    from coach.finding import STAGES, Fault, Finding

    begun: list[str] = []
    try:
        _check(exercise, text, begun.append)
        finding = Finding("")
    except Fault as fault:
        finding = fault.finding
        finding.stage = begun.pop()
    finding.picture = []  # which is drawn
    called = STAGES | {"speed": counted(exercise)}
    names = [called[stage] for stage in begun]
    return {
        "passed": names, "stage": finding.stage, "failed": called.get(finding.stage, ""), "text": finding.text(),
        "launch": finding.launch,
    }  # fmt: skip


def counted(exercise) -> str:
    """Return what the last stage is called: after what is counted, for nothing is timed here."""
    listed = exercise.counted()
    return (
        "few enough " + " and ".join(filter(None, [", ".join(listed[:-1]), *listed[-1:]])) if listed else "the counts"
    )


def _check(exercise, text: str, begin):
    from coach import judge, source, stages
    from coach.case import Case, function_of

    begin("compiles")
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    if finding := source.faulty(exercise, text, "This"):
        raise judge.Fault(finding)
    MEMORY.reset()
    spec = load(exercise.spec_text, "spec.py", "spec")["SPEC"]
    function = function_of(spec, types.SimpleNamespace(**stages.importing(lambda: load(text, FILE), FILE)), FILE)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        first = perform(spec, function, FILE, Case(spec.sizes[0]))
    judge.error(first)
    for launch in first.launches:
        if 0 in launch.grid:
            grid = f"({launch.grid[0]},)" if launch.grid[1:] == (1, 1) else launch.grid
            _fail(f"The grid of {launch.kernel} is {grid}, so no program runs.", str(first.case), guess=ROUNDED)
    if deprecated := next((each for each in told if "deprecated" in str(each.message)), None):
        _fail(f"{deprecated.message}.", details=[judge.source(FILE, deprecated.lineno)], guess=JOINED)
    stages.check(spec, function, FILE, begin, perform, lambda size: _small(spec, size))


def _fail(message: str, case: str = "", **more):
    from coach.finding import Fault, Finding

    raise Fault(Finding(message, case, **more))


def perform(spec, function, file: str, case, **changes) -> Run:
    """Call the function on the inputs of a case, each in memory of its own, and keep what it did."""
    from coach.case import call, gradient_like, make_inputs, reference

    MEMORY.reset()
    plain = make_inputs(spec, case) | changes
    expected = reference(spec, plain)
    run = Run(spec, case, file, {name: _placed(value) for name, value in plain.items()}, expected)

    def gradient(out):
        with autograd.watching(None):
            given = _placed(gradient_like(out))
        run.give("the gradient", given)
        return given

    fill, strict, record = MEMORY.fill, MEMORY.strict, MEMORY.record
    MEMORY.fill, MEMORY.strict, MEMORY.record = case.fill, False, True
    MEMORY.launches, MEMORY.tf32, SETTINGS.configs = [], 0, "in turn"
    try:
        with autograd.watching(run.computed):
            run.results = call(spec, function, dict(run.inputs), gradient)
    except Exception as error:
        run.error = error
    finally:
        run.tf32 = MEMORY.tf32
        run.take(MEMORY.launches)
        MEMORY.fill, MEMORY.strict, MEMORY.record = fill, strict, record
    return run


def _placed(value):
    if not isinstance(value, Tensor):
        return value
    return place(value.detach().values(), value.dtype.name, tuple(value.shape), value.stride())


def _small(spec, size: dict) -> bool:
    from coach.case import Case, make_inputs

    MEMORY.reset()
    return all(x.numel() <= LARGEST for x in make_inputs(spec, Case(size)).values() if isinstance(x, Tensor))
