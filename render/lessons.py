# SPDX-License-Identifier: Apache-2.0
"""The main path: the pages that are lessons, their numbers, and the minutes that each takes to read.

A lesson is a page to which the menu gives a number: ``- 2. Vector add: programs/vector-add.md``.
"""

import itertools
import math
import re
from dataclasses import dataclass

from recorder.project import RecorderError, read_text
from render.config import config, docs, menu
from render.fences import front_matter, prose_of, read_fences
from render.labs import code_cells, is_lab, markdown_of

WORDS_A_MINUTE, MINUTES_A_PICTURE = 200, 0.5  # a picture, a table or a listing
FOLDED = r"(?m)^\?\?\?.*\n(?:(?: {4}.*)?\n)*"
NUMBERED = re.compile(r"(?P<number>\d+)\. (?P<title>.+)")


@dataclass(frozen=True)
class Lesson:
    page: str  # as the menu names it
    number: int  # on the main path, from 1
    of: int  # how many lessons that has
    title: str
    section: str | None  # of the menu

    @property
    def minutes(self) -> int:
        if not (docs() / self.page).is_file():
            raise RecorderError(f"the menu in mkdocs.yml names {self.page}, which is no page")
        return minutes(read_text(docs() / self.page), is_lab(self.page))


def lessons() -> dict[str, Lesson]:
    """Return the lessons by their pages, in the order of the menu."""
    numbered = [(entry, match) for entry in menu() if (match := NUMBERED.fullmatch(entry.title or ""))]
    return {
        entry.page: Lesson(entry.page, int(match["number"]), len(numbered), match["title"], entry.section)
        for entry, match in numbered
    }


def optional() -> dict[str, list[tuple[str, str, int]]]:
    """Return the pages that follow the lessons in their part of the menu, by section: page, title and minutes."""
    parts = {title for part in config()["nav"] if isinstance(part, dict) for title in part}
    entries, path, short = menu(), lessons(), config().get("extra", {}).get("menu", {})
    last = max((at for at, entry in enumerate(entries) if entry.page in path), default=len(entries))
    found = {}
    for entry in itertools.takewhile(lambda entry: entry.section not in {None, *parts}, entries[last + 1 :]):
        time = minutes(read_text(docs() / entry.page), is_lab(entry.page))
        title = short.get(entry.page) or entry.title or entry.page
        found.setdefault(entry.section, []).append((entry.page, title, time))
    return found


def minutes(source: str, notebook: bool = False) -> int:
    """Return the minutes that a page takes to read, without exercises and folded parts.

    >>> minutes("word " * 399), minutes("word " * 401)
    (2, 3)
    """
    if notebook:
        text, listings = markdown_of(source), len(code_cells(source))
    else:
        lines = re.sub(FOLDED, "", front_matter(source)[1]).splitlines()
        folded = lambda fence: any(line.strip() == "view: file" for line in fence.body)
        text, listings = "\n".join(prose_of(lines)), sum(not folded(fence) for fence in read_fences(lines))
    text = re.sub(r"\{\{.*?\}\}", "7", text, flags=re.S)  # a claim is read as one number
    words = re.sub(r"\]\([^)]*\)|</?[a-z][^>]*>", "", text).split()
    return math.ceil(len(words) / WORDS_A_MINUTE + listings * MINUTES_A_PICTURE)
