# SPDX-License-Identifier: Apache-2.0
"""What each program of a launch touches: a column for each program, a row for each tensor, all of it in each cell."""

from markupsafe import Markup

from figures import svg
from figures.accesses.canvas import GAP, PITCH, Canvas
from figures.accesses.drawing import title_of
from figures.accesses.reading import Program, Tensor, described
from recorder.recording import Launch

LARGEST = 8  # squares of a row, at most: a phone has room for the names beside them
WIDEST = 720  # of all columns, in the SVG's own units
HEAD = 34  # the names of programs, and a rule in their colors
BESIDE = 34  # what a tensor's name and kind take
BETWEEN = 16  # two tensors, one above the other
LETTER = 7.6  # the width of a letter of a name
KINDS = {  # of squares, and what the key calls them
    "load": "loaded",
    "store": "stored",
    "off": "masked off",
    "outside": "out of bounds",
    "none": "not touched by this program",
}


def by_program(launch: Launch, programs: list[Program], tensors: list[Tensor]) -> dict | None:
    """Return the parts of the picture: its names, a column for each program, and the kinds of its squares.

    None for two tensors or fewer, where lanes can be drawn beside their elements; if programs are few or many, or have
    an own place each in a grid of two axes; or if there is no room for all.
    """
    blocks = [_Block(tensor, programs) for tensor in tensors]
    across = max((block.width for block in blocks), default=0) * PITCH
    names = max(LETTER * max(len(tensor.name) for tensor in tensors), 6.4 * 15) + GAP if tensors else 0
    whole = names + len(programs) * (across + 2 * GAP)
    few = 2 <= len(programs) <= 4 and len(tensors) > 2 and not any(size > 1 for size in launch.grid[1:])
    if not few or not blocks or across > LARGEST * PITCH or whole > WIDEST:
        return None
    kinds = {square[1] for block in blocks for program in programs for row in block.rows(program) for square in row}
    title = title_of(launch, programs)
    return {
        "id": svg.unique("programs"),
        "names": _Names(blocks, names).draw(),
        "columns": [(program.label, _Column(program, blocks, across).draw(title)) for program in programs],
        "em": f"{whole / 16:g}",
        "one": f"{(names + across + GAP) / 16:g}",
        "kinds": {kind: words for kind, words in KINDS.items() if kind in kinds},
    }


class _Block:
    """A tensor as it is drawn in each column: its rows, and in more of them what lanes name beyond its end."""

    def __init__(self, tensor: Tensor, programs: list[Program]):
        self.tensor = tensor
        self.width = max(map(len, tensor.rows))
        self.touched: dict[int, dict[int, str]] = {program.number: {} for program in programs}
        for program in programs:
            for strip in program.strips:
                for op, name in strip.accesses:
                    if name == tensor.name:
                        self._touch(self.touched[program.number], op, strip)
        beyond = sorted({offset for each in self.touched.values() for offset in each} - tensor.offsets)
        self.beyond = [beyond[i : i + self.width] for i in range(0, len(beyond), self.width)]

    def _touch(self, found: dict[int, str], op: str, strip) -> None:
        for offset, on in zip(strip.offsets, strip.mask, strict=True):
            kind = "off" if not on else op if offset in self.tensor.offsets else "outside"
            order = ("off", "load", "store", "outside")  # of what is said of one element, the last
            found[offset] = max(found.get(offset, "off"), kind, key=order.index)

    def rows(self, program: Program) -> list[list[tuple[int, str]]]:
        """Return the offsets of each row and what the program does there; of others' beyond the end, there is none."""
        found = self.touched[program.number]
        inside = [[(offset, found.get(offset, "none")) for offset in row] for row in self.tensor.rows]
        return inside + [[(offset, found.get(offset, "")) for offset in row] for row in self.beyond]

    @property
    def height(self) -> int:
        return max(PITCH * (len(self.tensor.rows) + len(self.beyond)), BESIDE) + BETWEEN


class _Names(Canvas):
    """The tensors' names, beside their rows."""

    def __init__(self, blocks: list[_Block], width: float):
        super().__init__()
        self.blocks, self.width = blocks, width

    def draw(self) -> Markup:
        y = HEAD
        for block in self.blocks:
            tensor = block.tensor
            self._text(0, y + 12, tensor.name, size=12.5, font="mono", weight=600)
            self._text(0, y + 28, f"{tensor.dtype}, {tensor.verb}", ink="ink-muted")
            if block.beyond and len(tensor.rows) > 1:
                self._text(0, y + PITCH * len(tensor.rows) + 18, "beyond its end", ink="ink-muted")
            y += block.height
        return svg.element("svg", *self.parts, aria_hidden="true", **_size(self.width, y - BETWEEN))


class _Column(Canvas):
    """One program, and all tensors as it sees them."""

    def __init__(self, program: Program, blocks: list[_Block], width: float):
        super().__init__()
        self.program, self.blocks, self.across = program, blocks, width

    def draw(self, title: str) -> Markup:
        color = svg.pid(self.program.number)
        self._text(0, 12, f"program {self.program.label}", size=12.5, weight=600)
        self.parts.append(svg.element("path", d=f"M0 21H{self.across - 3}", stroke=f"var(--{color})", stroke_width=3))
        y = HEAD
        for block in self.blocks:
            for number, row in enumerate(block.rows(self.program)):
                for column, (offset, kind) in enumerate(row):
                    self._element(column * PITCH, y + number * PITCH, offset, kind, color)
            y += block.height
        return svg.picture(
            self.id, f"{title}: program {self.program.label}",
            described([self.program], [block.tensor for block in self.blocks]),
            self._patterns(), *self.parts, **_size(self.across, y - BETWEEN),
        )  # fmt: skip

    def _element(self, x: float, y: float, offset: int, kind: str, color: str) -> None:
        if kind == "none":
            self._square(x, y, offset, "untouched", fill="currentColor", stroke=0)
        elif kind == "off":
            self._hatched(x, y, offset, color)
        elif kind == "outside":
            self._square(x, y, offset, "out-of-bounds", stroke=2)
        elif kind:
            filled = {"fill": "currentColor", "opacity": 0.42} if kind == "store" else {}
            self._square(x, y, offset, color, stroke=2, **filled)


def _size(width: float, height: float) -> dict[str, str]:
    return {"viewBox": f"-1 0 {svg.number(width)} {height}", "width": f"{width / 16:g}em"}
