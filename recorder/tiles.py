# SPDX-License-Identifier: Apache-2.0
"""The view that draws what one program of a matrix product touched: ``a`` left of ``c``, and ``b`` above it.

A square is an element, or a lane where a tile reaches beyond its matrix; a frame is the tile of one load or store, and
its number the step along K. Everything is read from the recorded accesses of a launch.
"""

import itertools
from dataclasses import dataclass, field

from recorder.picture import COLORS, _each, escape
from recorder.project import RecorderError, nearest

WIDTH = 340  # of the widest matrix, in CSS pixels, where its squares can be as large as that
GAP = 34  # between the matrices, for the numbers of the steps
LARGEST = 4096  # squares that one picture may have
STATES = {  # in the order in which they are drawn and explained
    "untouched": "not touched by this program",
    "loaded": "loaded",
    "stored": "stored",
    "off": "masked off",
    "stray": "loaded, but another element",
    "outside": "out of bounds",
}

_counter = itertools.count(1)


@dataclass
class Matrix:
    """One matrix of a launch: the state of each square, by row and column, and its tiles in the order of access."""

    name: str
    rows: int
    columns: int
    squares: dict[tuple[int, int], str]
    tiles: list[tuple[str, int, int, int, int]] = field(default_factory=list)  # op, first row and column, its sides

    def add(self, access: dict, strides: list[int]) -> None:
        """Enter the lanes of an access, each at the place in the matrix that its tile means."""
        down, across = access["shape"]
        outer = 0 if strides[0] >= strides[1] else 1
        first = divmod(access["offsets"][0], max(strides[outer], 1))
        row, column = (index // stride for index, stride in zip(first, (1, max(strides[1 - outer], 1)), strict=True))
        row, column = (row, column) if outer == 0 else (column, row)
        self.tiles.append((access["op"], row, column, down, across))
        elements = {r * strides[0] + c * strides[1] for r in range(self.rows) for c in range(self.columns)}
        for lane, (offset, on) in enumerate(zip(access["offsets"], access["mask"], strict=True)):
            place = row + lane // across, column + lane % across
            state = "stored" if access["op"] == "store" else "loaded"
            if not on:
                state = "off"
            elif offset not in elements:
                state = "outside"
            elif offset != place[0] * strides[0] + place[1] * strides[1] or place not in self.squares:
                state = "stray"
            self.squares[place] = state

    def size(self) -> tuple[int, int]:
        """How many squares it is high and wide, with those of tiles that reach beyond it."""
        return 1 + max(row for row, _ in self.squares), 1 + max(column for _, column in self.squares)


def tiles(snippet, recorded, *, launch=0, program=0):
    """What one program of a recorded matrix product touched of `a_ptr`, `b_ptr` and `c_ptr`."""
    from recorder.views import _launch  # which imports this module

    seen = _launch(recorded, launch)
    if not seen["accesses"]:
        raise RecorderError(f"the accesses of launch {launch} were not written down; only small ones are")
    if not 0 <= program < seen["grid"][0]:
        raise RecorderError(f"there is no program {program!r}; launch {launch} has {seen['grid'][0]}")
    matrices = []
    for name in ("a_ptr", "b_ptr", "c_ptr"):
        argument = seen["arguments"].get(name)
        if not isinstance(argument, dict) or len(argument.get("shape", ())) != 2:
            raise RecorderError(f"{seen['kernel']} has no matrix {name!r}{nearest(name, seen['arguments'])}")
        rows, columns = argument["shape"]
        every = dict.fromkeys(itertools.product(range(rows), range(columns)), "untouched")
        matrix = Matrix(name.removesuffix("_ptr"), rows, columns, every)
        for access in seen["accesses"]:
            if access["tensor"] == name and access["pid"] == [program, 0, 0] and len(access["shape"]) == 2:
                matrix.add(access, argument["strides"])
        matrices.append(matrix)
    if (squares := sum(len(matrix.squares) for matrix in matrices)) > LARGEST:
        raise RecorderError(f"a picture of {squares} squares is not legible; at most {LARGEST} are")
    return svg(matrices, seen["kernel"], program) + (
        f'<details class="as-table"><summary>As a table</summary>{table(matrices, seen["kernel"], program)}</details>'
    )


def svg(matrices: list[Matrix], kernel: str, program: int) -> str:
    a, b, _ = matrices
    pitch = max(7, min(10, WIDTH // max(sum((matrix.size() for matrix in matrices), ()))))
    (_, a_width), (b_height, b_width), (c_height, _) = ((pitch * n for n in matrix.size()) for matrix in matrices)
    used = [state for state in STATES if any(state in matrix.squares.values() for matrix in matrices)]
    middle, below = a_width + 2 * GAP, 20 + GAP + max(b_height, 18 * len(used) + 24)
    places = {"a": (GAP, below), "b": (middle, below - GAP - b_height), "c": (middle, below)}
    id, color = f"tiles-picture-{next(_counter)}", f"pid-{program % COLORS}"
    parts = [_text(0, 14, f"program {program}", weight=600), _text(0, below - 8, "step", muted=True)]
    for number, state in enumerate(used):
        parts += [_squares([(1, 27 + 18 * number)], state, id, 10), _text(18, 36 + 18 * number, STATES[state])]
    for matrix in matrices:
        x, y = places[matrix.name]
        for state in used:
            here = [(x + pitch * column, y + pitch * row) for (row, column), s in matrix.squares.items() if s == state]
            parts.append(_squares(here, state, id, pitch - 1.5))
        for step, (_, row, column, down, across) in enumerate(matrix.tiles):
            left, top = x + pitch * column, y + pitch * row
            parts.append(
                f'<rect x="{left - 0.75}" y="{top - 0.75}" width="{pitch * across}" height="{pitch * down}" '
                'fill="none" stroke="var(--ink)" stroke-width="1.5"/>'
            )
            if matrix is a:
                parts.append(_text(left + pitch * across / 2, y - 8, step, anchor="middle", weight=600))
            elif matrix is b:
                parts.append(_text(x - 9, top + pitch * down / 2 + 4, step, anchor="end", weight=600))
        label = f"{matrix.name}: {matrix.rows} × {matrix.columns}"
        under = y + pitch * matrix.size()[0] + 16
        parts.append(_text(x, y - 8 if matrix is b else under, label, font="mono", muted=True))
    bottom, width = below + c_height + 24, max(middle + max(b_width, 80) + 2, 300)
    return (
        f'<svg class="tiles-picture" role="img" aria-labelledby="{id}-title {id}-desc" viewBox="-1 0 {width} {bottom}" '
        f'width="{width / 16:g}em" style="max-width:100%" color="var(--{color})" xmlns="http://www.w3.org/2000/svg">'
        f'<title id="{id}-title">What program {program} of {escape(kernel)} touches</title>'
        f'<desc id="{id}-desc">{escape(" ".join(sentence(*each) for each in said(matrices)))}</desc>'
        f'<defs><pattern id="{id}" width="3.5" height="3.5" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><path d="M1 0V4" stroke="currentColor" stroke-width="1"/></pattern></defs>'
        f"{''.join(parts)}</svg>"
    )


def _squares(corners: list[tuple[float, float]], state: str, id: str, side: float) -> str:
    if not corners:
        return ""
    box = "".join(f"M{x:g} {y:g}h{side:g}v{side:g}h-{side:g}z" for x, y in corners)
    cross = "".join(f"M{x:g} {y:g}l{side:g} {side:g}m-{side:g} 0l{side:g} -{side:g}" for x, y in corners)
    red = 'color="var(--out-of-bounds)" '
    return {
        "untouched": f'<path d="{box}" fill="var(--untouched)"/>',
        "loaded": f'<path d="{box}" fill="currentColor" fill-opacity="0.15" stroke="currentColor"/>',
        "stored": f'<path d="{box}" fill="currentColor" fill-opacity="0.75" stroke="currentColor"/>',
        "off": f'<path d="{box}" fill="url(#{id})" stroke="currentColor" stroke-width="0.4"/>',
        "stray": f'<path d="{box}{cross}" fill="none" stroke="currentColor"/>',
        "outside": f'<path {red}d="{box}" fill="currentColor" fill-opacity="0.3" stroke="currentColor"/>',
    }[state]


def _text(x, y, text, *, anchor="start", weight=400, font="sans", muted=False) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="12.5" font-family="var(--{font})" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="var(--ink{"-muted" * muted})">{escape(str(text))}</text>'
    )


def said(matrices: list[Matrix]) -> list[tuple]:
    """What happened to each tile: step or None, matrix, op, its rows and columns, how many lanes had which state."""
    found = []
    for matrix in matrices:
        for step, (op, row, column, down, across) in enumerate(matrix.tiles):
            places = itertools.product(range(row, row + down), range(column, column + across))
            states = [matrix.squares[place] for place in places]
            count = {state: states.count(state) for state in STATES if state in states}
            rows, columns = range(row, row + down), range(column, column + across)
            found.append((step if op == "load" else None, matrix.name, op, _each(rows), _each(columns), count))
    return found


def sentence(step, name, op, rows, columns, count) -> str:
    lanes = ", ".join(f"{number} {STATES[state]}" for state, number in count.items())
    when = "" if step is None else f"Step {step}: "
    return f"{when}{op} of {name}, rows {rows}, columns {columns}: {lanes}."


def table(matrices: list[Matrix], kernel: str, program: int) -> str:
    rows = "".join(
        f'<tr><th scope="row">{op} <code>{name}</code></th><td>{"" if step is None else step}</td><td>{rows}</td>'
        f"<td>{columns}</td><td>{', '.join(f'{number} {STATES[state]}' for state, number in count.items())}</td></tr>"
        for step, name, op, rows, columns, count in said(matrices)
    )
    head = "".join(f'<th scope="col">{title}</th>' for title in ("access", "step", "rows", "columns", "lanes"))
    label = escape(f"Table: the tiles of program {program} of {kernel}")
    return (
        f'<div class="table-scroll table-scroll--words" tabindex="0" role="region" aria-label="{label}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
