# SPDX-License-Identifier: Apache-2.0
"""The views that are figures: a recording, drawn, with the place of its run under it."""

from functools import partial
from inspect import signature

from markupsafe import Markup

from figures.registry import Figure, figures
from render import recordings
from render.page import Page
from render.templates import render
from render.views import frame
from render.views.registry import View, register


def show_figure(figure: Figure, page: Page, of: str | None = None, device: str = "cpu", **options) -> Markup:
    """Return a figure drawn from the recordings that a fence names, the first GPU's shown, the others' waiting.

    Args:
        of: The snippet's name; without it, the page's own.
        device: ``cpu``, the name of a GPU, or ``gpu`` for all that have a recording.
        options: The figure's own.

    Raises:
        RecorderError: There is no such recording, it is stale, or the figure cannot be drawn from it.
    """
    snippet = page.snippet(of)
    page.shown.setdefault(snippet, page.fence)
    # What a snippet prints here says nothing about another device, if that is how its settings say that it differs.
    live = figure.previewed and not snippet.settings.differs
    fetched = [recordings.fetch(page, snippet, each, live) for each in recordings.devices(snippet, device)]
    first, notice = fetched[0]
    if not first:
        return render("notice.html", notice=notice)
    page.figures[figure.name] = figure
    if len(fetched) == 1:  # else the switch says it
        page.places_of_runs[frame.place_of_run(first, figure)] = None
    else:
        page.gpus |= {each.device: recordings.gpu_name(each) for each, _ in fetched}
    return frame.by_gpu(
        {
            each.device: frame.with_foot(figure, each, figure.draw(each, **options), notice, page.name)
            for each, notice in fetched
        }
    )


COMMON = {name: each for name, each in signature(show_figure).parameters.items() if name in ("of", "device")}
for name, known in figures().items():
    register(View(name, partial(show_figure, known), {**known.options, **COMMON}))
