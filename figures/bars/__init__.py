# SPDX-License-Identifier: Apache-2.0
"""A few rows of a benchmark as bars from zero, one under the other, each with its name and its median.

A page names the rows and what to call them: ``rows: {eager: A loop in PyTorch, triton: Triton}``.
"""

from figures.registry import figure
from figures.templates import render
from recorder.project import RecorderError, nearest
from recorder.recording import Recording


@figure(of="rows")
def bars(recording: Recording, *, name=..., line=..., rows=..., title=None, best=None):
    """``line``: the benchmark's line that is drawn, in the unit of its y axis; ``best``: the row that stands out."""
    data = recording.benchmark(name, line)
    medians = data.medians()
    if unknown := [x for x in (*rows, *([best] if best else [])) if x not in medians]:
        raise RecorderError(f"there is no row {unknown[0]!r}{nearest(unknown[0], medians)}")
    values = {x: float(medians[x][line]) for x in rows}
    most = max(values.values())
    shown = [
        {
            "label": rows[x],
            "value": f"{said(value, most)} {data.ylabel}",
            "share": f"{100 * value / most:.2f}%",
            "best": x == best,
        }
        for x, value in values.items()
    ]
    return render("bars/template.html", bars=shown, title=title)


def said(value: float, most: float) -> str:
    """Write a value with as many decimals as the longest bar needs.

    >>> said(1.2649, 29.53), said(0.646, 7.7), said(16.7, 13232.4)
    ('1.3', '0.65', '17')
    """
    decimals = 2 if most < 10 else 1 if most < 1000 else 0
    return f"{value:,.{decimals}f}"
