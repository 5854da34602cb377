# SPDX-License-Identifier: Apache-2.0
"""When the host and the GPU were busy: two lanes over one axis of time.

It takes a benchmark with a row for each call, numbered from 1, and two lines for each kind of bar, ``kernel_begin`` and
``kernel_end``, say. Bars of the kind ``host`` are on the host's lane, all others on the GPU's. As in a chart, lengths
along the axis are percentages and all others pixels: the picture fills its page, and its text keeps its size.

``script.js`` leads a hand through the time.
"""

from collections.abc import Callable
from typing import NamedTuple

from markupsafe import Markup

from figures.registry import figure
from figures.svg import element, text
from figures.templates import render
from recorder.project import RecorderError
from recorder.recording import Benchmark, Recording

LEFT, LANE, GAP = 48, 40, 12  # pixels
MARK = 26  # pixels above and below the lanes, for what a stopwatch saw and what it should have
FILLS = {"host": "var(--ink-muted)", "kernel": "var(--series-1)"}  # what is neither is an outline
KEY = {  # what a kind of bar says
    "host": "host: inside a call",
    "flush": "GPU: empties its cache",
    "kernel": "GPU: runs the kernel",
}
WIDE, NARROW = 1.9, 4.5  # percent of the width that a number needs, where there is room and on a phone


@figure(of="rows")
def timeline(recording: Recording, *, name="timeline", stopwatch: int | None = None):
    """Draw the picture, the key to its bars, and its table to unfold.

    ``stopwatch``: the call around which one stood. Brackets say what it saw, and how long that call's kernel took.
    """
    data = recording.benchmark(name)
    rows = [[call, *(f"{row[line]:.0f}" for line in data.lines)] for call, row in data.medians().items()]
    titles = [data.xlabel, *data.lines.values()]
    spans = spans_of(data)
    return render(
        "timeline/template.html",
        name=name,
        picture=draw(data, stopwatch),
        key_to={FILLS.get(kind, "var(--paper)"): KEY.get(kind, kind) for kind in kinds_of(data)},
        unit=data.ylabel,
        end=end_of(data),
        spans=[[lane, call, round(begin, 1), round(stop, 1)] for lane, call, begin, stop, _ in spans],
        titles=titles,
        rows=rows,
    )


def kinds_of(data: Benchmark) -> list[str]:
    """Return the kinds of bars, from the names of a table's lines. Raise ``RecorderError`` if one has no end."""
    names = [line.removesuffix("_begin") for line in data.lines if line.endswith("_begin")]
    missing = [f"{kind}_end" for kind in names if f"{kind}_end" not in data.lines]
    if not names or missing:
        raise RecorderError(f"{data.name!r} is no timeline: it has no line {(missing or ['…_begin'])[0]!r}")
    return names


class Span(NamedTuple):
    """A bar: what was busy, with which call, from when to when."""

    lane: str
    call: int
    begin: float
    stop: float
    kind: str


def spans_of(data: Benchmark) -> list[Span]:
    """Return the bars of a timeline. Raise ``RecorderError`` if it is none."""
    kinds = kinds_of(data)
    return [
        Span("host" if kind == "host" else "GPU", call, row[f"{kind}_begin"], row[f"{kind}_end"], kind)
        for call, row in data.medians().items()
        for kind in kinds
    ]


def end_of(data: Benchmark) -> float:
    """Return when the last bar ends."""
    return max(span.stop for span in spans_of(data))


def draw(data: Benchmark, stopwatch: int | None = None) -> Markup:
    rows, end = data.medians(), end_of(data)
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9) if end / step <= 8)
    percent = lambda time: f"{100 * time / end:.2f}%"
    mark = MARK if stopwatch else 0
    top = {"host": mark + GAP, "GPU": mark + 2 * GAP + LANE}
    bottom = top["GPU"] + LANE + GAP + mark
    parts = [text(-LEFT, y + LANE * 0.62, lane, font_weight=600) for lane, y in top.items()]
    for tick in range(0, int(end) + 1, step):
        x, last = percent(tick), tick + step > end
        parts.append(element("line", x1=x, x2=x, y1=mark + GAP / 2, y2=bottom, stroke="var(--rule)"))
        words = f"{tick} {data.ylabel}" if last else tick
        parts.append(text(x, bottom + 16, words, ink="ink-muted", text_anchor="middle"))
    for lane, call, begin, stop, kind in spans_of(data):
        fill, y = FILLS.get(kind, "var(--paper)"), top[lane]
        stroke = "var(--ink-muted)" if kind not in FILLS else fill
        place = {"x": percent(begin), "y": y, "width": percent(stop - begin), "height": LANE}
        parts.append(element("rect", **place, fill=fill, stroke=stroke))
        if (share := 100 * (stop - begin) / end) > WIDE:  # else the number would not fit
            ink, only = "paper" if kind in FILLS else "ink", "timeline__wide" if share < NARROW else None
            at = percent((begin + stop) / 2), y + LANE * 0.62
            parts.append(text(*at, call, ink=ink, text_anchor="middle", font_weight=600, class_=only))
    if stopwatch:
        if stopwatch not in rows:
            raise RecorderError(f"stopwatch must be one of the calls 1 to {len(rows)}, not {stopwatch!r}")
        spans = {span.kind: span for span in spans_of(data) if span.call == stopwatch}
        saw = "your stopwatch says", spans["host"], top["host"] - 6, -1
        takes = "the kernel takes", spans["kernel"], top["GPU"] + LANE + 6, 1
        for words, span, y, side in (saw, takes):
            parts += _bracket(f"{words} {span.stop - span.begin:.0f} {data.ylabel}", span, percent, y, side)
    sentences = (
        f"{call}: " + ", ".join(f"{label} {row[line]:.0f}" for line, label in data.lines.items())
        for call, row in rows.items()
    )
    label = f"In {data.ylabel}. " + "; ".join(sentences)
    return element("svg", *parts, role="img", height=bottom + 22, font_size=13, aria_label=label)


def _bracket(words: str, span: Span, percent: Callable[[float], str], y: float, side: int) -> list[Markup]:
    """Return a bracket above a bar (``side`` -1) or below it (1), and what it says; at ``y`` its ends are."""
    begin, stop, far = percent(span.begin), percent(span.stop), y + 5 * side
    ends = (begin, stop, far, far), (begin, begin, y, far), (stop, stop, y, far)
    lines = [
        element("line", x1=x1, x2=x2, y1=y1, y2=y2, stroke="var(--ink)", stroke_width=2) for x1, x2, y1, y2 in ends
    ]
    return [*lines, text(begin, far + (16 if side > 0 else -6), words, font_weight=600, halo=6)]
