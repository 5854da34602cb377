# SPDX-License-Identifier: Apache-2.0
"""A few rows of a benchmark as bars from zero, one under the other, each with its name before it and its median behind.

A page names the rows and what to call them: ``rows: {eager: A loop in PyTorch, triton: Triton}``.
"""

import re

from figures.registry import figure
from figures.templates import render
from recorder.project import RecorderError, nearest
from recorder.recording import Recording


@figure(of="rows")
def bars(
    recording: Recording, *, name=..., line=..., rows=..., title=None, best=None, sort=False, level=None, broken=None
):
    """``line``: the benchmark's line that is drawn, in the unit of its y axis; ``best``: the row that stands out.

    ``title``: what the bars say; a row's name in braces stands for its value. ``sort``: the shortest first; ``level``:
    the row whose end is a line through all; ``broken``: the row that is so long that its bar has a gap, for the others
    to be told apart.
    """
    data = recording.benchmark(name, line)
    medians = data.medians()
    if unknown := [x for x in (*rows, *filter(None, (best, level, broken))) if x not in medians]:
        raise RecorderError(f"there is no row {unknown[0]!r}{nearest(unknown[0], medians)}")
    values = {x: float(medians[x][line]) for x in rows}
    words = {x: f"{said(value, max(values.values()))} {data.ylabel}" for x, value in values.items()}
    if sort:
        values = dict(sorted(values.items(), key=lambda item: item[1]))
    most = max(value for x, value in values.items() if x != broken)
    most *= 1.25 if broken in values else 1  # which leaves room for the gap
    shown = [
        {
            "label": rows[x],
            "value": words[x],
            "share": f"{100 * min(value / most, 1):.2f}%",
            "kind": "best" if x == best else "broken" if x == broken else "level" if x == level else "",
        }
        for x, value in values.items()
    ]
    end = f"{values[level] / most:.4f}" if level in values else ""
    title = title and _filled(title, {str(x): text for x, text in words.items()})
    return render("bars/template.html", bars=shown, title=title, level=end)


def _filled(title: str, values: dict[str, str]) -> str:
    """Return a title with values in place of braces with the names of their rows."""
    named = set(re.findall(r"\{(.+?)\}", title))
    if unknown := sorted(named - set(values)):
        raise RecorderError(f"a title has no {unknown[0]!r}{nearest(unknown[0], values)}")
    return re.sub(r"\{(.+?)\}", lambda name: values[name[1]], title)


def said(value: float, most: float) -> str:
    """Write a value with as many decimals as the longest bar needs.

    >>> said(1.2649, 29.53), said(0.646, 7.7), said(16.7, 13232.4)
    ('1.3', '0.65', '17')
    """
    decimals = 2 if most < 10 else 1 if most < 1000 else 0
    return f"{value:,.{decimals}f}"
