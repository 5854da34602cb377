# SPDX-License-Identifier: Apache-2.0
"""The views ``modeled`` and ``unmodeled``: where the model of Triton in ``browser/`` differs, and what it lacks."""

from markupsafe import Markup

from browser.coverage import DIFFERENCES, NOT_MODELED
from render.page import Page
from render.templates import render
from render.views.registry import view


@view
def modeled(page: Page) -> Markup:
    """Return a table of differences, each with its reason."""
    return render("modeled.html", name="modeled", differences=DIFFERENCES, missing={})


@view
def unmodeled(page: Page) -> Markup:
    """Return a table of names that are missing, by the reason."""
    whys: dict[str, list[str]] = {}
    for name, why in NOT_MODELED.items():
        whys.setdefault(why, []).append(name)
    return render("modeled.html", name="unmodeled", differences=[], missing=whys)
