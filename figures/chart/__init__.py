# SPDX-License-Identifier: Apache-2.0
"""A benchmark as lines over its sizes: the SVG that the recorder had matplotlib draw, and the table behind it."""

from markupsafe import Markup

from figures.registry import figure
from figures.table import table
from figures.templates import render
from recorder.project import Snippet
from recorder.recording import Recording
from recorder.recording import chart as stored


@figure(of="rows")
def chart(recording: Recording, *, name=..., share_of=None):
    """``share_of``: as in a table."""
    recording.benchmark(name)
    svg = stored(Snippet(recording.snippet), recording.device, name)
    return render("chart/template.html", svg=Markup(svg), table=table(recording, name=name, share_of=share_of))
