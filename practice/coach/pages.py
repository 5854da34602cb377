# SPDX-License-Identifier: Apache-2.0
"""Read what the coach knows of the course: ``pages.json``. Needs no torch.

``python -m render.practice.handout`` writes that file.
"""

import json
import re
from functools import cache
from pathlib import Path

PRACTICE = Path(__file__).resolve().parent.parent
PAGE = re.compile(r"\b(?P<page>[\w/-]+\.(?:md|ipynb))(?:#(?P<place>[\w-]+))?")


@cache
def read(path: Path = PRACTICE / "pages.json") -> dict:
    """Return ``site``, its address or ""; ``exercises``, their names in the course's order; and ``titles`` by page.

    Without the file nothing is known.
    """
    nothing = {"site": "", "exercises": [], "titles": {}}
    try:
        return nothing | json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return nothing


def named(text: str, known: dict | None = None) -> str:
    """Return the text with each page by its title, and its address where that is known."""
    known = read() if known is None else known

    def name(match: re.Match) -> str:
        title = known["titles"].get(match["page"])
        if title is None:
            return match[0]
        place = f"#{match['place']}" if match["place"] else ""
        address = re.sub(r"\.(md|ipynb)$", "/", match["page"]) + place
        return f"{title} ({known['site'].rstrip('/')}/{address})" if known["site"] else title

    return PAGE.sub(name, text)
