# SPDX-License-Identifier: Apache-2.0
"""Lines of characters that a run drew as shades, as squares: each line in its program's color, the more the fuller.

It is drawn from output, of which it takes the lines that are made of the characters of ``ramp`` and as long as the
longest such line.
"""

from itertools import groupby

from figures import svg
from figures.registry import figure
from figures.templates import render
from recorder.project import RecorderError
from recorder.recording import Recording

GAP = 0.14  # between two of them
FAINT = 0.07  # what the first character of the ramp looks like: it was stored, too


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
    rows = [_row(number, line, ramp, tall) for number, line in enumerate(lines)]
    counted = f"{label}: {len(lines)} programs, one for each line of {width} elements"
    box = f"0 0 {width - GAP:g} {len(lines) * tall - GAP:g}"
    drawn = svg.picture(
        svg.unique("shades"), label, counted, *rows, class_="shades", viewBox=box, stroke_width=tall - GAP
    )
    return render("shades/template.html", picture=drawn, text="\n".join(lines))


def _row(number: int, line: str, ramp: str, tall: float):
    """Return a line: for each shade one path of dashes, and each dash is an element."""
    runs, at = {}, 0
    for shade, run in groupby(line):
        length = len(list(run))
        runs.setdefault(ramp.index(shade), []).append(f"M{at} {(number + 0.5) * tall - GAP / 2:g}h{length - GAP:g}")
        at += length
    paths = [
        svg.element("path", d="".join(each), opacity=round(FAINT + (1 - FAINT) * level / (len(ramp) - 1), 2))
        for level, each in sorted(runs.items())
    ]
    return svg.element("g", *paths, stroke=f"var(--{svg.pid(number)})")
