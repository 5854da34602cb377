# SPDX-License-Identifier: Apache-2.0
"""`<window-tiles>`: the square of scores in tiles, and which of them a window leaves to compute.

A row a query, a column a key, two by two a tile; each program has a row of tiles, in its color. A tile is visited
without a mask, or with one, or skipped: what ``tiles_seen`` told the programs of
``snippets/models/window_attention_steps.py``, for every window, causal or to both sides, is on the page. How dark a
cell is says how much weight its query gives it; with a sink, which stands in a column before the keys, some of it goes
there. The script computes the weights, and ``tests/figures/test_window_tiles.py`` compares them with the kernel's.
"""

import math
from dataclasses import dataclass

from markupsafe import Markup

from figures.registry import EXPLORER, figure
from figures.svg import pid
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError
from recorder.recording import Recording

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
SEES = {"causal": "back", "both sides": "both ways"}  # the sections of edges, and what their buttons say
KINDS = {"whole": "all seen: no mask", "part": "partly seen: with the mask", "off": "unseen: skipped"}
SINK = 4.0  # its score


@dataclass(frozen=True)
class Run:
    """The scores, by query and key, and by section and window the four edges of each tile of queries."""

    scores: list[list[int]]
    edges: dict[str, list[list[list[int]]]]

    @property
    def tile(self) -> int:
        return len(self.scores) // len(self.edges["causal"][0])

    def kinds(self, section: str, window: int) -> list[list[str]]:
        """Return, by tile of queries and tile of keys, one of ``KINDS``."""
        begins = range(0, len(self.scores), self.tile)
        return [
            ["off" if not start <= key < end else "whole" if whole <= key < whole_end else "part" for key in begins]
            for start, whole, whole_end, end in self.edges[section][window - 1]
        ]

    def sees(self, section: str, window: int, query: int, key: int) -> bool:
        return abs(query - key) < window and (key <= query or section != "causal")

    def weights(self, section: str, window: int, query: int, sink: bool = False) -> list[float]:
        """Return the weights of a query: of the sink, and of each key."""
        powers = [math.exp(SINK) if sink else 0.0]
        for key, score in enumerate(self.scores[query]):
            powers.append(math.exp(score) if self.sees(section, window, query, key) else 0.0)
        return [power / sum(powers) for power in powers]


def read(recording: Recording) -> Run:
    """Return the run that a recording's output holds, or raise ``RecorderError``."""
    sections = printed.sections(recording.output)
    if missing := {"scores", *(f"edges, {name}" for name in SEES)} - sections.keys():
        raise RecorderError(f"the output has no section {', '.join(sorted(missing))}")
    scores = [[int(number) for number in line.split()] for line in sections["scores"].splitlines() if line]
    edges = {}
    for name in SEES:
        rows = [line.split(" | ")[1:] for line in sections[f"edges, {name}"].splitlines() if line]
        edges[name] = [[[int(number) for number in tile.split()] for tile in row] for row in rows]
        if len(rows) != len(scores):
            raise RecorderError(f"edges, {name}: there must be a line for each window up to {len(scores)}")
    return Run(scores, edges)


@figure(of="output", foot=EXPLORER)
def window_tiles(recording: Recording, *, window=5, id="window") -> Markup:
    """``window``: how many keys a query sees at first, itself among them."""
    run = read(recording)
    kinds = run.kinds("causal", window)
    counts = {kind: sum(row.count(kind) for row in kinds) for kind in KINDS}
    programs = []
    for i, row in enumerate(kinds):
        queries = range(i * run.tile, (i + 1) * run.tile)
        tiles = [
            (kind, [_cell(run, kind, window, query, j * run.tile + k) for query in queries for k in range(run.tile)])
            for j, kind in enumerate(row)
        ]
        programs.append({"color": pid(i), "tiles": tiles, "edges": run.edges["causal"][window - 1][i]})
    table = [
        [size, *(sum(row.count(kind) for row in run.kinds(name, size)) for name in SEES for kind in ("whole", "part"))]
        for size in range(1, len(run.scores) + 1)
    ]
    return render(
        "window_tiles/template.html",
        id=id, run=run, window=window, programs=programs, counts=counts, kinds=KINDS, sees=SEES, sink=SINK, table=table,
        tiles=len(kinds), all=len(kinds) ** 2, most=len(run.scores),
        packed={name: "".join(DIGITS[edge] for row in rows for tile in row for edge in tile)
                for name, rows in run.edges.items()},
    )  # fmt: skip


def _cell(run: Run, kind: str, window: int, query: int, key: int) -> tuple[str, str]:
    """Return the class of a cell, and its weight."""
    if kind == "off":
        return "", "0"
    if not run.sees("causal", window, query, key):
        return "hidden", "0"
    return "", f"{run.weights('causal', window, query)[1 + key]:.3f}"
