# SPDX-License-Identifier: Apache-2.0
"""A few rows of a benchmark as bars from zero, one under the other, each with its name and its median.

A page names the rows and what to call them: ``rows: {eager: A loop in PyTorch, triton: Triton}``.
"""

from figures.registry import figure
from figures.templates import render
from recorder.project import RecorderError, nearest
from recorder.recording import Recording


@figure(of="rows")
def bars(recording: Recording, *, name=..., line=..., rows=...):
    """``line`` is the benchmark's line that is drawn; its unit is that of the benchmark's y axis."""
    data = recording.benchmark(name, line)
    medians = data.medians()
    if unknown := [x for x in rows if x not in medians]:
        raise RecorderError(f"there is no row {unknown[0]!r}{nearest(unknown[0], medians)}")
    values = {label: float(medians[x][line]) for x, label in rows.items()}
    most = max(values.values())
    shown = [(label, f"{said(value)} {data.ylabel}", f"{100 * value / most:.2f}%") for label, value in values.items()]
    return render("bars/template.html", bars=shown)


def said(value: float) -> str:
    """Write a value with three digits, or whole.

    >>> said(1.2649), said(29.53), said(13232.4)
    ('1.26', '29.5', '13,232')
    """
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
