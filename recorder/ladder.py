# SPDX-License-Identifier: Apache-2.0
"""The view that draws the levels of memory as a ladder: a rung for each, with what it holds and how fast it is.

It takes a benchmark with a row for each level, nearest first, and the lines ``holds`` (bytes), ``answers``
(nanoseconds) and ``delivers`` (GB/s). A zero is something that was not measured. All bars are logarithmic: one
vertical line farther is ten times as much.
"""

import math
from html import escape

from recorder import claims
from recorder.project import RecorderError, nearest

HUES = {"registers": "registers", "L1": "shared", "L2": "l2", "HBM": "hbm"}  # of theme/assets/tokens.css
WIDTH, NAMES, GAP, RUNG, HEAD = 460, 76, 12, 46, 40  # in the SVG's own units, as charts have them
COLUMNS = {"holds": "holds", "answers": "answers after", "delivers": "delivers"}
BINARY = ("bytes", "KiB", "MiB", "GiB", "TiB")


def ladder(snippet, recorded, *, name="ladder") -> str:
    """The picture, and its table to unfold."""
    tables = {table["name"]: table for table in recorded["benchmarks"]}
    if name not in tables:
        raise RecorderError(f"there is no benchmark {name!r}{nearest(name, tables)}")
    data = tables[name]
    if missing := [line for line in COLUMNS if line not in data["lines"]]:
        raise RecorderError(f"{name!r} is no ladder: it has no line {missing[0]!r}")
    rungs = {level: {line: getattr(row, line) for line in COLUMNS} for level, row in claims.medians(data).items()}
    head = "".join(f'<th scope="col">{title}</th>' for title in ("Level", *map(str.capitalize, COLUMNS.values())))
    body = "".join(
        f'<tr><th scope="row">{escape(level)}</th>{"".join(f"<td>{say(*cell)}</td>" for cell in rung.items())}</tr>'
        for level, rung in rungs.items()
    )
    return (
        f'{draw(rungs)}<details class="as-table"><summary>The numbers</summary>'
        f'<div class="table-scroll" tabindex="0" role="region" aria-label="{escape(name)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def say(line: str, value: float) -> str:
    """A value with its unit, to three digits.

    >>> say("holds", 2**18), say("answers", 0.5), say("answers", 1500), say("delivers", 4200), say("delivers", 0)
    ('256 KiB', '0.5 ns', '1.5 µs', '4.2 TB/s', 'not measured')
    """
    if not value:
        return "not measured"
    if line == "holds":
        power = min(int(math.log2(value) // 10), len(BINARY) - 1)
        return f"{value / 2 ** (10 * power):.3g} {BINARY[power]}"
    small, large = {"answers": ("ns", "µs"), "delivers": ("GB/s", "TB/s")}[line]
    return f"{value:.3g} {small}" if round(value) < 1000 else f"{value / 1000:.3g} {large}"


def scale(values) -> tuple[int, int]:
    """The powers of ten between which a column's axis runs: from below the least value to the greatest or above."""
    logs = [math.log10(value) for value in values if value]
    return math.ceil(min(logs)) - 1, math.ceil(max(logs))


def draw(rungs: dict) -> str:
    bottom = HEAD + RUNG * len(rungs)
    wide = (WIDTH - NAMES) / len(COLUMNS) - GAP
    parts, said = [], []
    for number, (line, title) in enumerate(COLUMNS.items()):
        left = NAMES + number * (wide + GAP)
        low, high = scale(rung[line] for rung in rungs.values())
        parts.append(_text(left, 14, title, "ink"))
        for power in range(low, high + 1):
            x = left + (power - low) * wide / (high - low)
            parts.append(f'<path d="M{x:.1f} {HEAD - 16}V{bottom}" stroke="var(--rule)"/>')
        for row, (level, rung) in enumerate(rungs.items()):
            y, hue = HEAD + row * RUNG, f"var(--memory-{HUES[level]})" if level in HUES else "var(--ink-muted)"
            if rung[line]:
                length = (math.log10(rung[line]) - low) * wide / (high - low)
                parts.append(f'<rect x="{left:.1f}" y="{y + 16}" width="{length:.1f}" height="14" fill="{hue}"/>')
            parts.append(_text(left, y + 11, say(line, rung[line]), "ink" if rung[line] else "ink-muted"))
    for row, (level, rung) in enumerate(rungs.items()):
        parts.append(_text(0, HEAD + row * RUNG + 27, level, "ink", bold=True))
        said.append(f"{level}: " + ", ".join(f"{COLUMNS[line]} {say(line, value)}" for line, value in rung.items()))
    return (
        f'<svg class="chart" role="img" viewBox="0 0 {WIDTH} {bottom}" aria-label="{escape("; ".join(said))}">'
        f"{''.join(parts)}</svg>"
    )


def _text(x, y, text, ink, bold=False) -> str:
    weight = ' font-weight="700"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y}" fill="var(--{ink})" font-size="11"{weight} stroke="var(--paper)" stroke-width="3" '
        f'stroke-linejoin="round" paint-order="stroke">{escape(str(text))}</text>'
    )
