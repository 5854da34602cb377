# SPDX-License-Identifier: Apache-2.0
"""Numbers for sentences. A claim is ``DEVICE of SNIPPET: EXPRESSION; FORMAT; CONDITION``, such as
``{{ gpu: bandwidth[2**28].triton / bandwidth[2**28].copy; .0%; >= 0.97 }}``.

``of SNIPPET``, the format and the condition may be left out. The condition is what the sentence relies on: when it is
no longer true, the build fails. It begins with a comparison of the value (``>= 0.97``), or is any expression, in which
the value is called ``value``: ``0.97 <= value < 1``, ``value > 1 and above(a.ours, a.torch)``. A claim with such
a condition may show a typed word: ``{{ cpu: "i32"; ; count("i32", 0, "sm_90", "ttir") > 0 }}``. Nowhere is there an
``A if B else C``: B is a condition.

A page names what it uses often, or what is long, in one fence ``values``; see ``values.py``.

An expression has these names to work with:

- each benchmark by its name: a row by its x value, the median of a line by its key, as in ``bandwidth[2**28].triton``,
  and least and most, as in ``bandwidth[2**28].triton.least``; ``rows(bandwidth)`` lists the rows;
  ``bandwidth["256, 8"]["2**28"]`` where a line's key is no name
- ``spread(a, b, c)``, or of a list: by which share the largest is above the smallest
- ``above(a, b)``: whether the least of a is more than the most of b; ``overlap(a, b)``: whether their ranges meet
- ``processes("bandwidth")``: a list of the same, one for each process that it was measured in
- ``output``: the number behind each label that the snippet printed, as in ``output["elements never written"]``
- ``launches``: those that the recording keeps, by kernel and number, as ``launches["add_kernel"][0]``, with ``grid``,
  ``arguments`` and ``accesses``
- ``compiled("add_kernel[0]", target)``: ``registers``, ``spills``, ``shared``, ``num_warps`` and ``error`` of a launch
- ``count(text, "add_kernel[0]", target, stage)``: how many lines of a compiler stage contain the text
- ``promised("copy")``: what the data sheet of this GPU says; see ``figures/data_sheets.toml``
- ``made``: the provenance, as in ``made.multiprocessors``; ``name``: what people call the device, such as ``H200``
- ``at_least(value, step)`` and ``at_most(value, step)``: the nearest multiple of ``step`` on the safe side, for
  "at least 55 times" where rounding 55.7 would say 56
- ``min``, ``max``, ``sum``, ``len``, ``all``, ``any``, ``abs``, ``round``, and comprehensions:
  ``max(r.copy for r in rows(bandwidth))``
- ``pixels(label)``: the rows of pixels printed after a label; ``verdict(row)``: what was said of a row, written without
  its backticks, when it ran, or ``verdict(row, "compiles for sm_90")``; see ``recorder.printed``

A page cannot change a recording, for what it works with are copies, and it cannot keep a build waiting: numbers,
formats and time are bounded. A number that it inserts would be another had another been recorded; see ``tracked.py``.
"""

import ast
import contextlib
import functools
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType, SimpleNamespace

import msgspec
import simpleeval

from figures.data_sheets import promised
from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Recording
from render.claims import tracked
from render.recordings import gpu_name

CLAIM = re.compile(r"((?P<device>[\w.-]+)(\s+of\s+(?P<of>[\w/-]+))?\s*:)?(?P<rest>.+)", re.S)
SECONDS = 2  # of a processor: for one expression
LARGEST = 300  # digits: of a number, and of what is rounded away
FORMAT = re.compile(r"[<>=^]?[-+ ]?#?0?\d{0,2}[,_]?(\.\d{1,2})?[bcdeEfFgGnosxX%]?")
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift)
COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn, ast.Is, ast.IsNot, ast.Not)
COMPARISON = re.compile(r"[=!]=|[<>]|(not )?in\b")  # what a condition on the value alone begins with
NOTHING = MappingProxyType({})
CANNOT = (simpleeval.InvalidExpression, SyntaxError, ArithmeticError, AttributeError, LookupError, TypeError)
CANNOT += (ValueError, RecursionError, MemoryError)


class Evaluator(simpleeval.EvalWithCompoundTypes):
    """An evaluator without methods and formats, with bounds."""

    def __init__(self, names: dict, functions: dict | None = None):
        super().__init__(operators=OPERATORS, functions=functions or {}, names=names)
        self.functions["set"] = tracked.distinct
        for node in (ast.JoinedStr, ast.FormattedValue):
            del self.nodes[node]
        self.nodes[ast.GeneratorExp] = self._eval_comprehension
        self.until = time.process_time() + SECONDS
        self.decided = {}  # parts of comprehensions that say how long they get, by what is recorded

    @staticmethod
    @functools.cache  # each claim is parsed several times, and a page more than once
    def parse(expression: str):
        """Return the syntax tree of one expression. Simpleeval's own takes the first of several, and assignments."""
        return ast.parse(expression.strip(), mode="eval").body

    def _eval(self, node):
        if time.process_time() > self.until:
            raise simpleeval.InvalidExpression(f"it takes more than {SECONDS} s")
        if isinstance(node, ast.Call) and not isinstance(node.func, ast.Name):
            raise simpleeval.InvalidExpression("a method cannot be called here")
        value = super()._eval(node)
        if id(node) in self.decided and isinstance(value, tracked.Read):
            self.decided[id(node)] = value._path
        return value

    def _check_disallowed_items(self, item):
        if not isinstance(item, tracked.Read):  # a recording holds numbers and words
            super()._check_disallowed_items(item)

    def _eval_ifexp(self, node):
        raise simpleeval.InvalidExpression(
            "a condition stands behind the format, not in the value: "
            f"{{{{ {ast.unparse(node.body)}; FORMAT; {ast.unparse(node.test)} }}}}"
        )

    def _eval_comprehension(self, node):
        parts = [id(part) for each in node.generators for part in (each.iter, *each.ifs)]
        self.decided |= dict.fromkeys(parts)
        values = super()._eval_comprehension(node)
        by = tuple(self.decided[part] for part in parts)
        return tracked.Taken(values, ("taken", *by)) if any(by) and isinstance(values, list) else values


def _bounded(operate):
    """Return an operation on numbers that refuses long results. It joins texts and lists, and no more."""

    def bounded(a, b):
        if operate is not simpleeval.safe_add and any(isinstance(x, str | bytes | list | tuple) for x in (a, b)):
            raise TypeError("a text or a list can be joined to another, and no more")
        result = operate(a, b)
        if isinstance(result, int) and abs(result) >= 10**LARGEST:
            raise ValueError(f"a number of more than {LARGEST} digits")
        return result

    return bounded


def _power(base, exponent):
    if abs(exponent) * max(1, math.log10(abs(base) or 1)) > LARGEST:
        raise ValueError(f"a power of more than {LARGEST} digits")
    return base**exponent


def _operation(node, operate):
    if node in COMPARISONS:
        return tracked.compared(operate)
    if node is ast.Div:
        return tracked.calculated(_bounded(operate), lambda a, b: Fraction(a) / Fraction(b))
    return tracked.calculated(_power if node is ast.Pow else _bounded(operate) if node in ARITHMETIC else operate)


OPERATORS = {node: _operation(node, operate) for node, operate in simpleeval.DEFAULT_OPERATORS.items()}


def _round(value, digits=0):
    if abs(digits) > LARGEST:
        raise ValueError(f"rounding to {digits} digits")
    return round(value, digits) if digits else round(value)


def names(recording: Recording, expression: str) -> dict:
    """Return the values that an expression over this recording can name; only what it does name is worked out."""
    return {
        "output": dict(printed.numbers(recording.output)) if "output" in expression else {},
        "launches": Launches(recording) if "launches" in expression else {},
        "made": msgspec.to_builtins(recording.provenance),
        "name": gpu_name(recording),
        **{table.name: table.medians() if table.name in expression else {} for table in recording.benchmarks},
    }


class Launches(dict):
    """The launches of a recording by kernel, or those of a kernel by number, each a copy.

    One that is not kept is an error that says so.
    """

    def __init__(self, recording: Recording, kernel: str = ""):
        self.recording, self.kernel = recording, kernel
        parted = [(name.removesuffix("]").partition("["), launch) for name, launch in recording.launches.items()]
        if kernel:
            kept = {int(number): msgspec.to_builtins(launch) for (of, _, number), launch in parted if of == kernel}
        else:
            kept = {of: Launches(recording, of) for (of, *_), _ in parted}
        super().__init__(kept)

    def __missing__(self, key):
        if self.kernel and not isinstance(key, int):
            raise RecorderError(f"behind the kernel stands a number: launches[{self.kernel!r}][0]; {key!r} is none")
        self.recording.launch(f"{self.kernel}[{key}]" if self.kernel else f"{key}[0]" if isinstance(key, str) else key)
        raise RecorderError(f"the recording keeps none as launches[{key!r}]")


def functions(recording: Recording) -> dict:
    """Return the functions that an expression over this recording can call, beside ``FUNCTIONS``."""
    shown = lambda code: {"spills": 0, "shared": 0, **msgspec.to_builtins(msgspec.structs.replace(code, stages={}))}
    recorded = {
        "processes": lambda name: [each.medians() for each in recording.benchmark(name).by_process()],
        "compiled": lambda launch, target: shown(recording.code(launch, target)),
        "count": lambda text, *place: sum(text in line.text for line in recording.stage(*place)),
        "pixels": lambda label: printed.pixels(recording.output, label),
        "verdict": lambda row, what="ran": printed.verdict(recording.output, row, what),
    }
    return {name: _recorded(name, function) for name, function in recorded.items()} | {
        "promised": lambda ceiling: promised(gpu_name(recording), ceiling),
    }


def _spread(*values):
    """Return by which share the largest of some values is above the smallest. They may be given as a list."""
    values = values[0] if len(values) == 1 else values
    return OPERATORS[ast.Sub](OPERATORS[ast.Div](max(values), min(values)), 1)


FUNCTIONS = {
    "min": min, "max": max, "sum": tracked.summed, "len": tracked.counted, "set": tracked.distinct,
    "round": tracked.calculated(_round), "abs": tracked.calculated(abs),
    "at_least": tracked.calculated(lambda value, step: math.floor(value / step) * step),
    "at_most": tracked.calculated(lambda value, step: math.ceil(value / step) * step),
    "spread": _spread,
    "all": tracked.every, "any": tracked.some,
    "above": lambda a, b: OPERATORS[ast.Gt](a.least, b.most),
    "overlap": lambda a, b: OPERATORS[ast.GtE](a.most, b.least) and OPERATORS[ast.GtE](b.most, a.least),
    "rows": lambda table: tracked.Taken(table.values(), ("rows", *table._path)),
}  # fmt: skip


def _recorded(name: str, function):
    return lambda *given: tracked.wrap(function(*map(tracked.plain, given)), (name, *map(str, given)))


def mentioned(expression: str) -> set[str]:
    """Return all names in an expression; none if it is not one."""
    try:
        return {node.id for node in ast.walk(Evaluator.parse(expression)) if isinstance(node, ast.Name)}
    except CANNOT:
        return set()


def evaluate(expression: str, recording: Recording | None, named: Mapping = NOTHING):
    """Return the value of an expression over a recording, or over the values that a page has named, or both.

    Raise ``RecorderError`` that names what is not there.
    """
    recorded, called = (names(recording, expression), functions(recording)) if recording else ({}, {})
    called |= FUNCTIONS
    own = mentioned(expression) & named.keys()
    if clash := own & (recorded.keys() | called.keys()):
        raise RecorderError(f"the page names a value {min(clash)!r}, which is also a part of a recording; rename it")
    parts = {name: tracked.wrap(part, (name,)) for name, part in recorded.items()} | {name: named[name] for name in own}
    evaluator = Evaluator(parts, called)
    known = dict.fromkeys([*evaluator.names, *named, *evaluator.functions])
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
    except CANNOT as error:
        raise RecorderError(f"{_short(expression)}: {_why(error)}; it may use {', '.join(known)}") from error


def _short(text: str) -> str:
    return repr(text) if len(text) <= 200 else f"{text[:60]!r}…"


def _why(error: Exception) -> str:
    return "it is too long or too deep" if isinstance(error, RecursionError | MemoryError) else str(error)[:400]


def _keys_beside(expression: str, evaluator) -> list:
    """Return the keys of all parts of an expression, for an error message."""
    keys = []
    for node in ast.walk(ast.parse(expression.strip(), mode="eval")):
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
            with contextlib.suppress(Exception):  # a part need not have a value of its own
                value = evaluator.eval(ast.unparse(node))
                parts = [value, *value.values()] if isinstance(value, dict) else [value]
                keys += value if isinstance(value, dict) else []
                keys += [key for part in parts if isinstance(part, SimpleNamespace) for key in vars(part)]
    return list(dict.fromkeys(keys))


@dataclass(frozen=True)
class Claim:
    """The parts of a claim, as it stands on a page."""

    device: str | None  # this and the next: of the recording that the expression is over, if any
    of: str | None
    expression: str
    form: str = ""
    condition: str = ""

    @property
    def relies(self) -> str:
        """The condition as an expression of its own."""
        return f"value {self.condition}" if COMPARISON.match(self.condition) else self.condition


def read(text: str) -> Claim:
    """Take a claim apart. Raise ``RecorderError`` if it is none."""
    match = CLAIM.fullmatch(text.strip())
    expression, form, condition, *rest = [part.strip() for part in f"{match['rest'] if match else ''};;".split(";")]
    if any(rest):
        raise RecorderError(f"{text!r} has more than three parts; it is EXPRESSION; FORMAT; CONDITION")
    if not expression:
        raise RecorderError(f"{text!r} is no claim such as {{{{ cpu: EXPRESSION; FORMAT; CONDITION }}}}")
    if not FORMAT.fullmatch(form):
        raise RecorderError(f"{_short(form)} is no format such as '.0f', at most 99 wide")
    return Claim(match["device"], match["of"], expression, form, condition)


def check(
    claim: Claim, recording: Recording | None, binds: bool = True, named: Mapping = NOTHING
) -> tuple[str, object]:
    """Evaluate a claim: return the formatted number and the value. ``named``: values that the page has named.

    Where the sentence does not bind, because it was written for another GPU, what is not so here, or was not measured
    here, is said behind the number instead of refused.
    """
    expression, condition = claim.expression, claim.condition
    try:
        value = evaluate(expression, recording, named)
        holds = not condition or evaluate_condition(claim.relies, value, recording, named)
    except RecorderError:
        if binds:
            raise
        return "– (not measured on this GPU)", "missing"
    if not isinstance(value, int | float | str) or (isinstance(value, float) and not math.isfinite(value)):
        several = isinstance(value, dict | list | tuple | set | SimpleNamespace)
        what = "several of them" if several else _short(str(value))
        raise RecorderError(f"{_short(expression)} is no number and no word, but {what}")
    if binds and not holds:
        about = f"{expression} {condition}" if COMPARISON.match(condition) else f"{condition}, and {expression}"
        raise RecorderError(f"the sentence relies on {about}, but it is {value}")
    word = condition and isinstance(value, str)  # may be typed, for it stands only while the condition holds
    if not word and not tracked.depends(value, claim.form):
        raise RecorderError(
            f"{_short(expression)} is typed by hand: it would be {value}, whatever was recorded; "
            "a claim shows what it reads from the recording"
        )
    if condition and not isinstance(holds, tracked.Read):
        raise RecorderError(f"{_short(condition)} would be true whatever was recorded; it is no condition")
    value = tracked.plain(value)
    try:
        written = re.sub(r"^-(?=[0.,]*%?$)", "", format(value, claim.form))  # a loss of -0.0% is none
        return written + ("" if holds else " (not so on this GPU)"), value
    except (ValueError, TypeError, OverflowError) as error:
        raise RecorderError(f"{value!r} cannot be written in the format {claim.form!r}: {error}") from error


def evaluate_condition(condition: str, value, recording: Recording | None = None, named: Mapping = NOTHING):
    """Return whether a condition on a value holds. Raise ``RecorderError`` if it is none."""
    holds = [evaluate(part, recording, {**_only(named, part), "value": value}) for part in _joined_by_and(condition)]
    if not all(isinstance(each, bool | tracked.Choice) for each in holds):
        raise RecorderError(f"{_short(condition)} is no condition such as '>= 1'")
    return tracked.every(holds)


def _joined_by_and(expression: str) -> list[str]:
    with contextlib.suppress(*CANNOT):
        tree = Evaluator.parse(expression)
        if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
            return [ast.get_source_segment(expression.strip(), part) for part in tree.values]
    return [expression]


def _only(named: Mapping, expression: str) -> dict:
    return {name: named[name] for name in mentioned(expression) & named.keys()}
