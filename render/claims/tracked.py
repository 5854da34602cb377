# SPDX-License-Identifier: Apache-2.0
"""Values that remember that they were read from a recording, so that a claim which reads none can be refused.

Beside its value, each carries what the same expression would give had the recorder written other numbers: three of
them, in exact arithmetic. What comes out the same for all, as ``8 - 3``, ``0 * x + 1042`` and ``x - x + 5`` do, was
typed. A comparison with a recorded number is a choice, which counts as typed where it is calculated with; a count says
how many a condition leaves.
"""

import math
import operator
import zlib
from collections.abc import Callable
from fractions import Fraction

from recorder.recording import Median, Row


class Read:
    """A part of a recording, or what was made of one. ``_path`` tells it from other parts."""

    __slots__ = ()


class Value(Read):
    """A number or a word; ``_others`` holds what else it might have been."""

    __slots__ = ()


class Float(Value, float):
    def __getattr__(self, name: str):
        if name in ("least", "most") and isinstance(self._plain, Median):
            return leaf(getattr(self._plain, name), (*self._path, name))
        raise AttributeError(name)


class Int(Value, int):
    pass


class Choice(Value, int):
    """True or false, as a comparison with something recorded found it."""


class Text(Value, str):
    def __getitem__(self, key):
        return wrap(super().__getitem__(key), (*self._path, str(key)))


class Fields(Read, dict):
    """A mapping from a recording: all that is taken out of it is a :class:`Read`."""

    def __init__(self, plain: dict, path: tuple):
        super().__init__(plain)
        self._plain, self._path = plain, path

    def __getitem__(self, key):
        return wrap(self._plain[key], (*self._path, key))

    def __iter__(self):
        return (wrap(key, (*self._path, "key", key)) for key in self._plain)

    def values(self):
        return [self[key] for key in self._plain]


class Items(Read, list):
    """A list from a recording."""

    def __init__(self, plain: list, path: tuple):
        super().__init__(plain)
        self._path = path

    def __getitem__(self, key):
        return wrap(super().__getitem__(key), (*self._path, str(key)))

    def __iter__(self):
        return (self[at] for at in range(len(self)))


class Columns(Read, Row):
    """A row of a table."""

    __slots__ = ("_path",)

    def __init__(self, plain: Row, path: tuple):
        super().__init__(**vars(plain))
        self._path = path

    def __getattribute__(self, name: str):
        value = super().__getattribute__(name)
        return value if name.startswith("_") else wrap(value, (*self._path, name))

    def __getitem__(self, line: str):
        return wrap(vars(self)[line], (*self._path, line))


class Taken(Read, list):
    """A list that is as long as a recording has it; what it holds may be typed."""

    def __init__(self, values, path: tuple):
        super().__init__(values)
        self._path = path

    def __getitem__(self, key):
        part = super().__getitem__(key)
        return Taken(part, (*self._path, str(key))) if isinstance(key, slice) else part


class Distinct(Read, set):
    """A set that is as large as a recording has it."""

    @property
    def _path(self) -> tuple:
        return tuple(sorted(map(repr, self)))


def wrap(value, path: tuple):
    """Return a part of a recording as a value that remembers it."""
    if isinstance(value, Read):
        return value
    for kind, kept in ((dict, Fields), (list | tuple, Items), (Row, Columns), (int | float | str, leaf)):
        if isinstance(value, kind):
            return kept(value, path)
    return value


def leaf(value, path: tuple):
    """Return a recorded number or word that knows three others in its place."""
    drawn = zlib.crc32(repr(path).encode())
    if isinstance(value, str):
        return _made(value, [f"{value}{n}{drawn}" for n in range(3)], path)
    whole = int(value) if abs(value) < float("inf") else 0
    others = [  # the first is near enough for powers; no two parts grow alike, so that their ratio is another
        whole + 1 + drawn % 9,
        (2 + drawn % 13) * whole + 1 + drawn % 997,
        (16 + drawn % 101) * whole + 1 + drawn % 99_991,
    ]
    return _made(value, others, path)


def _made(value, others: list, path: tuple = ()):
    """Return a value with the others that it might have been; as it is, if it could be no other."""
    known = {other for other in others if other is not None}
    if not known or (len(known) == 1 and _alike(value, *known)):
        return value
    kinds = ((str, Text), (bool, Choice), (int, Int), (float, Float))
    made = next(made for kind, made in kinds if isinstance(value, kind))(value)
    made._others, made._plain, made._path = others, value, path
    return made


def _alike(value, other) -> bool:
    if isinstance(value, str) or abs(other) >= 10**300:
        return value == other
    return math.isclose(value, other, rel_tol=1e-6)  # the value is not in exact arithmetic


def plain(value):
    """Return the value alone; of a list, a list."""
    return value._plain if isinstance(value, Value) else list(value) if isinstance(value, Items) else value


def depends(value, form: str) -> bool:
    """Return whether a value, as shown in this format, depends on a recording."""
    if not isinstance(value, Value):
        return False
    number = int if isinstance(value, int) else float if isinstance(value, float) else str
    return len({_tried(lambda each: format(number(each), form), [each]) for each in (value, *value._others)}) > 1


def calculated(operate: Callable, exactly: Callable | None = None) -> Callable:
    """Return an operation that also handles the other values of its operands, in fractions where ``exactly`` is given.
    A choice counts as typed: of ``1042 * (x > 0)``, the number was."""

    def operated(*operands):
        return _with_others(operate(*map(plain, operands)), exactly or operate, operands, Float | Int | Text)

    return operated


def summed(values):
    """Return the sum of a list, in which a choice counts."""
    total = _with_others(sum(map(plain, values)), lambda *others: sum(others), list(values), Value)
    if isinstance(values, Taken) and not isinstance(total, Read):
        return leaf(total, ("sum", *values._path))
    return total


def counted(values):
    """Return the length of a list, a set or a text."""
    return leaf(len(values), ("len", *values._path)) if isinstance(values, Read) else len(values)


def every(values):
    """Return whether all of some choices are true, as a choice if any of them is one."""
    return _decisive(values, False)


def some(values):
    """Return whether one of some choices is true, as a choice if any of them is one."""
    return _decisive(values, True)


def _decisive(values, wanted: bool):
    """Return the first choice that is as wanted and decides all; else one that could have been."""
    first = next((each for each in values if bool(each) is wanted), None)
    return first if first is not None else next((each for each in values if isinstance(each, Choice)), not wanted)


def distinct(values=()):
    """Return the set of a list."""
    known = {tuple(each._others) for each in values if isinstance(each, Value)}
    return Distinct(values) if isinstance(values, Read) or len(known) > 1 else set(map(plain, values))


def _with_others(value, operate: Callable, operands, kinds):
    if isinstance(value, set) and any(isinstance(each, Distinct) for each in operands):
        return Distinct(value)
    if not isinstance(value, int | float | str) or not any(isinstance(each, kinds) for each in operands):
        return value
    return _made(value, [_tried(operate, [_other(each, n, kinds) for each in operands]) for n in range(3)])


def _other(operand, n: int, kinds):
    other = operand._others[n] if isinstance(operand, kinds) else plain(operand)
    return Fraction(other) if isinstance(other, float) and abs(other) < float("inf") else other


def _tried(operate: Callable, operands: list):
    """Return the result of an operation, or None where it fails."""
    if any(each is None for each in operands):
        return None
    try:
        return operate(*operands)
    except (ArithmeticError, TypeError, ValueError):
        return None


def compared(operate: Callable) -> Callable:
    """Return a comparison whose result is a choice if it could come out otherwise."""

    def operated(*operands):
        value = operate(*operands)
        if not any(map(of_recording, operands)) or _always(operands):
            return value
        path = (getattr(each, "_others", None) or getattr(each, "_path", None) or repr(each) for each in operands)
        return leaf(value, ("compared", *path))

    return operated


def of_recording(value) -> bool:
    """Return whether a value, or a part of a list, was read from a recording."""
    if isinstance(value, list | tuple | set) and not isinstance(value, Read):
        return any(map(of_recording, value))
    return isinstance(value, Read)


def _always(operands) -> bool:
    """Return whether two sides differ only by typed numbers: ``x == x``, ``x < x + 1``."""
    if not all(isinstance(each, Value) for each in operands) or len(operands) < 2:
        return False
    pairs = list(zip(*(each._others for each in operands), strict=True))
    apart = {_tried(operator.sub, pair) for pair in pairs}
    return all(a == b for a, b in pairs) or (len(apart) == 1 and apart != {None})
