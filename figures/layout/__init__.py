# SPDX-License-Identifier: Apache-2.0
"""Draw which thread holds which elements of a block (``blocked``): a box is a thread, divided into the elements that it
holds side by side; a shade is a warp."""

import re
from functools import partial

from markupsafe import Markup

from figures import svg
from figures.layout.blocked import Layout, parse
from figures.registry import figure
from figures.templates import render
from figures.words import numbered, runs
from recorder.project import RecorderError
from recorder.recording import Recording

WIDTH, PHONE = 544, 238  # of the boxes of one row, in CSS pixels; two axes take what they take, and a phone scrolls
ROWS, COLUMNS = 32, 64  # boxes that one picture may have and still be read
TOP = 22  # of the first box, in CSS pixels
SHADES = 0.08, 0.2, 0.32, 0.44  # of warps 0, 1, 2, 3, and again

_text = partial(svg.text, font="sans", font_size=11.5, text_anchor="start")


@figure(of="stages")
def layout(recording: Recording, *, launch=None, target="sm_90", name=None, thread=None):
    """``name``: a layout such as ``blocked1``, by default that of the first access; ``thread``: one to outline."""
    drawn = parse("\n".join(line.text for line in recording.stage(launch, target, "ttgir")), name)
    if thread is not None and not 0 <= thread < drawn.number_of_threads:
        raise RecorderError(f"there is no thread {thread!r} in this program")
    rows = [
        [warp, f"{threads[0]}–{threads[-1]}", drawn.where(threads), f"thread {threads[0]}: {drawn.where(threads[:1])}"]
        for warp, threads in enumerate(drawn.members())
    ]
    of = re.sub(r"\W+", "-", f"{recording.snippet} {launch or ''} {target} {name or 'first'}")
    id = f"layout-{of}"
    return render("layout/template.html", layout=drawn, picture=picture(drawn, id, thread), rows=rows)


def picture(drawn: Layout, id: str, thread: int | None = None) -> Markup:
    """Draw a layout. One of a single axis is drawn twice, for a phone in shorter rows; the style shows one of them.

    Raise ``RecorderError`` if it is too wide.
    """
    sentences = (
        f"Warp {warp}, threads {runs(threads)}: {drawn.where(threads)}." for warp, threads in enumerate(drawn.members())
    )
    parts, width, height = boxes(drawn, thread)
    size = {"viewBox": f"0 0 {width} {height}", "width": width, "style": "max-width:none"}
    if len(drawn.shape) == 1:
        phone, across, down = boxes(drawn, thread, phone=True)
        parts = [
            svg.element("svg", *parts, class_="layout-wide", viewBox=f"0 0 {width} {height}"),
            svg.element("svg", *phone, class_="layout-phone", viewBox=f"0 0 {across} {down}"),
        ]
        size = {"style": f"--wide:{width};--high:{height};--phone:{across};--long:{down}"}
    return svg.picture(
        id, drawn.sentence(), " ".join(sentences), *parts, class_="layout-picture", color=f"var(--{svg.pid(0)})", **size
    )


def boxes(drawn: Layout, thread: int | None = None, *, phone=False) -> tuple[list[Markup], int, int]:
    """Return what a picture shows, its width and its height; for a ``phone`` with half as many boxes in a row."""
    holders, flat = drawn.holders(), len(drawn.shape) == 1
    held = [min(a, b) for a, b in zip(drawn.per_thread, drawn.shape, strict=True)]
    across, down = held[-1], 1 if flat else held[0]  # elements in a box
    longest = max(len(_names(threads)) for threads in holders.values())
    least = 7 * longest + (3 if phone else 6)
    side = max(6 if phone else 8, -(-max(22, least) // across))  # of an element, in CSS pixels
    pitch, high = side * across + 2, max(18, 9 * down)
    columns = drawn.shape[-1] // across
    if flat:
        columns = min(columns, 1 << ((PHONE if phone else WIDTH) // pitch).bit_length() - 1)
    elif columns > COLUMNS:
        raise RecorderError(f"{columns} threads side by side are too many to draw; this figure draws {COLUMNS}")
    rows = drawn.shape[-1] // (columns * across) if flat else drawn.shape[0] // down
    left = max(60, 8 + 7 * len(f"{drawn.shape[-1] - columns * across}–{drawn.shape[-1] - 1}")) if flat else 70
    right = left + columns * pitch + 6
    parts = [
        _text(left - 8, 13, "elements" if flat else "row", text_anchor="end", ink="ink-muted"),
        _text(left, 13, "threads: one box each, divided into elements", ink="ink-muted"),
    ]
    y, above, after = TOP, None, 0  # how wide the widest text behind a row is
    for row in range(min(rows, ROWS)):
        firsts = range(row * columns * across, (row + 1) * columns * across, across)  # the first element of each box
        corners = [(first,) for first in firsts] if flat else [(row * down, i * across) for i in range(columns)]
        where = f"{firsts[0]}–{firsts[-1] + across - 1}" if flat else runs(range(row * down, (row + 1) * down))
        parts.append(_text(left - 8, y + high / 2 + 4, where, text_anchor="end", font="mono", ink="ink-muted"))
        for column, corner in enumerate(corners):
            x, threads = left + column * pitch, holders[corner]
            shade = SHADES[threads[0] // drawn.warp_size % len(SHADES)]
            parts += _box(x, y, (across, side), (down, high), _names(threads), shade, bold=thread in threads)
        label = numbered("warp", {thread // drawn.warp_size for corner in corners for thread in holders[corner]})
        if label != above:
            parts.append(_text(right, y + high / 2 + 4, label))
        above, after, y = label, max(after, 6 * len(label)), y + high + 2
    if rows > ROWS:
        parts.append(_text(left, y + 14, f"and {rows - ROWS} more rows, not drawn", ink="ink-muted"))
        y += 20
    width = right + after if phone else max(right + 76, 440)
    return parts, width, y + 2


def _names(threads: list[int]) -> str:
    """``5``, ``5, 69``, or ``5 … (8×)``: the threads that hold an element, to write into its box."""
    return ", ".join(map(str, threads)) if len(threads) < 3 else f"{threads[0]} … ({len(threads)}×)"


def _box(x, y, horizontal, vertical, names, shade, *, bold) -> list[Markup]:
    """Draw the elements that some threads hold side by side, with the threads' numbers over them."""
    (across, side), (down, high) = horizontal, vertical
    width = side * across
    lines = [f"M{x + side * i} {y}v{high}" for i in range(1, across)]
    lines += [f"M{x} {y + high // down * i}h{width}" for i in range(1, down)]
    inside = {"fill": "currentColor", "fill_opacity": shade}
    edge = {"stroke": "var(--ink)", "stroke_width": 2} if bold else {"stroke": "currentColor", "stroke_width": 1}
    thin = {"stroke": "currentColor", "stroke_width": 0.6, "stroke_opacity": 0.7}
    face = {"font_size": 11, "text_anchor": "middle", "stroke_opacity": 0.8, "font_weight": 700 if bold else None}
    return [
        svg.element("rect", x=x, y=y, width=width, height=high, rx=2, **inside, **edge),
        *([svg.element("path", d="".join(lines), **thin)] if lines else []),
        svg.text(x + width / 2, y + high / 2 + 4, names, font="mono", halo=3, **face),
    ]
