# SPDX-License-Identifier: Apache-2.0
"""`<split-keys>`: one query, its keys split among programs, which go through them at once; then the parts are combined.

It takes the run of ``snippets/fusion/decoding_parts.py``: the scores, and for each number of parts a section with
maximum, sum and accumulator of each part, and what they give together. The script computes the moments between, and
``tests/figures/test_split_keys.py`` compares with the recording. How many multiprocessors of a real GPU have a program
is arithmetic: heads of keys, times parts; where the programs would stand on the chip is not known, so they fill a plain
grid by its numbers.
"""

import math
import re
from dataclasses import dataclass

from markupsafe import Markup

from figures import online
from figures.registry import EXPLORER, figure
from figures.svg import pid
from figures.templates import render
from figures.words import plural
from recorder import printed
from recorder.project import RecorderError
from recorder.recording import Recording

TILE = 1  # keys of a step
PARTS = 16  # with which it begins: those that fill most of the GPU
COLORS = 8  # of programs, in turn
HEADS, SMS = 8, 132  # heads of keys of one text, and multiprocessors
PART = re.compile(r"^part \d+: (\d+) ([\d.]+) ([\d.]+)$", re.M)
TOGETHER = re.compile(r"^together: ([\d.]+) ([\d.]+)$", re.M)


@dataclass(frozen=True)
class Run:
    """Scores; by the number of parts, what each stored, and what they give together."""

    scores: list[int]
    parts: dict[int, list[tuple[int, float, float]]]
    together: dict[int, tuple[float, float]]

    @property
    def values(self) -> list[int]:
        return list(range(1, len(self.scores) + 1))


def read(recording: Recording) -> Run:
    """Return the run that a recording's output holds, or raise ``RecorderError``."""
    scores = re.search(r"^scores: (.*)$", recording.output, re.M)
    if not scores:
        raise RecorderError("the output has no line 'scores: …'")
    parts, together = {}, {}
    for name, text in printed.sections(recording.output).items():
        stored = [(int(m), float(s), float(a)) for m, s, a in PART.findall(text)]
        both = TOGETHER.search(text)
        if name != f"{len(stored)} parts" or not both:
            raise RecorderError(f"section {name!r} must have as many parts as it says, and what they give together")
        parts[len(stored)], together[len(stored)] = stored, (float(both[1]), float(both[2]))
    if PARTS not in parts:
        raise RecorderError(f"the output has no section '{PARTS} parts'")
    return Run([int(score) for score in scores[1].split()], parts, together)


def last(keys: int, parts: int) -> int:
    """Return the number of the last moment: a tile each; then parts are combined, and the result is there."""
    return keys // TILE // parts + (2 if parts > 1 else 1)


@figure(of="output", foot=EXPLORER)
def split_keys(recording: Recording, *, id="split") -> Markup:
    """One query, its keys in several parts."""
    run = read(recording)
    each = len(run.scores) // PARTS
    kept = [
        online.at(run.scores[i : i + each], run.values[i : i + each], TILE, 4 * each // TILE)
        for i in range(0, len(run.scores), each)
    ]
    maximum = max(part.maximum for part in kept)
    factors = [math.exp(part.maximum - maximum) for part in kept]
    total = sum(factor * part.sum for factor, part in zip(factors, kept, strict=True))
    accumulator = sum(factor * part.accumulator for factor, part in zip(factors, kept, strict=True))
    rest = last(len(run.scores), PARTS)
    busy = [(f"{pid(i // HEADS % COLORS)} on",) if i < HEADS * PARTS else ("off",) for i in range(SMS)]
    return render(
        "split_keys/template.html",
        id=id,
        run=run,
        each=each,
        colors=COLORS,
        most=max(run.parts),
        splits={parts: parts for parts in run.parts},
        chosen=PARTS,
        says=f"{PARTS} programs at once, {plural(each // TILE, 'step')} instead of {len(run.scores) // TILE}",
        parts=[(f"{p.maximum:.0f}", p.sum, p.accumulator, f) for p, f in zip(kept, factors, strict=True)],
        together=(total, accumulator),
        rest=rest,
        busy=busy,
        at_work=HEADS * PARTS,
        sms=SMS,
        heads=HEADS,
        rows=[
            [parts, number, *(f"{value:g}" for value in stored)]
            for parts, all_stored in run.parts.items()
            for number, stored in enumerate(all_stored)
        ],
    )
