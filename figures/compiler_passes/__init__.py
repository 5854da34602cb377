# SPDX-License-Identifier: Apache-2.0
"""`<compiler-passes>`: all passes of a compilation as a strip, and what those that matter wrote.

It takes the run of ``snippets/compiler/passes.py``: a section ``passes`` with lines that came and lines that went, and
for each pass that matters a section with these lines. A bar's height is the logarithm of how many lines changed: they
go from one to thousands. Which passes matter, and what each is said to bring, is the page's word. A pass that runs
more than once is marked where it changed something last.
"""

import math
import re
from dataclasses import dataclass

from markupsafe import Markup

from figures.registry import figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Recording

LINE = re.compile(r"^ *(\d+|\.) +(\d+|\.)  (\S+)$")
STAGES = {"ttir": "Triton IR", "ttgir": "TritonGPU IR", "llir": "LLVM IR"}


@dataclass
class Pass:
    name: str
    came: int
    went: int
    mark: int | None = None  # its number among those that matter, from 0

    @property
    def height(self) -> str:
        """Return the height in percent, of which ten thousand lines are all; 0 for a pass that changed nothing."""
        changed = self.came + self.went
        return f"{100 * math.log10(1 + changed) / 4:.1f}" if changed else "0"


def read(output: str) -> dict[str, list[Pass]]:
    """Return the passes of each stage, in order, or raise ``RecorderError``."""
    stages: dict[str, list[Pass]] = {}
    for line in printed.sections(output).get("passes", "").splitlines():
        if line.strip() in STAGES:
            stages[line.strip()] = found = []
        elif seen := LINE.match(line):
            found.append(Pass(seen[3], *(0 if count == "." else int(count) for count in seen.groups()[:2])))
    if not stages:
        raise RecorderError("the output has no section 'passes' with stages in it")
    return stages


@figure(of="output")
def compiler_passes(recording: Recording, *, marks=..., rest=..., id="passes") -> Markup:
    """``marks``: by pass, what it ``brings``, and ``only`` which lines to show; ``rest``: the one shown first."""
    stages = read(recording.output)
    every = [each for all in stages.values() for each in all]
    written = printed.sections(recording.output)
    shown = []
    for number, (name, mark) in enumerate(marks.items()):
        changed = [each for each in every if each.name == name and (each.came or each.went)]
        if not changed or name not in written:
            raise RecorderError(f"no lines of a pass {name!r} were recorded{nearest(name, written)}")
        changed[-1].mark = number
        lines = re.sub(r"\n {8}", " ", written[name].strip()).splitlines()  # long ones were printed in several
        shown.append(
            {
                "name": name,
                "brings": mark["brings"],
                "counts": changed[-1],
                "lines": [(line[0], line[1:].strip()) for line in printed.matching(lines, mark.get("only"))],
            }
        )
    if rest not in marks:
        raise RecorderError(f"no pass {rest!r} is marked{nearest(rest, marks)}")
    return render(
        "compiler_passes/template.html",
        id=id,
        stages={name: (STAGES[name], found) for name, found in stages.items()},
        shown=shown,
        rest=list(marks).index(rest),
        total=len(every),
        changing=sum(bool(each.came or each.went) for each in every),
    )
