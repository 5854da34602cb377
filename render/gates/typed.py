# SPDX-License-Identifier: Apache-2.0
"""Labels code that an author typed into a page, and refuses typed HTML that looks like a part of a recording.

A block of code was run if it is Python, which pytest-markdown-docs executes, or stands in a snippet's file. Any other
one says that it was typed. HTML is parsed as a browser reads it, so that no spelling of a class passes.
"""

import html
import re
from collections.abc import Set
from html.parser import HTMLParser

from render.labs import CLASSES, is_lab

LABELS = {"text": "A sketch, typed by hand", "console": "To type yourself", "bash": "To type yourself"}
TYPED = "Typed by hand"
OURS = re.compile(  # classes of what is recorded
    r"recording(__|--|$)|claim(--|$)|(by-gpu|gpu-switch|page-head|page-origin|jp-.*)$"
)
DATA = {"data-by-gpu", "data-device", "data-gpu", "data-typed"}
TOOLTIP = re.compile(r"\b(measured|found) (on|in)\b|read from code compiled by")  # see frame.origin_of_claim
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Blocks(HTMLParser):
    """A parser that collects the blocks of code in some HTML, and the elements that look like parts of a recording."""

    def __init__(self, text: str, claims: set[str], allowed: Set[str]):
        super().__init__()
        self.lines = [0]
        for line in text.split("\n"):
            self.lines.append(self.lines[-1] + len(line) + 1)
        self.claims, self.allowed, self.open = claims, allowed, []
        self.blocks, self.faults = [], []  # of blocks: where their first tag ends, their language, and their code
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        classes = given.get("class", "").split()
        if tag == "div" and "highlight" in classes and not self._inside():
            language = next((each.removeprefix("language-") for each in classes if each.startswith("language-")), "")
            line, column = self.getpos()
            end = self.lines[line - 1] + column + len(self.get_starttag_text()) - 1
            self.blocks.append((end, language, []))
            self.open.append(tag)
            return
        if self._inside():
            self.open += [] if tag in VOID else [tag]
        elif tag == "pre":
            self.faults.append("code in HTML is not executed, nor marked as typed; use a fence")
        ours = DATA & given.keys() or TOOLTIP.search(given.get("title", "")) or tag == "data"
        if (ours or any(OURS.match(name) for name in classes if name not in self.allowed)) and not (
            tag == "data" and given.get("title") in self.claims
        ):
            self.faults.append(
                f"{self.get_starttag_text()[:80]!r} looks like a part of a recording, and is typed by hand"
            )

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if self._inside() and tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data):
        if self._inside():
            self.blocks[-1][2].append(data)

    def _inside(self) -> bool:
        return bool(self.open)


def label_typed(text: str, page: str, claims: set[str], sources: list[str], python: int) -> tuple[str, list[str]]:
    """Return the HTML of a page with its typed blocks labeled, and its faults.

    ``claims``: the tooltips of its claims; ``sources``: the files that it shows parts of; ``python``: how many fences
    of Python it has, each of which a test executes, but for those of labs.
    """
    lab = is_lab(page)
    python = 0 if lab else python
    blocks = Blocks(text, claims, allowed=CLASSES if lab else frozenset())
    shown = ["\n".join(_lines(source)) for source in sources]
    pieces, last = [], 0
    for end, language, code in blocks.blocks:
        python -= language == "python"
        if language == "python" or any("\n".join(_lines("".join(code))) in source for source in shown):
            continue
        pieces += [text[last:end], f' data-typed="{html.escape(LABELS.get(language, TYPED))}"']
        last = end
    if python < 0:
        blocks.faults.append("a block of Python is no fence, so that no test executes it")
    return "".join([*pieces, text[last:]]), blocks.faults


def _lines(code: str) -> list[str]:
    return [line.strip() for line in code.removesuffix("  # fmt: skip").splitlines() if line.strip()]
