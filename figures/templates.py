# SPDX-License-Identifier: Apache-2.0
"""Jinja2 for figures: what is not markup already is escaped."""

from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

HERE = Path(__file__).parent


@cache
def environment(*folders: Path) -> jinja2.Environment:
    """Templates in some folders; an undefined name is an error."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, HERE]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, **values) -> Markup:
    """Fill in a template of this folder, such as ``chart/template.html``."""
    return Markup(environment().get_template(template).render(**values))
