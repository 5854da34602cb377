# SPDX-License-Identifier: Apache-2.0
"""`<phases-explorer>`: a copy by TMA through one, two or four buffers, and the phases of their mbarriers.

A model of ``pipelined_kernel`` and, where something is wrong on purpose, of ``strip_kernel`` in
``snippets/below/``: a load takes six ticks, a store two until it has left its buffer, everything else one. All pictures
and all sentences stand on the page; the script shows one of them. Of a kernel that is wrong, the model ends where the
first wrong thing has happened, for what the hardware then does is not said anywhere.
"""

from dataclasses import dataclass, field
from itertools import pairwise

from markupsafe import Markup

from figures.registry import figure
from figures.templates import render
from recorder.recording import Recording

TILES, LOAD, STORE = 6, 6, 2
BYTES = 8192  # of a tile
CASES = {
    "1": ("1 buffer", {"buffers": 1}),
    "2": ("2 buffers", {"buffers": 2}),
    "4": ("4 buffers", {"buffers": 4}),
    "bytes": ("twice the bytes", {"buffers": 1, "expected": 2 * BYTES}),
    "first": ("phase 1 first", {"buffers": 1, "first": 1}),
    "stays": ("phase stays 0", {"buffers": 1, "flip": 0}),
}


@dataclass(frozen=True)
class Piece:
    """Something that lasts, on a row of the picture."""

    kind: str
    begin: int
    end: int
    text: str = ""


@dataclass
class Copy:
    """One program that copies tile after tile."""

    buffers: int
    expected: int = BYTES
    first: int = 0
    flip: int = 1
    now: int = 0
    wrong: str = ""
    program: list[Piece] = field(default_factory=list)
    tiles: list[list[Piece]] = field(default_factory=list)  # by buffer
    over: list[list[int]] = field(default_factory=list)  # by buffer: when each phase of its mbarrier was over

    def run(self) -> "Copy":
        self.tiles, self.over = ([[] for _ in range(self.buffers)] for _ in range(2))
        storing, left = int(self.buffers > 2), []  # of two buffers, both rather load
        for i in range(self.buffers - storing):
            self._load(i)
        for i in range(TILES):
            slot = i % self.buffers
            if not self._wait(slot, (self.first + self.flip * (i // self.buffers)) & 1, i):
                return self
            left.append(self._store(slot, i))
            if self.wrong:
                return self
            free = left[-1 - storing] if len(left) > storing else self.now
            if free > self.now:
                which = i - storing
                self._does("waits", free, f"It waits until the store of tile {which} has left its buffer.")
            self._load(i + self.buffers - storing)
        self._does("waits", left[-1], "It waits for the last store.")
        return self

    def _does(self, kind: str, until: int, text: str) -> None:
        if until > self.now:
            self.program.append(Piece(kind, self.now, until, text))
            self.now = until

    def _load(self, i: int) -> None:
        if i >= TILES:
            return
        slot = i % self.buffers
        begun = self.now
        self._does("works", begun + 1, f"The program expects {self.expected:,} bytes at mbarrier {slot}, "
                   f"and begins to load tile {i} into buffer {slot}.")  # fmt: skip
        self.tiles[slot].append(Piece("loads", begun, begun + LOAD, f"{i}"))
        if self.expected == BYTES:
            self.over[slot].append(begun + LOAD)

    def phase(self, slot: int, when: int) -> int:
        return sum(time <= when for time in self.over[slot])

    def _wait(self, slot: int, bit: int, i: int) -> bool:
        """Wait until the phase of this bit is over: until the current one has the other bit."""
        times = [self.now, *(time for time in self.over[slot] if time > self.now)]
        until = next((time for time in times if self.phase(slot, time) & 1 != bit), None)
        if until is None:
            came = f"but only {BYTES:,} of {self.expected:,} bytes ever come"
            self.wrong = f"The program waits for the end of phase {bit} of mbarrier {slot}, {came}. So it hangs."
            self._does("waits", TILES * (LOAD + STORE), self.wrong)
            return False
        self._does("waits", until, f"It waits for the end of phase {bit} of mbarrier {slot}, that is, for tile {i}.")
        return True

    def _store(self, slot: int, i: int) -> int:
        """Begin a store; return when it will have left the buffer."""
        loading = next(piece for piece in reversed(self.tiles[slot]) if piece.kind == "loads")
        begun = self.now
        if loading.end > begun:
            bit = (self.first + self.flip * i) & 1
            self.wrong = (
                f"A phase with bit {bit} counts as over, so the wait ends at once. The program stores what the buffer "
                f"holds, but tile {i} is still on its way. So the copy is wrong."
            )
        else:
            self.tiles[slot].append(Piece("holds", loading.end, begun, ""))
        said = self.wrong or f"Tile {i} has come. The program begins to store it from buffer {slot}."
        self._does("wrong" if self.wrong else "works", begun + 1, said)
        self.tiles[slot].append(Piece("stores", begun, begun + STORE, "" if self.wrong else f"{i}"))
        return begun + STORE

    def phases(self, slot: int, end: int) -> list[Piece]:
        """Return the phases of an mbarrier, until the picture ends."""
        times = [0, *self.over[slot], end]
        return [Piece(f"bit-{n & 1}", a, b, f"{n & 1}") for n, (a, b) in enumerate(pairwise(times)) if b > a]

    def sentences(self, end: int) -> list[str]:
        """Return one for each tick."""
        last = self.wrong or f"All {TILES} tiles are copied after {self.now} ticks."
        texts = {tick: piece.text for piece in self.program for tick in range(piece.begin, piece.end)}
        return [texts.get(tick, last) for tick in range(end)] + [last]


@figure(of="output", foot="A model; a load takes six ticks, a store two")
def phases(recording: Recording, *, shown="2", id="phases") -> Markup:
    """``shown``: the case that is chosen at first."""
    runs = {name: (title, Copy(**given).run()) for name, (title, given) in CASES.items()}
    end = max(run.now for _, run in runs.values())
    return render(
        "phases/template.html", id=id, runs=runs, end=end, shown=shown,
        right={name: title for name, (title, run) in runs.items() if not run.wrong},
        titles={name: title for name, (title, _) in runs.items()},
    )  # fmt: skip
