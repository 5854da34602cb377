# SPDX-License-Identifier: Apache-2.0
"""Numbers for sentences: an expression over a recording, its format, and what the sentence relies on.

``bandwidth[2**28].triton / bandwidth[2**28].copy; .0%; >= 0.97`` has these names to work with:

- each benchmark by its name: a row by its x value, the median of a line by its key, as in ``bandwidth[2**28].triton``,
  and least and most, as in ``bandwidth[2**28].triton.least``; ``rows(bandwidth)`` lists the rows;
  ``bandwidth["256, 8"]["2**28"]`` where a line's key is no name
- ``output``: the number behind each label that the snippet printed, as in ``output["elements never written"]``
- ``launches``: by number, those that the recording keeps, with ``grid``, ``arguments`` and ``accesses``
- ``compiled(launch, target)``: ``registers``, ``spills``, ``shared``, ``num_warps`` and ``error`` of a launch
- ``count(text, launch, target, stage)``: how many lines of a compiler stage contain the text
- ``made``: the provenance, as in ``made.multiprocessors``
- ``at_least(value, step)`` and ``at_most(value, step)``: the nearest multiple of ``step`` on the safe side, for
  "at least 55 times" where rounding 55.7 would say 56
- ``pixels(label)``: the rows of pixels printed after a label; ``verdict(row)``: what was said of a row, written without
  its backticks; see ``recorder.printed``

A page cannot change a recording, for what it works with are copies, and it cannot keep a build waiting: powers,
formats and steps are bounded.
"""

import ast
import contextlib
import math
import re
from types import SimpleNamespace

import msgspec
import simpleeval

from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Recording

STEPS = 200_000  # nodes of an expression that may be worked out, those of comprehensions anew for each element
LARGEST = 300  # digits: of a power, and of what is rounded away
FORMAT = re.compile(r"[<>=^]?[-+ ]?#?0?\d{0,2}[,_]?(\.\d{1,2})?[bcdeEfFgGnosxX%]?")


class Evaluator(simpleeval.EvalWithCompoundTypes):
    """Without methods, with bounds."""

    def __init__(self, names: dict, functions: dict | None = None):
        operators = simpleeval.DEFAULT_OPERATORS | {ast.Pow: _power}
        super().__init__(operators=operators, functions=functions or {}, names=names)
        self.steps = 0

    def _eval(self, node):
        self.steps += 1
        if self.steps > STEPS:
            raise simpleeval.InvalidExpression(f"it takes more than {STEPS:,} steps")
        if isinstance(node, ast.Call) and not isinstance(node.func, ast.Name):
            raise simpleeval.InvalidExpression("a method cannot be called here")
        return super()._eval(node)


def _power(base, exponent):
    if abs(exponent) * max(1, math.log10(abs(base) or 1)) > LARGEST:
        raise ValueError(f"a power of more than {LARGEST} digits")
    return base**exponent


def _round(value, digits=0):
    if abs(digits) > LARGEST:
        raise ValueError(f"rounding to {digits} digits")
    return round(value, digits) if digits else round(value)


def names(recording: Recording, expression: str) -> dict:
    """What an expression over this recording can refer to; what it does not name is not worked out."""
    return {
        "output": dict(printed.numbers(recording.output)) if "output" in expression else {},
        "launches": Launches(recording) if "launches" in expression else {},
        "made": msgspec.to_builtins(recording.provenance),
        **{table.name: table.medians() if table.name in expression else {} for table in recording.benchmarks},
    }


class Launches(dict):
    """The launches of a recording by number, each a copy; one that is not kept is an error that says so."""

    def __init__(self, recording: Recording):
        super().__init__({int(number): msgspec.to_builtins(launch) for number, launch in recording.launches.items()})
        self.recording = recording

    def __missing__(self, number):
        self.recording.launch(number)  # which raises


def functions(recording: Recording) -> dict:
    """What an expression can call."""
    shown = lambda code: {"spills": 0, "shared": 0, **msgspec.to_builtins(msgspec.structs.replace(code, stages={}))}
    return {
        "min": min, "max": max, "sum": sum, "len": len, "round": _round, "abs": abs, "set": set,
        "at_least": lambda value, step: math.floor(value / step) * step,
        "at_most": lambda value, step: math.ceil(value / step) * step,
        "rows": lambda table: list(table.values()),
        "compiled": lambda launch, target: shown(recording.code(launch, target)),
        "count": lambda text, *place: sum(text in line.text for line in recording.stage(*place)),
        "pixels": lambda label: printed.pixels(recording.output, label),
        "verdict": lambda row: printed.verdict(recording.output, row),
    }  # fmt: skip


def evaluate(expression: str, recording: Recording):
    """The value of an expression; ``RecorderError`` names what it refers to that is not there."""
    evaluator = Evaluator(names(recording, expression), functions(recording))
    known = [*evaluator.names, *evaluator.functions]
    try:
        return evaluator.eval(expression)
    except simpleeval.NameNotDefined as error:
        raise RecorderError(f"{expression!r}: there is no {error.name!r}{nearest(error.name, known)}") from error
    except KeyError as error:
        keys = _keys_beside(expression, evaluator)
        raise RecorderError(f"{expression!r}: there is no {error.args[0]!r}{nearest(error.args[0], keys)}") from error
    except simpleeval.AttributeDoesNotExist as error:
        keys = _keys_beside(expression, evaluator)
        raise RecorderError(f"{expression!r}: there is no {error.attr!r}{nearest(error.attr, keys)}") from error
    except RecorderError:
        raise
    except (simpleeval.InvalidExpression, SyntaxError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise RecorderError(f"{expression!r}: {error}; it may use {', '.join(known)}") from error
    except (RecursionError, MemoryError) as error:
        raise RecorderError(f"{expression[:60]!r}… is too long or too deep") from error


def _keys_beside(expression: str, evaluator) -> list:
    """The keys of whatever the parts of an expression are, for an error message."""
    keys = []
    for node in ast.walk(ast.parse(expression.strip(), mode="eval")):
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
            with contextlib.suppress(Exception):  # a part need not have a value of its own
                value = evaluator.eval(ast.unparse(node))
                parts = [value, *value.values()] if isinstance(value, dict) else [value]
                keys += value if isinstance(value, dict) else []
                keys += [key for part in parts if isinstance(part, SimpleNamespace) for key in vars(part)]
    return list(dict.fromkeys(keys))


def check(text: str, recording: Recording) -> tuple[str, object]:
    """Evaluate ``EXPRESSION; FORMAT; CONDITION`` (the last two may be left out): the formatted number and the value."""
    expression, form, condition, *rest = [part.strip() for part in f"{text};;".split(";")]
    if any(rest):
        raise RecorderError(f"{text!r} has more than three parts; it is EXPRESSION; FORMAT; CONDITION")
    value = evaluate(expression, recording)
    if condition and not evaluate_condition(value, condition):
        raise RecorderError(f"the sentence relies on {expression} {condition}, but it is {value}")
    if not FORMAT.fullmatch(form):
        raise RecorderError(f"{form!r} is no format such as '.0f', at most 99 wide")
    try:
        return format(value, form), value
    except (ValueError, TypeError, OverflowError) as error:
        raise RecorderError(f"{value!r} cannot be written in the format {form!r}: {error}") from error


def evaluate_condition(value, condition: str) -> bool:
    if not re.match(r"[=!]=|[<>]|(not )?in\b", condition):
        raise RecorderError(f"{condition!r} is no condition such as '>= 1'")
    try:
        return bool(Evaluator({"value": value}).eval(f"value {condition}"))
    except (simpleeval.InvalidExpression, SyntaxError, TypeError, ValueError, ArithmeticError) as error:
        raise RecorderError(f"{condition!r} is no condition such as '>= 1': {error}") from error
