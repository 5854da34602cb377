# SPDX-License-Identifier: Apache-2.0
"""Jinja2's templates for the HTML around figures. They escape all that is not markup already."""

from pathlib import Path

from markupsafe import Markup

from figures.templates import environment

HERE = Path(__file__).parent / "templates"


def render(template: str, **values) -> Markup:
    """Return a template of this folder, filled in."""
    return Markup(environment(HERE).get_template(template).render(**values))
