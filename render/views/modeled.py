# SPDX-License-Identifier: Apache-2.0
"""The view ``modeled``: where the model of Triton that runs in a browser differs from Triton, and what it lacks."""

from markupsafe import Markup

from browser.coverage import DIFFERENCES, NOT_MODELED
from render.page import Page
from render.templates import render
from render.views.registry import view


@view
def modeled(page: Page, part: str = "differences") -> Markup:
    """Return a table: ``part`` is ``differences`` or ``missing``."""
    if part == "missing":
        whys: dict[str, list[str]] = {}
        for name, why in NOT_MODELED.items():
            whys.setdefault(why, []).append(name)
        return render("modeled.html", missing=whys, differences=[])
    return render("modeled.html", missing={}, differences=DIFFERENCES)
