# SPDX-License-Identifier: Apache-2.0
"""Read numbers, sections, pixels and verdicts from the output of a run.

A snippet prints them, so that whoever runs it sees the same.
"""

import re
from functools import lru_cache

import regex  # which has a time limit

from recorder.project import RecorderError, nearest

LINE = 2_000  # characters; a longer line is no label with a number
SECONDS = 1  # for a pattern on a line
PIXELS = re.compile(r"\d+(,\d+,\d+)?(\s+\d+(,\d+,\d+)?)*")  # can match in one way only, so it is fast


@lru_cache(maxsize=256)
def numbers(output: str) -> dict[str, float]:
    """Return the number of each line ``label: number`` or ``label = number``."""
    values = {}
    for line in output.splitlines():
        line = line.strip()
        if not line or len(line) > LINE:
            continue
        # A label may hold further signs. A line is short, so there are few to try.
        for sign in (i for i, character in enumerate(line) if character in ":=" and line[:i].strip()):
            value = re.fullmatch(r"\s*(-?[\d,]*\.?\d+(?:e[+-]?\d+)?)(?:\s+\S+)?", line[sign + 1 :], re.I)
            if value:
                number = float(value[1].replace(",", ""))
                whole = number.is_integer() and "." not in value[1]
                values[line[:sign].rstrip()] = int(number) if whole else number
                break
    return values


def sections(output: str) -> dict[str, str]:
    """Return the text after each line ``## NAME``, up to the next such line."""
    texts, name = {}, None
    for line in output.splitlines(keepends=True):
        if line.startswith("## "):
            name = line.removeprefix("## ").rstrip("\n")
            texts[name] = ""
        elif name is not None:
            texts[name] += line
    return texts


def matching(lines: list[str], only: str | None) -> list[str]:
    """Return the lines that match a regular expression, or all without one. Raise ``RecorderError`` if none does."""
    if only is None:
        return lines
    try:
        wanted = regex.compile(str(only))
        matches = [line for line in lines if wanted.search(line, timeout=SECONDS)]
    except regex.error as error:
        raise RecorderError(f"{only!r} is no regular expression: {error}") from error
    except TimeoutError as error:
        raise RecorderError(f"{only!r} takes more than {SECONDS} s for a line: it repeats a repetition") from error
    if not matches:
        raise RecorderError(f"no line matches {only!r}; the first is {(lines or [''])[0][:60]!r}")
    return matches


def pixels(output: str, label: str) -> list[list[list[int]]]:
    """Return the rows of pixels printed after ``label``, one row a line. Raise ``RecorderError`` if there are none.

    A pixel is three numbers, as in ``patch: 35,22,32 0,23,13``, or one, as in ``patch: 27 15``, which is gray.
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
    """Return ``{section: {row: {what: verdict}}}``.

    A section begins with ``## Numbers``, a row is indented by two spaces, and its verdicts, such as ``ran: right`` and
    ``compiles: yes``, by four.
    """
    tree, section, row = {}, {}, {}
    for line in output.splitlines():
        if line.startswith("## "):
            section = tree.setdefault(line.removeprefix("## "), {})
        elif re.match(r" {2}\S", line):
            row = section.setdefault(line.strip(), {})
        elif line.startswith("    "):
            what, _, row[what] = line.strip().partition(": ")
    return tree


def verdict(output: str, row: str, what: str = "ran") -> str:
    """Return the verdict on a row, whose name is given without backticks. Raise ``RecorderError`` if it has none."""
    rows = {name.replace("`", ""): each for part in verdicts(output).values() for name, each in part.items()}
    if row not in rows:
        raise RecorderError(f"the run printed no row {row!r}{nearest(row, rows)}")
    if what not in rows[row]:
        raise RecorderError(f"of {row!r}, the run says nothing that is called {what!r}{nearest(what, rows[row])}")
    return rows[row][what]
