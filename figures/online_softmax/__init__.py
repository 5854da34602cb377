# SPDX-License-Identifier: Apache-2.0
"""`<online-softmax>`: scores of one row arrive tile by tile; the maximum moves, and old parts are rescaled.

It begins with scores and states that a run printed in a section of its output, with the values that are weighed by
them (attention), or with the shares that a second pass writes (softmax of a long row)::

    scores: 1 3 2 0                     scores: 1 3 2 0
    values: 1 2 3 4                     after 2, maximum: 3
    after 2, maximum: 3                 after 2, sum: 1.1353
    after 2, sum: 1.1353                …
    after 2, accumulator: 2.1353        shares: 0.0871 0.6439 0.2369 0.0321

and so on for each tile. A reader drags the scores; the script computes, and ``tests/figures/test_online_softmax.py``
compares what it computes with the recording. With values it rests, and stands without a script, on the moment in which
the second tile makes the sum be rescaled; with shares, on the last one, when both passes can be seen. The states of the
run are in a table.
"""

import math
import re
from dataclasses import dataclass

from markupsafe import Markup

from figures import online
from figures.registry import EXPLORER, figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Recording

LEAST, MOST = 0, 8  # scores that a reader can set
RESCALES = 7  # the second tile's "rescale"
ROW = re.compile(r"^(scores|values): (\d+(?: \d+)*)$", re.M)
SHARES = re.compile(r"^shares: (.*)$", re.M)
STATE = re.compile(r"^after (\d+), (maximum|sum|accumulator): (\d+(?:\.\d+)?)$", re.M)


@figure(of="output", foot=EXPLORER)
def online_softmax(recording: Recording, *, section="online softmax", id="online") -> Markup:
    """``section``: one of the output, with scores, states, and values or shares."""
    sections = printed.sections(recording.output)
    if section not in sections:
        raise RecorderError(f"the output has no section {section!r}{nearest(section, sections)}")
    seen = Run(section, sections[section])
    sizes = {size: size for size in sorted({2, seen.tile, len(seen.scores)}) if not len(seen.scores) % size}
    names = ("maximum", "sum", "accumulator") if seen.values else ("maximum", "sum")
    rest = RESCALES if seen.values else seen.moments
    before, now = (online.at(seen.scores, seen.values or seen.scores, seen.tile, rest - back) for back in (1, 0))
    added = seen.tile * (now.tile if seen.values else now.tile + 1)
    weights = [math.exp(score - now.scale) if i < added else 0 for i, score in enumerate(seen.scores)]
    return render(
        "online_softmax/template.html",
        id=id,
        seen=seen,
        sizes=sizes,
        names=names,
        rest=rest,
        now=now,
        before=before,
        factor=math.exp(before.scale - before.maximum),
        weights=weights,
        written=[] if seen.values else [weight / now.sum for weight in weights],
        rows=[[state.seen, *(getattr(state, name) for name in names)] for state in seen.states],
        shares=list(zip(seen.scores, seen.shares, strict=False)),
        least=LEAST,
        most=MOST,
    )


@dataclass(frozen=True)
class State:
    seen: int  # scores
    maximum: str
    sum: str
    accumulator: str = "0"  # where there are no values

    @property
    def result(self) -> str:
        return f"{float(self.accumulator) / float(self.sum):.4f}"


class Run:
    """The run in a section of the output. Raise ``RecorderError`` if it is not as the snippet prints it."""

    def __init__(self, section: str, text: str):
        rows = {name: [int(number) for number in numbers.split()] for name, numbers in ROW.findall(text)}
        self.scores, self.values = rows.get("scores", []), rows.get("values", [])
        shares = SHARES.search(text)
        self.shares = shares[1].split() if shares else []
        states = {}
        for seen, name, number in STATE.findall(text):
            states.setdefault(int(seen), {})[name] = number
        wanted = 3 if self.values else 2
        if not states or any(len(state) < wanted for state in states.values()):
            raise RecorderError(
                f"section {section!r} must have states, as after 4, maximum: 3; also sum, and accumulator with values"
            )
        self.states = [State(seen, **state) for seen, state in states.items()]
        self.tile = self.states[0].seen
        ends = list(range(self.tile, len(self.scores) + 1, self.tile))
        if len(self.scores) != len(self.values or self.shares) or ends != list(states) or ends[-1] != len(self.scores):
            raise RecorderError(
                f"section {section!r} must have as many scores as values, or shares, and a state after each tile"
            )
        if not all(LEAST <= score <= MOST for score in self.scores):
            raise RecorderError(f"section {section!r} has scores beyond {LEAST} to {MOST}, which cannot be set")

    @property
    def moments(self) -> int:
        """Return the number of the last moment; 0 is before all. Each tile has four; then it divides, or a second pass
        writes the shares, a tile at a time."""
        return 4 * len(self.states) + (1 if self.values else len(self.states))
