# SPDX-License-Identifier: Apache-2.0
"""The exercises in the order of the menu, their pages, and which files of ``practice/`` readers download."""

import re
from pathlib import Path

from practice.coach.exercise import PRACTICE, Exercise, PracticeError, exercises
from recorder.project import RecorderError, read_text
from render.config import docs, nav
from render.lessons import lessons

ZIP = "practice/triton-practice.zip"  # on the site
OVERVIEW = "practice/exercises.md"


def all_of_them() -> list[Exercise]:
    """Return all exercises in the order of the menu. Raise ``RecorderError`` where one follows no lesson."""
    known = check_cards()
    course = lessons()
    for each in known:
        for lesson in (each.card.lesson, *each.card.also):
            if lesson not in course:
                where = f"practice/exercises/{each.name}/spec.py"
                raise RecorderError(f"{where}: it is of the lesson {lesson}, which the menu does not number")
    order = {page: place for place, page in enumerate(nav())}
    return sorted(known, key=lambda each: order.get(page_of(each), len(order)))


def check_cards() -> list[Exercise]:
    """Return all exercises. Raise ``RecorderError``, with the file, where a card cannot be read."""
    known = exercises()
    for each in known:
        try:
            _ = each.card
        except PracticeError as error:
            raise RecorderError(f"practice/{error}") from error
    return known


def page_of(each: Exercise) -> str:
    return f"practice/{each.name.replace('_', '-')}.md"


def heading(page: str) -> str:
    """Return the title that a page in Markdown gives itself."""
    return next(line[2:] for line in read_text(docs() / page).splitlines() if line.startswith("# "))


PACKED = re.compile(  # what a reader downloads, from the folder practice/
    r"README\.md|__init__\.py|practice\.(py|ipynb)|pages\.json|coach/(\w+/)?\w+\.py"
    r"|exercises/\w+/((solution|spec)\.py|wrong\.toml)"
)
KEPT = re.compile(r"mine/.*|(.*/)?(__pycache__|\.ipynb_checkpoints)/.*")  # what stays here


def files() -> list[Path]:
    """Return the files that a reader downloads, without links and without what somebody left behind."""
    paths = (path for path in PRACTICE.rglob("*") if PACKED.fullmatch(_within(path)))
    return sorted(path for path in paths if path.is_file() and not path.is_symlink())


def strays() -> list[str]:
    """Return a line for each file in ``practice/`` that is neither downloaded nor kept for the site."""
    paths = (path for path in sorted(PRACTICE.rglob("*")) if path.is_symlink() or not path.is_dir())
    unknown = (
        path
        for path in paths
        if path.is_symlink() or not (PACKED.fullmatch(_within(path)) or KEPT.fullmatch(_within(path)))
    )
    return [f"practice/{_within(path)}: it is no part of the exercises; move it to practice/mine/" for path in unknown]


def _within(path: Path) -> str:
    return path.relative_to(PRACTICE).as_posix()
