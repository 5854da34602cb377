# SPDX-License-Identifier: Apache-2.0
"""A chart's SVG, which comes into pages as it is: it may hold what matplotlib draws with, and nothing else.

A recording can come from another machine, so what is in it is data: nothing that runs, moves, links, or asks for
something.
"""

import re
from xml.etree import ElementTree

from recorder.project import RecorderError

SVG, XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
ELEMENTS = {f"{SVG}{name}" for name in ("svg", "g", "defs", "clipPath", "use", "path", "rect", "text", "tspan")}
NUMBERS = r"[-+\d.eE,\s]+"
ATTRIBUTES = {  # what each may be; the text of a label is text to a browser, too
    "aria-label": r"(?s).*",
    "class": "chart",
    "clip-path": r"url\(#[\w-]+\)",
    "d": r"[-+\d.eE,\sMmLlHhVvCcSsQqTtAaZz]*",
    "id": r"[\w-]+",
    "role": "img",
    "stroke-linejoin": r"\w+",
    "transform": r"[-+\d.eE,\s()a-zA-Z]*",
    "version": r"[\d.]+",
    **dict.fromkeys(("viewBox", "x", "y", "width", "height"), NUMBERS),
    f"{XLINK}href": r"#[\w-]+",
}
PROPERTY = r"(fill|stroke|font|text)(-[a-z]+)*"
VALUE = r"(var\(--[\w-]+(, [-\w#]+)?\)|[-\w.,#% ])+"
COMMENT = re.compile(r"<!--(?!-?>)(?:(?!--).)*-->", re.S)  # one that HTML ends where XML does
STYLE = re.compile(rf"\s*{PROPERTY}:\s*{VALUE}\s*(;\s*{PROPERTY}:\s*{VALUE}\s*)*;?\s*")


def sound(svg: str, name: str) -> str:
    """The SVG of a chart without comments, if it is no more than a drawing. Raises ``RecorderError``."""
    svg = COMMENT.sub("", svg)
    if fault := _fault(svg):
        raise RecorderError(f"the chart {name!r} is more than a drawing: {fault}")
    return svg


def _fault(svg: str) -> str:
    if not svg.startswith("<svg") or "<!" in svg or "<?" in svg:
        return "it is not one SVG, or holds a declaration or a comment"
    try:
        root = ElementTree.fromstring(svg)
    except (ElementTree.ParseError, ValueError) as error:
        return f"it is not well-formed ({error})"
    for element in root.iter():
        if element.tag not in ELEMENTS:
            return f"it has an element {element.tag.removeprefix(SVG)!r}"
        for attribute, value in element.attrib.items():
            allowed = STYLE if attribute == "style" else re.compile(ATTRIBUTES.get(attribute, "(?!)"))
            if not allowed.fullmatch(value):
                return f"it has an attribute {attribute.removeprefix(XLINK)}={value[:60]!r}"
    return ""
