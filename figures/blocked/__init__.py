# SPDX-License-Identifier: Apache-2.0
"""`<blocked-explorer>`: a layout by hand: which thread of a warp holds which elements of a tile, and what it loads.

The tile is 16 x 32 float32, row after row in memory, and one warp holds it. A reader sets the layout: the elements of a
thread, the threads along both axes, and the order. The first load is drawn, with the sectors of memory that it takes.
``tests/figures/test_blocked.py`` compares the elements with those that Triton says, and the width with its code.
"""

from dataclasses import dataclass

from markupsafe import Markup

from figures.registry import figure
from figures.templates import render
from recorder.recording import Recording

ROWS, COLUMNS = 16, 32
WARP = 32  # threads
WIDEST = 4  # float32 in the 16 bytes that a thread loads at once
SECTOR = 8  # float32 in the 32 bytes that memory gives at once
SIZES = {"1,1": "1 × 1", "1,2": "1 × 2", "1,4": "1 × 4", "1,8": "1 × 8", "4,1": "4 × 1"}
THREADS = {"1,32": "1 × 32", "2,16": "2 × 16", "4,8": "4 × 8", "8,4": "8 × 4", "16,2": "16 × 2"}
ORDERS = {"1,0": "[1, 0]", "0,1": "[0, 1]"}
FOOT = "Computed in your browser, as Triton deals elements out"


@dataclass(frozen=True)
class Dealt:
    """A layout of one warp."""

    size: tuple[int, int]
    threads: tuple[int, int]
    order: tuple[int, int]

    def held(self, thread: int) -> list[tuple[int, int]]:
        """Return row and column of the elements that a thread holds, by register."""
        return [self._place(thread, register) for register in range(self._registers())]

    def _registers(self) -> int:
        repeats = [max(1, side // (s * t)) for side, s, t in zip((ROWS, COLUMNS), self.size, self.threads, strict=True)]
        return self.size[0] * self.size[1] * repeats[0] * repeats[1]

    def _place(self, thread: int, register: int) -> tuple[int, int]:
        place = [0, 0]
        for axis in self.order:
            register, inside = divmod(register, self.size[axis])
            thread, lane = divmod(thread, self.threads[axis])
            place[axis] = lane * self.size[axis] + inside
        for axis in self.order:  # the pattern is repeated along the first axis, then along the other
            span, side = self.size[axis] * self.threads[axis], (ROWS, COLUMNS)[axis]
            register, again = divmod(register, max(1, side // span))
            place[axis] = (place[axis] + again * span) % side
        return place[0], place[1]

    @property
    def width(self) -> int:
        """Return the elements of a load: registers in a row whose elements are neighbors in memory."""
        first = self.held(0)
        run = next((i for i, place in enumerate(first) if place != (first[0][0], first[0][1] + i)), len(first))
        return min(WIDEST, run)

    def first_load(self) -> set[tuple[int, int]]:
        return {place for thread in range(WARP) for place in self.held(thread)[: self.width]}

    def sentence(self) -> str:
        """Say what the first load takes from memory."""
        loaded = self.first_load()
        sectors = {(row, column // SECTOR) for row, column in loaded}
        used, fetched = 4 * len(loaded), 4 * SECTOR * len(sectors)
        share = "all of which are used" if used == fetched else f"of which {used} are used"
        return (
            f"One load of the warp takes {4 * self.width} bytes for each thread: {len(sectors)} sectors of 32 bytes, "
            f"{fetched:,} bytes, {share}."
        )

    def __str__(self) -> str:
        return f"gl.BlockedLayout({[*self.size]}, {[*self.threads]}, [1, 1], order={[*self.order]})"


def detail(dealt: Dealt, thread: int) -> str:
    """Say which elements a thread holds, in pieces of neighbors.

    >>> detail(Dealt((1, 4), (4, 8), (1, 0)), 9)
    'Thread 9 holds row 1, columns 4–7, in registers 0–3; …; row 13, columns 4–7, in registers 12–15.'
    """
    pieces, held = [], dealt.held(thread)
    for register, (row, column) in enumerate(held):
        if pieces and pieces[-1][1] == row and pieces[-1][2] + pieces[-1][3] == column:
            pieces[-1][3] += 1
        else:
            pieces.append([register, row, column, 1])
    words = [
        f"row {row}, {_span('column', column, many)}, in {_span('register', register, many)}"
        for register, row, column, many in pieces
    ]
    if len(words) > 2:
        words[1:-1] = ["…"]
    copies = WARP * len(held) // (ROWS * COLUMNS)
    shared = f" {copies} threads hold each element." if copies > 1 else ""
    return f"Thread {thread} holds {'; '.join(words)}.{shared}"


def _span(word: str, first: int, many: int) -> str:
    return f"{word} {first}" if many == 1 else f"{word}s {first}–{first + many - 1}"


@figure(of="output", foot=FOOT)
def blocked(recording: Recording, *, thread=9, id="blocked") -> Markup:
    """``thread``: the one that is chosen at first."""
    dealt = Dealt((1, 4), (4, 8), (1, 0))
    owner, loaded, own = {}, dealt.first_load(), dealt.held(thread)
    for each in reversed(range(WARP)):
        owner |= dict.fromkeys(dealt.held(each), each)
    cells = [
        {"thread": owner[place], "loaded": place in loaded, "own": place in own}
        for place in ((row, column) for row in range(ROWS) for column in range(COLUMNS))
    ]
    return render(
        "blocked/template.html", id=id, dealt=dealt, cells=cells, thread=thread, last=WARP - 1, columns=COLUMNS,
        detail=detail(dealt, thread), sizes=SIZES, threads=THREADS, orders=ORDERS,
    )  # fmt: skip
