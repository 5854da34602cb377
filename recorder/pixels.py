# SPDX-License-Identifier: Apache-2.0
"""The view that magnifies a patch of a picture: each pixel a square of its color, with its numbers in it.

The snippet prints the patch, a line for each row: a label, then its pixels, as in ``patch: 35,22,32 0,23,13`` for red,
green and blue, or ``patch: 27 15`` for gray.
"""

import html
import re

from recorder.project import RecorderError, Snippet, nearest


def parse(output: str, label: str) -> list[list[list[int]]]:
    """The rows of pixels, each of one number or three, printed after ``label``; RecorderError if there are none."""
    found = re.findall(r"^(.+?):\s+(\d+(?:,\d+,\d+)?(?:\s+\d+(?:,\d+,\d+)?)*)$", output, re.M)
    rows = [[[int(n) for n in pixel.split(",")] for pixel in row.split()] for name, row in found if name == label]
    if not rows:
        raise RecorderError(f"the run printed no pixels after {label!r}{nearest(label, {name for name, _ in found})}")
    return rows


def pixels(snippet: Snippet, recorded: dict, *, label=..., caption="", mark=None) -> str:
    """The pixels that were printed after a label, magnified; `mark` is the row and column of one to put a frame on."""
    rows = parse(recorded["output"], label)
    body = "".join(
        "<tr>" + "".join(cell(pixel, [y, x] == mark) for x, pixel in enumerate(row)) + "</tr>"
        for y, row in enumerate(rows)
    )
    head = html.escape(caption or f"{len(rows)} × {len(rows[0])} pixels")
    return f'<table class="pixels"><caption>{head}</caption><tbody>{body}</tbody></table>'


def _luminance(*channels: int) -> float:
    """Relative luminance of an sRGB color, 0 to 1, as WCAG 2.2 defines it."""
    linear = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def cell(pixel: list[int], marked: bool) -> str:
    red, green, blue = pixel * (3 // len(pixel))
    ink = "#000" if _luminance(red, green, blue) > 0.179 else "#fff"  # where both have the same contrast
    numbers = "<br>".join(map(str, pixel))
    frame = ' class="marked"' if marked else ""
    return f'<td{frame} style="background:rgb({red},{green},{blue});color:{ink}">{numbers}</td>'
