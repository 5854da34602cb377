# SPDX-License-Identifier: Apache-2.0
"""`<attention-canvas>`: the matrix of scores, which programs go through tile by tile.

A row a query, a column a key. Each program has a row of tiles; all begin at once. Of a tile that it has left, a program
keeps three numbers for each query: maximum, sum and accumulator. How dark a cell is says how much weight it has in the
sum now, so when the maximum grows, the cells before it fade together, and the result so far stays. Under the causal
mask, tiles that no query of the program sees are never visited.

It takes the run of ``snippets/fusion/attention_tiles.py``: a section ``scores`` with a row a line, ``values``, and what
was kept after each tile in ``all keys`` and ``causal``, with the results of ``attention``. The script computes the
moments between; ``tests/figures/test_attention_canvas.py`` compares with the recording. At first the scores
and the largest one of each query stand out, so that there is one thing to see; the sums do so with the first step.
"""

import math
import re
from dataclasses import dataclass

from markupsafe import Markup

from figures import online
from figures.registry import EXPLORER, figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError
from recorder.recording import Recording

REST = 10  # the third tile's "maximum": a larger score has just turned up
STATE = re.compile(r"(\d+): (\d+) ([\d.]+) ([\d.]+)")


@dataclass(frozen=True)
class Run:
    """The scores, what is kept of each query after each tile, and the results, without a mask and with one."""

    scores: list[list[int]]
    values: list[int]
    kept: dict[str, list[list[tuple[int, int, float, float]]]]  # by section, query and tile: keys, and three numbers
    results: dict[str, list[float]]

    @property
    def tile(self) -> int:
        return self.kept["all keys"][0][0][0]

    def seen(self, query: int, causal: bool) -> list[float]:
        """Return the scores of the tiles that a query's program visits, -inf where the query sees nothing."""
        row = self.scores[query]
        if not causal:
            return [float(score) for score in row]
        end = (query // self.tile + 1) * self.tile
        return [float(score) if key <= query else -math.inf for key, score in enumerate(row[:end])]


def read(recording: Recording) -> Run:
    """Return the run that a recording's output holds, or raise ``RecorderError``."""
    sections = printed.sections(recording.output)
    if missing := {"scores", "values", "all keys", "causal"} - sections.keys():
        raise RecorderError(f"the output has no section {', '.join(sorted(missing))}")
    numbers = lambda text: [[int(number) for number in line.split()] for line in text.splitlines() if line]
    kept, results = {}, {}
    for section in ("all keys", "causal"):
        lines = [line for line in sections[section].splitlines() if line.startswith("query")]
        kept[section] = [[(int(n), int(m), float(s), float(a)) for n, m, s, a in STATE.findall(line)] for line in lines]
        results[section] = [float(x) for x in re.search(r"attention: (.*)", sections[section])[1].split()]
    run = Run(numbers(sections["scores"]), numbers(sections["values"])[0], kept, results)
    if not len(run.scores) == len(run.values) == len(kept["all keys"]) == len(kept["causal"]):
        raise RecorderError("the output must have as many values, and states, as rows of scores")
    return run


@figure(of="output", foot=EXPLORER)
def attention_canvas(recording: Recording, *, causal=False, id="canvas") -> Markup:
    """``causal``: begin with the causal mask."""
    run = read(recording)
    rows = [_row(run, query, causal) for query in range(len(run.scores))]
    table = [
        [query, run.scores[query][n - run.tile : n], n, m, s, a]
        for query, kept in enumerate(run.kept["causal" if causal else "all keys"])
        for n, m, s, a in kept
    ]
    return render(
        "attention_canvas/template.html",
        id=id,
        run=run,
        programs=[rows[i : i + run.tile] for i in range(0, len(rows), run.tile)],
        mask="causal" if causal else "all",
        masks={"all": "every key", "causal": "causal"},
        last=4 * (len(run.scores) // run.tile) + 1,
        rest=REST,
        table=[[q, " ".join(map(str, scores)), *rest] for q, scores, *rest in table],
    )


def _row(run: Run, query: int, causal: bool) -> dict:
    """Return what stands in a query's row at the moment of rest."""
    scores = run.seen(query, causal)
    kept = online.at(scores, run.values, run.tile, REST)
    cells = []
    for key, score in enumerate(run.scores[query]):
        off = causal and key > query
        tile = key // run.tile
        if tile * run.tile >= len(scores):
            state = "dark"
        elif kept.part == "end" or tile < kept.tile:
            state = "gone"
        else:
            state = "now" if tile == kept.tile else "later"
        weight = math.exp(score - kept.scale) if state == "gone" and not off else 0
        cells.append((f"{state} hidden" if off and state != "dark" else state, f"{weight:.3f}", score))
    done = kept.part == "end"
    return {
        "cells": cells,
        "tile": kept.tile,
        "done": done,
        "maximum": f"{kept.maximum:.0f}",
        "sum": kept.sum,
        "accumulator": kept.accumulator,
        "result": f"{kept.accumulator / kept.sum:.2f}",  # so far: of the keys that have been seen
    }
