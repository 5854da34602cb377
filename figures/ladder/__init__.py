# SPDX-License-Identifier: Apache-2.0
"""The levels of memory as a ladder: a rung for each, with what it holds and how fast it is.

It takes a benchmark with a row for each level, nearest first, and the lines ``holds`` (bytes), ``answers``
(nanoseconds) and ``delivers`` (GB/s). A zero is something that was not measured. Each line is a panel of dots, not of
bars: on a logarithmic axis a bar's length means nothing. Its lines are labeled, and it says how far they are apart.
"""

from math import ceil, floor, log10
from typing import NamedTuple

from figures.registry import figure
from figures.templates import render
from recorder.recording import Recording, Row

HUES = {"registers": "registers", "L1": "shared", "L2": "l2", "HBM": "hbm"}  # of theme/assets/tokens.css
COLUMNS = {"holds": "holds", "answers": "answers after", "delivers": "delivers"}
BINARY = ("bytes", "KiB", "MiB", "GiB", "TiB")
LINES = 5  # in a panel, at most


class Panel(NamedTuple):
    """One line of the benchmark for all levels; places are percent of the panel's width."""

    title: str
    factor: int  # from one vertical line to the next
    lines: list[tuple[float, str]]
    rungs: list[tuple[str, str, str, float | None]]  # level, color, value, place


@figure(of="rows")
def ladder(recording: Recording, *, name="ladder"):
    """Draw the panels, and their table to unfold."""
    rungs = recording.benchmark(name, *COLUMNS).medians()
    titles = ["Level", *map(str.capitalize, COLUMNS.values())]
    rows = [[level, *(say(line, rung[line]) for line in COLUMNS)] for level, rung in rungs.items()]
    sentences = (
        f"{level}: " + ", ".join(f"{title} {say(line, rung[line])}" for line, title in COLUMNS.items())
        for level, rung in rungs.items()
    )
    panels = [panel(line, rungs) for line in COLUMNS]
    return render(
        "ladder/template.html", name=name, panels=panels, label="; ".join(sentences), titles=titles, rows=rows
    )


def say(line: str, value: float) -> str:
    """Format a value with its unit, to three digits.

    >>> say("holds", 2**18), say("answers", 0.5), say("answers", 1500), say("delivers", 4200), say("delivers", 0)
    ('256 KiB', '0.5 ns', '1.5 µs', '4.2 TB/s', 'not measured')
    """
    if not value:
        return "not measured"
    if line == "holds":
        power = min(int(value).bit_length() - 1, 49) // 10
        return f"{value / 2 ** (10 * power):.3g} {BINARY[power]}"
    small, large = {"answers": ("ns", "µs"), "delivers": ("GB/s", "TB/s")}[line]
    return f"{value:.3g} {small}" if round(value) < 1000 else f"{value / 1000:.3g} {large}"


def scale(line: str, values: list[float]) -> list[float]:
    """Return where a panel has its lines: from the least value or below to the greatest or above, by one factor.

    >>> scale("answers", [20, 500]), scale("holds", [2**18, 2**37])
    ([10, 100, 1000], [1024, 1048576, 1073741824, 1099511627776])
    """
    base = 1024 if line == "holds" else 10
    logs = [log10(value) / log10(base) for value in values if value]
    low, high = floor(min(logs)), ceil(max(logs))
    step = ceil((max(high, low + 1) - low) / (LINES - 1))
    return [base**power for power in range(low, low + step * ceil((max(high, low + 1) - low) / step) + 1, step)]


def panel(line: str, rungs: dict[str, Row]) -> Panel:
    lines = scale(line, [rung[line] for rung in rungs.values()])
    at = lambda value: 100 * log10(value / lines[0]) / log10(lines[-1] / lines[0])
    hue = lambda level: f"var(--memory-{HUES[level]})" if level in HUES else "var(--ink-muted)"
    return Panel(
        COLUMNS[line],
        round(lines[1] / lines[0]),
        [(at(value), say(line, value)) for value in lines],
        [
            (level, hue(level), say(line, rung[line]), at(rung[line]) if rung[line] else None)
            for level, rung in rungs.items()
        ],
    )
