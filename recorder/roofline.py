# SPDX-License-Identifier: Apache-2.0
"""The view that draws a roofline: what kernels reach, under what the same GPU was measured to reach at most.

To the right: floating-point operations for each byte that a kernel must move. Upward: operations a second. Both axes
are logarithmic, so the memory's bandwidth is a slope, and an arithmetic unit's speed is a flat ceiling.

``ceilings`` is a benchmark with a row for each ceiling and the line ``rate``: ``copy`` in GB/s, the others, such as
``fp32`` and ``bf16``, in TFLOP/s. ``kernels`` is one with a row for each kernel and its unit, which is the name of a
flat ceiling, and the lines ``gflop``, ``gbyte`` and ``ms``.
"""

import random
from dataclasses import dataclass
from functools import cache
from html import escape
from math import ceil, floor, hypot, inf, log10

from recorder import claims
from recorder.project import RecorderError, nearest

HEIGHT = 400  # pixels; the width is that of the page
WIDE, NARROW = 640, 280  # widths for which labels are placed: names where there is room, numbers on a phone
GLYPH, LINE = 6.6, 15  # how wide a letter is on average, and how high a line, at 12 pixels


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
        far = " That far below, something else limits it, or it moves bytes that it need not."
        verdict = "" if self.share >= 0.5 else far
        return (
            f"{self.name}: {amount(self.gflop)}FLOP on {amount(self.gbyte)}B in {short(1000 * self.ms)} µs. That is "
            f"{short(self.intensity)} FLOP per byte and {short(self.rate)} TFLOP/s: {self.percent} of the ceiling "
            f"above it, {above}.{verdict}"
        )


def short(value: float) -> str:
    """Three digits that count, without an exponent."""
    digits = max(0, 2 - floor(log10(value))) if value else 0
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def amount(giga: float) -> str:
    """A number of billions, with the prefix of a unit."""
    prefix, size = next((p for p in (("T", 1e3), ("G", 1), ("M", 1e-3), ("k", 1e-6)) if giga >= p[1]), ("", 1e-9))
    return f"{short(giga / size)} {prefix}"


def roofline(snippet, recorded, *, ceilings="ceilings", kernels="roofline", id="roofline") -> str:
    """`<roofline-explorer>`: the picture, and a list to choose a kernel from."""
    tables = {table["name"]: table for table in recorded["benchmarks"]}
    for name, lines in ((ceilings, ["rate"]), (kernels, ["gflop", "gbyte", "ms"])):
        if name not in tables:
            raise RecorderError(f"there is no benchmark {name!r}{nearest(name, tables)}")
        if missing := [line for line in lines if line not in tables[name]["lines"]]:
            raise RecorderError(f"{name!r} is no part of a roofline: it has no line {missing[0]!r}")
    rates = {name: row.rate for name, row in claims.medians(tables[ceilings]).items()}
    if "copy" not in rates:
        raise RecorderError(f"{ceilings!r} has no row 'copy', which is the memory's ceiling")
    work = read(tables[kernels], rates)
    plot = Plot.around(work, rates)
    radios = "".join(
        f'<label><input type="radio" name="kernel" value="{k.number}" data-about="{escape(k.sentence)}" '
        f'data-gflop="{k.gflop:g}" data-gbyte="{k.gbyte:g}" data-rate="{k.rate:g}" data-unit="{escape(k.unit)}" '
        f'data-peak="{k.peak:g}"{" checked" if k.number == 1 else ""}>'
        f"<span><strong>{k.number}</strong> {escape(k.name)}</span></label>"
        for k in work
    )
    return (
        f'<roofline-explorer id="{escape(id)}" data-slope="{work[0].slope:g}" data-x="{plot.left:g} {plot.right:g}" '
        f'data-y="{plot.low:g} {plot.high:g}"><form class="explorer" autocomplete="off">'
        f'<div class="roofline__plot">{draw(plot, work, rates)}</div>'
        '<p class="roofline__legend"><span><i></i>memory is its ceiling</span> '
        '<span><i class="roofline__flat"></i>arithmetic is its ceiling</span></p>'
        f'<fieldset class="explorer__switch explorer__switch--many" hidden><legend>Kernel</legend>{radios}</fieldset>'
        '<output class="explorer__summary" hidden></output>'
        '<label class="roofline__times" hidden>What if it did more arithmetic with each byte?'
        '<input type="range" name="doublings" value="0"></label>'
        '<output class="explorer__detail" hidden></output></form>'
        f"{_numbers(work)}</roofline-explorer>"
    )


def read(table: dict, rates: dict[str, float]) -> list[Kernel]:
    flats = [name for name in rates if name != "copy"]
    work = []
    for number, row in enumerate(claims.medians(table).values(), 1):
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


def draw(plot: Plot, work: list[Kernel], rates: dict[str, float]) -> str:
    parts = []
    for power in range(ceil(plot.left), floor(plot.right) + 1):
        x = f"{plot.x(10.0**power):.2%}"
        parts.append(f'<line x1="{x}" x2="{x}" y2="{HEIGHT}" stroke="var(--rule)"/>')
        if plot.x(10.0**power) < 0.95:
            parts.append(f'<text x="{x}" y="{HEIGHT + 15}" text-anchor="middle">{short(10.0**power)}</text>')
    for power in range(ceil(plot.low), floor(plot.high) + 1):
        y = plot.y(10.0**power)
        parts.append(f'<line x2="100%" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--rule)"/>')
        parts.append(f'<text x="-5" y="{y + 4:.1f}" text-anchor="end">{short(10.0**power)}</text>')
    parts.append(f'<text x="50%" y="{HEIGHT + 31}" text-anchor="middle">FLOP per byte</text>')
    parts.append('<text x="-5" y="-8">TFLOP/s</text>')
    parts.append(_areas(plot, work[0].slope, max(rate for name, rate in rates.items() if name != "copy")))
    ceilings = _ceilings(plot, work[0].slope, rates)
    parts += [_line(plot, *line) for line in ceilings]
    said = _said(plot, rates, ceilings)
    parts += [_text(*text) for text in said]
    names = place(plot, work, WIDE, [f"{k.number} {k.name}" for k in work], ceilings, said)
    numbers = place(plot, work, NARROW, [str(k.number) for k in work], ceilings, said)
    for kernel, name, number in zip(work, names, numbers, strict=True):
        fill = "var(--memory-hbm)" if kernel.under_slope else "var(--ink)"
        mark = f'<circle r="4.5" fill="{fill}"/>' if kernel.under_slope else f'<path d="M-4-4h8v8h-8z" fill="{fill}"/>'
        parts.append(
            f'<svg data-kernel="{kernel.number}" x="{plot.x(kernel.intensity):.2%}" y="{plot.y(kernel.rate):.1f}" '
            f'overflow="visible">{mark}'
            f'<g class="roofline__name">{_label(f"{kernel.number} {kernel.name}", name)}</g>'
            f'<g class="roofline__number">{_label(str(kernel.number), number)}</g></svg>'
        )
    limits = "; ".join(
        [f"memory {short(rates['copy'])} GB/s", *(f"{n} {short(r)} TFLOP/s" for n, r in rates.items() if n != "copy")]
    )
    reached = "; ".join(f"{k.name}, {k.percent} of its ceiling" for k in work)
    label = f"A roofline. Ceilings: {limits}. Kernels: {reached}."
    return (
        f'<svg class="roofline" role="img" height="{HEIGHT}" fill="var(--ink-muted)" font-size="12" '
        f'aria-label="{escape(label)}">{"".join(parts)}'
        '<g class="roofline__marks" fill="none" stroke="var(--ink)" stroke-width="2" display="none"><circle r="9"/>'
        '<circle r="6" stroke-dasharray="3 2.5"/><line stroke-width="1.5" stroke-dasharray="3 3"/></g></svg>'
    )


def _areas(plot: Plot, slope: float, peak: float) -> str:
    """What is under the slope and what is under the highest ceiling, tinted."""
    start, ridge, top = max(10**plot.left, 10**plot.low / slope), 100 * plot.x(peak / slope), plot.y(peak)
    return (
        f'<svg width="100%" height="{HEIGHT}" viewBox="0 0 100 {HEIGHT}" preserveAspectRatio="none" fill-opacity=".07">'
        f'<path d="M{100 * plot.x(start):.2f} {plot.y(start * slope):.1f}L{ridge:.2f} {top:.1f}V{HEIGHT}H0z" '
        f'fill="var(--memory-hbm)"/><path d="M{ridge:.2f} {top:.1f}H100V{HEIGHT}H{ridge:.2f}z" fill="var(--ink)"/>'
        "</svg>"
    )


def _ceilings(plot: Plot, slope: float, rates: dict[str, float]) -> list[tuple]:
    """The memory's slope, then the flat ones: begin, end, color."""
    flats = [rate for name, rate in rates.items() if name != "copy"]
    start, ridge = max(10**plot.left, 10**plot.low / slope), max(flats) / slope
    return [
        ((start, start * slope), (ridge, ridge * slope), "memory-hbm"),
        *(((rate / slope, rate), (10**plot.right, rate), "ink") for rate in flats),
    ]


def _line(plot: Plot, begin: tuple, end: tuple, ink: str) -> str:
    (x1, y1), (x2, y2) = begin, end
    return (
        f'<line x1="{plot.x(x1):.2%}" x2="{plot.x(x2):.2%}" y1="{plot.y(y1):.1f}" y2="{plot.y(y2):.1f}" '
        f'stroke="var(--{ink})" stroke-width="2.5"/>'
    )


def _said(plot: Plot, rates: dict[str, float], ceilings: list[tuple]) -> list[tuple]:
    """What is written at the ceilings, where no kernel can be: x from 0 to 1, y, which end of the text is there."""
    slope = rates["copy"] / 1000
    above = plot.y(slope * 10 ** (plot.left + 70 / NARROW * (plot.right - plot.left))) - 8
    texts = [(0.01, above - LINE, "start", "memory", "memory-hbm")]
    texts.append((0.01, above, "start", f"{short(rates['copy'])} GB/s", "memory-hbm"))
    flats = [name for name in rates if name != "copy"]
    for name, ((x, y), _, ink) in zip(flats, ceilings[1:], strict=True):
        texts.append((plot.x(x) - 0.02, plot.y(y) + 4, "end", f"{name} {short(y)} TFLOP/s", ink))
    return texts


def _text(x: float, y: float, anchor: str, text: str, ink: str) -> str:
    return f'<text x="{x:.2%}" y="{y:.1f}" text-anchor="{anchor}" fill="var(--{ink})">{escape(text)}</text>'


def place(plot: Plot, work: list[Kernel], width: int, texts: list[str], ceilings=(), said=()) -> list[tuple]:
    """Where each label stands, seen from its point: ``(x, y)`` of its middle. No two overlap; few cover a ceiling."""
    points = [(plot.x(k.intensity) * width, plot.y(k.rate)) for k in work]
    boxes = [(x - 6, y - 6, x + 6, y + 6) for x, y in points]
    for x, y, anchor, text, _ in said:
        end = x * width + len(text) * GLYPH * (1 if anchor == "start" else -1)
        boxes.append((min(x * width, end), y - LINE, max(x * width, end), y + 3))
    avoid = []  # small boxes along the lines
    for (x1, y1), (x2, y2), _ in ceilings:
        for i in range(101):
            x = (plot.x(x1) + (plot.x(x2) - plot.x(x1)) * i / 100) * width
            y = plot.y(y1) + (plot.y(y2) - plot.y(y1)) * i / 100
            avoid.append((x - 2, y - 2, x + 2, y + 2))
    whole = range(len(work))
    crowd = lambda i: sum(hypot(points[i][0] - x, points[i][1] - y) < 60 for x, y in points)
    shuffled = random.Random(0)  # the same on every build
    orders = [sorted(whole, key=crowd, reverse=True), *(shuffled.sample(whole, len(work)) for _ in range(40))]
    best = inf, {}
    for order in orders:
        best = _place_in_order(order, points, width, texts, boxes, avoid, best[0]) or best
    if best[0] == inf:
        raise RecorderError(f"{len(work)} kernels are too many for one picture: there is no room for their names")
    return [best[1][i] for i in whole]


def _touches(box: tuple, others: list[tuple]) -> bool:
    left, top, right, bottom = box
    return any(a < right and left < c and b < bottom and top < d for a, b, c, d in others)


@cache
def _places(half: float) -> list[tuple]:
    """Where the middle of a label can be, seen from its point, and how far away that is; the nearest come first."""
    sides = half + 11, -half - 11, half + 24, -half - 24, half + 48, -half - 48, 0, half, -half
    return sorted((hypot(max(abs(dx) - half, 0), dy), dx, dy) for dx in sides for dy in range(-240, 241, 3))


def _place_in_order(order, points, width, texts, taken, avoid, limit) -> tuple[float, dict[int, tuple]] | None:
    """How far labels are from their points, squared, and where they stand; each takes the best place that is left.

    None if there is no room, or if they would be as far as ``limit`` or farther.
    """
    found, boxes, total = {}, list(taken), 0.0
    for i in order:
        (x, y), half = points[i], len(texts[i]) * GLYPH / 2
        best = None
        for cost, dx, dy in _places(half):
            if best and cost >= best[0]:
                break
            box = (x + dx - half, y + dy - LINE / 2, x + dx + half, y + dy + LINE / 2)
            inside = box[0] >= 0 and box[2] <= width and box[1] >= 0 and box[3] <= HEIGHT
            if inside and not _touches(box, boxes):
                cost += 20 * _touches(box, avoid)
                best = min(best or (cost, (dx, dy), box), (cost, (dx, dy), box))
        total += best[0] ** 2 if best else inf  # one far away is worse than two that are not quite near
        if total >= limit:
            return None
        found[i] = best[1]
        left, top, right, bottom = best[2]
        boxes.append((left - GLYPH, top, right + GLYPH, bottom))  # a space, or 5 and 13 would read as 513
    return total, found


def _label(text: str, at: tuple) -> str:
    dx, dy = at
    half = len(text) * GLYPH / 2
    # Anchored at the side that faces the point, so that the true width of the font does not matter there.
    anchor, x = ("start", dx - half) if dx > half else ("end", dx + half) if dx < -half else ("middle", dx)
    end = x if anchor != "middle" else 0
    leader = f'<path d="M0 0L{end:.0f} {dy}" stroke="var(--ink-muted)"/>' if hypot(end, dy) > 16 else ""
    return f'{leader}<text x="{x:.0f}" y="{dy + 4}" text-anchor="{anchor}" fill="var(--ink)">{escape(text)}</text>'


def _numbers(work: list[Kernel]) -> str:
    titles = ["number", "kernel", "unit", "GFLOP", "GB", "ms", "FLOP per byte", "TFLOP/s", "share of its ceiling"]
    head = "".join(f'<th scope="col">{title}</th>' for title in [*titles, "which is"])
    rows = "".join(
        f"<tr><td>{k.number}</td><td>{escape(k.name)}</td><td>{escape(k.unit)}</td>"
        + "".join(f"<td>{short(value)}</td>" for value in (k.gflop, k.gbyte, k.ms, k.intensity, k.rate))
        + f"<td>{k.percent}</td><td>{'memory' if k.under_slope else 'arithmetic'}</td></tr>"
        for k in work
    )
    return (
        '<details class="as-table"><summary>The numbers</summary>'
        '<div class="table-scroll" tabindex="0" role="region" aria-label="The kernels">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )
