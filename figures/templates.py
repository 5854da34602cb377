# SPDX-License-Identifier: Apache-2.0
"""Jinja2 for figures: what is not markup already is escaped."""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

HERE = Path(__file__).parent
ROOM = {4: 39, 5: 27}  # characters beside the first column, whose words wrap, that a phone has for so many columns
BAR = 9  # a share's bar is as wide as so many characters


@cache
def environment(*folders: Path) -> jinja2.Environment:
    """Templates in some folders; an undefined name is an error."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, HERE]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.tests["crowded"] = crowded
    return made


def crowded(titles: Sequence, rows: Iterable[Iterable] = ()) -> bool:
    """Return whether a phone would scroll these numbers sideways: a cell keeps to a line, a title breaks at blanks."""
    if len(titles) not in ROOM:
        return len(titles) > max(ROOM)
    widths = [max(map(len, re.split(r"\s|(?<=[_=])", _plain(title)))) for title in titles]
    for row in rows:
        widths = [max(width, _width(cell)) for width, cell in zip(widths, row, strict=False)]
    return sum(widths[1:]) > ROOM[len(titles)]


def _plain(cell) -> str:
    return Markup(cell).striptags()


def _width(cell) -> int:
    """Return how many characters a cell is wide; what is small stands on a line of its own."""
    lines = map(_plain, str(cell).split("<small>"))
    return max(*map(len, lines), BAR if 'class="share"' in str(cell) else 0)


def render(template: str, **values) -> Markup:
    """Fill in a template of this folder, such as ``chart/template.html``."""
    return Markup(environment().get_template(template).render(**values))
