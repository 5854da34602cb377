# SPDX-License-Identifier: Apache-2.0
"""`<online-softmax>`: scores of one query arrive tile by tile; the maximum moves, and old parts are rescaled.

It begins with scores, values and states that a run printed in a section of its output::

    scores: 1 3 2 0
    values: 1 2 3 4
    after 2, maximum: 3
    after 2, sum: 1.1353
    after 2, accumulator: 2.1353

and so on for each tile. A reader drags the scores; the script computes, and ``tests/figures/test_online_softmax.py``
compares what it computes with the recording. Without a script the last state stands, and all of them in a table.
"""

import math
import re
from dataclasses import dataclass
from functools import cached_property

from markupsafe import Markup

from figures.registry import EXPLORER, figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Recording

LEAST, MOST = 0, 8  # scores that a reader can set
ROW = re.compile(r"^(scores|values): (\d+(?: \d+)*)$", re.M)
STATE = re.compile(r"^after (\d+), (maximum|sum|accumulator): (\d+(?:\.\d+)?)$", re.M)


@figure(of="output", foot=EXPLORER)
def online_softmax(recording: Recording, *, section="online softmax", id="online") -> Markup:
    """``section``: one of the output, with scores, values and states."""
    sections = printed.sections(recording.output)
    if section not in sections:
        raise RecorderError(f"the output has no section {section!r}{nearest(section, sections)}")
    seen = Run(section, sections[section])
    sizes = {size: size for size in sorted({2, seen.tile, len(seen.scores)}) if not len(seen.scores) % size}
    rows = [[state.seen, state.maximum, state.sum, state.accumulator] for state in seen.states]
    bounds = {"least": LEAST, "most": MOST}
    return render("online_softmax/template.html", id=id, seen=seen, sizes=sizes, rows=rows, **bounds)


@dataclass(frozen=True)
class State:
    seen: int  # scores
    maximum: str
    sum: str
    accumulator: str

    @property
    def result(self) -> str:
        return f"{float(self.accumulator) / float(self.sum):.4f}"


class Run:
    """The run in a section of the output. Raise ``RecorderError`` if it is not as the snippet prints it."""

    def __init__(self, section: str, text: str):
        rows = {name: [int(number) for number in numbers.split()] for name, numbers in ROW.findall(text)}
        self.scores, self.values = rows.get("scores", []), rows.get("values", [])
        states = {}
        for seen, name, number in STATE.findall(text):
            states.setdefault(int(seen), {})[name] = number
        if not states or any(len(state) < 3 for state in states.values()):
            raise RecorderError(f"section {section!r} must have states, as after 4, maximum: 3; also sum, accumulator")
        self.states = [State(seen, **state) for seen, state in states.items()]
        self.tile = self.states[0].seen
        ends = list(range(self.tile, len(self.scores) + 1, self.tile))
        if len(self.scores) != len(self.values) or ends != list(states) or ends[-1] != len(self.scores):
            raise RecorderError(f"section {section!r} must have as many scores as values, and a state after each tile")
        if not all(LEAST <= score <= MOST for score in self.scores):
            raise RecorderError(f"section {section!r} has scores beyond {LEAST} to {MOST}, which cannot be set")

    @cached_property
    def weights(self) -> list[float]:
        """Return the weight of each score at the last maximum."""
        return [math.exp(score - float(self.states[-1].maximum)) for score in self.scores]

    @property
    def moments(self) -> int:
        """Return the number of the last step: four for each tile, and the division; 0 is before all."""
        return 4 * len(self.states) + 1
