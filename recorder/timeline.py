# SPDX-License-Identifier: Apache-2.0
"""The view that draws when the host and the GPU were busy: two lanes over one axis of time.

It takes a benchmark with a row for each call, numbered from 1, and two lines for each kind of bar, ``kernel_begin`` and
``kernel_end``, say. Bars of the kind ``host`` are on the host's lane, all others on the GPU's.
"""

from html import escape

from recorder import claims
from recorder.project import RecorderError, nearest

WIDTH, LEFT, RIGHT, LANE, GAP = 460, 44, 32, 30, 12  # in the SVG's own units, as charts have them
FILLS = {"host": "var(--ink-muted)", "kernel": "var(--ink)"}  # what is neither is an outline


def timeline(snippet, recorded, *, name="timeline") -> str:
    """The picture, what its bars are, and its table to unfold."""
    tables = {table["name"]: table for table in recorded["benchmarks"]}
    if name not in tables:
        raise RecorderError(f"there is no benchmark {name!r}{nearest(name, tables)}")
    data = tables[name]
    rows, kinds = claims.medians(data), kinds_of(data)
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in (data["xlabel"], *data["lines"].values()))
    body = "".join(
        f"<tr><td>{number}</td>{''.join(f'<td>{getattr(row, line):.0f}</td>' for line in data['lines'])}</tr>"
        for number, row in rows.items()
    )
    return (
        f"{draw(data, rows, kinds)}"
        f'<details class="as-table"><summary>The numbers, in {escape(data["ylabel"])}</summary>'
        f'<div class="table-scroll" tabindex="0" role="region" aria-label="{escape(name)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def kinds_of(data: dict) -> list[str]:
    """The kinds of bars in a table, from the names of its lines."""
    found = [line.removesuffix("_begin") for line in data["lines"] if line.endswith("_begin")]
    missing = [f"{kind}_end" for kind in found if f"{kind}_end" not in data["lines"]]
    if not found or missing:
        raise RecorderError(f"{data['name']!r} is no timeline: it has no line {(missing or ['…_begin'])[0]!r}")
    return found


def draw(data: dict, rows: dict, kinds: list[str]) -> str:
    end = max(getattr(row, f"{kind}_end") for row in rows.values() for kind in kinds)
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9) if end / step <= 8)
    x = lambda time: LEFT + time * (WIDTH - LEFT - RIGHT) / end
    top = {"host": GAP, "GPU": 2 * GAP + LANE}
    bottom = top["GPU"] + LANE + GAP / 2
    parts = [_text(0, y, lane, "start") for lane, y in top.items()]
    for tick in range(0, int(end) + 1, step):
        parts.append(f'<path d="M{x(tick):.1f} {GAP / 2}V{bottom}" stroke="var(--rule)"/>')
        parts.append(_text(x(tick), bottom - 4, f"{tick} {data['ylabel']}" if tick + step > end else tick))
    said = []
    for number, row in rows.items():
        for kind in kinds:
            begin, stop = x(getattr(row, f"{kind}_begin")), x(getattr(row, f"{kind}_end"))
            fill, y = FILLS.get(kind, "var(--paper)"), top["host" if kind == "host" else "GPU"]
            parts.append(
                f'<rect x="{begin:.1f}" y="{y}" width="{max(stop - begin, 1):.1f}" height="{LANE}" '
                f'fill="{fill}" stroke="var(--ink-muted)"/>'
            )
            if stop - begin > 10:  # else the number would not fit
                parts.append(_text((begin + stop) / 2, y, number, ink="ink" if kind not in FILLS else "paper"))
        said.append(", ".join(f"{label} {getattr(row, line):.0f}" for line, label in data["lines"].items()))
    label = f"In {data['ylabel']}. " + "; ".join(f"{n}: {text}" for n, text in zip(rows, said, strict=True))
    return (
        f'<svg class="chart" role="img" viewBox="0 0 {WIDTH} {bottom + 22}" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )


def _text(x, y, text, anchor="middle", ink="ink-muted") -> str:
    return (
        f'<text x="{x:.1f}" y="{y + LANE * 0.62:.1f}" text-anchor="{anchor}" fill="var(--{ink})" font-size="11">'
        f"{escape(str(text))}</text>"
    )
