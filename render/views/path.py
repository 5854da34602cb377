# SPDX-License-Identifier: Apache-2.0
"""The views ``path`` and ``route``: all lessons with their times, and some of them in an order of one's own."""

from functools import partial

from markupsafe import Markup

from recorder.project import RecorderError, nearest
from render.lessons import lessons as all_lessons
from render.lessons import optional
from render.links import way
from render.page import Page
from render.templates import render
from render.views.registry import view


@view
def path(page: Page) -> Markup:
    """Return all lessons with their times, by chapter, and what follows them. Links are relative to the home page."""
    chapters = {}
    for lesson in all_lessons().values():
        chapters.setdefault(lesson.section, []).append(lesson)
    return render("path.html", chapters=chapters, optional=optional(), way=partial(way, ""))


@view
def route(page: Page, lessons: dict[str, str]) -> Markup:
    """Return some lessons in the given order, with their times.

    ``lessons``: for each lesson, named as in the menu without its ending, what to read it for.
    """
    if not isinstance(lessons, dict) or not lessons or not all(isinstance(why, str) for why in lessons.values()):
        raise RecorderError("the view 'route' needs `lessons:`, and under it lines such as `programs/masks: what for`")
    known = {lesson.page.rpartition(".")[0]: lesson for lesson in all_lessons().values()}
    if unknown := [name for name in lessons if name not in known]:
        raise RecorderError(f"there is no lesson {unknown[0]!r}{nearest(str(unknown[0]), known)}")
    stops = [(known[name], why) for name, why in lessons.items()]
    return render("route.html", stops=stops, way=partial(way, page.name))
