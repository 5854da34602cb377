# SPDX-License-Identifier: Apache-2.0
"""`<routed-tokens>`: tokens fly to the rows of their experts, programs get tiles of these, and results fly back.

It takes the run of ``snippets/models/experts_steps.py``: a section for each routing, with the experts of each token,
the row of each pair, and what each program finds. Where a square stands is arithmetic on these; the script only says
which of its two places it takes. A color is an expert.
"""

import re
from dataclasses import dataclass

from markupsafe import Markup

from figures.registry import EXPLORER, figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError
from recorder.recording import Recording

CHOSEN = "skewed"
MOMENTS = [  # the class of the picture, what the bar of time says, and a sentence
    (
        "tokens",
        "tokens",
        "Each token has chosen two of the four experts. A color is an expert; the number is the token’s.",
    ),
    ("counted", "count", "How many rows does each expert get? Its rows begin after those of all experts before it."),
    ("placed", "place", "Each choice has its row: expert by expert, in the order of the tokens."),
    (
        "tiled",
        "multiply",
        "A program multiplies up to four rows by their expert’s weight. Hatched places stay empty.",
    ),
    ("back", "combine", "Each token gathers its two rows and adds them up: ¾ of its first choice, ¼ of its second."),
]
TILE, TOP_K = 4, 2
PROGRAM = re.compile(r"^program (\d+): expert (\d+), rows (\d+) to (\d+)$", re.M)


@dataclass(frozen=True)
class Routing:
    """Experts of each token; the row of each pair; where each expert’s rows begin; expert and rows of each tile."""

    experts: list[tuple[int, ...]]
    rows: list[int]
    offsets: list[int]
    tiles: list[tuple[int, int, int, int]]  # program, expert, first row, last row
    leave: int  # programs without a tile

    @property
    def counts(self) -> list[int]:
        return [end - begin for begin, end in zip(self.offsets, self.offsets[1:], strict=False)]

    @property
    def pairs(self) -> list[dict]:
        """Return token and expert of each pair, which of the token's it is, and which row of the expert it has."""
        flat = [(token, slot, e) for token, chosen in enumerate(self.experts) for slot, e in enumerate(chosen)]
        return [
            {"token": token, "slot": slot, "expert": e, "at": row - self.offsets[e]}
            for (token, slot, e), row in zip(flat, self.rows, strict=True)
        ]

    @property
    def lanes(self) -> list[dict]:
        """Return, for each expert, its tiles: the program, the column where it begins, and how many rows it has."""
        return [
            {
                "begin": self.offsets[e],
                "count": count,
                "tiles": [
                    {"pid": pid, "at": first - self.offsets[e], "rows": last - first + 1}
                    for pid, expert, first, last in self.tiles
                    if expert == e
                ],
            }
            for e, count in enumerate(self.counts)
        ]


def read(recording: Recording) -> dict[str, Routing]:
    """Return each routing of the run by its name, or raise ``RecorderError``."""
    found = {}
    for name, text in printed.sections(recording.output).items():
        lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
        try:
            numbers = {key: [int(n) for n in lines[key].split()] for key in ("offsets", "row of each pair")}
            chosen = [tuple(map(int, pair)) for pair in lines["experts"].split()]
        except KeyError as error:
            raise RecorderError(f"section {name!r} has no line {error}") from error
        tiles = [tuple(map(int, tile)) for tile in PROGRAM.findall(text)]
        leave = len(re.findall(r"^program \d+: leaves$", text, re.M))
        found[name] = Routing(chosen, numbers["row of each pair"], numbers["offsets"], tiles, leave)
    if CHOSEN not in found:
        raise RecorderError(f"the output has no section {CHOSEN!r}")
    return found


@figure(of="output", foot=EXPLORER)
def routed(recording: Recording, *, id="routed") -> Markup:
    """Tokens, the rows of their experts, and tiles of these."""
    run = read(recording)
    return render(
        "routed/template.html",
        id=id,
        run=run,
        names={name: name for name in run},
        chosen=CHOSEN,
        moments=MOMENTS,
        rest=[name for name, *_ in MOMENTS].index("tiled"),
        tile=TILE,
        rows=[
            [name, pid, expert, first, last]
            for name, routing in run.items()
            for pid, expert, first, last in routing.tiles
        ],
    )
