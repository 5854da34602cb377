# SPDX-License-Identifier: Apache-2.0
"""Draw a launch as a picture, for notebooks and pages, in the site's visual language. Needs nothing else.

A square is a lane of a program, with the offset of its element; its color is that of the program, in the site's fixed
order. Hatched: masked off. Red: out of bounds. A cross: wrong. Where the page has the site's colors, as custom
properties, they are taken, so that it follows light and dark.
"""

from html import escape
from math import ceil

COLORS = ("#0072b2", "#c77d00", "#008f68", "#b3589a", "#2f8fd0", "#8a7a00", "#6a5acd", "#5f6b73")
RED, INK, MUTED, PAPER = "#d4180a", "#1b2227", "#56626b", "#ffffff"
SANS, MONO = "system-ui, sans-serif", "ui-monospace, Menlo, Consolas, monospace"
PITCH, SIDE = 28, 25
COLUMNS = 12  # squares side by side, as on the site
LINES = 4  # of squares, of a program, at most
VERBS = {"load": "read", "store": "written", "atomic": "changed atomically"}
ON, OFF, WRONG, MISSED, OUTSIDE = "■", "·", "✗", "○", "!"  # as in ``draw``
SAID = {OUTSIDE: "out of bounds", WRONG: "wrong here", MISSED: "off, but never stored", OFF: "masked off", ON: "on"}


def color(name: str, otherwise: str) -> str:
    return f"var(--{name}, {otherwise})"


def launch(drawn: dict, name: str = "launch") -> str:
    """Return an ``<svg>`` of ``Finding.launch``; ``name`` begins the ids, which must differ on a page."""
    title = f"{drawn['tensor']}, {VERBS[drawn['op']]} on line {drawn['line']} of {drawn['kernel']}{_some(drawn)}"
    parts, used = [_text(0, 14, title, color("ink", INK), size=13, weight=600)], set()
    x, top, bottom, previous = 0, 26, 26, -1
    for entry in drawn["programs"]:
        hue = f"pid-{entry['program'] % len(COLORS)}"
        paint = color(hue, COLORS[entry["program"] % len(COLORS)])
        lanes = _shown(entry, drawn)
        across = _across(drawn, lanes)
        label = ("⋮ " if entry["program"] > previous + 1 else "") + f"program {_pid(entry)}"
        previous, wide = entry["program"], max(across * PITCH, 7 * len(label))
        if x and x + wide > COLUMNS * PITCH:
            x, top = 0, bottom
        parts.append(_text(x, top + 12, label, paint, weight=600))
        for place, lane in enumerate(lanes):
            state = entry["lanes"][lane]
            used.add(state)
            at = x + place % across * PITCH, top + 18 + place // across * PITCH
            parts.append(_square(*at, entry["offsets"][lane], state, paint, f"{name}-{hue}"))
            if [entry["program"], lane] == drawn["focus"]:
                parts.append(_frame(*at))
        bottom = max(bottom, top + 18 + ceil(len(lanes) / across) * PITCH + 8)
        x += wide + 14
    parts.append(_text(0, bottom + 12, _legend(used), color("ink-muted", MUTED)))
    width, height = max(COLUMNS * PITCH + 4, 7.4 * len(title), 6.2 * len(_legend(used))), bottom + 20
    hatches = "".join(_hatch(f"{name}-pid-{i}", color(f"pid-{i}", COLORS[i])) for i in range(len(COLORS)))
    ids = f'aria-labelledby="{name}-title {name}-desc"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="coach-launch" role="img" {ids} '
        f'viewBox="-2 -2 {width:g} {height:g}" width="{width:g}" font-family="{SANS}" font-size="12" '
        f'style="max-width: 100%; height: auto; background: {color("paper", PAPER)}">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(described(drawn))}</desc>'
        f"<defs>{hatches}</defs>{''.join(parts)}</svg>"
    )


def described(drawn: dict) -> str:
    """Return the picture in words: how many lanes of each program are in which state."""
    message = []
    for entry in drawn["programs"]:
        counts = [f"{entry['lanes'].count(state)} {what}" for state, what in SAID.items() if state in entry["lanes"]]
        message.append(
            f"Program {_pid(entry)}, offsets {min(entry['offsets'])} to {max(entry['offsets'])}: {', '.join(counts)}."
        )
    return " ".join(message)


def _pid(entry: dict) -> str:
    return str(entry["pid"][0] if len(entry["pid"]) == 1 else tuple(entry["pid"]))


def _some(drawn: dict) -> str:
    """Say which lanes are drawn, where not all are."""
    first = drawn["programs"][0]
    lanes = _shown(first, drawn)
    return f": lanes {lanes[0]}–{lanes[-1]} of {len(first['lanes'])}" if len(lanes) < len(first["lanes"]) else ""


def _shown(entry: dict, drawn: dict) -> list[int]:
    """Return the lanes to draw: all, or some around the one in focus."""
    count = len(entry["lanes"])
    row = _row(drawn)
    most = LINES * (row or COLUMNS)
    first = max(0, min(drawn["focus"][1] - most // 2, count - most)) // (row or 1) * (row or 1)
    return list(range(first, min(count, first + most)))


def _row(drawn: dict) -> int:
    """Return the length of a row of the block, or 0 where its squares would not fit."""
    row = drawn["shape"][-1] if len(drawn["shape"]) > 1 else 0
    return row if row <= COLUMNS else 0


def _across(drawn: dict, lanes: list[int]) -> int:
    """Place a row of a block as a row of squares, where it fits."""
    return _row(drawn) or min(COLUMNS, max(1, len(lanes)))


def _square(x, y, offset, state, paint, hatch) -> str:
    if state == OUTSIDE:  # red means nothing else
        paint = color("out-of-bounds", RED)
    on = state in (ON, WRONG, OUTSIDE)
    fill = f'fill="{paint}" fill-opacity="0.14"' if on else f'fill="url(#{hatch})"'
    dash = "" if on else ' stroke-dasharray="3 2.5"'
    box = f'<rect x="{x + 1}" y="{y + 1}" width="{SIDE}" height="{SIDE}" rx="9" {fill} stroke="{paint}" '
    box += f'stroke-width="{2 if state in (OUTSIDE, WRONG) else 1.5}"{dash}/>'
    size, middle = 12 if len(str(offset)) < 4 else 8.5, x + 1 + SIDE / 2
    halo = "" if on else f' stroke="{color("paper", PAPER)}" stroke-width="4" paint-order="stroke"'
    box += (
        f'<text x="{middle:g}" y="{y + 18}" text-anchor="middle" font-size="{size}" font-family="{MONO}" '
        f'fill="{color("ink", INK)}"{halo}>{offset}</text>'
    )
    if state in (OUTSIDE, WRONG):  # not by color alone
        ink = paint if state == OUTSIDE else color("ink", INK)
        box += f'<path d="M{x + 3} {y + 3}l5 5m0 -5l-5 5" stroke="{ink}" stroke-width="1.5"/>'
    if state == MISSED:
        box += f'<circle cx="{x + 5.5}" cy="{y + 5.5}" r="2.5" fill="none" stroke="{color("ink", INK)}"/>'
    return box


def _frame(x, y) -> str:
    """Draw a frame around the lane in focus."""
    stroke = f'fill="none" stroke="{color("ink", INK)}" stroke-width="1.5"'
    return f'<rect x="{x - 1}" y="{y - 1}" width="{PITCH + 1}" height="{PITCH + 1}" rx="10" {stroke}/>'


def _text(x, y, message, fill, size=12.0, weight=400) -> str:
    return f'<text x="{x}" y="{y}" fill="{fill}" font-size="{size:g}" font-weight="{weight}">{escape(message)}</text>'


def _legend(used: set[str]) -> str:
    words = {
        ON: "filled: on",
        OFF: "hatched: masked off",
        OUTSIDE: "red ×: out of bounds",
        WRONG: "×: on, wrong here",
        MISSED: "○: off, but never stored",
    }
    return " · ".join(message for state, message in words.items() if state in used)


def _hatch(name: str, paint: str) -> str:
    return (
        f'<pattern id="{name}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<path d="M1 0V6" stroke="{paint}" stroke-width="1.5" stroke-opacity="0.6"/></pattern>'
    )
