# SPDX-License-Identifier: Apache-2.0
"""Jinja2 for what stands around figures: what is not markup already is escaped."""

from pathlib import Path

from markupsafe import Markup

from figures.templates import environment

HERE = Path(__file__).parent / "templates"


def render(template: str, **values) -> Markup:
    """A template of this folder filled in."""
    return Markup(environment(HERE).get_template(template).render(**values))
