# SPDX-License-Identifier: Apache-2.0
"""Many cases side by side, from the worst to the best: each a dot at its share of what it is compared with."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from markupsafe import Markup

from figures.chart.axes import LETTER, break_of, round_values
from figures.chart.compared import finding, said, verdict
from figures.registry import figure
from figures.svg import element, unique
from figures.table import table
from figures.templates import render
from recorder.project import RecorderError
from recorder.recording import Median, Recording

HEIGHT = 260  # pixels, of the plot
WIDTHS = 270, 620  # pixels, for which names are placed: a phone's, and a desktop's
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
        return verdict(self.ours, self.theirs, less=True)


@figure(of="rows")
def ranked(recording: Recording, *, name=..., ours=..., theirs=..., title="", dot="", named=()):
    """``ours`` and ``theirs``: two lines of times; a dot is the share of their speed that ours reaches. ``title``: a
    sentence, in which braces stand for what is counted (``figures.chart.compared``); ``dot``: what each of them is.

    The worst and the best have their names beside them, and so have the cases in ``named``."""
    data = recording.benchmark(name, ours, theirs)
    cases = sorted((Case(x, row[ours], row[theirs]) for x, row in data.medians().items()), key=lambda case: case.share)
    named = {cases[0].name, cases[-1].name, *named}
    if missing := named - {case.name for case in cases}:
        raise RecorderError(f"{name!r} has no case {missing.pop()!r}")
    near = [case.share for case in cases if case.share <= FAR] + [1.0]
    low, high = min(near) - 0.02, max(near) + 0.02
    for _ in range(4):  # until the names have room inside
        ticks = round_values(low, high, 6, share=True)
        low, high = min(ticks), max(ticks)
        y = partial(_height, low, high)
        labels = _names(cases, named, y, data.lines[theirs])
        above, below = min(label.y for label in labels), max(label.y for label in labels)
        if above >= -LINE / 2 and below <= HEIGHT + LINE / 2:
            break
        span = high - low
        low, high = low - 0.05 * span * (below > HEIGHT), high + 0.05 * span * (above < 0)
    step = 100 / len(cases)
    parts = []
    for value, label in ticks.items():
        stroke = "var(--ink-muted)" if abs(value - 1) < 1e-9 else "var(--rule)"
        parts.append(element("line", x2="100%", y1=y(value), y2=y(value), stroke=stroke))
        parts.append(element("text", label, x=-8, y=y(value) + 4, text_anchor="end"))
    if low > 0:
        parts.append(element("svg", break_of(ticks[low]), y=HEIGHT, overflow="visible"))
    them, dots, verdicts = data.lines[theirs], [], [case.verdict for case in cases]
    for place, case in enumerate(cases):
        x = f"{(place + 0.5) * step:.2f}%"
        stem = {"stroke": COLORS[case.verdict], "stroke_opacity": 0.4}  # or many of them are darker than their dots
        parts.append(element("line", x1=x, x2=x, y1=y(1), y2=y(case.share), **stem))
        mark = element("circle", r=4.5, fill=FILLS[case.verdict], stroke=COLORS[case.verdict], stroke_width=1.75)
        if case.share > high:
            mark = element("path", d="M-5 3L0-6 5 3z", fill=COLORS[case.verdict])
        dots.append(element("svg", mark, x=x, y=y(case.share), overflow="visible"))
    parts += dots
    parts += [label.draw() for label in labels]
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
        title=said(verdicts, title) if title else finding(verdicts, data.lines[ours], them),
        unit=f"share of {them}’s speed" + (f"; a dot is {dot}".replace(" × ", "\u00a0×\u00a0") if dot else ""),
        label="; ".join(f"{words}: {count}" for *_, words, count in counts),
        counts=counts,
        height=HEIGHT,
        left=LETTER * max(map(len, ticks.values())) + 10,
        width=step,
        picture=parts,
        readings=readings,
        table=table(recording, name=name),
    )


@dataclass
class Name:
    """Words beside a dot, or above the line at 100%; pixels but for ``x``."""

    words: str
    color: str
    x: float  # of the dot, in shares of the width
    of: float  # the dot's y
    y: float  # the middle of the words
    dx: float  # where the words begin, seen from the dot; or end
    left: bool = False  # they end there
    foot: float | None = None  # where its leader begins, if not at the dot

    @property
    def begin(self) -> float:
        foot = self.of if self.foot is None else self.foot
        return foot - self.of + (0 if self.foot is not None else 6 if self.y > self.of else -6)

    @property
    def end(self) -> float:
        return self.y - self.of + (-8 if self.y > self.of else 8)

    @property
    def leads(self) -> bool:
        """Whether it needs a leader: it does not stand beside its dot."""
        return self.color != "var(--ink)" and abs(self.y - self.of) > 9

    def draw(self) -> Markup:
        how = {"fill": self.color, **({"text_anchor": "end"} if self.left else {}), **HALO}
        text = element("text", self.words, x=self.dx, y=self.y - self.of + 4, **how)
        leader = element("path", d=f"M0 {self.begin:.1f}V{self.end:.1f}", stroke=self.color) if self.leads else ""
        return element("svg", leader, text, x=f"{100 * self.x:.2f}%", y=self.of, overflow="visible")

    def beside(self, other: "Name", width: int) -> bool:
        """Whether one is over the other, in a plot of this width, where they are in one line."""
        ends = []
        for name in (self, other):
            begin, wide = name.x * width + name.dx, LETTER * len(name.words)
            ends.append((begin - wide, begin) if name.left else (begin, begin + wide))
        (a, b), (c, d) = ends
        return a < d and c < b


def _height(low: float, high: float, share: float) -> float:
    """Return the place of a share between the ends of the axis; what is above them stands at the upper."""
    return HEIGHT * (1 - (min(share, high) - low) / (high - low))


def _names(cases: list[Case], named: set[str], y: Callable[[float], float], them: str) -> list[Name]:
    """Return the names of some cases, and of the line at 100%, where no dot is and none is over another.

    All dots to the right of one are higher, and all to the left lower. So below and to the right of one that loses
    there is room, and above and to the left of one that wins; a name that would not fit there stands on the other side
    of the line, at the end of the stem."""
    up, down = [], []
    if cases[0].share < 0.99:  # above the line there is nothing as yet
        up.append(Name(them, "var(--ink)", 0, y(1), y(1) - 11, 4))
    for place, case in enumerate(cases):
        x, at, color = (place + 0.5) / len(cases), y(case.share), COLORS[case.verdict]
        name, level = case.name, y(1)
        if at == y(math.inf) and case.share > FAR:
            words = f"{name}: {case.share:.1f} times" if name in named else f"{case.share:.1f} times"
            up.append(Name(words, color, x, at, at - 2, -12, left=True))
        elif name not in named:
            continue
        elif place == 0 and case.share < 0.99 and cases[1:] and at - y(cases[1].share) > LINE:
            down.append(Name(name, color, x, at, at, 10))
        elif case.share < 0.99 and x < 0.55:
            down.append(Name(name, color, x, at, at + 22, -2))
        elif case.share < 0.99:
            up.append(Name(name, color, x, at, level - 22, 4, left=True, foot=level))
        elif x < 0.45:
            down.append(Name(name, color, x, at, level + 22, -2, foot=level))
        else:
            up.append(Name(name, color, x, at, at - 21, 4, left=True))
    for names, away in ((up, -1), (down, 1)):  # in the order of their dots, so that no leader crosses a name
        names.sort(key=lambda name: away * (name.of if name.foot is None else name.foot))
        for i, name in enumerate(names):
            for other in names[:i]:
                if any(name.beside(other, width) for width in WIDTHS):
                    name.y = away * max(away * name.y, away * other.y + LINE)
    return up + down


HALO = {"stroke": "var(--paper)", "stroke_width": 4, "paint_order": "stroke"}
COLORS = {"loses": "var(--series-0)", "ties": "var(--ink-muted)", "wins": "var(--series-1)"}
FILLS = COLORS | {"ties": "var(--paper)"}
WORDS = {"loses": "{} clearly faster", "ties": "no clear difference", "wins": "ours clearly faster"}
