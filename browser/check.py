# SPDX-License-Identifier: Apache-2.0
"""Check an exercise in the browser: the coach's stages, on the model in place of Triton's interpreter.

``coach`` is the folder of that name in ``practice/``: it brings the exercises, their inputs, what is right, and all
that is said of what is not. What only Triton's compiler or a GPU can tell, it tells alone: ``python practice.py check
NAME``.
"""

import ast
import linecache
import re
import traceback
import types
import warnings
from collections.abc import Callable

from . import autograd
from .launch import SETTINGS
from .memory import MEMORY
from .modules import load, place
from .recorded import Run
from .tensor import Tensor

FILE = "exercise.py"
LARGEST = 20_000  # elements of an input that Python can take its time for
JOINED = "Triton's interpreter keeps only one of the two. `&` binds tighter than `<`: put comparisons in parentheses."


def check(exercise, text: str, tell: Callable[[str], None] = lambda said: None) -> dict:
    """Check a text in the place of an exercise's file.

    Args:
        tell: Called with how far it is, such as ``3 of 8, reads and writes in bounds``, each time that the text is run.

    Returns:
        ``passed``, the stages that hold; ``stage``, the one that does not, or ``""``; ``text``, what is wrong;
        ``line``, where, or 0; and ``launch``, what ``coach.svg`` draws, or None.
    """
    from coach.finding import STAGES, Fault, Finding

    begun: list[str] = []
    try:
        _check(exercise, text, begun.append, lambda case: tell(how_far(begun, case)))
        finding = Finding("")
    except Fault as fault:
        finding = fault.finding
        finding.stage = begun.pop()
    finding.picture = []  # which is drawn
    called = STAGES | {"speed": counted(exercise)}
    names = [called[stage] for stage in begun]
    return {
        "passed": names, "stage": finding.stage, "failed": called.get(finding.stage, ""), "text": finding.text(),
        "lines": lines_of(finding), "launch": finding.launch,
    }  # fmt: skip


def lines_of(finding) -> list[int]:
    """Return the line that a finding quotes, or else names, if any."""
    quoted = (re.match(r" {4}(\d+): ", detail) for detail in finding.details)
    found = next(filter(None, quoted), None) or re.search(r"\b[Ll]ine (\d+)", finding.message)
    return [int(found[1])] if found else []


def how_far(begun: list[str], case) -> str:
    """Return which of the stages is being checked, and on what."""
    from coach.finding import STAGES

    return f"{list(STAGES).index(begun[-1]) + 1} of {len(STAGES)}, {STAGES[begun[-1]]}: {case}"


def counted(exercise) -> str:
    """Return what the last stage is called: after what is counted, for nothing is timed here."""
    listed = exercise.counted()
    return (
        "few enough " + " and ".join(filter(None, [", ".join(listed[:-1]), *listed[-1:]])) if listed else "the counts"
    )


def _check(exercise, text: str, begin, running):
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
        running(Case(spec.sizes[0]))
        first = perform(spec, function, FILE, Case(spec.sizes[0]))
    if first.error is not None:
        raise judge.Fault(_about(first))
    if deprecated := next((each for each in told if "deprecated" in str(each.message)), None):
        raise judge.Fault(_deprecated(deprecated))
    kept = [first]  # which is not run again: a tuner's next config would be another one

    def once(*given, **changes):
        if kept:
            return kept.pop()
        running(given[-1])
        return perform(*given, **changes)

    stages.check(spec, function, FILE, begin, once, lambda size: _small(spec, size))


def _about(run: Run):
    from coach import judge
    from coach.case import raised
    from coach.finding import Finding

    message, line = raised(run.error, FILE)
    where = f", on line {line}:" if line else ":"
    details = [judge.source(FILE, line)]
    return Finding(f"Your code raised {message}{where}", str(run.case), details, guess=guess_at(run.error))


def guess_at(error: BaseException) -> str:
    """Explain an error as if Triton's compiler had raised it: with the code that led there, and a caret below."""
    from coach import mistakes, source
    from coach.case import raised

    (message, line), error = raised(error, FILE), innermost(error)
    notes = "\n".join(getattr(error, "__notes__", ()))
    whole = f"{error} {source.line_of(FILE, line)}\n    ^\n{message if str(error) else ''}\n{notes}".rstrip("\n")
    return mistakes.about_error(whole, FILE, line, _node(error))


def innermost(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _node(error: BaseException) -> ast.AST | None:
    """Return the piece of the file's syntax that raised an error."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]
    place = [(f.lineno, f.colno, f.end_lineno, f.end_colno) for f in frames[-1:]]
    nodes = ast.walk(ast.parse("".join(linecache.cache[FILE][2])))
    ends = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    return next((node for node in nodes if [tuple(getattr(node, end, None) for end in ends)] == place), None)


def _deprecated(told):
    from coach import judge
    from coach.finding import Finding

    return Finding(f"{told.message}.", details=[judge.source(FILE, told.lineno)], guess=JOINED)


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
