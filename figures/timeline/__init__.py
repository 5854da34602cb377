# SPDX-License-Identifier: Apache-2.0
"""When the host and the GPU were busy: two lanes over one axis of time.

It takes a benchmark with a row for each call, numbered from 1, and two lines for each kind of bar, ``kernel_begin`` and
``kernel_end``, say. Bars of the kind ``host`` are on the host's lane, all others on the GPU's.
"""

from markupsafe import Markup

from figures.registry import figure
from figures.svg import element, text
from figures.templates import render
from recorder.project import RecorderError
from recorder.recording import Benchmark, Recording

WIDTH, LEFT, RIGHT, LANE, GAP = 460, 44, 32, 30, 12  # in the units of its viewBox
FILLS = {"host": "var(--ink-muted)", "kernel": "var(--ink)"}  # what is neither is an outline


@figure(of="rows")
def timeline(recording: Recording, *, name="timeline"):
    """Draw the picture, the key to its bars, and its table to unfold."""
    data = recording.benchmark(name)
    rows = [[call, *(f"{row[line]:.0f}" for line in data.lines)] for call, row in data.medians().items()]
    titles = [data.xlabel, *data.lines.values()]
    return render("timeline/template.html", name=name, picture=draw(data), unit=data.ylabel, titles=titles, rows=rows)


def kinds_of(data: Benchmark) -> list[str]:
    """Return the kinds of bars, from the names of a table's lines. Raise ``RecorderError`` if one has no end."""
    names = [line.removesuffix("_begin") for line in data.lines if line.endswith("_begin")]
    missing = [f"{kind}_end" for kind in names if f"{kind}_end" not in data.lines]
    if not names or missing:
        raise RecorderError(f"{data.name!r} is no timeline: it has no line {(missing or ['…_begin'])[0]!r}")
    return names


def draw(data: Benchmark) -> Markup:
    rows, kinds = data.medians(), kinds_of(data)
    end = max(row[f"{kind}_end"] for row in rows.values() for kind in kinds)
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9) if end / step <= 8)
    x = lambda time: LEFT + time * (WIDTH - LEFT - RIGHT) / end
    top = {"host": GAP, "GPU": 2 * GAP + LANE}
    bottom = top["GPU"] + LANE + GAP / 2
    parts = [_text(0, y, lane, "start") for lane, y in top.items()]
    for tick in range(0, int(end) + 1, step):
        parts.append(element("path", d=f"M{x(tick):.1f} {GAP / 2}V{bottom}", stroke="var(--rule)"))
        parts.append(_text(x(tick), bottom - 4, f"{tick} {data.ylabel}" if tick + step > end else tick))
    for call, row in rows.items():
        for kind in kinds:
            begin, stop = x(row[f"{kind}_begin"]), x(row[f"{kind}_end"])
            fill, y = FILLS.get(kind, "var(--paper)"), top["host" if kind == "host" else "GPU"]
            place = {"x": begin, "y": y, "width": max(stop - begin, 1), "height": LANE}
            parts.append(element("rect", **place, fill=fill, stroke="var(--ink-muted)"))
            if stop - begin > 10:  # else the number would not fit
                parts.append(_text((begin + stop) / 2, y, call, ink="paper" if kind in FILLS else "ink"))
    sentences = (
        f"{call}: " + ", ".join(f"{label} {row[line]:.0f}" for line, label in data.lines.items())
        for call, row in rows.items()
    )
    label, box = f"In {data.ylabel}. " + "; ".join(sentences), f"0 0 {WIDTH} {bottom + 22}"
    return element("svg", *parts, class_="chart", role="img", viewBox=box, aria_label=label)


def _text(x: float, y: float, content, anchor: str = "middle", ink: str = "ink-muted") -> Markup:
    """Draw a text in the lane whose upper edge is y."""
    return text(x, y + LANE * 0.62, content, ink=ink, text_anchor=anchor, font_size=11)
