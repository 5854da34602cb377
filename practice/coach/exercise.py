# SPDX-License-Identifier: Apache-2.0
"""Read a folder in ``exercises/``: card, solution, skeleton, wrong solutions. Needs no torch, so the site can, too."""

import ast
import difflib
import importlib.util
import tomllib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from . import gaps
from .pages import PRACTICE, read
from .spec import KINDS

if TYPE_CHECKING:
    from .spec import Spec

CARD = ("title", "kind", "lesson", "goal", "hints")
COUNTED = {"reads": {"most_reads"}, "bytes": {"most_moved", "least_used"}, "launches": {"most_launches"}}


class PracticeError(Exception):
    """Something that a reader named or wrote cannot be used; the message says what, and what to do."""


@dataclass(frozen=True)
class Card:
    title: str
    kind: str
    lesson: str
    goal: str
    hints: tuple[str, str, str]
    limit_s: float = 60
    also: tuple[str, ...] = ()  # lessons beside its own that lead to it


@dataclass(frozen=True)
class Expected:
    """Where a file that is not right must fail, and a piece of the message."""

    stage: str
    message: str


@dataclass(frozen=True)
class Wrong:
    """A wrong solution that people really write."""

    name: str
    why: str
    text: str
    expected: Expected
    gpu: bool = False  # right, and too slow: only a GPU tells


@dataclass(frozen=True)
class Exercise:
    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def solution(self) -> str:
        return (self.folder / "solution.py").read_text("utf-8")

    @cached_property
    def skeleton(self) -> str:
        """Return the file that readers begin with: the solution, with what ``wrong.toml`` says in its gaps."""
        held = {key: text for key, text in self._table["skeleton"].items() if key.startswith("gap")}
        return gaps.emptied(self.solution, {int(key.removeprefix("gap")): text for key, text in held.items()})

    @cached_property
    def spec_text(self) -> str:
        return (self.folder / "spec.py").read_text("utf-8")

    def spec_call(self) -> ast.Call:
        """Return the syntax of ``Spec(…)``. Raise PracticeError where there is none."""
        file = f"exercises/{self.name}/spec.py"
        try:
            call = _spec_call(self.spec_text)
        except (SyntaxError, ValueError) as error:  # the latter: not UTF-8, or null bytes
            raise PracticeError(f"{file}:{getattr(error, 'lineno', None) or 1}: it is not Python: {error}") from error
        if not isinstance(call, ast.Call):
            raise PracticeError(f"{file} has no line SPEC = Spec(…)")
        return call

    @cached_property
    def card(self) -> Card:
        """Return the literals of ``SPEC = Spec(…)`` that need no torch. Raise PracticeError."""
        call, values = self.spec_call(), {}
        given, place = {keyword.arg: keyword.value for keyword in call.keywords}, f"exercises/{self.name}/spec.py"
        for name in [*CARD, *(name for name in ("limit_s", "also") if name in given)]:
            if name not in given:
                raise PracticeError(f"{place}:{call.lineno}: Spec(…) has no {name}")
            try:
                values[name] = ast.literal_eval(given[name])
            except ValueError as error:
                raise PracticeError(f"{place}:{given[name].lineno}: {name} is to be written out, no code") from error
        if values["kind"] not in KINDS:
            known = ", ".join(KINDS)
            raise PracticeError(
                f"{place}:{given['kind'].lineno}: there is no kind {values['kind']!r}; there are {known}"
            )
        return Card(**values)

    def timed(self) -> bool:
        """Return whether a GPU is to time it."""
        return any(keyword.arg == "speed" for keyword in self.spec_call().keywords)

    def counted(self) -> list[str]:
        """Name what is counted in a call, and may not be too much."""
        asked = {keyword.arg for keyword in self.spec_call().keywords}
        return [what for what, fields in COUNTED.items() if asked & fields] + ["programs"] * ("idle" not in asked)

    def spec(self) -> "Spec":
        return load(self.folder / "spec.py", "spec").SPEC

    @cached_property
    def _table(self) -> dict:
        return tomllib.loads((self.folder / "wrong.toml").read_text("utf-8"))

    def start(self) -> Expected:
        """Return how the skeleton fails."""
        return Expected(self._table["skeleton"]["stage"], self._table["skeleton"]["message"])

    def wrong(self) -> list[Wrong]:
        """Return the wrong solutions. Raise PracticeError where one replaces what the solution does not have once."""
        solutions = []
        for name, entry in self._table.items():
            if name != "skeleton":
                try:
                    text = replaced(self.solution, entry["replace"])
                except ValueError as error:
                    raise PracticeError(f"exercises/{self.name}/wrong.toml, {name}: {error}") from error
                expected = Expected(entry["stage"], entry["message"])
                solutions.append(Wrong(name, entry["why"], text, expected, entry.get("gpu", False)))
        return solutions


def replaced(text: str, pieces: list[str]) -> str:
    """Return the text with a piece of it, ``pieces[0]``, replaced by ``pieces[1]``, ``pieces[2]`` by ``pieces[3]``, …

    Raise ValueError where a piece is not found exactly once.
    """
    if len(pieces) % 2:
        raise ValueError(f"replace has {len(pieces)} texts; it takes pairs: [old, new] or [old, new, old, new]")
    for old, new in zip(pieces[::2], pieces[1::2], strict=True):
        if (count := text.count(old)) != 1:
            what = "with more of its line, so that it is there once" if count else "as it stands in the solution"
            raise ValueError(f"{old!r} is found {count} times, and must be found once; quote it {what}")
        text = text.replace(old, new)
    return text


@lru_cache(maxsize=64)
def _spec_call(text: str) -> ast.Call | None:
    """Parse a spec once: the site asks for the same ones on each of its pages."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "SPEC":
            return node.value
    return None


def load(path: Path, name: str):
    """Import a Python file that is not on the path. A kernel needs its source in a file, so this is no ``exec``."""
    origin = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(origin)
    origin.loader.exec_module(module)
    return module


def exercises(practice: Path = PRACTICE) -> list[Exercise]:
    """Return all exercises, in the order of the course; those that it does not name yet come last."""
    known = read(practice / "pages.json")["exercises"]
    folders = {path.parent.name: path.parent for path in sorted((practice / "exercises").glob("*/spec.py"))}
    new = [name for name in folders if name not in known]
    return [Exercise(folders[name]) for name in [*filter(folders.get, known), *new]]


def find(name: str, among: list[Exercise]) -> Exercise:
    """Return the exercise of that name, or of a file of that name. Raise PracticeError, with the nearest name."""
    wanted = Path(name).name.lower().removesuffix(".py")
    known = {exercise.name: exercise for exercise in among}
    if wanted in known:
        return known[wanted]
    near = difflib.get_close_matches(wanted, known, n=1, cutoff=0.5)
    tip = f"Did you mean {near[0]}?" if near else "`python practice.py list` shows all."
    raise PracticeError(f"There is no exercise {name!r}. {tip}")
