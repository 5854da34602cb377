# SPDX-License-Identifier: Apache-2.0
"""The picture of a walk: ``a`` at the left, ``b`` above, and ``c`` in the corner between them.

Squares are a unit wide, so that they scale; texts are placed in percent, so that they do not.
"""

from functools import partial

from markupsafe import Markup

from figures import svg
from figures.svg import element
from figures.tiles.matrix import Matrix, Tile
from figures.walk.reading import Walk

GAP = 5  # between the matrices: room for the values of k
KINDS = {  # of squares, and what is drawn of each
    "untouched": element("rect", x=0.06, y=0.06, width=0.88, height=0.88),
    "loaded": element("rect", x=0.11, y=0.11, width=0.78, height=0.78),
    "stored": element("rect", x=0.11, y=0.11, width=0.78, height=0.78),
    "off": element("path", d="M-.1.6L.6-.1M.1 1.1L1.1.1M.4 1.1L1.1.4M-.1 1.1L1.1-.1"),
}


class Picture:
    """Draw all programs of a launch. Each has groups of its own, of which one is displayed."""

    def __init__(self, walks: list[Walk], shown: int):
        self.walks, self.shown = walks, shown
        self.ids = {kind: svg.unique(f"walk-{kind}") for kind in KINDS}
        high, wide = ({n: max(w.matrices[i].size[axis] for w in walks) for i, n in enumerate("abc")} for axis in (0, 1))
        right, below = wide["a"] + GAP, high["b"] + GAP
        self.corners = {"a": (0, below), "b": (right, 0), "c": (right, below)}
        self.size = right + max(wide["b"], wide["c"]), below + max(high["a"], high["c"])

    def shapes(self) -> Markup:
        squares = (element("pattern", drawn, id=self.ids[kind], class_=f"walk__{kind}", width=1, height=1,
                           patternUnits="userSpaceOnUse") for kind, drawn in KINDS.items())  # fmt: skip
        parts = [element("defs", *squares)]
        for matrix in self.walks[0].matrices:
            rows, columns = map(range, matrix.tensor.shape)
            parts.append(self._squares("untouched", matrix, Tile("", rows, columns)))
        for walk in self.walks:
            hidden = None if walk.program == self.shown else "none"
            parts.append(element("g", *self._touched(walk), data_program=walk.program, display=hidden))
        for tile in self.walks[0].steps[0]:
            parts.append(element("rect", class_="walk__moving", width=len(tile.columns), height=len(tile.rows)))
        for walk in self.walks:
            parts.append(self._rect(walk.c, walk.tile, data_tile=walk.program, class_="walk__choice"))
        return Markup("").join(parts)

    def _touched(self, walk: Walk) -> list[Markup]:
        """Return a group for each step, and one for the store."""
        steps = [[(walk.a, a), (walk.b, b)] for a, b in walk.steps] + [[(walk.c, walk.tile)]]
        return [
            element("g", *(part for access in accesses for part in self._access(walk, *access)), data_at=step)
            for step, accesses in enumerate(steps)
        ]

    def _access(self, walk: Walk, matrix: Matrix, tile: Tile) -> list[Markup]:
        on = walk.inside(matrix, tile)
        kind = "stored" if tile.op == "store" else "loaded"
        parts = [self._squares(kind, matrix, on)]
        if (on.rows, on.columns) != (tile.rows, tile.columns):
            parts.append(self._squares("off", matrix, tile, on))
        return [element("g", *parts), self._rect(matrix, tile, class_="walk__frame")]

    def _squares(self, kind: str, matrix: Matrix, tile: Tile, but: Tile | None = None) -> Markup:
        """Return all squares of a tile, except those of another."""
        path = "".join(map(partial(self._path, matrix), filter(None, (tile, but))))
        return element("path", d=path, fill=f"url(#{self.ids[kind]})", fill_rule="evenodd" if but else None)

    def _path(self, matrix: Matrix, tile: Tile) -> str:
        x, y = self._at(matrix, tile)
        return f"M{x} {y}h{len(tile.columns)}v{len(tile.rows)}h-{len(tile.columns)}z"

    def _rect(self, matrix: Matrix, tile: Tile, **look) -> Markup:
        x, y = self._at(matrix, tile)
        return element("rect", x=x, y=y, width=len(tile.columns), height=len(tile.rows), **look)

    def _at(self, matrix: Matrix, tile: Tile) -> tuple[int, int]:
        x, y = self.corners[matrix.name]
        return x + tile.columns.start, y + tile.rows.start

    def texts(self) -> Markup:
        """Names of the matrices; and each value of k, above its tile of ``a`` and left of that of ``b``."""
        walk, parts = self.walks[0], []
        (a_left, a_top), (b_left, b_top) = self.corners["a"], self.corners["b"]
        under = {"y": "100%", "dy": 14}
        for matrix, place in ((walk.a, under), (walk.b, {"y": 0, "dy": -6}), (walk.c, under)):
            x, anchor = (0, "start") if matrix is walk.a else ("100%", "end")
            name = f"{matrix.name}: {' × '.join(map(str, matrix.tensor.shape))}"
            parts.append(svg.text(x, content=name, ink="ink-muted", font="mono", text_anchor=anchor, **place))
        for k, (a, b) in zip(walk.ks, walk.steps, strict=True):
            x, y = self._across(a_left + k + len(a.columns) / 2), self._down(a_top)
            parts.append(svg.text(x, y, f"k = {k}", dy=-5, text_anchor="middle"))
            x, y = self._across(b_left), self._down(b_top + k + len(b.rows) / 2)
            parts.append(svg.text(x, y, k, dx=-5, dy=4, text_anchor="end"))
        return Markup("").join(parts)

    def _across(self, x: float) -> str:
        return f"{x / self.size[0]:.2%}"

    def _down(self, y: float) -> str:
        return f"{y / self.size[1]:.2%}"
