# SPDX-License-Identifier: Apache-2.0
"""`<banks-explorer>`: in which bank of shared memory a tile's elements lie, and how often an access asks each bank.

The tile is 32 x 32 numbers of four bytes. A reader chooses how it is stored and what is read at once: a column, a row,
or 16 bytes of each of eight rows. ``tests/figures/test_banks.py`` compares the places with Triton's layouts, and the
wavefronts with what its compiler said, recorded.
"""

from collections import Counter
from dataclasses import dataclass

from markupsafe import Markup

from figures.registry import figure
from figures.templates import render
from figures.words import plural
from recorder.recording import Recording

BANKS = SIDE = 32
PIECE, EIGHT = 4, 8  # words that a thread takes at once, and rows of a wavefront of these
READS = {"column": "a column", "row": "a row", "pieces": "8 × 16 bytes"}
KINDS = {"plain": "plain", "padded": "padded", "swizzled": "swizzled"}
PADS = {str(n): str(n) for n in (1, 2, 4, 8)}
VECS = PHASES = PADS
MOST = {str(n): str(n) for n in (2, 4, 8, 16, 32)}
FOOT = "Computed in your browser, as Triton places elements"


@dataclass(frozen=True)
class Stored:
    """How the tile is stored."""

    kind: str = "plain"
    pad: int = 1
    vec: int = 1
    per_phase: int = 1
    max_phase: int = 32

    def width(self) -> int:
        """Return the words from a row's beginning to the next."""
        return SIDE + self.pad if self.kind == "padded" else SIDE

    def flip(self, row: int) -> int:
        """Return what a row's columns are xored with."""
        return row // self.per_phase % self.max_phase * self.vec % SIDE if self.kind == "swizzled" else 0

    def word(self, row: int, column: int) -> int:
        return row * self.width() + (column ^ self.flip(row))

    def lines(self) -> int:
        """Return how many lines of 32 words it takes."""
        return -(-self.width() * SIDE // BANKS)

    def torn(self) -> str:
        """Say why 16 bytes of a row can't be read at once; nothing if they can."""
        if self.kind == "swizzled" and self.vec < PIECE:
            return "16 bytes of a row don’t stay side by side"
        return "rows don’t begin at multiples of 16 bytes" if self.width() % PIECE else ""

    def __str__(self) -> str:
        if self.kind == "padded":
            layout = f"PaddedSharedLayout.with_identity_for([[32, {self.pad}]], [32, 32], order=[1, 0])"
        else:
            numbers = (self.vec, self.per_phase, self.max_phase) if self.kind == "swizzled" else (1, 1, 1)
            layout = f"SwizzledSharedLayout({', '.join(map(str, numbers))}, order=[1, 0])"
        return f"gl.{layout}"


def accessed(read: str, row: int, column: int) -> list[tuple[int, int]]:
    """Return the elements that are read at once, by row and column: those around a place."""
    if read == "row":
        return [(row, each) for each in range(SIDE)]
    if read == "column":
        return [(each, column) for each in range(SIDE)]
    rows, columns = row - row % EIGHT, column - column % PIECE
    return [(rows + m, columns + n) for m in range(EIGHT) for n in range(PIECE)]


def queues(stored: Stored, read: str, row: int, column: int) -> list[int]:
    """Return how many words each bank is asked for; none if the access can't be made."""
    if read == "pieces" and stored.torn():
        return [0] * BANKS
    found = Counter(stored.word(*place) % BANKS for place in accessed(read, row, column))
    return [found[bank] for bank in range(BANKS)]


def summary(stored: Stored, read: str, row: int, column: int) -> str:
    """Say how many wavefronts an access takes.

    >>> summary(Stored(), "column", 5, 3)
    '32 wavefronts: bank 3 is asked for 32 words, and gives one at a time.'
    """
    most = max(asked := queues(stored, read, row, column))
    if not most:
        return f"Not at once: {stored.torn()}."
    if most == 1:
        return "1 wavefront: no bank is asked for more than one word."
    return f"{plural(most, 'wavefront')}: bank {asked.index(most)} is asked for {most} words, and gives one at a time."


def detail(stored: Stored, row: int, column: int) -> str:
    """Say where an element is.

    >>> detail(Stored("swizzled", vec=4, max_phase=8), 5, 3)
    'Row 5, column 3: 3 xor 20 is 23. Word 5 · 32 + 23 = 183, bank 23.'
    """
    word, flip = stored.word(row, column), stored.flip(row)
    at = column ^ flip
    xored = f": {column} xor {flip} is {at}. Word" if stored.kind == "swizzled" else ": word"
    return f"Row {row}, column {column}{xored} {row} · {stored.width()} + {at} = {word}, bank {word % BANKS}."


def paths(stored: Stored) -> list[str]:
    """Return, by column, the outlines of its words in memory, line after line."""
    return [outline([stored.word(row, column) for row in range(SIDE)]) for column in range(SIDE)]


def outline(words: list[int]) -> str:
    """Return the squares of words as an SVG path; what stands one below another in one piece.

    >>> outline([3, 35, 68])
    'M3 0h1v2h-1zM4 2h1v1h-1z'
    """
    runs = []
    for word in words:
        if runs and runs[-1][0] + runs[-1][1] * BANKS == word:
            runs[-1][1] += 1
        else:
            runs.append([word, 1])
    return "".join(f"M{word % BANKS} {word // BANKS}h1v{many}h-1z" for word, many in runs)


@figure(of="output", foot=FOOT)
def banks(recording: Recording, *, row=5, column=3, id="banks") -> Markup:
    """``row``, ``column``: the element that is chosen at first."""
    stored = Stored()
    words = [stored.word(*place) for place in accessed("column", row, column)]
    said = {"summary": summary(stored, "column", row, column), "detail": detail(stored, row, column)}
    return render(
        "banks/template.html", id=id, stored=stored, row=row, column=column, paths=paths(stored),
        chosen=outline(words), queues=queues(stored, "column", row, column), last=SIDE - 1, reads=READS, kinds=KINDS,
        pads=PADS, vecs=VECS, phases=PHASES, most=MOST, **said,
    )  # fmt: skip
