# SPDX-License-Identifier: Apache-2.0
"""A number and its unit, which no line parts: 4.4 GB, typed or claimed.

Not in code, nor in tables, whose columns get narrow, nor in headings, which go on to menus and addresses.
"""

import re
from xml.etree.ElementTree import Element

from markdown.treeprocessors import Treeprocessor

APART = {"code", "pre", "script", "style", "svg", "table", *(f"h{level}" for level in range(1, 7))}
UNIT = r"(?:[kMGT]?(?:B|FLOPs?)(?:/s)?|[KMGT]iB(?:/s)?|[mµn]?s|[kMG]?Hz|m?W|m?J|%|bits?|bytes?)(?![\w/])"
NUMBER_AND_UNIT = re.compile(rf"(?<=[\d⁰¹²³⁴-⁹?])[ \n](?={UNIT})")  # a claim that was not measured is a question mark
SPACE = "&nbsp;"  # as an entity: Jinja's striptags would make it a common space


class Units(Treeprocessor):
    """Joins each number with the unit behind it, also where the number is an element of its own, such as a claim."""

    def run(self, root: Element) -> None:
        self._join(root)

    def _join(self, element: Element) -> None:
        element.text = element.text and NUMBER_AND_UNIT.sub(SPACE, element.text)
        for child in element:
            if child.tag not in APART:
                self._join(child)
            if child.tail:
                last = "".join(child.itertext())[-1:]
                child.tail = NUMBER_AND_UNIT.sub(SPACE, last + child.tail)[len(last) :]
