# SPDX-License-Identifier: Apache-2.0
"""A benchmark as a table of medians. Shares of what a line is compared with are bars, too, to be read at a glance."""

import re
from collections.abc import Iterable
from math import floor, isnan, log10

import msgspec
from markupsafe import Markup, escape

from figures.registry import figure
from figures.templates import render
from recorder.project import RecorderError, nearest
from recorder.recording import Benchmark, Recording

UNITS = {"s", "ms", "µs", "ns", "GB", "MB", "bytes", "GB/s", "TFLOP/s"}
FAR = 1.5  # a share far beyond that would press all others together: its bar ends where the column does, in an arrow
BEYOND = 1.1  # times as far


@figure(of="rows")
def table(
    recording: Recording, *, name=..., share_of=None, rows=None, lines=None, titles=None, names=None, spread=False
):
    """``share_of`` adds each line's share of that one; ``rows`` lists x values to show, ``lines`` lines, in this order.

    ``titles`` has other titles than the recorded ones, by line, ``names`` other names of rows, by x value; ``spread``
    adds least and most under each median of several readings.
    """
    data = recording.benchmark(name, *(lines or []), *(titles or []), *([share_of] if share_of else []))
    data = msgspec.structs.replace(data, lines={**data.lines, **(titles or {})})
    whole = data.lines[share_of] if share_of else ""
    if lines:
        data = msgspec.structs.replace(data, lines={line: data.lines[line] for line in lines})
    medians = data.medians()
    names = names or {}
    if unknown := [x for x in (*(rows or []), *names) if x not in medians]:
        raise RecorderError(f"there is no row {unknown[0]!r}{nearest(unknown[0], medians)}")
    shown = [medians[x] for x in rows or medians]
    others = [line for line in data.lines if share_of and line != share_of]
    titles = [data.xlabel, *data.lines.values()]
    titles += [f"{data.lines[line]}, share of {whole}" for line in others]
    shares = [line for line, title in data.lines.items() if "share of" in f"{title}, {data.ylabel}"]
    lines = list(data.lines)
    drawn = [row[line] for row in shown for line in shares] + [row[a] / row[share_of] for row in shown for a in others]
    most = max([1.0, *(value for value in drawn if not isnan(value))])
    most = FAR if most > FAR * BEYOND else most
    form = _power if as_powers(rows or medians) else _plain
    body = [
        [
            form(names.get(x, x)),
            *(_bar(text, row[line], most) if line in shares else text for line, text in zip(lines, cells, strict=True)),
            *(_bar(f"{share:.2f}", share, most) for share in (row[line] / row[share_of] for line in others)),
        ]
        for x, row, cells in zip(rows or medians, shown, _cells(data, shown, spread), strict=True)
    ]
    key = "bars: shares, with a mark at 1" if drawn else ""
    key += "; an arrow where a bar is too long to draw" if any(value > most for value in drawn) else ""
    caption = " · ".join(filter(None, (data.ylabel, key)))
    unit, caption = (data.ylabel, "") if caption in UNITS else ("", caption)  # which needs no line of its own
    label = f"{name} by {data.xlabel}: {', '.join(data.lines.values())}"  # another snippet's may have the same name,
    label += f"; {len(rows)} rows from {rows[0]}" if rows else ""  # and a page may show one in parts
    first = len(titles) - len(others)  # of the shares that are worked out here
    barred = {i for i in range(1, len(titles)) if i >= first or lines[i - 1] in shares}
    titles = [_breakable(title) + (_one(most) if i in barred else "") for i, title in enumerate(titles)]
    return render("table/template.html", label=label, caption=caption, unit=unit, titles=titles, rows=body)


def _cells(data: Benchmark, shown: list, spread: bool) -> list[list]:
    cells = _numbers([[row[line] for line in data.lines] for row in shown])
    if not spread:
        return cells
    ends = _numbers([[end for line in data.lines for end in (row[line].least, row[line].most)] for row in shown])
    for row, texts, pairs in zip(shown, cells, ends, strict=True):
        for i, line in enumerate(data.lines):
            if row[line].least < row[line].most:  # it was read more than once
                texts[i] = Markup("{}<small>{}–{}</small>").format(texts[i], pairs[2 * i], pairs[2 * i + 1])
    return cells


def _bar(text: str, share: float, most: float) -> str:
    """Return a cell that is a bar as well, with a mark where the share would be 1."""
    if isnan(share):
        return text
    style = f"--share: {min(share / most, 1):.3f}; --one: {1 / most:.3f}"
    far = Markup(" data-far") if share > most else ""
    return Markup('<span class="share" style="{}"{}>{}</span>').format(style, far, text)


def _one(most: float) -> Markup:
    """Return what stands above the marks of a column of bars."""
    return Markup('<span class="share-of-one" style="--one: {:.3f}" aria-hidden="true">1</span>').format(1 / most)


def _breakable(title: str) -> Markup:
    """Let a long name break, so that it does not widen its column, but not before its version: FlashAttention-2."""
    joined = re.sub(r"(?<=\w-)(?=\d)", "\u2060", title)
    return Markup(re.sub(r"(?<=[_=])(?=\w)", "<wbr>", str(escape(joined))))


def as_powers(values: Iterable) -> bool:
    """Return whether sizes read better as powers of two: all are, and the largest has more than six digits."""
    values = list(values)
    return all(isinstance(x, int) and x >= 64 and x & (x - 1) == 0 for x in values) and max(values) > 2**17


def _power(x) -> Markup:
    return Markup("2<sup>{}</sup>").format(x.bit_length() - 1)


def _plain(x) -> Markup:
    """Return a size or the name of a case, in which ``2**20`` is a power, too."""
    text = f"{x:,}" if isinstance(x, int) else str(escape(x))
    return Markup(re.sub(r"\b2\*\*(\d+)", r"2<sup>\1</sup>", text))


def _numbers(rows: list[list[float]]) -> list[list[str]]:
    """Three digits each, two if tiny; a row or a column of whole numbers has no decimals."""
    counts = [all(map(_is_whole, column)) for column in zip(*rows, strict=True)]

    def text(value: float, whole: bool) -> str:
        if isnan(value):  # not measured: this side does not serve the case
            return "–"
        if whole or abs(value) >= 99.95:
            return f"{value:,.0f}"
        if 0 < abs(value) < 1e-3:
            return f"{value:.{1 - floor(log10(abs(value)))}f}"
        return f"{value:#.3g}" if value else "0"

    return [
        [text(value, whole or all(map(_is_whole, row))) for value, whole in zip(row, counts, strict=True)]
        for row in rows
    ]


def _is_whole(value: float) -> bool:
    return isnan(value) or value == int(value)
