# SPDX-License-Identifier: Apache-2.0
"""The levels of memory as a ladder: a rung for each, with what it holds and how fast it is.

It takes a benchmark with a row for each level, nearest first, and the lines ``holds`` (bytes), ``answers``
(nanoseconds) and ``delivers`` (GB/s). A zero is something that was not measured. All bars are logarithmic: one
vertical line farther is ten times as much.
"""

from math import ceil, log2, log10

from markupsafe import Markup

from figures.registry import figure
from figures.svg import element, text
from figures.templates import render
from recorder.recording import Recording, Row

HUES = {"registers": "registers", "L1": "shared", "L2": "l2", "HBM": "hbm"}  # of theme/assets/tokens.css
WIDTH, NAMES, GAP, RUNG, HEAD = 460, 76, 12, 46, 40  # in the units of its viewBox
COLUMNS = {"holds": "holds", "answers": "answers after", "delivers": "delivers"}
BINARY = ("bytes", "KiB", "MiB", "GiB", "TiB")


@figure(of="rows")
def ladder(recording: Recording, *, name="ladder"):
    """Draw the picture, and its table to unfold."""
    rungs = recording.benchmark(name, *COLUMNS).medians()
    titles = ["Level", *map(str.capitalize, COLUMNS.values())]
    rows = [[level, *(say(line, rung[line]) for line in COLUMNS)] for level, rung in rungs.items()]
    return render("ladder/template.html", name=name, picture=draw(rungs), titles=titles, rows=rows)


def say(line: str, value: float) -> str:
    """Format a value with its unit, to three digits.

    >>> say("holds", 2**18), say("answers", 0.5), say("answers", 1500), say("delivers", 4200), say("delivers", 0)
    ('256 KiB', '0.5 ns', '1.5 µs', '4.2 TB/s', 'not measured')
    """
    if not value:
        return "not measured"
    if line == "holds":
        power = min(int(log2(value) // 10), len(BINARY) - 1)
        return f"{value / 2 ** (10 * power):.3g} {BINARY[power]}"
    small, large = {"answers": ("ns", "µs"), "delivers": ("GB/s", "TB/s")}[line]
    return f"{value:.3g} {small}" if round(value) < 1000 else f"{value / 1000:.3g} {large}"


def scale(values) -> tuple[int, int]:
    """Return the powers of ten that bound a column's axis: from below the least value to the greatest or above."""
    logs = [log10(value) for value in values if value]
    return ceil(min(logs)) - 1, ceil(max(logs))


def draw(rungs: dict[str, Row]) -> Markup:
    bottom = HEAD + RUNG * len(rungs)
    wide = (WIDTH - NAMES) / len(COLUMNS) - GAP
    label = lambda x, y, words, **how: text(x, y, words, font_size=11, halo=3, **how)
    parts = []
    for column, (line, title) in enumerate(COLUMNS.items()):
        left = NAMES + column * (wide + GAP)
        low, high = scale(rung[line] for rung in rungs.values())
        length = lambda power, low=low, high=high: (power - low) * wide / (high - low)
        parts.append(label(left, 14, title))
        for power in range(low, high + 1):
            path = f"M{left + length(power):.1f} {HEAD - 16}V{bottom}"
            parts.append(element("path", d=path, stroke="var(--rule)"))
        for y, (level, rung) in zip(range(HEAD, bottom, RUNG), rungs.items(), strict=True):
            if value := rung[line]:
                hue = f"var(--memory-{HUES[level]})" if level in HUES else "var(--ink-muted)"
                width = length(log10(value))
                parts.append(element("rect", x=left, y=y + 16, width=width, height=14, fill=hue))
            parts.append(label(left, y + 11, say(line, value), ink="ink" if value else "ink-muted"))
    for y, level in zip(range(HEAD, bottom, RUNG), rungs, strict=True):
        parts.append(label(0, y + 27, level, font_weight=700))
    sentences = (
        f"{level}: " + ", ".join(f"{title} {say(line, rung[line])}" for line, title in COLUMNS.items())
        for level, rung in rungs.items()
    )
    return element(
        "svg", *parts, class_="chart", role="img", viewBox=f"0 0 {WIDTH} {bottom}", aria_label="; ".join(sentences)
    )
