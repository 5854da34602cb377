# SPDX-License-Identifier: Apache-2.0
"""A benchmark as lines over its sizes, drawn from the recorded numbers, with the table of those numbers.

The picture is as wide as its page: lengths along x are percentages, all others pixels, so that text and markers keep
their size on a phone. A line is the median; a band spans the least and the most of several readings.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from markupsafe import Markup

from figures.chart import axes
from figures.chart.axes import LETTER, Axis
from figures.registry import figure
from figures.svg import element, pid, unique
from figures.table import table
from figures.templates import render
from recorder.project import RecorderError
from recorder.recording import Benchmark, Recording, Row

HEIGHT = 300  # pixels, of the plot
DASHES = (None, "6 3", "1.5 2.5", "7 2.5 1.5 2.5")
MARKERS = (  # each about 7 pixels wide; as many as there are colors
    "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z",  # a disk
    "M-3-3h6v6h-6z",  # a square
    "M0-4l4 4-4 4-4-4z",  # a diamond
    "M0-4l4 7h-8z",  # a triangle
    "M0 4l4-7h-8z",  # a triangle on its tip
    "M-1.5-4h3v2.5h2.5v3h-2.5v2.5h-3v-2.5h-2.5v-3h2.5z",  # a plus sign
    "M-4-2l2-2 2 2 2-2 2 2-2 2 2 2-2 2-2-2-2 2-2-2 2-2z",  # a cross
    "M-4 0l2-3.5h4l2 3.5-2 3.5h-4z",  # a hexagon
)


@figure(of="rows")
def chart(recording: Recording, *, name=..., share_of=None):
    """``share_of``: as in a table."""
    data = recording.benchmark(name)
    if len(data.lines) > len(MARKERS):
        raise RecorderError(
            f"a chart has {len(MARKERS)} colors, and {name!r} has {len(data.lines)} lines; show a table"
        )
    lines = [Line(i, label, key, unique("marker")) for i, (key, label) in enumerate(data.lines.items())]
    plot = Plot.of(data)
    return render(
        "chart/template.html",
        label=f"{data.ylabel} by {data.xlabel}: {', '.join(data.lines.values())}",
        xlabel=data.xlabel,
        ylabel=data.ylabel,
        height=HEIGHT,
        left=LETTER * max(map(len, plot.up.ticks.values())) + 10,
        below=LETTER * max(map(len, plot.across.ticks.values())) // 2 if plot.named else 0,
        lines=lines,
        picture=[*plot.scales(), *(part for line in lines for part in plot.line(line))],
        table=table(recording, name=name, share_of=share_of),
    )


class Line(NamedTuple):
    """How a line of a benchmark is drawn."""

    number: int
    label: str
    key: str  # in the rows of the benchmark
    marker: str  # the id of its marker

    @property
    def color(self) -> str:
        return f"var(--{pid(self.number)})"

    @property
    def shape(self) -> Markup:
        """The marker, which the sample and the plot use by its id."""
        return element("path", id=self.marker, d=MARKERS[self.number])

    @property
    def sample(self) -> Markup:
        """A piece of the line for the list above the plot."""
        return self.path("M0 7h32") + self.mark(16, 7)

    def path(self, d: str) -> Markup:
        dashes = DASHES[self.number % len(DASHES)]
        how = {"stroke": self.color, "stroke_width": 1.75, "stroke_dasharray": dashes}
        return element("path", d=d, fill="none", vector_effect="non-scaling-stroke", **how)

    def mark(self, x: float | str, y: float) -> Markup:
        return element("use", href=f"#{self.marker}", x=x, y=y, fill=self.color)


class Plot(NamedTuple):
    """The readings of a benchmark between two axes."""

    rows: list[tuple[float, Row]]  # of each reading, its place on the axis and what was measured
    across: Axis
    up: Axis
    named: bool  # whether names, not numbers, stand below

    @classmethod
    def of(cls, data: Benchmark) -> "Plot":
        rows = list(data.medians().values())
        x = [getattr(row, data.x[0]) for row in rows]
        ends = [end for row in rows for key in data.lines for end in (row[key].least, row[key].most)]
        named = isinstance(x[0], str)
        across = axes.of_names(x) if named else axes.of_sizes(x, data.x_log)
        return cls(
            list(zip(range(len(x)) if named else x, rows, strict=True)), across, axes.of_values(ends, data.y_log), named
        )

    def x(self, value: float) -> float:
        """Return the place of a value in percent of the width."""
        return 100 * self.across.at(value)

    def y(self, value: float) -> float:
        """Return the place of a value in pixels."""
        return HEIGHT * (1 - self.up.at(value))

    def scales(self) -> Iterator[Markup]:
        """Yield a rule for each labeled value beside the plot, and the labels."""
        for value, label in self.up.ticks.items():
            y = self.y(value)
            yield element("line", x2="100%", y1=y, y2=y, stroke="var(--rule)")
            yield element("text", label, x=-6, y=y + 4, text_anchor="end")
        how = {"transform": "rotate(-30)", "text_anchor": "end"} if self.named else {"text_anchor": "middle"}
        for value, label in self.across.ticks.items():
            tick = element("path", d="M0 0v5", stroke="var(--ink-muted)")
            text = element("text", label, y=19, **how)
            yield element("svg", tick, text, x=f"{self.x(value):.2f}%", y=HEIGHT, overflow="visible")

    def line(self, line: Line) -> Iterator[Markup]:
        """Yield the band, the line and its markers."""
        values = [(self.x(x), row[line.key]) for x, row in self.rows]
        parts = [line.path(_path((x, self.y(value)) for x, value in values))]
        if any(value.least < value.most for _, value in values):
            least, most = ([(x, self.y(getattr(v, end))) for x, v in values] for end in ("least", "most"))
            parts.insert(
                0, element("path", d=_path([*least, *reversed(most)]) + "z", fill=line.color, fill_opacity=0.15)
            )
        stretched = {"width": "100%", "height": HEIGHT, "viewBox": f"0 0 100 {HEIGHT}", "preserveAspectRatio": "none"}
        yield element("svg", *parts, **stretched)
        for x, value in values:
            yield line.mark(f"{x:.2f}%", self.y(value))


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.2f} {y:.1f}" for x, y in points)
