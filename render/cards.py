# SPDX-License-Identifier: Apache-2.0
"""Tables of a page that a phone shows as cards: each row a card, each cell behind the title of its column.

Numbers are there to be compared: a table of them stays one, and scrolls sideways past its first column.
"""

import itertools
import re
from xml.etree.ElementTree import Element

from markdown.treeprocessors import Treeprocessor
from markdown.util import HTML_PLACEHOLDER_RE

COLUMNS = 3  # a table of fewer fits, unless it begins with long code, which a narrow column would break
CODE = 20  # characters of it that fit
CHARACTERS = 36  # a table with rows of so many fits, too
WRAPS, LINES = 14, 5  # characters that the longest column may have to itself, and lines of them that its cells may take
SHORT = 16  # characters that stay on one line where there is room
NONE = {"", "–", "—"}  # a card does without
NUMBER = re.compile(r"\d[^A-Za-z]*$")
COMPARED, FIGURE = 2, re.compile(r"[^\w\s]{0,2}\d")  # at least so many columns of what begins as a number


class Cards(Treeprocessor):
    """Writes the title of its column on each cell, and its content into one element, for theme.css to place."""

    def run(self, root: Element) -> None:
        for table in root.iter("table"):
            titles = [self._text(head) for head in table.iter("th")]
            rows = [cells for row in table.iter("tr") if (cells := row.findall("td"))]
            for cell in itertools.chain(*rows):
                if len(self._text(cell)) <= SHORT:
                    cell.set("class", "short none" if self._text(cell) in NONE else "short")
            if len(titles) == 2 and self._coded(rows):  # the second stands below the first and needs no title
                table.find("tbody").set("data-title", "")
            if len(titles) < COLUMNS or self._fits(titles, rows):
                continue
            if self._compared(rows):
                table.set("data-numbers", "")
                continue
            for row in rows:
                for title, cell in list(zip(titles, row, strict=False))[1:]:
                    cell.set("data-title", title)
                    content = Element("span")
                    content.text, cell.text = cell.text, ""
                    content.extend(list(cell))
                    cell[:] = [content]
                if titles[0] and NUMBER.match(self._text(row[0])):  # which alone would not say of what it is
                    row[0].set("data-first", titles[0])

    def _fits(self, titles: list[str], rows: list[list[Element]]) -> bool:
        """Return whether a phone has room for all columns side by side: each keeps to a line, but the longest may wrap.

        A title may take several lines, but no word of it may.
        """
        words = [max(map(len, title.split()), default=0) for title in titles]
        cells = [0] * len(titles)
        for row in rows:
            cells = [max(width, len(self._text(cell))) for width, cell in zip(cells, row, strict=False)]
        widths = [max(pair) for pair in zip(words, cells, strict=True)]
        longest = cells.index(max(cells))
        if len(titles) == COLUMNS and WRAPS < cells[longest] <= WRAPS * LINES:
            widths[longest] = max(words[longest], WRAPS)
        return sum(widths) <= CHARACTERS

    def _compared(self, rows: list[list[Element]]) -> bool:
        """Return whether all columns but the first are short, and two or more are mostly numbers."""
        texts = [[self._text(cell) for cell in row] for row in rows]
        columns = [[text for text in column if text not in NONE] for column in zip(*texts, strict=False)]
        numbers = [column for column in columns[1:] if 2 * sum(map(bool, map(FIGURE.match, column))) > len(column)]
        return len(numbers) >= COMPARED and max(len(text) for column in columns[1:] for text in column) <= SHORT

    def _coded(self, rows: list[list[Element]]) -> bool:
        """Return whether most rows begin with code, some of it long."""
        firsts = [row[0] for row in rows]
        coded = [cell for cell in firsts if cell.find("code") is not None and not (cell.text or "").strip()]
        return 2 * len(coded) > len(firsts) and max(len(self._text(cell)) for cell in coded) > CODE

    def _text(self, of: Element) -> str:
        """Return the text of an element, also what Markdown has put aside as HTML, such as code."""

        def aside(placeholder: re.Match) -> str:
            kept = self.md.htmlStash.rawHtmlBlocks[int(placeholder[1])]
            return "".join(kept.itertext()) if isinstance(kept, Element) else re.sub("<[^>]*>", "", kept)

        return HTML_PLACEHOLDER_RE.sub(aside, "".join(of.itertext())).strip()
