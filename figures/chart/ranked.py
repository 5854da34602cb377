# SPDX-License-Identifier: Apache-2.0
"""Many cases side by side, from the worst to the best: each a dot at its share of what it is compared with."""

from typing import NamedTuple

from figures.chart.axes import LETTER, round_values
from figures.registry import figure
from figures.svg import element, unique
from figures.table import table
from figures.templates import render
from recorder.project import RecorderError
from recorder.recording import Median, Recording

HEIGHT = 260  # pixels, of the plot
LINE = 16  # pixels, of text
FAR = 1.5  # a share beyond that would press all others together: it stands at the edge, with its number


class Case(NamedTuple):
    """One row of the benchmark; times, so less is better."""

    name: str
    ours: Median
    theirs: Median

    @property
    def share(self) -> float:
        return self.theirs / self.ours

    @property
    def verdict(self) -> str:
        """``wins`` or ``loses`` if the slowest reading of one side is faster than the fastest of the other."""
        if self.theirs.least > self.ours.most:
            return "wins"
        return "loses" if self.ours.least > self.theirs.most else "ties"


@figure(of="rows")
def ranked(recording: Recording, *, name=..., ours=..., theirs=..., title="", named=()):
    """``ours`` and ``theirs``: two lines of times; a dot is the share of their speed that ours reaches.

    The worst and the best have their names beside them, and so have the cases in ``named``."""
    data = recording.benchmark(name, ours, theirs)
    cases = sorted((Case(x, row[ours], row[theirs]) for x, row in data.medians().items()), key=lambda case: case.share)
    named = {cases[0].name, cases[-1].name, *named}
    if missing := named - {case.name for case in cases}:
        raise RecorderError(f"{name!r} has no case {missing.pop()!r}")
    near = [case.share for case in cases if case.share <= FAR] + [1.0]
    ticks = round_values(min(near) - 0.02, max(near) + 0.02, 6, share=True)
    low, high = min(ticks), max(ticks)
    y = lambda share: HEIGHT * (1 - (min(share, high) - low) / (high - low))
    step = 100 / len(cases)
    parts = []
    for value, label in ticks.items():
        stroke = "var(--ink-muted)" if abs(value - 1) < 1e-9 else "var(--rule)"
        parts.append(element("line", x2="100%", y1=y(value), y2=y(value), stroke=stroke))
        parts.append(element("text", label, x=-8, y=y(value) + 4, text_anchor="end"))
    them = data.lines[theirs]
    if cases[0].share < 0.99:  # above the line there is nothing as yet
        parts.append(element("text", them, x=4, y=y(1) - 7, fill="var(--ink)"))
    for place, case in enumerate(cases):
        x = f"{(place + 0.5) * step:.2f}%"
        stem = {"stroke": COLORS[case.verdict], "stroke_opacity": 0.4}  # or many of them are darker than their dots
        parts.append(element("line", x1=x, x2=x, y1=y(1), y2=y(case.share), **stem))
        dot = element("circle", r=4.5, fill=FILLS[case.verdict], stroke=COLORS[case.verdict], stroke_width=1.75)
        if case.share > high:
            dot = element("path", d="M-5 3L0-6 5 3z", fill=COLORS[case.verdict])
            where = f"{case.name}: " if case.name in named else ""
            dot += element(
                "text", f"{where}{case.share:.1f} times", x=-9, y=2, fill=COLORS[case.verdict], **LEFT, **HALO
            )
        elif place == 0 and y(case.share) - y(cases[1].share) > LINE:  # beside it
            dot += element("text", case.name, x=10, y=4, fill=COLORS[case.verdict], **HALO)
        elif case.name in named:  # where no dot is: all to the right are higher, all to the left lower
            below = case.share < 0.99
            place_of = {"x": -2, "y": 26} if below else {"x": 4, "y": -17, **LEFT}
            dot += element("path", d="M0 6v8" if below else "M0-6v-8", stroke=COLORS[case.verdict])
            dot += element("text", case.name, fill=COLORS[case.verdict], **place_of, **HALO)
        parts.append(element("svg", dot, x=x, y=y(case.share), overflow="visible"))
    counts = [(COLORS[verdict], FILLS[verdict], words.format(them), sum(case.verdict == verdict for case in cases))
              for verdict, words in WORDS.items()]  # fmt: skip
    readings = [
        (place * step, case.name, f"{case.share:.0%}", COLORS[case.verdict], y(case.share),
         f"{data.lines[ours]} {case.ours:,.1f}, {them} {case.theirs:,.1f} {data.ylabel}")
        for place, case in enumerate(cases)
    ]  # fmt: skip
    return render(
        "chart/ranked.html",
        id=unique("ranked"),
        title=title,
        unit=f"share of {them}'s speed, {len(cases)} {data.x[0]}s from the worst to the best",
        note=f"the axis begins at {ticks[low]}",
        label="; ".join(f"{words}: {count}" for *_, words, count in counts),
        counts=counts,
        height=HEIGHT,
        left=LETTER * max(map(len, ticks.values())) + 10,
        width=step,
        picture=parts,
        readings=readings,
        table=table(recording, name=name),
    )


LEFT = {"text_anchor": "end"}
HALO = {"stroke": "var(--paper)", "stroke_width": 4, "paint_order": "stroke"}
COLORS = {"loses": "var(--series-0)", "ties": "var(--ink-muted)", "wins": "var(--series-1)"}
FILLS = COLORS | {"ties": "var(--paper)"}
WORDS = {"loses": "{} clearly faster", "ties": "no clear difference", "wins": "ours clearly faster"}
