# SPDX-License-Identifier: Apache-2.0
"""What a page's script asks for: run a text, or check it as an exercise. Answers are plain data, as JSON."""

import json
import traceback

from .check import FILE, check, picture
from .launch import SETTINGS
from .memory import MEMORY, Access
from .modules import load

LINES = 12  # of a kernel that are drawn, at most


def run(text: str, seed: int | None = None) -> str:
    """Run a text, its programs in order or, by a seed, in a random one.

    Returns:
        ``error``, what it raised, or ""; ``troubles``, accesses beyond a tensor; ``launches``, how many there were;
        and ``pictures`` of the last one, each with the ``line`` of the text and an ``svg``; ``shown``, the one to see
        first.
    """
    MEMORY.reset(strict=False, record=True)
    SETTINGS.seed, SETTINGS.configs = seed, "first"
    error = ""
    try:
        load(text, FILE, "__main__")
    except (Exception, SystemExit) as raised:
        error = explained(raised, text)
    troubles = [_capital(str(trouble)) for trouble in MEMORY.troubles]
    accesses = _drawn()
    bad = MEMORY.troubles[0].access if MEMORY.troubles else None
    shown = next((i for i, each in enumerate(accesses) if bad and _key(each) == _key(bad)), len(accesses) - 1)
    pictures = [_picture(each, bad if i == shown and bad else each, text, i) for i, each in enumerate(accesses)]
    return json.dumps({"error": error, "troubles": troubles[:3], "more": max(0, len(troubles) - 3),
                       "launches": len(MEMORY.launches), "pictures": pictures, "shown": shown})  # fmt: skip


def check_exercise(name: str, text: str) -> str:
    """Check a text in the place of an exercise's file, and return the verdict, with its picture as ``svg``."""
    from coach import svg
    from coach.exercise import exercises, find

    SETTINGS.seed = None
    exercise = find(name, exercises())
    try:
        verdict = check(exercise, text)
    except NotImplementedError as missing:  # what inputs and references are made of
        verdict = {"passed": [], "stage": "browser", "failed": "", "text": str(missing), "launch": None}
    launch = verdict.pop("launch")
    return json.dumps(verdict | {"svg": svg.launch(launch, "checked") if launch else "", "timed": exercise.timed()})


def explained(error: BaseException, text: str) -> str:
    """Return what was raised, with the lines of the text that led there."""
    from coach.errors import explained

    if isinstance(error, SyntaxError) and error.filename == FILE:
        line = text.splitlines()[error.lineno - 1].strip() if error.lineno else ""
        return f"SyntaxError: {error.msg}, on line {error.lineno}:\n    {line}"
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]
    at = [f"    {n}: {text.splitlines()[n - 1].strip()}" for n in lines[-1:]]
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return "\n".join([message, *at, explained(message)]).rstrip()


def _drawn() -> list[Access]:
    """Return of the last launch, where it is small, one access of each line."""
    if not MEMORY.launches:
        return []
    launch = MEMORY.launches[-1]
    first: dict[tuple, Access] = {}
    for access in launch.accesses:
        first.setdefault(_key(access), access)
    return list(first.values())[:LINES]


def _key(access: Access) -> tuple:
    return access.line, access.op, access.name


def _picture(first: Access, focus: Access, text: str, number: int) -> dict:
    from coach import svg

    lane = focus.outside[0] if focus.outside else 0
    return {"line": first.line, "code": text.splitlines()[first.line - 1].strip() if first.line else first.name,
            "svg": svg.launch(picture(focus, lane), f"drawn-{number}")}  # fmt: skip


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
