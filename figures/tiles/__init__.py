# SPDX-License-Identifier: Apache-2.0
"""Draw what one program of a matrix product touched: ``a`` left of ``c``, and ``b`` above it.

A square is an element, or a lane where a tile reaches beyond its matrix; a frame is the tile of one load or store, and
its number the step along K. Everything is read from the recorded accesses of a launch (``matrix``).
"""

from functools import partial

from markupsafe import Markup

from figures import svg
from figures.accesses.reading import tensors_of
from figures.registry import figure
from figures.templates import render
from figures.tiles.matrix import STATES, Matrix
from recorder.project import RecorderError, nearest
from recorder.recording import Launch, Recording

WIDTH = 340  # of the widest matrix, in CSS pixels, where its squares can be as large as that
GAP = 34  # between the matrices, for the numbers of the steps
LARGEST = 4096  # squares that one picture may have
NAMES = ("a_ptr", "b_ptr", "c_ptr")  # of the kernel's arguments

_text = partial(svg.text, font="sans", font_size=12.5, font_weight=400, text_anchor="start")


@figure(of="launches")
def tiles(recording: Recording, *, launch=None, program=0):
    """``program``: its pid on axis 0."""
    seen = recording.traced(launch)
    if not 0 <= program < seen.grid[0]:
        raise RecorderError(f"there is no program {program!r}; its launch has {seen.grid[0]}")
    matrices = read(seen, program)
    rows = [
        [Markup("{} <code>{}</code>").format(op, matrix.name), *rest]
        for matrix in matrices
        for op, *rest in matrix.tile_rows()
    ]
    label = f"Table: the tiles of program {program} of {seen.kernel}"
    return render("tiles/template.html", picture=picture(matrices, seen.kernel, program), label=label, rows=rows)


def read(launch: Launch, program: int) -> list[Matrix]:
    """``a``, ``b`` and ``c`` as the program left them. Raises ``RecorderError``."""
    tensors, matrices = tensors_of(launch), []
    for name in NAMES:
        if name not in tensors or len(tensors[name].shape) != 2:
            raise RecorderError(f"{launch.kernel} has no matrix {name!r}{nearest(name, launch.arguments)}")
        matrices.append(Matrix(name.removesuffix("_ptr"), tensors[name]))
        for access in launch.accesses:
            if access.tensor == name and access.pid == (program, 0, 0) and len(access.shape) == 2:
                matrices[-1].add(access)
    if (squares := sum(len(matrix.squares) for matrix in matrices)) > LARGEST:
        raise RecorderError(f"a picture of {squares} squares is not legible; at most {LARGEST} are")
    return matrices


def picture(matrices: list[Matrix], kernel: str, program: int) -> Markup:
    a, b, _ = matrices
    pitch = max(7, min(10, WIDTH // max(side for matrix in matrices for side in matrix.size)))
    (_, a_width), (b_height, b_width), (c_height, _) = ((pitch * n for n in matrix.size) for matrix in matrices)
    used = [state for state in STATES if any(state in matrix.squares.values() for matrix in matrices)]
    middle, below = a_width + 2 * GAP, 20 + GAP + max(b_height, 18 * len(used) + 24)
    places = [(GAP, below), (middle, below - GAP - b_height), (middle, below)]
    id = svg.unique("tiles-picture")
    parts = [_text(0, 14, f"program {program}", font_weight=600), _text(0, below - 8, "step", ink="ink-muted")]
    for number, state in enumerate(used):
        parts += [_squares([(1, 27 + 18 * number)], state, id, 10), _text(18, 36 + 18 * number, STATES[state])]
    for matrix, (x, y) in zip(matrices, places, strict=True):
        for state in used:
            here = [(x + pitch * column, y + pitch * row) for (row, column), s in matrix.squares.items() if s == state]
            parts.append(_squares(here, state, id, pitch - 1.5))
        for step, tile in enumerate(matrix.tiles):
            left, top = x + pitch * tile.columns.start, y + pitch * tile.rows.start
            wide, high = pitch * len(tile.columns), pitch * len(tile.rows)
            frame = {"x": left - 0.75, "y": top - 0.75, "width": wide, "height": high}
            parts.append(svg.element("rect", **frame, fill="none", stroke="var(--ink)", stroke_width=1.5))
            if matrix is a:
                parts.append(_text(left + wide / 2, y - 8, step, text_anchor="middle", font_weight=600))
            elif matrix is b:
                parts.append(_text(x - 9, top + high / 2 + 4, step, text_anchor="end", font_weight=600))
        size = " × ".join(map(str, matrix.tensor.shape))
        under = y + pitch * matrix.size[0] + 16
        parts.append(_text(x, y - 8 if matrix is b else under, f"{matrix.name}: {size}", font="mono", ink="ink-muted"))
    bottom, width = below + c_height + 24, max(middle + max(b_width, 80) + 2, 300)
    summary = " ".join(_sentence(matrix.name, *tile) for matrix in matrices for tile in matrix.tile_rows())
    hatch = svg.element("defs", svg.hatch(id, every=3.5, stroke_width=1))
    return svg.picture(
        id, f"What program {program} of {kernel} touches", summary, hatch, *parts, class_="tiles-picture",
        viewBox=f"-1 0 {width} {bottom}", width=f"{width / 16:g}em", color=f"var(--{svg.pid(program)})",
    )  # fmt: skip


def _squares(corners: list[tuple[float, float]], state: str, id: str, side: float) -> Markup:
    """Draw all squares of one state as one path."""
    if not corners:
        return Markup()
    path = "".join(f"M{x:g} {y:g}h{side:g}v{side:g}h-{side:g}z" for x, y in corners)
    if state == "stray":  # crossed out
        path += "".join(f"M{x:g} {y:g}l{side:g} {side:g}m-{side:g} 0l{side:g} -{side:g}" for x, y in corners)
    style = {
        "untouched": {"fill": "var(--untouched)"},
        "loaded": {"fill": "currentColor", "fill_opacity": 0.15, "stroke": "currentColor"},
        "stored": {"fill": "currentColor", "fill_opacity": 0.75, "stroke": "currentColor"},
        "off": {"fill": f"url(#{id})", "stroke": "currentColor", "stroke_width": 0.4},
        "stray": {"fill": "none", "stroke": "currentColor"},
        "outside": {
            "color": "var(--out-of-bounds)", "fill": "currentColor", "fill_opacity": 0.3, "stroke": "currentColor",
        },
    }[state]  # fmt: skip
    return svg.element("path", d=path, **style)


def _sentence(name: str, op: str, step: str, rows: str, columns: str, lanes: str) -> str:
    return f"{f'Step {step}: ' if step else ''}{op} of {name}, rows {rows}, columns {columns}: {lanes}."
