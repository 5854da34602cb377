# SPDX-License-Identifier: Apache-2.0
"""What can be read from what a run printed: numbers, sections, pixels and verdicts.

A snippet prints them, so that whoever runs it sees the same.
"""

import re
from functools import lru_cache

import regex  # it can be told when to give up

from recorder.project import RecorderError, nearest

LINE = 2_000  # characters; what is longer is no label and its number
SECONDS = 1  # for a pattern on a line
PIXELS = re.compile(r"\d+(,\d+,\d+)?(\s+\d+(,\d+,\d+)?)*")  # matches in one way only, or it would try them all


@lru_cache(maxsize=256)
def numbers(output: str) -> dict[str, float]:
    """Each ``label: number`` or ``label = number`` line."""
    found = {}
    for line in output.splitlines():
        line = line.strip()
        if not line or len(line) > LINE:
            continue
        # From the last sign on: a label may hold others. A line is short, so the tries are few.
        for sign in (i for i, character in enumerate(line) if character in ":=" and line[:i].strip()):
            value = re.fullmatch(r"\s*(-?[\d,]*\.?\d+(?:e[+-]?\d+)?)(?:\s+\S+)?", line[sign + 1 :], re.I)
            if value:
                number = float(value[1].replace(",", ""))
                whole = number.is_integer() and "." not in value[1]
                found[line[:sign].rstrip()] = int(number) if whole else number
                break
    return found


def sections(output: str) -> dict[str, str]:
    """What follows each line ``## NAME``, up to the next of them."""
    found, name = {}, None
    for line in output.splitlines(keepends=True):
        if line.startswith("## "):
            name = line.removeprefix("## ").rstrip("\n")
            found[name] = ""
        elif name is not None:
            found[name] += line
    return found


def matching(lines: list[str], only: str | None) -> list[str]:
    """The lines in which a regular expression finds something; all of them without one. Raises ``RecorderError``."""
    if only is None:
        return lines
    try:
        wanted = regex.compile(str(only))
        found = [line for line in lines if wanted.search(line, timeout=SECONDS)]
    except regex.error as error:
        raise RecorderError(f"{only!r} is no regular expression: {error}") from error
    except TimeoutError as error:
        raise RecorderError(f"{only!r} takes more than {SECONDS} s for a line: it repeats a repetition") from error
    if not found:
        raise RecorderError(f"no line matches {only!r}; the first is {(lines or [''])[0][:60]!r}")
    return found


def pixels(output: str, label: str) -> list[list[list[int]]]:
    """The rows of pixels, each of one number or three, printed after ``label``, a line a row.

    As in ``patch: 35,22,32 0,23,13`` for red, green and blue, or ``patch: 27 15`` for gray. Raises ``RecorderError``.
    """
    rows = {}
    for line in output.splitlines():
        name, colon, row = line.partition(": ")
        if colon and PIXELS.fullmatch(row.strip()):
            pixels = [[int(n) for n in pixel.split(",")] for pixel in row.split()]
            rows.setdefault(name, []).append(pixels)
    if label not in rows:
        raise RecorderError(f"the run printed no pixels after {label!r}{nearest(label, rows)}")
    return rows[label]


@lru_cache(maxsize=16)
def verdicts(output: str) -> dict[str, dict[str, dict[str, str]]]:
    """``{section: {row: {what: verdict}}}`` of sections (``## Numbers``) of rows (indented by two spaces) with verdicts
    (by four), such as ``ran: right`` and ``compiles: yes``."""
    found, section, row = {}, {}, {}
    for line in output.splitlines():
        if line.startswith("## "):
            section = found.setdefault(line.removeprefix("## "), {})
        elif re.match(r" {2}\S", line):
            row = section.setdefault(line.strip(), {})
        elif line.startswith("    "):
            what, _, row[what] = line.strip().partition(": ")
    return found


def verdict(output: str, row: str, what: str = "ran") -> str:
    """What was said of a row, whose name is given without its backticks. Raises ``RecorderError``."""
    rows = {name.replace("`", ""): said for part in verdicts(output).values() for name, said in part.items()}
    if row not in rows:
        raise RecorderError(f"the run printed no row {row!r}{nearest(row, rows)}")
    if what not in rows[row]:
        raise RecorderError(f"of {row!r}, the run says nothing that is called {what!r}{nearest(what, rows[row])}")
    return rows[row][what]
