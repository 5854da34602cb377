# SPDX-License-Identifier: Apache-2.0
"""What a page's script asks for: run a text, or check it as an exercise. Answers are plain data, as JSON."""

import ast
import contextlib
import doctest
import functools
import io
import json
import re
import sys
import time
import traceback
import warnings

from .check import FILE, check, guess_at, innermost
from .launch import SETTINGS
from .memory import MEMORY, Access, Launch
from .modules import load
from .recorded import drawn

LINES = 12  # of a kernel that are drawn, at most
PRINTED = 12  # lines that a check shows of what an exercise prints
STEPS = 600  # of a launch that can be gone through one by one


def run(text: str, seed: int | None = None, whole: str = "", section: str = "") -> str:
    """Run a text, its programs in order or, by a seed, in a random one.

    Args:
        text: A script; or, if ``whole`` is given, what to have in place of a section of that file. The file is run with
            it, and then the examples of its functions are.
        seed: Of the order; None for that of the grid.
        whole: A snippet's file.
        section: Which part of it, between ``[start:section]`` and ``[end:section]``.

    Returns:
        ``error``, what it raised, or ""; ``troubles``, accesses beyond a tensor; ``line``, of the first that is wrong,
        or 0; ``launches``, how many there were. Of the last one: ``pictures``, each with the ``line`` of the text and
        an ``svg``; ``shown``, the one to see first; ``order``, its programs as they ran; and ``story``, what each of
        them did to small tensors, or None.
    """
    MEMORY.reset(strict=False, record=True)
    SETTINGS.seed, SETTINGS.configs = seed, "first"
    before, after = split(whole, section) if whole else ("", "")
    lines = Lines(before + text.rstrip("\n") + "\n" + after, before.count("\n"), text.rstrip("\n").count("\n") + 1)
    error, wrong = "", []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda told, kind, file, number, *_: print(f"Line {lines.shown(number)}: {told}")
            names = load(lines.whole, FILE, "__lesson__" if whole else "__main__")
            if whole:
                examples(names, lines)
    except (Exception, SystemExit) as raised:
        error, wrong = explained(raised, lines), [*filter(lines.holds, reversed(numbers_of(raised)))][:1]
    troubles = [lines.told(_capital(str(trouble))) for trouble in MEMORY.troubles]
    launch = _launch(lines)
    accesses = _drawn(launch)
    bad = MEMORY.troubles[0].access if MEMORY.troubles else None
    wrong = wrong or [trouble.access.line for trouble in MEMORY.troubles if lines.holds(trouble.access.line)]
    shown = next((i for i, each in enumerate(accesses) if bad and _key(each) == _key(bad)), len(accesses) - 1)
    pictures = [_picture(bad if i == shown and bad else each, lines, i) for i, each in enumerate(accesses)]
    return json.dumps({"error": error, "lines": sorted({*map(lines.shown, wrong)}), "troubles": troubles[:3],
                       "more": max(0, len(troubles) - 3), "launches": len(MEMORY.launches),
                       "pictures": pictures, "shown": shown, "order": _order(launch),
                       "story": _story(launch, lines)})  # fmt: skip


class Lines:
    """The lines of what is run, of which a page shows some, counted from 1."""

    def __init__(self, whole: str, before: int, count: int):
        self.whole, self.lines, self.before, self.count = whole, whole.splitlines(), before, count

    def holds(self, number: int) -> bool:
        """Return whether the page shows a line."""
        return 0 < number - self.before <= self.count

    def shown(self, number: int) -> int:
        """Return a line's number on the page, or that in its file where the page does not show it."""
        return number - self.before if self.holds(number) else number

    def told(self, message: str) -> str:
        return re.sub(r"\b([Ll]ine) (\d+)", lambda found: f"{found[1]} {self.shown(int(found[2]))}", message)

    def code(self, number: int) -> str:
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""

    def statement(self, number: int) -> str:
        """Return the statement that begins on a line or goes on there, on one line."""
        first, last = next((each for each in self.statements if each[0] <= number <= each[1]), (number, number))
        return " ".join(self.code(n) for n in range(first, last + 1))

    @functools.cached_property
    def statements(self) -> list[tuple[int, int]]:
        """The first and the last line of each."""
        kinds = ast.Assign | ast.Expr | ast.AugAssign
        return [(node.lineno, node.end_lineno) for node in ast.walk(ast.parse(self.whole)) if isinstance(node, kinds)]


def split(whole: str, section: str) -> tuple[str, str]:
    """Return a file's text before a section, and after it."""
    start, end = (f"# --8<-- [{side}:{section}]\n" for side in ("start", "end"))
    before, _, rest = whole.partition(start)
    return before + start, end + rest.partition(end)[2]


def examples(names: dict, lines: Lines):
    """Run the examples in the docstrings of a file's functions, and print them with their results.

    Where some launch a kernel that the page shows, print only those.
    """
    printed: list[tuple[bool, str]] = []
    for function in list(names.values()):
        if not callable(function) or getattr(function, "__module__", "") != "__lesson__" or isinstance(function, type):
            continue
        given, before, text = dict(names), len(MEMORY.launches), io.StringIO()
        try:
            with contextlib.redirect_stdout(text):
                for example in doctest.DocTestParser().get_examples(function.__doc__ or ""):
                    print(">>>", example.source.rstrip().replace("\n", "\n... "))
                    exec(compile(example.source, "<example>", "single"), given)
        except BaseException:
            print(text.getvalue(), end="")
            raise
        shown = any(lines.holds(each.line) for launch in MEMORY.launches[before:] for each in launch.accesses[:1])
        printed.append((shown, text.getvalue()))
    some = any(shown for shown, _ in printed)
    print(*(text for shown, text in printed if shown or not some), sep="", end="")


def check_exercise(name: str, text: str) -> str:
    """Check a text in the place of an exercise's file, and return the verdict, with its picture as ``svg``."""
    from coach import svg
    from coach.exercise import exercises, find

    SETTINGS.seed = None
    exercise = find(name, exercises())
    printed = io.StringIO()  # in each of many cases
    try:
        with contextlib.redirect_stdout(printed):
            verdict = check(exercise, text, tell_page)
    except NotImplementedError as missing:  # what inputs and references are made of
        verdict = {"passed": [], "stage": "browser", "failed": "", "text": str(missing), "lines": [], "launch": None}
    first, rest = (lines := printed.getvalue().splitlines())[:PRINTED], lines[PRINTED:]
    if first:
        print("Your code prints:", *first, *["…"] * bool(rest), sep="\n")
    launch = verdict.pop("launch")
    return json.dumps(verdict | {"svg": svg.launch(launch, "checked") if launch else "", "timed": exercise.timed()})


told_at = 0.0  # s, when the page was told last


def tell_page(said: str) -> None:
    """Tell the page's script how far a check is, at most three times a second, by a line that it does not show."""
    global told_at
    if sys.platform == "emscripten" and time.monotonic() - told_at > 0.3:
        told_at = time.monotonic()
        print(f"\x01Checking {said}…", file=sys.stderr, flush=True)


def numbers_of(error: BaseException) -> list[int]:
    """Return the lines of the text that led to an error."""
    if isinstance(error, SyntaxError) and error.filename == FILE:
        return [error.lineno or 0]
    frames = traceback.extract_tb(innermost(error).__traceback__)
    return [frame.lineno for frame in frames if frame.filename == FILE]


def explained(error: BaseException, lines: Lines) -> str:
    """Return what was raised, with the line of the text that led there."""
    if isinstance(error, SyntaxError) and error.filename == FILE:
        number = error.lineno or 0
        message = f"{type(error).__name__}: {lines.told(error.msg)}, on line {lines.shown(number)}:"
        return f"{message}\n    {lines.code(number)}"
    error = innermost(error)
    at = [f"    {lines.shown(n)}: {lines.code(n)}" for n in numbers_of(error)[-1:]]
    message = f"{type(error).__name__}: {lines.told(str(error))}" if str(error) else type(error).__name__
    return "\n".join([message, *at, lines.told(guess_at(error))]).rstrip()


def _launch(lines: Lines) -> Launch | None:
    """Return the last launch of a kernel that the page shows, or the last one."""
    here = [each for each in MEMORY.launches if any(lines.holds(a.line) for a in each.accesses[:1])]
    return next(reversed(here or MEMORY.launches), None)


def _drawn(launch: Launch | None) -> list[Access]:
    """Return one access of each line."""
    first: dict[tuple, Access] = {}
    for access in launch.accesses if launch else ():
        first.setdefault(_key(access), access)
    return list(first.values())[:LINES]


def _order(launch: Launch | None) -> list[str]:
    """Return the programs as they ran, once each."""
    return list(dict.fromkeys(_pid(access) for access in launch.accesses)) if launch else []


def _story(launch: Launch | None, lines: Lines) -> dict | None:
    """Return each access with its values, and what the tensors held before; None where that is too much to show."""
    if launch is None or not launch.before or not 0 < len(launch.accesses) <= STEPS:
        return None
    if any(access.name not in launch.before for access in launch.accesses):
        return None
    tensors = [
        {"name": name, "shape": list(launch.origins[name].shape), "values": list(map(_shown, values))}
        for name, values in launch.before.items()
    ]
    steps = [
        {"program": _number(access), "pid": _pid(access), "line": lines.shown(access.line),
         "here": lines.holds(access.line), "code": lines.statement(access.line), "op": access.op, "name": access.name,
         "offsets": access.offsets, "on": [int(on) for on in access.mask or [1] * len(access.offsets)],
         "outside": access.outside, "values": list(map(_shown, access.values))}
        for access in launch.accesses
    ]  # fmt: skip
    return {"tensors": tensors, "steps": steps}


def _pid(access: Access) -> str:
    x, y, z = access.program
    grid = access.launch.grid
    return str(x) if grid[1:] == (1, 1) else str((x, y) if grid[2] == 1 else (x, y, z))


def _number(access: Access) -> int:
    (x, y, z), (columns, rows, _) = access.program, access.launch.grid
    return x + columns * (y + rows * z)


def _shown(value) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(int(value))


def _key(access: Access) -> tuple:
    return access.line, access.op, access.name


def _picture(access: Access, lines: Lines, number: int) -> dict:
    from coach import svg

    picture = drawn(access)
    picture["line"] = lines.shown(access.line)
    return {"line": picture["line"], "code": lines.statement(access.line) or access.name,
            "svg": svg.launch(picture, f"drawn-{number}")}  # fmt: skip


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
