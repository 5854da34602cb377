# SPDX-License-Identifier: Apache-2.0
"""The view ``emblem``: what a chapter is about, as a small drawing. It is schematic and shows no measured number."""

from markupsafe import Markup

from recorder.project import RecorderError, nearest
from render.page import Page
from render.templates import render
from render.views.registry import view

CHAPTERS = ("programs", "gpu", "matmul", "fusion", "pytorch", "tools", "models", "below")
EMBLEMS = (*CHAPTERS, "play", "answer")  # and of what the course has beside its lessons


@view
def emblem(page: Page, name: str) -> Markup:
    """Return the drawing of a chapter, named as its folder is. What it says stands in words beside it."""
    if name not in EMBLEMS:
        raise RecorderError(f"there is no emblem {name!r}{nearest(str(name), EMBLEMS)}")
    return render("emblem.html", name=name)
