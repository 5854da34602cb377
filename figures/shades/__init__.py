# SPDX-License-Identifier: Apache-2.0
"""Lines of characters that a run drew as shades, as squares: the more a character says, the stronger its color.

It is drawn from output, of which it takes the lines that are made of the characters of ``ramp`` and as long as the
longest such line. The program of a line has its color, and its number, where one points at it.
"""

from itertools import groupby

from markupsafe import Markup

from figures import svg
from figures.registry import figure
from figures.templates import render
from recorder.project import RecorderError
from recorder.recording import Recording

SEAM = 0.03  # by which elements reach into each other, or a line of the ground would show between them


@figure(of="output")
def shades(recording: Recording, *, ramp=..., label=..., tall=2):
    """``ramp``: the characters from least to most; ``label``: what the picture shows, in words.

    ``tall``: how high an element is drawn, with its width as 1; a character is about 2.
    """
    lines = [line for line in recording.output.splitlines() if line.strip() and set(line) <= set(ramp)]
    width = max(map(len, lines), default=0)
    lines = [line for line in lines if len(line) == width]
    if not lines:
        raise RecorderError(f"the run printed no line of the characters {ramp!r}")
    counted = f"{label}: {len(lines)} programs, one for each line of {width} elements"
    elements = svg.element("g", *_elements(lines, ramp, tall), stroke_width=tall + SEAM)
    programs = [_program(number, width, tall) for number in range(len(lines))]
    box = f"0 0 {width} {len(lines) * tall:g}"
    drawn = svg.picture(svg.unique("shades"), label, counted, elements, *programs, class_="shades", viewBox=box)
    return render("shades/template.html", picture=drawn, text="\n".join(lines))


def _elements(lines: list[str], ramp: str, tall: float) -> list[Markup]:
    """Return a path for each shade: its runs of equal elements, as lines that are as thick as an element is high."""
    runs = {}
    for number, line in enumerate(lines):
        at = 0
        for shade, run in groupby(line):
            length = len(list(run))
            runs.setdefault(ramp.index(shade), []).append(f"M{at} {(number + 0.5) * tall:g}h{length + SEAM:g}")
            at += length
    return [svg.element("path", d="".join(runs[each]), stroke=color(each / (len(ramp) - 1))) for each in sorted(runs)]


def color(much: float) -> str:
    """Return the color of a shade from 0 to 1: from the ground to the color of links, and on to that of text."""
    if much < 0.6:
        return f"color-mix(in oklab, var(--link) {much / 0.6:.0%}, var(--paper-raised))"
    return f"color-mix(in oklab, var(--ink) {(much - 0.6) / 0.4:.0%}, var(--link))"


def _program(number: int, width: int, tall: float) -> Markup:
    box = {"y": round(number * tall, 2), "width": width, "height": tall}
    return svg.element("rect", svg.element("title", f"program {number}"), **box, color=f"var(--{svg.pid(number)})")
