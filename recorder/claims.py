# SPDX-License-Identifier: Apache-2.0
"""Numbers for sentences: an expression over a recording, its format, and what the sentence relies on.

``bandwidth[2**28].triton / bandwidth[2**28].copy; .0%; >= 0.97`` has these names to work with:

- each benchmark by its name: a row by its x value, the median of a line by its key, as in ``bandwidth[2**28].triton``,
  and least and most, as in ``bandwidth[2**28].triton.least``; ``rows(bandwidth)`` lists the rows;
  ``bandwidth["256, 8"]["2**28"]`` where a line's key is no name
- ``output``: the number behind each label that the snippet printed, as in ``output["elements never written"]``
- ``launches``: each launch of the run, with ``grid``, ``arguments`` and ``accesses``
- ``compiled(launch, target)``: ``registers``, ``spills``, ``shared``, ``stages`` and ``error`` of a launch
- ``count(text, launch, target, stage)``: how many lines of a compiler stage contain the text
- ``made``: the provenance, as in ``made.multiprocessors``
- ``at_least(value, step)`` and ``at_most(value, step)``: the nearest multiple of ``step`` on the safe side, for
  "at least 55 times" where rounding 55.7 would say 56
- ``pixels(label)``: the rows of pixels printed after a label; see ``pixels.py``
- ``verdict(row)``: what a snippet with verdicts said of a row, written without its backticks; see ``verdicts.py``
"""

import ast
import contextlib
import math
import re
from types import SimpleNamespace

import simpleeval

from recorder import pixels, verdicts
from recorder.project import RecorderError, nearest


def names(recording: dict, expression: str) -> dict:
    """What an expression over this recording can refer to; a benchmark that it does not name is not worked out."""
    tables = {table["name"]: table for table in recording["benchmarks"]}
    return {
        "output": printed_numbers(recording["output"]) if "output" in expression else {},
        "launches": recording["launches"],
        "made": recording["provenance"],
        **{name: medians(table) if name in expression else {} for name, table in tables.items()},
    }


def printed_numbers(output: str) -> dict[str, float]:
    """Each ``label: number`` or ``label = number`` line of a snippet's output."""
    lines = re.findall(r"^\s*(.+?)\s*[:=]\s*(-?[\d,]*\.?\d+(?:e[+-]?\d+)?)(?:\s+\S+)?\s*$", output, re.M | re.I)
    numbers = {}
    for label, text in lines:
        value = float(text.replace(",", ""))
        numbers[label] = int(value) if value.is_integer() and "." not in text else value
    return numbers


class Median(float):
    """The median of a line's measurements at one x, with ``least`` and ``most`` of them; all three may be the same."""

    def __new__(cls, measured: list[float]):
        median = super().__new__(cls, measured[0])
        median.least, median.most = measured[1:] or measured * 2
        return median


class Row(SimpleNamespace):
    """What was measured at one x: ``row.line``, or ``row["2**20"]`` where a line's key is no name."""

    def __getitem__(self, line: str):
        return vars(self)[line]


def medians(table: dict) -> dict:
    """``{x: row, …}`` of a benchmark, ``row.line`` being a ``Median``; x is a tuple where it has several parts."""
    rows = {}
    for row in table["rows"]:
        x = tuple(row[name] for name in table["x"])
        values = {name: row[name] for name in table["x"]} | {line: Median(row[line]) for line in table["lines"]}
        rows[x if len(x) > 1 else x[0]] = Row(**values)
    return rows


def compiled(recording: dict, launch: int, target: str) -> dict:
    """The compiled code of one launch for one target."""
    for entry in recording["compiled"]:
        if launch in entry["launches"]:
            if target not in entry["targets"]:
                raise RecorderError(f"there is no target {target!r}{nearest(target, entry['targets'])}")
            return entry["targets"][target]
    known = [str(number) for entry in recording["compiled"] for number in entry["launches"]]
    raise RecorderError(f"there is no compiled launch {launch}{nearest(str(launch), known)}")


def stage(recording: dict, launch: int, target: str, name: str) -> dict:
    """Text and lines of one stage of one launch; raises the compiler's error if it did not compile."""
    code = compiled(recording, launch, target)
    if name not in code.get("stages", {}):
        raise RecorderError(f"there is no stage {name!r} for {target}{nearest(name, code.get('stages', {}))}")
    return code["stages"][name]


def evaluate(expression: str, recording: dict):
    """The value of an expression; ``RecorderError`` names what it refers to that is not there."""

    def count(text, launch, target, stage_name):
        return sum(text in line for line in stage(recording, launch, target, stage_name)["text"].splitlines())

    functions = {
        "min": min, "max": max, "sum": sum, "len": len, "round": round, "abs": abs,
        "at_least": lambda value, step: math.floor(value / step) * step,
        "at_most": lambda value, step: math.ceil(value / step) * step,
        "rows": lambda table: list(table.values()),
        "compiled": lambda launch, target: compiled(recording, launch, target),
        "count": count,
        "pixels": lambda label: pixels.parse(recording["output"], label),
        "verdict": lambda row: verdicts.of(recording, row),
    }  # fmt: skip
    known = names(recording, expression)
    evaluator = simpleeval.EvalWithCompoundTypes(names=known, functions=functions)
    try:
        return evaluator.eval(expression)
    except simpleeval.NameNotDefined as error:
        raise RecorderError(
            f"{expression!r}: there is no {error.name!r}{nearest(error.name, [*known, *functions])}"
        ) from error
    except KeyError as error:
        keys = _keys_beside(expression, evaluator)
        raise RecorderError(f"{expression!r}: there is no {error.args[0]!r}{nearest(error.args[0], keys)}") from error
    except simpleeval.AttributeDoesNotExist as error:
        keys = _keys_beside(expression, evaluator)
        raise RecorderError(f"{expression!r}: there is no {error.attr!r}{nearest(error.attr, keys)}") from error
    except (simpleeval.InvalidExpression, SyntaxError, TypeError, IndexError, ZeroDivisionError, ValueError) as error:
        raise RecorderError(f"{expression!r}: {error}; it may use {', '.join([*known, *functions])}") from error


def _keys_beside(expression: str, evaluator) -> list:
    """The keys of whatever the parts of an expression are, for an error message."""
    keys = []
    for node in ast.walk(ast.parse(expression, mode="eval")):
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
            with contextlib.suppress(Exception):  # a part need not have a value of its own
                value = evaluator.eval(ast.unparse(node))
                parts = [value, *value.values()] if isinstance(value, dict) else [value]
                keys += value if isinstance(value, dict) else []
                keys += [key for part in parts if isinstance(part, SimpleNamespace) for key in vars(part)]
    return list(dict.fromkeys(keys))


def check(text: str, recording: dict) -> tuple[str, object]:
    """Evaluate ``EXPRESSION; FORMAT; CONDITION`` (the last two may be left out): the formatted number and the value."""
    expression, form, condition, *rest = [part.strip() for part in f"{text};;".split(";")]
    if any(rest):
        raise RecorderError(f"{text!r} has more than three parts; it is EXPRESSION; FORMAT; CONDITION")
    value = evaluate(expression, recording)
    if condition and not evaluate_condition(value, condition):
        raise RecorderError(f"the sentence relies on {expression} {condition}, but it is {value}")
    try:
        return format(value, form), value
    except (ValueError, TypeError) as error:
        raise RecorderError(f"{value!r} cannot be written in the format {form!r}: {error}") from error


def evaluate_condition(value, condition: str) -> bool:
    if not re.match(r"[=!]=|[<>]|(not )?in\b", condition):
        raise RecorderError(f"{condition!r} is no condition such as '>= 1'")
    try:
        return bool(simpleeval.EvalWithCompoundTypes(names={"value": value}).eval(f"value {condition}"))
    except (simpleeval.InvalidExpression, SyntaxError, TypeError, ZeroDivisionError) as error:
        raise RecorderError(f"{condition!r} is no condition such as '>= 1': {error}") from error
