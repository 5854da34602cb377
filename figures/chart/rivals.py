# SPDX-License-Identifier: Apache-2.0
"""Several kernels case by case: in each row a dot for each, at its share of the speed of what all are compared with.

The numbers stand in columns beside the dots, ours first, so that none covers a dot or the line at 100%. Of more kernels
than there is room for, these are ours and whichever other is the fastest in that row. A line joins a row's leftmost and
rightmost dots: its length is what is between the fastest and the slowest. Of dots in one place, the last drawn is ours,
which is smaller, so that the others show around it. Rows whose names begin alike stand under one heading. On a phone a
row's name and numbers stand above its dots. Positions are in percent of the width, all else in pixels, as in a chart.
"""

import re
from collections.abc import Callable
from itertools import groupby
from math import ceil, floor, log10
from typing import NamedTuple

from markupsafe import Markup

from figures.chart.axes import LETTER, Axis, better, break_of, round_values
from figures.chart.compared import TIES, WINS, finding, measured, often, said, verdict
from figures.chart.series import MARKERS, numbers
from figures.registry import figure
from figures.svg import element, unique
from figures.table import table
from figures.templates import render
from recorder.project import RecorderError, nearest
from recorder.recording import Median, Recording, Row

ROW = 26  # pixels
NAMES = 200  # pixels: the widest that names of rows may be; longer ones have two lines
FAR = 4  # times as fast: beyond that the axis may be logarithmic
POWERS = 8  # and is, if the largest share is so many times the least
MEMORY = ("GB", "MB", "bytes")  # units of which less is better, and a share is not of a speed
MANY = 7  # labels of an axis: more are too many for a phone
JUST = 1.002  # no more than that is 100%
SEEN = 0.02  # of the width: a range that is wider is seen beside its dot, and needs a key
COLUMNS = 5  # of numbers, at most: a phone has no room for more
DIGIT, GUTTER = 7.5, 18  # pixels: the width of a digit in a column, and what is between columns
OTHER = 88  # pixels: of the words above a column of several kernels
BEYOND = 0.04  # of the axis, behind the last dot: it rarely ends at a round value
ONE = Median([1.0])
SHARE = re.compile(r"(?:(.*), )?share of (.*)")


@figure(of="rows")
def rivals(
    recording: Recording,
    *,
    name=...,
    lines=...,
    share_of=None,
    against=None,
    whole=None,
    titles=None,
    rows=None,
    title="",
):
    """``lines``: those that are drawn, ours first; ``share_of``: the line that is 100%, if they are no shares yet.

    ``against``: the line with which the title compares ours, by default the one that is 100%; ``whole``: what to call
    that one, ``titles`` the others; ``rows``: x values to show; ``title``: a sentence, in which braces stand for what
    is counted (``figures.chart.compared``). ``{over_flash}`` says how often ours is faster than the line ``flash``,
    ``{any}`` how often any line is faster than 100%, ``{ahead}`` and ``{behind}`` how often the median of ours is,
    ``{low}`` and ``{high}`` ours' least and largest share.
    """
    named = [*lines, *(titles or []), *filter(None, (share_of, against))]
    data = recording.benchmark(name, *named)
    medians = data.medians()
    if unknown := [x for x in rows or [] if x not in medians]:
        raise RecorderError(f"there is no row {unknown[0]!r}{nearest(unknown[0], medians)}")
    timed = better(data.ylabel).startswith("lower")
    what, less = ("memory", True) if data.ylabel in MEMORY else ("speed", timed)
    found = {key: _called(data.lines[key], data.ylabel) for key in lines}
    labels = {key: (titles or {}).get(key, label) for key, (label, _) in found.items()}
    base = whole or (data.lines[share_of] if share_of else next(iter(found.values()))[1])
    if not base:
        raise RecorderError(f"{lines[0]!r} is no share, so `share_of` must say of which line to draw shares")
    base = "a copy" if base == "copy" else base
    chosen = _colors(lines)
    drawn = [Rival(chosen[key], labels[key], key, unique("rival")) for key in lines]
    cases = [Case.of(str(x), medians[x], lines, share_of, timed) for x in rows or medians]
    axis = _axis([end for case in cases for share in case.shares.values() for end in (share.least, share.most)])
    say = _sayer(axis)
    ours = lines[0]

    def outcomes(one: str, other: str | None) -> list[str | None]:
        """Compare two lines, or one with what is 100%; recorded shares are better if they are more."""
        pairs = [(case.row[one], case.row[other] if other else ONE) for case in cases]
        lower = less and bool(share_of)
        return [verdict(*pair, less=lower) if all(map(measured, pair)) else None for pair in pairs]

    of_ours = [case.shares[ours] for case in cases if ours in case.shares]
    counted = {"low": say(min(of_ours)), "high": say(max(of_ours))}
    counted |= {f"over_{key}": often(filter(None, outcomes(ours, key)), WINS) for key in lines[1:]}
    other = against or share_of
    pairs = [(case.row[ours], case.row[other] if other else 1.0) for case in cases]
    leads = [(one < two) == (less and bool(share_of)) for one, two in pairs if measured(one) and measured(two)]
    wins = zip(*(outcomes(key, share_of) for key in lines), strict=True)
    counted["any"] = often((WINS if WINS in case else TIES for case in wins), WINS)
    counted |= {"ahead": often(leads, True), "behind": often(leads, False)}
    found = [outcome for outcome in outcomes(ours, against or share_of) if outcome]
    title = said(found, title, **counted) if title else finding(found, labels[ours], labels.get(against, base))
    columns = drawn if len(drawn) <= COLUMNS else [drawn[0], None]
    seen = any(axis.at(share.most) - axis.at(share.least) >= SEEN for case in cases for share in case.shares.values())
    width = min(NAMES, LETTER * max(len(row.short) for row in _grouped(cases)) + 6)
    groups = [(group, list(members)) for group, members in groupby(_grouped(cases), key=lambda row: row.group)]
    return render(
        "chart/rivals.html",
        title=title,
        unit=f"{what}, compared with {base}",
        rows=data.xlabel.replace(" × ", "\u00a0×\u00a0"),
        log=axis.log,
        ranged=seen,
        broken=axis.broken,
        base=base,
        one=f"{100 * axis.at(1):.2f}%",
        side="end" if axis.at(1) > 0.8 else "start" if axis.at(1) < 0.2 else "middle",
        names=width,
        row=ROW,
        rivals=drawn,
        columns=columns,
        number=max(
            *(DIGIT * len(text) + GUTTER for case in cases for _, text in case.numbers(columns, drawn, say)),
            0 if all(columns) else OTHER,
        ),
        groups=[(group, [each.drawn(drawn, columns, axis, say) for each in members]) for group, members in groups],
        grid_id=unique("grid"),
        grid=_grid(axis),
        scale=_scale(axis),
        table=table(recording, name=name, rows=rows),
    )


class Rival(NamedTuple):
    """How one of the kernels is drawn."""

    number: int  # of its color and marker
    label: str
    key: str
    marker: str  # the id of its shape

    @property
    def color(self) -> str:
        return f"var(--series-{self.number})"

    @property
    def shape(self) -> Markup:
        return element("path", id=self.marker, d=MARKERS[self.number])


class Case(NamedTuple):
    """One row: what was measured, and each kernel's share."""

    name: str
    row: Row
    shares: dict[str, Median]

    @classmethod
    def of(cls, name: str, row: Row, lines: list[str], share_of: str | None, timed: bool) -> "Case":
        shares = {key: _share(row[key], row[share_of] if share_of else 1.0, timed and bool(share_of)) for key in lines}
        return cls(name, row, {key: share for key, share in shares.items() if measured(share)})

    def said(self, drawn: list[Rival], say: Callable[[float], str]) -> str:
        """Return the row in words, the fastest first."""
        found = [rival for rival in drawn if rival.key in self.shares]
        found.sort(key=lambda rival: -self.shares[rival.key])
        return ", ".join(f"{rival.label} {say(self.shares[rival.key])}" for rival in found)

    def numbers(
        self, columns: list["Rival | None"], drawn: list["Rival"], say: Callable[[float], str]
    ) -> list[tuple["Rival | None", str]]:
        """Return what stands in each column, and whose it is; a column of none is that of the fastest but the first."""
        others = [rival for rival in drawn[1:] if rival.key in self.shares]
        fastest = max(others, key=lambda rival: self.shares[rival.key], default=None)
        chosen = [rival or fastest for rival in columns]
        return [
            (rival, say(self.shares[rival.key])) if rival and rival.key in self.shares else (None, "–")
            for rival in chosen
        ]

    def draw(self, drawn: list["Rival"], axis: Axis) -> Markup:
        """Return the row's parts: a line from end to end, ranges, and dots, ours over the others."""
        at = lambda share: f"{100 * axis.at(share):.2f}%"
        found = sorted((rival for rival in drawn if rival.key in self.shares), key=lambda r: self.shares[r.key])
        if not found:
            return Markup()
        ends = [self.shares[found[0].key], self.shares[found[-1].key]]
        if len(drawn) == 1:  # alone, it is compared with the line at 100%
            ends = sorted([*ends[:1], 1.0])
        parts = [element("line", x1=at(ends[0]), x2=at(ends[1]), class_="chart-rivals__span")]
        for rival in found:
            share = self.shares[rival.key]
            if share.least < share.most:
                line = {"stroke": rival.color, "stroke_width": 6, "stroke_opacity": 0.3}
                parts.append(element("line", x1=at(share.least), x2=at(share.most), **line))
        for rival in sorted(found, key=lambda rival: rival.key == drawn[0].key):
            large = f"scale({1.5 if rival is not drawn[0] else 1.3})"
            dot = element("use", href=f"#{rival.marker}", fill=rival.color, transform=large, **HALO)
            parts.append(element("svg", dot, x=at(self.shares[rival.key]), overflow="visible"))
        return Markup("").join(parts)


class Member(NamedTuple):
    """A row under its heading."""

    group: str
    short: str  # its name there
    case: Case

    def drawn(self, rivals: list[Rival], columns: list[Rival | None], axis: Axis, say: Callable[[float], str]) -> tuple:
        """Return its name, what it says in words, its picture, and its numbers."""
        numbers = self.case.numbers(columns, rivals, say)
        return self.short, self.case.said(rivals, say), self.case.draw(rivals, axis), numbers


HALO = {"stroke": "var(--paper)", "stroke_width": 1.5, "paint_order": "stroke"}


def _share(value: Median, whole: float, inverse: bool) -> Median:
    whole = float(whole)
    ends = [whole / end if inverse else end / whole for end in (float(value), value.least, value.most)]
    return Median([ends[0], min(ends[1:]), max(ends[1:])])


def _called(label: str, unit: str) -> tuple[str, str]:
    """Return what a line is called, and of what it is a share.

    >>> _called("torch, share of copy", "GB/s"), _called("share of copy", "GB/s"), _called("two", "share of cuDNN")
    (('torch', 'copy'), ('ours', 'copy'), ('two', 'cuDNN'))
    """
    if match := SHARE.fullmatch(label):
        return match[1] or "ours", match[2]
    match = SHARE.fullmatch(unit)
    return label, match[2] if match else ""


def _colors(lines: list[str]) -> dict[str, int]:
    """Return the colors of lines; of a share that of its line: ``torch_share`` has that of ``torch``.

    >>> _colors(["share", "torch_share"])
    {'share': 1, 'torch_share': 0}
    """
    bare = {"ours" if key == "share" else key.removesuffix("_share"): key for key in lines}
    return {bare[key]: number for key, number in numbers(bare).items()}


def _times(axis: Axis) -> bool:
    """Return whether shares are said as so many times as fast."""
    return axis.high > 2


def _sayer(axis: Axis) -> Callable[[float], str]:
    """Return what says a share: in percent, or as so many times, all of a chart alike.

    >>> say = _sayer(Axis(0, 9, {}))
    >>> _sayer(Axis(0, 1, {}))(0.964), say(7.04), say(1.59), say(0.046), _sayer(Axis(0, 2.5, {}))(1.59)
    ('96%', '7.0×', '1.6×', '0.046×', '1.59×')
    """
    if not _times(axis):
        return lambda share: f"{share:.0%}"
    decimals = 2 if axis.high <= 3 else 1

    def say(share: float) -> str:
        if share < 1:
            return f"{share:.2f}×" if share >= 0.1 else f"{share:.2g}×"
        return f"{share:.{decimals if share < 30 else 0}f}×"

    return say


def _axis(ends: list[float]) -> Axis:
    """Return the axis, which has 100% in it: from 0, or from near the least if all are close together."""
    low, high = min([*ends, 1.0]), max([*ends, 1.0])
    high = 1.0 if high < JUST else high
    if high > FAR and high / low > POWERS:
        powers = range(floor(log10(low)), ceil(log10(high)) + 1)
        found = [part * 10.0**power for power in powers for part in (1, 2, 5)]
        below, above = max(x for x in found if x <= low * 1.001), min(x for x in found if x >= high * 0.999)
        shown = [value for value in found if below <= value <= above]
        shown = shown if len(shown) <= MANY else [value for value in shown if value in found[::3]]
        ticks = {value: f"{value:g}×" for value in shown}
        return Axis(below, above, ticks, log=True)
    if low > 0.5 * high:
        ticks = round_values(low, high, 5, share=True)
        return _cut(min(ticks), high, ticks, broken=True)
    ticks = round_values(0, high, 4, share=True)
    if high > 2:
        ticks = {value: f"{value:g}×" for value in sorted({*round_values(0, high, 5), 1.0})}
    return _cut(min(ticks), high, ticks)


def _cut(low: float, high: float, ticks: dict[float, str], broken: bool = False) -> Axis:
    """Return the axis that ends behind the last dot, without the labels beyond.

    >>> _cut(0.0, 1.0, {0.0: "0%", 1.0: "100%"}).high, _cut(0.0, 1.25, {0.0: "0%", 1.0: "100%", 1.5: "150%"}).high
    (1.0, 1.3)
    """
    high = min(max(ticks), high + BEYOND * (high - low))
    return Axis(low, high, {value: label for value, label in ticks.items() if value <= high * 1.0001}, broken=broken)


def _grouped(cases: list[Case]) -> list[Member]:
    """Return rows under what their names have in common before the last comma, if all have something and some share it.

    >>> grouped = lambda *names: [row[:2] for row in _grouped([Case(name, None, {}) for name in names])]
    >>> grouped("norm, 8", "norm, 9", "sum, 8"), grouped("8", "8, causal")
    ([('norm', '8'), ('norm', '9'), ('sum', '8')], [('', '8'), ('', '8, causal')])
    """
    parts = [case.name.rpartition(", ") for case in cases]
    heads = [head for head, *_ in parts]
    if not all(heads) or len(set(heads)) == len(heads) or len([*groupby(heads)]) > len(set(heads)):
        return [Member("", case.name, case) for case in cases]
    return [Member(head, short, case) for (head, _, short), case in zip(parts, cases, strict=True)]


def _grid(axis: Axis) -> Markup:
    """Return a rule for each value, from top to bottom of a row."""
    lines = [(value, f"{100 * axis.at(value):.2f}%") for value in {**axis.ticks, 1.0: ""}]
    return Markup("").join(
        element("line", x1=x, x2=x, y2="100%", stroke="var(--ink-muted)" if value == 1 else "var(--rule)",
                stroke_width=1.5 if value == 1 else None)
        for value, x in lines
    )  # fmt: skip


def _scale(axis: Axis) -> Markup:
    """Return the labels below, and the break where the axis does not begin at zero."""
    rest = next((i for i, value in enumerate(axis.ticks) if abs(value - 1) < 1e-9), 0) % 2  # 100% stays
    parts = [
        element("text", label, x=f"{100 * axis.at(value):.2f}%", y=17, text_anchor="middle",
                class_="chart-plot__wide" if len(axis.ticks) > MANY and (i + rest) % 2 else None)
        for i, (value, label) in enumerate(axis.ticks.items())
    ]  # fmt: skip
    return Markup("").join([*parts, break_of(axis.ticks[axis.low], upright=False) if axis.broken else ""])
