# SPDX-License-Identifier: Apache-2.0
"""Find, empty and compare the marked gaps of a file, between ``# gap 1: what goes here`` and ``# end of gap 1``."""

import ast
import re
import textwrap
from dataclasses import dataclass

BEGIN = re.compile(r"^(\s*)# gap (\d+)\b:?\s*(.*)$")
END = re.compile(r"^\s*# end of gap (\d+)\s*$")


class GapError(ValueError):
    """The gaps of a file are not as they should be; the message says which and why."""


@dataclass(frozen=True)
class Gap:
    number: int
    about: str  # what its marker says
    line: int  # of its marker, from 1
    indent: str  # of its marker
    text: str


def split(text: str) -> list[str | Gap]:
    """Return the pieces of a file: text, gap, text, gap, … text; the markers belong to the texts. Raise GapError."""
    pieces, current, opened = [], [], None
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        begin, end = BEGIN.match(line.rstrip("\n")), END.match(line.rstrip("\n"))
        if begin:
            if opened:
                raise GapError(f"line {number}: gap {begin[2]} begins before gap {opened[0]} ends")
            opened = int(begin[2]), begin[3], number, begin[1]
            pieces.append("".join([*current, line]))
            current = []
        elif end:
            if not opened or opened[0] != int(end[1]):
                raise GapError(f"line {number}: gap {end[1]} ends, but did not begin")
            pieces.append(Gap(*opened, "".join(current)))
            opened, current = None, [line]
        else:
            current.append(line)
    if opened:
        raise GapError(f"gap {opened[0]} begins on line {opened[2]} and has no '# end of gap {opened[0]}'")
    return [*pieces, "".join(current)]


def gaps(text: str) -> dict[int, Gap]:
    pieces = [piece for piece in split(text) if isinstance(piece, Gap)]
    if len({gap.number for gap in pieces}) < len(pieces):
        raise GapError("two gaps have the same number")
    return {gap.number: gap for gap in pieces}


def emptied(solution: str, held: dict[int, str]) -> str:
    """Return the file with other texts in its gaps, indented as their markers; ``...`` where none is given.

    Raise GapError where a text is for a gap that is not there.
    """
    if unknown := held.keys() - gaps(solution).keys():
        raise GapError(f"there is no gap {min(unknown)}")

    def filling(gap: Gap) -> str:
        text = held.get(gap.number, "...")
        return textwrap.indent(f"{text}\n", gap.indent) if text else ""

    return "".join(filling(piece) if isinstance(piece, Gap) else piece for piece in split(solution))


def untouched(text: str, skeleton: str) -> list[Gap]:
    """Return the gaps of a file that hold no more code than the skeleton's: none but its placeholder."""
    begun = gaps(skeleton)
    try:
        return [
            gap for gap in gaps(text).values() if gap.number in begun and code(gap.text) == code(begun[gap.number].text)
        ]
    except GapError:  # the reader removed a marker, which is no fault
        return []


def code(text: str) -> list[str]:
    """Return the statements of a gap without comments and layout; or its lines, where it is no Python."""
    text = textwrap.dedent(text)
    try:
        return [
            ast.unparse(statement) for statement in ast.parse(f"def gap():\n    0\n{_indent(text)}").body[0].body[1:]
        ]
    except SyntaxError:
        return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]


def _indent(text: str) -> str:
    return textwrap.indent(text, "    ")
