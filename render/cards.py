# SPDX-License-Identifier: Apache-2.0
"""Tables of a page that a phone shows as cards: each row a card, each cell behind the title of its column."""

from xml.etree.ElementTree import Element

from markdown.treeprocessors import Treeprocessor
from markdown.util import HTML_PLACEHOLDER_RE

COLUMNS = 3  # a table of fewer fits


class Cards(Treeprocessor):
    """Writes the title of its column on each cell, and its content into one element, for theme.css to place."""

    def run(self, root: Element) -> None:
        for table in root.iter("table"):
            titles = [HTML_PLACEHOLDER_RE.sub("", "".join(head.itertext())).strip() for head in table.iter("th")]
            if len(titles) < COLUMNS:
                continue
            for row in table.iter("tr"):
                for title, cell in list(zip(titles, row.findall("td"), strict=False))[1:]:
                    cell.set("data-title", title)
                    content = Element("span")
                    content.text, cell.text = cell.text, ""
                    content.extend(list(cell))
                    cell[:] = [content]
