# SPDX-License-Identifier: Apache-2.0
"""The marked gaps of a file, between ``# gap 1: what goes here`` and ``# end of gap 1``: find, fill, compare.

Skeleton, solution and wrong solutions differ inside gaps only. A skeleton holds no code in a gap that its solution
lacks, except a placeholder.
"""

import ast
import re
import textwrap
from dataclasses import dataclass

BEGIN = re.compile(r"^\s*# gap (\d+)\b:?\s*(.*)$")
END = re.compile(r"^\s*# end of gap (\d+)\s*$")


class GapError(ValueError):
    """The gaps of a file are not as they should be; the message says which and why."""


@dataclass(frozen=True)
class Gap:
    number: int
    about: str  # what its marker says
    line: int  # of its marker, from 1
    text: str


def split(text: str) -> list[str | Gap]:
    """The pieces of a file: text, gap, text, gap, … text; the markers belong to the texts. Raises GapError."""
    pieces, current, opened = [], [], None
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        begin, end = BEGIN.match(line.rstrip("\n")), END.match(line.rstrip("\n"))
        if begin:
            if opened:
                raise GapError(f"line {number}: gap {begin[1]} begins before gap {opened[0]} ends")
            opened = int(begin[1]), begin[2], number
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
        raise GapError(f"gap {opened[0]} begins in line {opened[2]} and has no '# end of gap {opened[0]}'")
    return [*pieces, "".join(current)]


def gaps(text: str) -> dict[int, Gap]:
    found = [piece for piece in split(text) if isinstance(piece, Gap)]
    if len({gap.number for gap in found}) < len(found):
        raise GapError("two gaps have the same number")
    return {gap.number: gap for gap in found}


def fill(text: str, fillings: dict[int, str]) -> str:
    """The file with other texts in some of its gaps, all else as it is."""
    if unknown := fillings.keys() - gaps(text).keys():
        raise GapError(f"there is no gap {min(unknown)}")
    line = lambda filling: filling if not filling or filling.endswith("\n") else filling + "\n"
    return "".join(
        line(fillings.get(piece.number, piece.text)) if isinstance(piece, Gap) else piece for piece in split(text)
    )


def untouched(text: str, skeleton: str) -> list[Gap]:
    """The gaps of a file that hold no more code than the skeleton's: none but its placeholder."""
    begun = gaps(skeleton)
    try:
        return [
            gap for gap in gaps(text).values() if gap.number in begun and code(gap.text) == code(begun[gap.number].text)
        ]
    except GapError:  # the reader removed a marker, which is no fault
        return []


def code(text: str) -> list[str]:
    """The statements of a gap, without comments and layout; what is no Python, by its lines."""
    text = textwrap.dedent(text)
    try:
        return [
            ast.unparse(statement) for statement in ast.parse(f"def gap():\n    0\n{_indent(text)}").body[0].body[1:]
        ]
    except SyntaxError:
        return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]


def _indent(text: str) -> str:
    return textwrap.indent(text, "    ")


def is_placeholder(statement: str) -> bool:
    """``...``, ``pass``, ``return``, ``return None``, or a name set to a neutral value."""
    node = ast.parse(f"def gap():\n{_indent(statement)}").body[0].body[0]
    if isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets):
        return isinstance(node.value, ast.Constant) and node.value.value in (None, ..., 0, 1, False, True, "")
    value = getattr(node, "value", None)
    if isinstance(node, ast.Expr):
        return isinstance(value, ast.Constant) and value.value is ...
    nothing = value is None or (isinstance(value, ast.Constant) and value.value is None)
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Return) and nothing)


def check_pair(skeleton: str, solution: str, holds_code: bool) -> None:
    """Raise GapError unless both differ in gaps only, and the skeleton's gaps hold nothing of their own.

    ``holds_code``: the exercise is to find a bug or to make it faster, so its gaps begin with code that is to go.
    """
    given, solved = split(skeleton), split(solution)
    if [p for p in given if isinstance(p, str)] != [p for p in solved if isinstance(p, str)]:
        raise GapError("skeleton and solution differ outside of the gaps")
    if not gaps(skeleton):
        raise GapError("there is no gap")
    for number, gap in gaps(skeleton).items():
        right = code(gaps(solution)[number].text)
        if code(gap.text) == right:
            raise GapError(f"gap {number} of the skeleton is filled already")
        for statement in [] if holds_code else code(gap.text):
            if statement not in right and not is_placeholder(statement):
                raise GapError(f"gap {number} of the skeleton holds code that its solution lacks: {statement}")
