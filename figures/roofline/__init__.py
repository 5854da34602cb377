# SPDX-License-Identifier: Apache-2.0
"""A roofline: what kernels reach, under what the same GPU was measured to reach at most.

To the right: floating-point operations for each byte that a kernel must move. Upward: operations a second. Both axes
are logarithmic, so the memory's bandwidth is a slope, and an arithmetic unit's speed is a flat ceiling.

The benchmark ``ceilings`` has a row for each ceiling and the line ``rate``: ``copy`` in GB/s, the others, such as
``fp32`` and ``bf16``, in TFLOP/s. ``kernels`` has a row for each kernel and its unit, which is the name of a flat
ceiling, and the lines ``gflop``, ``gbyte`` and ``ms``.

A reader drags a kernel, or types what one of their own computes and moves; ``script.js`` says what the roof allows.
``figures/data_sheets.toml`` has roofs of data sheets to compare with; they are drawn dashed, as all that was not run.
A kernel has its number in the picture (``labels``: where), and its name in the key beside it.
"""

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import NamedTuple

from markupsafe import Markup

from figures import svg
from figures.data_sheets import data_sheets
from figures.registry import figure
from figures.roofline import labels
from figures.svg import element
from figures.templates import render
from recorder.project import RecorderError, nearest
from recorder.recording import Benchmark, Recording

HEIGHT = 312  # pixels; the width is that of the page
WIDTHS = {"narrow": 280, "wide": 412}  # for which numbers are placed: a phone's, and a desktop's beside the key


@dataclass(frozen=True)
class Kernel:
    number: int
    name: str
    unit: str
    gflop: float
    gbyte: float
    ms: float
    slope: float  # the memory's ceiling: TFLOP/s for one FLOP per byte
    peak: float  # the unit's ceiling, in TFLOP/s

    @property
    def intensity(self) -> float:
        return self.gflop / self.gbyte

    @property
    def rate(self) -> float:
        return self.gflop / self.ms

    @property
    def under_slope(self) -> bool:
        return self.slope * self.intensity < self.peak

    @property
    def share(self) -> float:
        return self.rate / min(self.slope * self.intensity, self.peak)

    @property
    def percent(self) -> str:
        return f"{100 * self.share:.{0 if self.share >= 0.01 else 1}f}%"

    @property
    def sentence(self) -> str:
        above = "memory" if self.under_slope else f"{self.unit} arithmetic"
        far = " So far below it, something else limits the kernel, or it moves bytes that it doesn't have to."
        verdict = "" if self.share >= 0.5 else far
        return (
            f"{self.name}: {amount(self.gflop)}FLOP on {amount(self.gbyte)}B in {short(1000 * self.ms)} µs. That is "
            f"{short(self.intensity)} FLOP per byte and {short(self.rate)} TFLOP/s: {self.percent} of the ceiling "
            f"above it, {above}.{verdict}"
        )

    @property
    def data(self) -> dict[str, str]:
        """Return the attributes that the explorer's script reads."""
        numbers = {"flop": 1e9 * self.gflop, "bytes": 1e9 * self.gbyte, "us": 1e3 * self.ms}
        values = {name: f"{value:.9g}" for name, value in numbers.items()}
        values = {"about": self.sentence, "unit": self.unit, **values}
        return {f"data-{name}": value for name, value in values.items()}


class Ceiling(NamedTuple):
    """A line in the picture."""

    name: str
    rate: str  # with its unit
    begin: tuple[float, float]  # FLOP per byte, TFLOP/s
    end: tuple[float, float]
    ink: str

    @property
    def label(self) -> str:
        return f"{self.name} {self.rate}"


def short(value: float) -> str:
    """Three digits that count, without an exponent."""
    digits = max(0, 2 - floor(log10(value))) if value else 0
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def amount(giga: float) -> str:
    """Format a number of billions with the prefix of a unit."""
    prefix, size = next((p for p in (("T", 1e3), ("G", 1), ("M", 1e-3), ("k", 1e-6)) if giga >= p[1]), ("", 1e-9))
    return f"{short(giga / size)} {prefix}"


@figure(of="rows")
def roofline(
    recording: Recording, *, ceilings="ceilings", kernels="roofline", id="roofline", remarks: dict | None = None
):
    """`<roofline-explorer>`: the picture, and what to change of a kernel and of its roof.

    ``remarks``: by a kernel's name, what stands beside its dot: what it waits for, where that is neither ceiling.
    """
    remarks = remarks or {}
    rates = {name: row.rate for name, row in recording.benchmark(ceilings, "rate").medians().items()}
    if "copy" not in rates:
        raise RecorderError(f"{ceilings!r} has no row 'copy', which is the memory's ceiling")
    work = read(recording.benchmark(kernels, "gflop", "gbyte", "ms"), rates)
    if unknown := remarks.keys() - {k.name for k in work}:
        raise RecorderError(
            f"a remark is on {min(unknown)!r}, which is no kernel{nearest(min(unknown), [k.name for k in work])}"
        )
    plot = Plot.around(work, rates)
    lines = _ceilings(plot, rates)
    limits = "; ".join(line.label for line in lines)
    reached = "; ".join(f"{k.name}, {k.percent} of its ceiling" for k in work)
    here = recording.provenance.device.removeprefix("NVIDIA ")
    roofs = _roofs(here, rates)
    return render(
        "roofline/template.html",
        id=id,
        x=f"{plot.left:g} {plot.right:g}",
        y=f"{plot.low:g} {plot.high:g}",
        height=HEIGHT,
        picture=draw(plot, work, lines, remarks),
        dots={k.number: (f"{plot.x(k.intensity):.2%}", f"{plot.y(k.rate):.1f}px") for k in work},
        description=f"A roofline. Ceilings: {limits}. Kernels: {reached}.",
        above=any(k.share > 1.005 and k.under_slope for k in work),
        key=[(k.number, k.name, k.under_slope, k.percent) for k in work],
        kernels={f"{k.number} {k.name}": {"value": k.number} | k.data for k in work},
        own={f"your own, {unit}": {"value": f"own-{unit}"} | _own(unit) for unit in rates if unit != "copy"},
        roofs=roofs,
        sheets=[
            [Markup('<a href="{}">{}</a>').format(row["source"], name), *(short(row[unit]) for unit in rates)]
            for name, row in _sheets(rates).items()
        ],
        units=[("memory, GB/s" if unit == "copy" else f"{unit}, TFLOP/s") for unit in rates],
        rows=[
            [k.number, k.name, k.unit, *map(short, (k.gflop, k.gbyte, k.ms, k.intensity, k.rate)), k.percent,
             "memory" if k.under_slope else "arithmetic"]
            for k in work
        ],
    )  # fmt: skip


def _own(unit: str) -> dict[str, str]:
    """Return the numbers that a reader's own kernel begins with: ten operations for each byte."""
    about = "Your own kernel: type what a call computes, moves and takes, or drag the dot."
    return {"data-about": about, "data-unit": unit, "data-flop": "1e9", "data-bytes": "1e8"}


def _roofs(here: str, rates: dict[str, float]) -> dict[str, dict[str, str]]:
    """Return the GPUs to choose from, with what the explorer's script reads of each: the recording's, measured, and
    those of which there is a data sheet; and the reader's, of which it is given the numbers to begin with."""
    data = lambda rates, of: {"data-of": of, **{f"data-{unit}": f"{rate:.9g}" for unit, rate in rates.items()}}
    sheets = {
        f"{name}, data sheet, not run": {"value": name}
        | data({unit: row[unit] for unit in rates}, f"by the {name}'s data sheet, not run,")
        for name, row in _sheets(rates).items()
    }
    measured = {f"{here}, measured": {"value": "measured"} | data(rates, f"of the {here}")}
    return measured | sheets | {"your own": {"value": "own"} | data(rates, "of your GPU")}


def _sheets(rates: dict[str, float]) -> dict[str, dict]:
    """Return the data sheets that name all of these ceilings."""
    return {name: row for name, row in data_sheets().items() if rates.keys() <= row.keys()}


def read(table: Benchmark, rates: dict[str, float]) -> list[Kernel]:
    """Return the kernels of a benchmark under these ceilings. Raise ``RecorderError`` if a row cannot be placed."""
    flats = [name for name in rates if name != "copy"]
    work = []
    for number, row in enumerate(table.medians().values(), 1):
        if row.unit not in flats:
            hint = nearest(row.unit, flats)
            raise RecorderError(f"{row.kernel!r} has the unit {row.unit!r}, which is no ceiling{hint}")
        if min(row.gflop, row.gbyte, row.ms) <= 0:
            raise RecorderError(f"{row.kernel!r} has no place under a roofline: gflop, gbyte and ms must be positive")
        slope, peak = rates["copy"] / 1000, rates[row.unit]
        work.append(Kernel(number, row.kernel, row.unit, row.gflop, row.gbyte, row.ms, slope, peak))
    return work


@dataclass(frozen=True)
class Plot:
    """Both axes, as powers of ten."""

    left: float
    right: float
    low: float
    high: float

    @classmethod
    def around(cls, work: list[Kernel], rates: dict[str, float]) -> "Plot":
        peak = max(rate for name, rate in rates.items() if name != "copy")
        ridge = peak / work[0].slope
        intensities, reached = [k.intensity for k in work], [k.rate for k in work]
        return cls(
            log10(min(intensities) / 2), log10(max(ridge * 4, *(4 * i for i in intensities))),
            log10(min(reached) / 2.5), log10(2.5 * max(peak, *reached)),
        )  # fmt: skip

    def x(self, intensity: float) -> float:
        """From 0 to 1."""
        return (log10(intensity) - self.left) / (self.right - self.left)

    def y(self, rate: float) -> float:
        """In pixels."""
        return HEIGHT * (1 - (log10(rate) - self.low) / (self.high - self.low))

    def at(self, point: tuple[float, float], width: float) -> tuple[float, float]:
        """Return the position of FLOP per byte and TFLOP/s, in pixels of a picture of this width."""
        return self.x(point[0]) * width, self.y(point[1])


def draw(plot: Plot, work: list[Kernel], ceilings: list[Ceiling], remarks: dict[str, str]) -> Markup:
    """Draw the scales, the ceilings, and the kernels with their numbers."""
    parts = []
    for power in range(ceil(plot.left), floor(plot.right) + 1):
        x = f"{plot.x(10.0**power):.2%}"
        parts.append(element("line", x1=x, x2=x, y2=HEIGHT, stroke="var(--rule)"))
        if plot.x(10.0**power) < 0.95:
            parts.append(element("text", short(10.0**power), x=x, y=HEIGHT + 15, text_anchor="middle"))
    for power in range(ceil(plot.low), floor(plot.high) + 1):
        y = plot.y(10.0**power)
        parts.append(element("line", x2="100%", y1=y, y2=y, stroke="var(--rule)"))
        parts.append(element("text", short(10.0**power), x=-5, y=y + 4, text_anchor="end"))
    parts.append(
        element("text", "FLOP per byte: more work on each byte →", x="50%", y=HEIGHT + 31, text_anchor="middle")
    )
    parts.append(element("text", "TFLOP/s: faster ↑", x=-42, y=-8))
    parts += (_line(plot, ceiling) for ceiling in ceilings)
    notes = _notes(plot, ceilings)
    parts += (svg.text(f"{x:.2%}", y, words, ink=ink, text_anchor=anchor) for x, y, anchor, words, ink in notes)
    texts, dots = [str(k.number) for k in work], []
    numbers = {name: _placed(plot, work, texts, ceilings, notes, width) for name, width in WIDTHS.items()}
    for i, k in enumerate(work):
        square = element("path", d="M-4-4h8v8h-8z", fill="var(--ink)")
        shape = element("circle", r=4.5, fill="var(--memory-hbm)") if k.under_slope else square
        place = {"x": f"{plot.x(k.intensity):.2%}", "y": plot.y(k.rate), "overflow": "visible"}
        drawn = {name: _number(k, placed[i], remarks.get(k.name)) for name, placed in numbers.items()}
        lines = [element("g", line, class_=f"roofline__{name}") for name, (line, _) in drawn.items()]
        said = [element("g", said, class_=f"roofline__{name}") for name, (_, said) in drawn.items()]
        parts.append(element("svg", *lines, x=place["x"], y=place["y"], overflow="visible"))
        dots.append(element("svg", shape, *said, data_kernel=k.number, **place))
    return Markup("").join(parts + dots)


def _number(kernel: Kernel, at: labels.Place, remark: str | None) -> tuple[Markup, Markup]:
    """Draw the line to the number of a kernel; and the number as the key has it, with what is remarked on the kernel to
    the right of its dot and its number."""
    text = str(kernel.number)
    color, corner = ("var(--memory-hbm)", 7) if kernel.under_slope else ("var(--ink)", 2)
    leader, number = labels.tag(text, at, color, corner)
    beyond = max(11, at[0] + labels.width_of(text) / 2 + labels.PAD + 5)
    return leader, number + (svg.text(round(beyond), 4, remark) if remark else "")


def _ceilings(plot: Plot, rates: dict[str, float]) -> list[Ceiling]:
    """Draw the slope of the memory, then the flat ceilings."""
    slope, flats = rates["copy"] / 1000, {name: rate for name, rate in rates.items() if name != "copy"}
    start, ridge = max(10**plot.left, 10**plot.low / slope), max(flats.values()) / slope
    return [
        Ceiling("memory", f"{short(rates['copy'])} GB/s", (start, start * slope), (ridge, ridge * slope), "memory-hbm"),
        *(
            Ceiling(name, f"{short(rate)} TFLOP/s", (rate / slope, rate), (10**plot.right, rate), "ink")
            for name, rate in flats.items()
        ),
    ]


def _line(plot: Plot, ceiling: Ceiling) -> Markup:
    (x1, y1), (x2, y2) = ceiling.begin, ceiling.end
    ends = {"x1": f"{plot.x(x1):.2%}", "x2": f"{plot.x(x2):.2%}", "y1": plot.y(y1), "y2": plot.y(y2)}
    return element("line", **ends, stroke=f"var(--{ceiling.ink})", stroke_width=2.5)


def _notes(plot: Plot, ceilings: list[Ceiling]) -> list[tuple]:
    """Return the texts at the ceilings, where no kernel can be: x from 0 to 1, y, which end of the text is there."""
    memory, *flats = ceilings
    slope = memory.end[1] / memory.end[0]
    above = plot.y(slope * 10 ** (plot.left + 70 / WIDTHS["narrow"] * (plot.right - plot.left))) - 8
    return [
        (0.01, above - labels.LINE, "start", memory.name, memory.ink),
        (0.01, above, "start", memory.rate, memory.ink),
        *((plot.x(each.begin[0]) - 0.02, plot.y(each.begin[1]) + 4, "end", each.label, each.ink) for each in flats),
    ]


def _placed(plot: Plot, work: list[Kernel], texts: list[str], ceilings: list[Ceiling], notes: list[tuple], width: int):
    """Return the place of each label, relative to its point. Raise ``RecorderError`` if there is no room for all."""
    taken, avoid = [], []
    for x, y, anchor, words, _ in notes:
        wide = labels.width_of(words)
        begin = x * width - wide * {"start": 0, "middle": 0.5, "end": 1}[anchor]
        space = labels.GLYPH  # on each side, or a number reads on from the words
        taken.append((begin - space, y - labels.LINE, begin + wide + space, y + 3))
    for ceiling in ceilings:
        avoid += labels.along(plot.at(ceiling.begin, width), plot.at(ceiling.end, width))
    points = [plot.at((k.intensity, k.rate), width) for k in work]
    (x, y), arm = points[0], 21  # the first is chosen, and has a handle around it
    taken.append((x - arm, y - arm, x + arm, y + arm))
    places = labels.place(points, texts, (width, HEIGHT), taken, avoid, labels.PAD)
    if not places:
        raise RecorderError(f"{len(work)} kernels are too many for one picture: there is no room for their numbers")
    return places
