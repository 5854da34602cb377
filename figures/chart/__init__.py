# SPDX-License-Identifier: Apache-2.0
"""A benchmark as lines over its sizes, drawn from the recorded numbers, with the table of those numbers.

The picture is as wide as its page: lengths along x are percentages, all others pixels, so that text and markers keep
their size on a phone. A line is the median; a band spans the least and the most of several readings. Ours has one, and
so has what it is compared with; another line only if it lies over no band before it. Each line has its name at its
end. Over the picture lies one invisible radio button for each size: pointed at, tapped or reached by an arrow key, it
shows the values there, without a script.

``axes``: scales and their labels; ``series``: colors and markers; ``labels``: names at the ends, none over another;
``ranked``: many cases from the worst to the best; ``rivals``: several kernels case by case; both in the same frame;
``compared``: who is faster, and how often.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import msgspec
from markupsafe import Markup

from figures.chart import axes, labels
from figures.chart.axes import LETTER, Axis
from figures.chart.ranked import ranked as ranked
from figures.chart.rivals import rivals as rivals
from figures.chart.series import MARKERS, numbers, our_line
from figures.registry import figure
from figures.svg import element, unique
from figures.table import table
from figures.templates import render
from recorder.recording import Benchmark, Recording, Row

HEIGHT = 300  # pixels, of the plot
LINE = 15  # pixels, of a label
SEEN = 12  # pixels: a band that is nowhere as high as this is lost behind its line and needs no key
WIDE, NARROW = 24, 13  # letters in a line of a label: where there is room, and on a phone


@figure(of="rows")
def chart(recording: Recording, *, name=..., share_of=None, lines=None, title="", log=False, better=True):
    """``share_of`` draws each line as a share of that one, which is then the level of 100%.

    ``lines``: those to draw, in this order; ``title``: what the chart says, in words; ``log``: values on a logarithmic
    axis, whatever the benchmark's own is; ``better``: say which way is faster, where the chart compares what does the
    same work.
    """
    data = recording.benchmark(name, *(lines or []), *([share_of] if share_of else []))
    data = msgspec.structs.replace(data, y_log=data.y_log or log)
    if lines:
        chosen = [*lines, *([share_of] if share_of and share_of not in lines else [])]
        data = msgspec.structs.replace(data, lines={line: data.lines[line] for line in chosen})
    found = numbers(data.lines)
    ours = our_line(found)
    drawn = [Line(found[key], label, key, unique("marker"), key == ours) for key, label in data.lines.items()]
    plot = Plot.of(data, share_of)
    shaded = plot.shaded(drawn)
    unit = f"{data.ylabel}, as a share of {data.lines[share_of]}" if share_of else data.ylabel
    return render(
        "chart/template.html",
        id=unique("chart"),
        label=f"{unit} by {data.xlabel}: {', '.join(data.lines.values())}",
        title=title,
        xlabel=data.xlabel,
        ylabel=unit,
        across=plot.across,
        up=plot.up,
        better=axes.better(unit) if better else "",
        banded=any(plot.banded(line) for line in shaded),
        shaded=shaded if any(map(plot.banded, {*drawn} - {*shaded})) else [],
        height=HEIGHT,
        left=LETTER * max(map(len, plot.up.ticks.values())) + 10,
        right={width: plot.room(drawn, width) for width in (WIDE, NARROW)},
        widths=(WIDE, NARROW),
        lines=drawn,
        picture=[*plot.scales(), *(part for line in drawn for part in plot.line(line, line in shaded))],
        names={"wide": plot.names(drawn, WIDE), "narrow": plot.names(drawn, NARROW)},
        readings=list(plot.readings(drawn)),
        table=table(recording, name=name, share_of=share_of, lines=lines),
    )


class Line(NamedTuple):
    """How a line of a benchmark is drawn."""

    number: int
    label: str
    key: str  # in the rows of the benchmark
    marker: str  # the id of its marker
    strong: bool = False  # drawn heavier than the others: what a chart is about

    @property
    def color(self) -> str:
        return f"var(--series-{self.number})"

    @property
    def shape(self) -> Markup:
        """The marker, which the plot uses by its id."""
        return element("path", id=self.marker, d=MARKERS[self.number])

    def path(self, d: str) -> Markup:
        how = {"stroke": self.color, "stroke_width": 3.5 if self.strong else 2, "stroke_linejoin": "round"}
        return element("path", d=d, fill="none", vector_effect="non-scaling-stroke", **how)

    def mark(self, x: float | str, y: float) -> Markup:
        return element("use", href=f"#{self.marker}", x=x, y=y, fill=self.color)


class Reading(NamedTuple):
    """What was measured at one size, to be read by pointing there."""

    size: str
    x: float  # percent of the width, also those of the strip that shows it
    left: float
    width: float
    values: list[tuple[Line, str, float]]  # of each line, what is said and where, in pixels


class Plot(NamedTuple):
    """The readings of a benchmark between two axes."""

    rows: list[tuple[float, Row]]  # of each reading, its place on the axis and what was measured
    sizes: list[str]  # as they are said
    across: Axis
    up: Axis
    named: bool  # whether names, not numbers, stand below
    share_of: str | None

    @classmethod
    def of(cls, data: Benchmark, share_of: str | None = None) -> "Plot":
        rows = list(data.medians().values())
        x = [getattr(row, data.x[0]) for row in rows]
        ends = [
            end / (row[share_of] if share_of else 1) for row in rows for key in data.lines for end in _ends(row[key])
        ]
        named = isinstance(x[0], str)
        across = axes.of_names(x) if named else axes.of_sizes(x, data.x_log, data.xlabel)
        share = bool(share_of) or data.ylabel.startswith("share of")
        up = axes.of_values(ends, data.y_log, share)
        places = list(zip(range(len(x)) if named else x, rows, strict=True))
        return cls(places, x if named else axes.sizes(x, data.xlabel), across, up, named, share_of)

    def x(self, value: float) -> float:
        """Return the place of a value in percent of the width."""
        return 100 * self.across.at(value)

    def y(self, value: float) -> float:
        """Return the place of a value in pixels."""
        return HEIGHT * (1 - self.up.at(value))

    def value(self, row: Row, key: str) -> float:
        """Return the median of a line in a row, as it is drawn."""
        return float(row[key]) / (float(row[self.share_of]) if self.share_of else 1)

    def ends(self, row: Row, key: str) -> tuple[float, float]:
        """Return the least and the most of a line in a row, as they are drawn."""
        whole = float(row[self.share_of]) if self.share_of else 1
        return row[key].least / whole, row[key].most / whole

    def say(self, value: float) -> str:
        """Return a value with three digits, in the words of its axis."""
        said = "".join(self.up.ticks.values())
        if "%" in said:
            return f"{value:.{1 if value < 0.1 or self.up.high - self.up.low < 0.2 else 0}%}"
        if "1 in" in said and value > 0:
            return f"1 in {float(f'{1 / value:.3g}'):,.0f}"
        return (f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:#.3g}").rstrip(".")

    def scales(self) -> Iterator[Markup]:
        """Yield a rule for each labeled value beside the plot, and the labels."""
        for value, label in self.up.ticks.items():
            y = self.y(value)
            stroke = "var(--ink-muted)" if value == 0 else "var(--rule)"
            yield element("line", x2="100%", y1=y, y2=y, stroke=stroke)
            yield element("text", label, x=-8, y=y + 4, text_anchor="end")
        if self.up.broken:
            yield element("svg", axes.break_of(self.up.ticks[self.up.low]), y=HEIGHT, overflow="visible")
        how = {"transform": "rotate(-30)", "text_anchor": "end"} if self.named else {"text_anchor": "middle"}
        for place, _ in self.rows if self.across.log else ():
            x = f"{self.x(place):.2f}%"
            yield element("line", x1=x, x2=x, y1=HEIGHT, y2=HEIGHT + 4, stroke="var(--rule)")
        for value, label in self.across.ticks.items():
            tick = element("path", d="M0 0v6", stroke="var(--ink-muted)")
            base, power = (label[:1], label[1:]) if label[1:2] in "⁰¹²³⁴⁵⁶⁷⁸⁹" and label[1:] else (label, "")
            raised = element("tspan", power.translate(PLAIN), dy=-5, font_size=11) if power else ""
            text = element("text", base, raised, y=24 if power else 21, **how)
            only = None if value in self.across.narrow else "chart-plot__wide"
            place = {"x": f"{self.x(value):.2f}%", "y": HEIGHT, "overflow": "visible"}
            yield element("svg", tick, text, class_=only, **place)

    def line(self, line: Line, shaded: bool = True) -> Iterator[Markup]:
        """Yield the band, unless there is too much below it, the line and its markers."""
        values = [(self.x(x), self.value(row, line.key), *self.ends(row, line.key)) for x, row in self.rows]
        parts = [] if self.named else [line.path(_path((x, self.y(value)) for x, value, *_ in values))]
        if shaded and any(least < most for *_, least, most in values):
            lower, upper = [(x, self.y(v[1])) for x, *v in values], [(x, self.y(v[2])) for x, *v in values]
            band = _path([*lower, *reversed(upper)]) + "z"
            if self.named:  # there is nothing between two names
                ends = zip(lower, upper, strict=True)
                band = "".join(f"M{x - 0.6:.2f} {low:.1f}h1.2V{high:.1f}h-1.2z" for (x, low), (_, high) in ends)
            parts.insert(0, element("path", d=band, fill=line.color, fill_opacity=0.16))
        stretched = {"width": "100%", "height": HEIGHT, "viewBox": f"0 0 100 {HEIGHT}", "preserveAspectRatio": "none"}
        yield element("svg", *parts, **stretched)
        for x, value, *_ in values if line.key != self.share_of else ():
            yield line.mark(f"{x:.2f}%", self.y(value))

    def banded(self, line: Line) -> bool:
        """Return whether the band of a line is high enough to be seen."""
        ends = (self.ends(row, line.key) for _, row in self.rows)
        return any(self.y(least) - self.y(most) >= SEEN for least, most in ends)

    def shaded(self, lines: list[Line]) -> list[Line]:
        """Return the lines that have a band: ours and what it is compared with, and of the others, in the order of
        their colors, those whose bands lie over none before them. Bars above names stand each for itself."""
        chosen: list[Line] = []
        for line in sorted(lines, key=lambda line: line.number):
            over = (self.overlap(line, other) for other in chosen)
            if self.named or line.number <= 1 or not self.banded(line) or not any(over):
                chosen.append(line)
        return [line for line in lines if line in chosen]

    def overlap(self, line: Line, other: Line) -> bool:
        """Return whether the bands of two lines overlap at a reading, so that both can be seen."""
        pairs = ((self.ends(row, line.key), self.ends(row, other.key)) for _, row in self.rows)
        return self.banded(other) and any(a[0] < b[1] and b[0] < a[1] for a, b in pairs)

    def room(self, lines: list[Line], letters: int) -> float:
        """Return the pixels that the names at the ends of the lines take."""
        return LETTER * max(len(part) for line in lines for part in labels.wrapped(line.label, letters)) + 34

    def names(self, lines: list[Line], letters: int) -> Markup:
        """Draw the name of each line where it ends, with a leader where it must stand elsewhere."""
        _, last = self.rows[-1]
        texts = [labels.wrapped(line.label, letters) for line in lines]
        ends = [self.y(self.value(last, line.key)) for line in lines]
        places = labels.spread(ends, [LINE * len(text) + 3 for text in texts], -12, HEIGHT + 40)
        parts = []
        for line, text, end, place in zip(lines, texts, ends, places, strict=True):
            parts.append(element("path", d=f"M6 {end:.1f}L21 {place:.1f}", stroke=line.color, stroke_width=1.25))
            top = place - LINE * (len(text) - 1) / 2 + 4
            rows = [element("tspan", words, x=25, y=top + LINE * i) for i, words in enumerate(text)]
            parts.append(element("text", *rows, fill=line.color, font_weight=600))
        return element("svg", *parts, x=f"{self.x(self.rows[-1][0]):.2f}%", overflow="visible")

    def readings(self, lines: list[Line]) -> Iterator[Reading]:
        """Yield what a reader is shown who points at a size."""
        x = [self.x(place) for place, _ in self.rows]
        edges = [max(-3, 1.5 * x[0] - 0.5 * x[1]) if x[1:] else 0, *((a + b) / 2 for a, b in pairwise(x)), 103]
        for i, (size, (_, row)) in enumerate(zip(self.sizes, self.rows, strict=True)):
            values = [self.value(row, line.key) for line in lines]
            places = labels.spread([self.y(value) for value in values], [19] * len(lines), -10, HEIGHT + 10)
            shown = [(line, self.say(value), y) for line, value, y in zip(lines, values, places, strict=True)]
            yield Reading(size, x[i], edges[i], edges[i + 1] - edges[i], shown)


PLAIN = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


def _ends(value) -> tuple[float, float]:
    return value.least, value.most


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.2f} {y:.1f}" for x, y in points)
