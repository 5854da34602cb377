# SPDX-License-Identifier: Apache-2.0
"""Read what one program of a matrix product loads, step by step along K, and stores; and describe it in words."""

import re
from dataclasses import dataclass

from figures.tiles import read
from figures.tiles.matrix import Matrix, Tile
from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Launch, Recording

SUM = re.compile(r"k from 0 to (\d+): (c\[(\d+), (\d+)\]) = (-?\d+)")


@dataclass(frozen=True)
class Sums:
    """An element of ``c`` as the run printed it: summed over some of K, and over all."""

    name: str  # "c[2, 5]"
    place: tuple[int, int]
    values: dict[int, int]  # by how many products


def partial_sums(recording: Recording, section: str) -> Sums:
    """Return the sums in a section of the output. Raise ``RecorderError`` if it has none of one element."""
    sections = printed.sections(recording.output)
    if section not in sections:
        raise RecorderError(f"the output has no section {section!r}{nearest(section, sections)}")
    matches = SUM.findall(sections[section])
    if len({name for _, name, *_ in matches}) != 1:
        raise RecorderError(f"section {section!r} must have partial sums of one element: k from 0 to 15: c[2, 5] = 8")
    (_, name, row, column, _), *_ = matches
    return Sums(name, (int(row), int(column)), {int(last) + 1: int(value) for last, *_, value in matches})


@dataclass(frozen=True)
class Moment:
    """A moment of the walk: the line that runs, the step along K, and how far the accumulator is then."""

    part: str  # "begin", "move", "load", "dot" or "store"
    step: int  # -1 before the loop; after it the number of steps
    products: int  # that each element of the accumulator holds
    sum: str  # of the element that was printed, if this program has it
    words: str


class Walk:
    """A program's walk. Raise ``RecorderError`` if it does not walk along K, or loads tiles that are not its own."""

    def __init__(self, seen: Launch, program: int, sums: Sums | None = None):
        self.program = program
        self.a, self.b, self.c = self.matrices = read(seen, program)
        self.steps = list(zip(self.a.tiles, self.b.tiles, strict=False))
        self.K = self.a.tensor.shape[1]
        if not self._walks():
            raise RecorderError(f"program {program} of {seen.kernel} does not walk along K, a tile after the other")
        (self.tile,) = self.c.tiles
        if any(self.inside(matrix, tile) is None for matrix in self.matrices for tile in matrix.tiles):
            raise RecorderError(f"program {program} of {seen.kernel} touches what lies beyond; `view: tiles` shows it")
        self.ends = [0, *(min(a.columns.stop, self.K) for a, _ in self.steps)]  # products after each step
        known = sums and sums.place in list(self.tile)
        if known and (missing := [end for end in self.ends[1:] if end not in sums.values]):
            raise RecorderError(f"the run printed no {sums.name} for the first {missing[0]} along K")
        self.known = sums if known else None

    def _walks(self) -> bool:
        if not self.steps or len(self.a.tiles) != len(self.b.tiles) or len(self.c.tiles) != 1:
            return False
        starts = list(range(0, self.K, len(self.a.tiles[0].columns)))
        return [a.columns for a, _ in self.steps] == [b.rows for _, b in self.steps] and starts == self.ks

    @property
    def ks(self) -> list[int]:
        return [a.columns.start for a, _ in self.steps]

    @staticmethod
    def inside(matrix: Matrix, tile: Tile) -> Tile | None:
        """Return the part of a tile whose lanes are on, or None if that is not its part inside the matrix."""
        rows, columns = matrix.tensor.shape
        part = Tile(tile.op, range(tile.rows.start, min(tile.rows.stop, rows)),
                    range(tile.columns.start, min(tile.columns.stop, columns)))  # fmt: skip
        on = {place for place in tile if matrix.squares[place] != "off"}
        sound = on == set(part) and {matrix.squares[place] for place in part} <= {"loaded", "stored"}
        return part if sound else None

    def cells(self) -> list[str]:
        """Tell which squares of the accumulator are masked off when stored, and which one was printed."""
        kinds = {"stored": "", "off": "off"}
        return ["known" if self.known and place == self.known.place else kinds[self.c.squares[place]]
                for place in self.tile]  # fmt: skip

    def added(self, step: int) -> str:
        """Return what a step adds to the element that was printed, if this program has it."""
        before, after = self.ends[step : step + 2]
        if not self.known:
            return f"{after} of {self.K} products"
        old, new = self._sum(before), self._sum(after)
        return f"{signed(old)} {'−' if new < old else '+'} {abs(new - old)} = {signed(new)}"

    def _sum(self, products: int) -> int:
        return self.known.values[products] if products else 0

    def moments(self) -> list[Moment]:
        moments = [self._moment("begin", -1, 0, self._begun())]
        for step, (before, after) in enumerate(zip(self.ends, self.ends[1:], strict=False)):
            moments.append(self._moment("move", step, before, self._moved(step)))
            moments.append(self._moment("load", step, before, self._loaded(step)))
            moments.append(self._moment("dot", step, after, self._multiplied(step)))
        return [*moments, self._moment("store", len(self.steps), self.K, self._stored())]

    def _moment(self, part: str, step: int, products: int, words: str) -> Moment:
        return Moment(part, step, products, signed(self._sum(products)) if self.known else "", words)

    def _begun(self) -> str:
        rows, columns = self.tile.rows, self.tile.columns
        return (
            f"Program {self.program} computes the tile of c that begins at row m = {rows.start}, column "
            f"n = {columns.start}. Its accumulator is {len(rows)} × {len(columns)} zeros."
        )

    def _moved(self, step: int) -> str:
        a, b = self.steps[step]
        begin = f"The tile of a begins at offset {_begin(self.a, a)}, that of b at {_begin(self.b, b)}."
        return f"k is {self.ks[step]}. {begin}"

    def _loaded(self, step: int) -> str:
        on, off = [], []
        for matrix, tile in zip((self.a, self.b), self.steps[step], strict=True):
            on.append(len(list(self.inside(matrix, tile))))
            off.append(len(list(tile)) - on[-1])
        sentence = f"{on[0]} elements of a and {on[1]} of b are loaded."
        if not any(off):
            return sentence
        why = f"K ends at {self.K}, so " if self.steps[step][0].columns.stop > self.K else ""
        lanes = " and ".join(f"{count} lanes of {name}" for name, count in zip("ab", off, strict=True) if count)
        return f"{sentence} {why}{lanes} are masked off and hold 0."

    def _multiplied(self, step: int) -> str:
        before, after = self.ends[step : step + 2]
        off = len(self.steps[step][0].columns) - (after - before)
        sentence = f"{after - before} more products for each element"
        if off:
            sentence += f" (and {off} times 0 · 0)"
        if self.known:
            sentence += f"; {self.known.name} goes from {signed(self._sum(before))} to {signed(self._sum(after))}"
        return f"{sentence}."

    def _stored(self) -> str:
        off = self.cells().count("off")
        sentence = f"{len(list(self.tile)) - off} elements of c are stored."
        return f"{sentence} {off} lanes are masked off." if off else sentence


def signed(value: int) -> str:
    return str(value).replace("-", "−")


def _begin(matrix: Matrix, tile: Tile) -> str:
    """Work out the offset of a tile's first element."""
    places, strides = (tile.rows.start, tile.columns.start), matrix.tensor.strides
    sum_ = sum(place * stride for place, stride in zip(places, strides, strict=True))
    return f"{' + '.join(f'{place} · {stride}' for place, stride in zip(places, strides, strict=True))} = {sum_}"
