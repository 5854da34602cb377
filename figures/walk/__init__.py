# SPDX-License-Identifier: Apache-2.0
"""`<walk-explorer>`: a program of a matrix product walks along K, a few lines of its kernel at a time.

Its tile of ``a`` moves to the right and that of ``b`` down, while the accumulator fills. All of it is read from the
recorded accesses of a launch (``reading``) and drawn (``drawing``) for each of its programs; the script only shows one
program and one moment of it. The sums of an element are those that the run printed. Without a script one picture shows
all steps.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from textwrap import dedent

from markupsafe import Markup

from figures import svg
from figures.registry import figure
from figures.templates import render
from figures.walk.drawing import Picture
from figures.walk.reading import Walk, partial_sums
from recorder.project import ROOT, RecorderError, read_text
from recorder.recording import Launch, Recording
from recorder.source import lines_of

LINES = {  # what is in the kernel's lines that run at a moment
    "begin": r"my_tile\(|tl\.zeros\(",
    "move": r"for k in|place\([ab]_ptr",
    "load": r"tl\.load\(",
    "dot": r"tl\.dot\(",
    "store": r"place\(c_ptr|tl\.store\(",
}
ARGUMENTS = {"place": 3, "tl.zeros": 1, "tl.dot": 3}  # those that matter to a walk; for the others there is no room


@figure(of="launches")
def walk(recording: Recording, *, launch=None, program=0, section=None, id="walk") -> Markup:
    """``program``: the one that is shown at first; ``section``: one of the output, with the sums of an element."""
    seen = recording.traced(launch)
    if not 0 <= program < seen.grid[0]:
        raise RecorderError(f"there is no program {program!r}; its launch has {seen.grid[0]}")
    sums = partial_sums(recording, section) if section else None
    walks = [Walk(seen, pid, sums) for pid in range(seen.grid[0])]
    shown = {"walks": walks, "shown": walks[program], "color": svg.pid(program), "picture": Picture(walks, program)}
    programs = {walk.program: walk.program for walk in walks}
    return render("walk/template.html", id=id, kernel=seen.kernel, code=code(seen), programs=programs, **shown)


def code(seen: Launch) -> list[tuple[str, str]]:
    """Lines of the kernel, each with the moment at which it runs. Raises ``RecorderError`` if none is known."""
    text = read_text(ROOT / seen.file).splitlines()
    lines = joined(text[number - 1] for number in lines_of(ROOT / seen.file, seen.kernel))
    matched = [(part, line) for line in lines for part, known in LINES.items() if re.search(known, line)]
    if not matched:
        raise RecorderError(f"{seen.kernel} of {seen.file} has no line that loads, multiplies or stores")
    shown = dedent("\n".join(shortened(line) for _, line in matched)).splitlines()
    # Tabs, which a phone shows narrower than four blanks.
    return [(part, line.replace("    ", "\t")) for (part, _), line in zip(matched, shown, strict=True)]


def joined(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without comments, one for each call that is broken inside its brackets.

    >>> list(joined(["x = f(", "    a, b", ")  # both", "y = 1"]))
    ['x = f(a, b)', 'y = 1']
    """
    whole = ""
    for line in lines:
        line = re.sub(r"  #.*", "", line)
        gap = " " if whole and not whole.endswith("(") and not line.lstrip().startswith(")") else ""
        whole = f"{whole}{gap}{line.strip()}" if whole else line
        if whole.count("(") == whole.count(")"):
            yield whole
            whole = ""


def shortened(line: str) -> str:
    """Return a line with ``…`` for arguments that say nothing of the walk.

    >>> shortened("    x, inside = place(x_ptr, m, k, M, K, 1, 2)")
    '    x, inside = place(x_ptr, m, k, …)'
    """
    code = line.strip()
    for call in ast.walk(ast.parse(f"{code} pass" if code.endswith(":") else code)):
        known = isinstance(call, ast.Call) and ARGUMENTS.get(ast.unparse(call.func))
        if known and len(call.args) + len(call.keywords) > known:
            shown = code[: call.args[known - 1].end_col_offset] + ", …" + code[call.end_col_offset - 1 :]
            return line.replace(code, shown)
    return line
