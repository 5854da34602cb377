# SPDX-License-Identifier: Apache-2.0
"""Elements and texts of pictures, escaped; the only place that spells SVG."""

import itertools
import math

from markupsafe import Markup, escape

HALO = {"stroke": "var(--paper)", "stroke_linejoin": "round", "paint_order": "stroke"}  # keeps a text readable
COLORS = 8  # of programs: --pid-0 … --pid-7

_ids = itertools.count(1)


def element(tag: str, *children, **attributes) -> Markup:
    """Return an element; ``stroke_width`` becomes ``stroke-width``, ``class_`` becomes ``class``; None leaves one out.

    >>> element("rect", x=1.50, fill_opacity=0.25, rx=None)
    Markup('<rect x="1.5" fill-opacity="0.25"/>')
    >>> element("text", "a < b", y=2)
    Markup('<text y="2">a &lt; b</text>')
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(number(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    inside = "".join(escape(child) for child in children)
    return Markup(f"<{tag}{written}>{inside}</{tag}>" if inside else f"<{tag}{written}/>")


def number(value) -> str:
    """Format a number with at most two decimals: nobody sees more."""
    return f"{round(value, 2):g}" if isinstance(value, float) else str(value)


def text(x, y, content, *, ink: str = "ink", font: str | None = None, halo: float = 0, **attributes) -> Markup:
    """Return a text in one of the page's inks and fonts; ``halo`` pixels of paper set it off from a line behind."""
    around = {**HALO, "stroke_width": halo} if halo else {}
    face = {"font_family": f"var(--{font})"} if font else {}
    return element("text", content, x=x, y=y, fill=f"var(--{ink})", **face, **around, **attributes)


def pid(program: int) -> str:
    """Return the name of a program's color."""
    return f"pid-{program % COLORS}"


def unique(kind: str) -> str:
    """Return an id that no other picture has, on whichever page it stands."""
    return f"{kind}-{next(_ids)}"


def picture(id: str, title: str, description: str, *parts, **attributes) -> Markup:
    """Return an ``<svg>`` that describes in words what it shows; ``id`` is what its parts' ids begin with."""
    about = element("title", title, id=f"{id}-title"), element("desc", description, id=f"{id}-desc")
    named = {"role": "img", "aria_labelledby": f"{id}-title {id}-desc", "xmlns": "http://www.w3.org/2000/svg"}
    return element("svg", *about, *parts, **named, **attributes)


def hatch(id: str, *, every: float, color: str | None = None, **stroke) -> Markup:
    """Return a pattern of slanted lines, ``every`` so many pixels, in a color or in that of what it fills."""
    lines = element("path", d=f"M1 0V{math.ceil(every)}", stroke="currentColor", **stroke)
    slant = {"patternUnits": "userSpaceOnUse", "patternTransform": "rotate(45)"}
    return element("pattern", lines, id=id, width=every, height=every, color=color, **slant)
