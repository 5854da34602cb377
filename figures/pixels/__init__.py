# SPDX-License-Identifier: Apache-2.0
"""A magnified patch of a picture: each pixel a square of its color, with its numbers in it.

The snippet prints the patch, a line for each row: see ``recorder.printed.pixels``.
"""

from figures.registry import figure
from figures.templates import render
from recorder import printed
from recorder.recording import Recording


@figure(of="output")
def pixels(recording: Recording, *, label=..., caption="", mark=None):
    """``label``: what the rows are printed after; ``mark``: the row and column of a pixel to put a frame on."""
    rows = printed.pixels(recording.output, label)
    caption = caption or f"{len(rows)} × {len(rows[0])} pixels"
    return render("pixels/template.html", caption=caption, rows=rows, style=_style, mark=mark)


def _style(pixel: list[int]) -> str:
    rgb = pixel * (3 // len(pixel))
    ink = "#000" if _luminance(rgb) > 0.179 else "#fff"  # where both have the same contrast
    return f"background:rgb({','.join(map(str, rgb))});color:{ink}"


def _luminance(channels: list[int]) -> float:
    """Relative luminance of an sRGB color, 0 to 1, as WCAG 2.2 defines it."""
    linear = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
