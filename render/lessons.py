# SPDX-License-Identifier: Apache-2.0
"""The main path: which pages are lessons, their numbers, and how long each takes to read.

A lesson is a page to which the menu gives a number: ``- 2. Vector add: programs/vector-add.md``.
"""

import json
import math
import posixpath
import re
from dataclasses import dataclass

from markupsafe import Markup

from recorder.project import RecorderError, nearest, read_text
from render.config import address, docs, menu
from render.fences import fenced
from render.page import front_matter
from render.templates import render

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
        return minutes(read_text(docs() / self.page), self.page.endswith(".ipynb"))


def lessons() -> dict[str, Lesson]:
    """The lessons by their pages, in the order of the menu."""
    numbered = [(entry, match) for entry in menu() if (match := NUMBERED.fullmatch(entry.title or ""))]
    return {
        entry.page: Lesson(entry.page, int(match["number"]), len(numbered), match["title"], entry.section)
        for entry, match in numbered
    }


def path() -> Markup:
    """All lessons with their times, by chapter: the view ``path``. Links are as from the home page."""
    chapters = {}
    for lesson in lessons().values():
        chapters.setdefault(lesson.section, []).append(lesson)
    return render("path.html", chapters=chapters, address=address)


def route(asked, here: str) -> Markup:
    """Some lessons in an order of one's own, with their times: the view ``route``.

    ``asked``: for each lesson, named as in the menu without its ending, what to read it for. ``here``: this page.
    """
    if not isinstance(asked, dict) or not asked or not all(isinstance(why, str) for why in asked.values()):
        raise RecorderError("the view 'route' needs `lessons:`, and under it lines such as `programs/masks: what for`")
    known = {lesson.page.rpartition(".")[0]: lesson for lesson in lessons().values()}
    if unknown := [name for name in asked if name not in known]:
        raise RecorderError(f"there is no lesson {unknown[0]!r}{nearest(str(unknown[0]), known)}")
    way = lambda lesson: f"{posixpath.relpath(address(lesson.page), address(here) or '.')}/"
    return render("route.html", stops=[(known[name], why) for name, why in asked.items()], way=way)


def minutes(source: str, notebook: bool = False) -> int:
    """How long a page takes to read, exercises apart; what is folded is not counted.

    >>> minutes("word " * 399), minutes("word " * 401)
    (2, 3)
    """
    if notebook:
        cells = json.loads(source)["cells"]
        listings = sum(cell["cell_type"] == "code" for cell in cells)
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    else:
        text, listings = "", 0
        for line, around, info in fenced(re.sub(FOLDED, "", front_matter(source)[1]).splitlines()):
            listings += info not in (None, "values")
            listings -= around != "" and line.strip() == "view: file"  # folded
            text += "" if around or info is not None else f"{line}\n"
    text = re.sub(r"\{\{.*?\}\}", "7", text, flags=re.S)  # a claim is read as one number
    words = re.sub(r"\]\([^)]*\)|</?[a-z][^>]*>", "", text).split()
    return math.ceil(len(words) / WORDS_A_MINUTE + listings * MINUTES_A_PICTURE)
