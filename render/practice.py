# SPDX-License-Identifier: Apache-2.0
"""Exercises on pages, and a hook of MkDocs that packs the folder ``practice/`` for readers to download.

An exercise's page shows its card, skeleton and solution from its folder in ``practice/exercises/``; so does the list of
all. Each lesson that has exercises leads to them before its *Next*.
"""

import re
import zipfile
from pathlib import Path

from markupsafe import Markup, escape

from practice.coach.exercise import PRACTICE, Exercise, exercises
from practice.coach.spec import KINDS
from recorder.project import RecorderError, nearest, read_text
from render.code import EPOCH, highlighted
from render.config import docs
from render.path import lessons
from render.shown import way
from render.templates import render

ZIP = "practice/triton-practice.zip"  # on the site
OVERVIEW = "practice/exercises.md"
PAGE = re.compile(r"\b(?P<page>[\w/-]+\.(?:md|ipynb))(?:#(?P<place>[\w-]+))?")
NEXT = '<h2 id="next">'


def all_of_them() -> list[Exercise]:
    """In the order of the lessons."""
    found = exercises()
    numbers = {page: lesson.number for page, lesson in lessons().items()}
    for each in found:
        for lesson in (each.card.lesson, *each.card.also):
            if lesson not in numbers:
                raise RecorderError(f"exercise {each.name} is of {lesson}, which the menu does not number")
    return sorted(found, key=lambda each: (numbers[each.card.lesson], each.name))


def page_of(each: Exercise) -> str:
    return f"practice/{each.name.replace('_', '-')}.md"


def ladder(page: str) -> Markup:
    """All exercises, by chapter."""
    chapters = {}
    for each in all_of_them():
        lesson = lessons()[each.card.lesson]
        chapters.setdefault(lesson.section, []).append(
            {
                "link": way(page, page_of(each)),
                "card": each.card,
                "kind": KINDS[each.card.kind],
                "lesson": lesson,
                "lesson_link": way(page, lesson.page),
            }
        )
    return render("exercises.html", chapters=chapters)


def exercise(name: str, page: str) -> Markup:
    """A page's middle: what is to be done, with hints and solution folded."""
    found = {each.name: each for each in all_of_them()}
    if name not in found:
        raise RecorderError(f"there is no exercise {name!r}{nearest(str(name), found)}")
    each = found[name]
    lesson = lessons()[each.card.lesson]
    return render(
        "exercise.html",
        name=each.name,
        card=each.card,
        kind=KINDS[each.card.kind],
        lesson=lesson,
        lesson_link=way(page, lesson.page),
        hints=[linked(hint, page) for hint in each.card.hints[:2]],
        line=highlighted(each.card.hints[2]),
        skeleton=highlighted(each.skeleton),
        solution=highlighted(each.solution),
        zip=way(page, OVERVIEW) + "../" + ZIP.rpartition("/")[2],
        overview=way(page, OVERVIEW),
    )


def linked(hint: str, page: str) -> Markup:
    """A hint, in which a page's name is a link to it."""

    def link(found: re.Match) -> str:
        if not (docs() / found["page"]).is_file():
            raise RecorderError(f"the hint {hint!r} names {found['page']}, which is no page")
        lesson = lessons().get(found["page"])
        return f'<a href="{way(page, found["page"], found["place"] or "")}">{lesson.title if lesson else found[0]}</a>'

    return Markup(PAGE.sub(link, str(escape(hint))))


def invited(html: str, page: str) -> str:
    """A lesson's page, with its exercises before what comes next."""
    mine = [each for each in exercises() if page in (each.card.lesson, *each.card.also)]
    if not mine or NEXT not in html:
        return html
    links = [(way(page, page_of(each)), each.card.title, KINDS[each.card.kind]) for each in mine]
    return html.replace(NEXT, f"{render('invitation.html', exercises=links)}{NEXT}", 1)


def files() -> list[Path]:
    """What a reader downloads: no copies of somebody's own, and nothing that Python leaves behind."""
    found = [path for path in PRACTICE.rglob("*") if path.suffix in (".py", ".toml", ".md", ".txt", ".ipynb")]
    return sorted(path for path in found if not {"mine", "__pycache__"} & set(path.relative_to(PRACTICE).parts))


def on_post_build(config, **_):
    target = Path(config["site_dir"], ZIP)
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in files():
            name = f"practice/{path.relative_to(PRACTICE).as_posix()}"
            archive.writestr(zipfile.ZipInfo(name, EPOCH), read_text(path), zipfile.ZIP_DEFLATED)
