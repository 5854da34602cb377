# SPDX-License-Identifier: Apache-2.0
"""Read what one program did with each element of a matrix, and with lanes that reach beyond it."""

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from figures.accesses.reading import Tensor
from figures.words import runs
from recorder.recording import Access

STATES = {  # of a square, in the order in which they are drawn and explained
    "untouched": "not touched by this program",
    "loaded": "loaded",
    "stored": "stored",
    "off": "masked off",
    "stray": "loaded, but another element",
    "outside": "out of bounds",
}
Place = tuple[int, int]  # row and column, which may lie beyond the matrix


@dataclass(frozen=True)
class Tile:
    """A tile: the elements that one load or store means to touch."""

    op: str  # "load" or "store"
    rows: range
    columns: range

    def __iter__(self) -> Iterator[Place]:
        return itertools.product(self.rows, self.columns)


@dataclass
class Matrix:
    """One matrix of a launch: the state of each square, and its tiles in the order of access."""

    name: str
    tensor: Tensor
    tiles: list[Tile] = field(default_factory=list)

    def __post_init__(self):
        places = itertools.product(*map(range, self.tensor.shape))
        self.squares: dict[Place, str] = dict.fromkeys(places, "untouched")
        self.elements = frozenset(self.squares)

    def add(self, access: Access) -> None:
        """Enter the lanes of an access, each at the place in the matrix that its tile means."""
        (down, across), (vertical, horizontal) = access.shape, self.tensor.strides
        line, rest = divmod(access.offsets[0], max(vertical, horizontal, 1))
        rest //= max(min(vertical, horizontal), 1)
        row, column = (line, rest) if vertical >= horizontal else (rest, line)
        tile = Tile(access.op, range(row, row + down), range(column, column + across))
        self.tiles.append(tile)
        for place, offset, on in zip(tile, access.offsets, access.mask, strict=True):
            state = "stored" if access.op == "store" else "loaded"
            if not on:
                state = "off"
            elif offset not in self.tensor.offsets:
                state = "outside"
            elif place not in self.elements or offset != place[0] * vertical + place[1] * horizontal:
                state = "stray"
            self.squares[place] = state

    @property
    def size(self) -> tuple[int, int]:
        """Return its height and width in squares, with those of tiles that reach beyond it."""
        return 1 + max(row for row, _ in self.squares), 1 + max(column for _, column in self.squares)

    def tile_rows(self) -> list[tuple[str, str, str, str, str]]:
        """Return for each tile: op, step along K of a load, rows, columns, and how many lanes have which state."""
        rows = []
        for step, tile in enumerate(self.tiles):
            count = Counter(self.squares[place] for place in tile)
            lanes = ", ".join(f"{count[state]} {words}" for state, words in STATES.items() if count[state])
            rows.append((tile.op, str(step) if tile.op == "load" else "", runs(tile.rows), runs(tile.columns), lanes))
        return rows
