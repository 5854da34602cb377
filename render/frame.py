# SPDX-License-Identifier: Apache-2.0
"""What stands around a figure: where it ran, how to repeat it; and, once a page, its styles and script."""

import re
from collections.abc import Iterable

from markupsafe import Markup, escape

from figures.registry import FEET, Figure
from recorder import recording
from recorder.project import Snippet, relative
from recorder.recording import Provenance, Recording
from render.code import file_id
from render.fresh import Notice
from render.templates import render


def where(made: Provenance, foot: str = FEET["rows"]) -> str:
    """Device, versions, date: a line such as those in ``figures.registry.FEET``, filled in."""
    return foot.format(device=made.device, triton=made.triton, torch=made.torch, date=made.date)


def framed(figure: Figure, made: Recording, body: Markup, notice: Notice = None) -> Markup:
    """A figure with its foot."""
    facts, snippet = made.provenance, Snippet(made.snippet)
    dated = re.sub(r"\d{4}-\d\d-\d\d", r"<time>\g<0></time>", str(escape(where(facts, figure.foot))))
    return render(
        "figure.html",
        figure=figure,
        recording=made,
        body=body,
        notice=notice,
        foot=Markup(dated),
        command=facts.command if figure.of == "output" else f"python -m recorder run {made.snippet}",
        device=facts.device + (f", driver {facts.driver}, {facts.runtime}" if facts.driver else ""),
        versions=f"Python {facts.python}, torch {facts.torch}, Triton {facts.triton}, NumPy {facts.numpy}",
        path=relative(recording.path_of(snippet, made.device)),
        file=file_id(snippet),
    )


def dressed(text: str, figures: Iterable[Figure]) -> str:
    """A page between the styles and the scripts of its figures, each folder's once."""
    rooms = {figure.folder: figure for figure in figures}.values()
    return f"{render('styles.html', figures=rooms)}{text}{render('scripts.html', figures=rooms)}" if rooms else text
