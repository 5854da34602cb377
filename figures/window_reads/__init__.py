# SPDX-License-Identifier: Apache-2.0
"""`<window-reads>`: a stencil, load by load: which elements come from memory, and which have been read before.

It takes the recorded accesses of a launch with a square picture, square tiles and a square window. Each load of a
program finds an element for the first time, or after another program had it, or after the program itself had it:
these come from memory, from L2 and from L1, if caches keep everything. The script walks through the same loads for
other tiles, and ``tests/figures/test_window_reads.py`` compares it with the recording.
"""

from collections import Counter
from dataclasses import dataclass

from markupsafe import Markup

from figures.registry import EXPLORER, figure
from figures.svg import pid
from figures.templates import render
from recorder.project import RecorderError
from recorder.recording import Launch, Recording

SIZES = (1, 2, 4, 8)  # of tiles
LEVELS = {
    "memory": "from memory: the first time",
    "l2": "from L2: another program had it",
    "l1": "from L1: the program itself had it",
}


@dataclass(frozen=True)
class Run:
    """A picture of ``side`` × ``side``, tiles of ``tile`` × ``tile``, a window of ``window`` × ``window``.

    ``loads`` has, for each program and each of its loads, the elements that were loaded, by their offsets.
    """

    side: int
    tile: int
    window: int
    loads: list[list[list[int]]]

    def found(self) -> Counter:
        """Return how many loads of an element find it where."""
        found, had = Counter(), {}
        for program, loads in enumerate(self.loads):
            for offset in (offset for load in loads for offset in load):
                programs = had.setdefault(offset, set())
                found["l1" if program in programs else "l2" if programs else "memory"] += 1
                programs.add(program)
        return found

    def times(self) -> Counter:
        """Return how often each element was loaded."""
        return Counter(offset for loads in self.loads for load in loads for offset in load)

    def programs(self) -> Counter:
        """Return how many programs loaded each element."""
        return Counter(offset for loads in self.loads for offset in {each for load in loads for each in load})


def walked(side: int, tile: int, window: int) -> Run:
    """Return the loads that tiles of another size make: a window's places in turn, and in each those of the picture."""
    reach, across, loads = window // 2, range(-(window // 2), window // 2 + 1), []
    for top in range(0, side, tile):
        for left in range(0, side, tile):
            of_program = []
            for down in across:
                for right in across:
                    rows = range(max(top + down, 0), min(top + down + tile, side))
                    columns = range(max(left + right, 0), min(left + right + tile, side))
                    of_program.append([row * side + column for row in rows for column in columns])
            loads.append(of_program)
    return Run(side, tile, 2 * reach + 1, loads)


def read(launch: Launch) -> Run:
    """Return the run that was recorded, or raise ``RecorderError``."""
    shape = launch.arguments["x_ptr"]["shape"]
    tile = launch.arguments["ROWS"]
    by_program = {}
    for access in launch.accesses:
        if access.tensor == "x_ptr" and access.op == "load":
            column, row, _ = access.pid
            on = [offset for offset, inside in zip(access.offsets, access.mask, strict=True) if inside]
            by_program.setdefault((row, column), []).append(on)
    loads = [by_program[place] for place in sorted(by_program)]
    found = Run(shape[0], tile, round(len(loads[0]) ** 0.5), loads)
    square = shape == [found.side] * 2 and launch.arguments["COLUMNS"] == tile
    if not square or found != walked(found.side, tile, found.window):
        raise RecorderError(f"{launch.kernel} is no stencil of a square window, in square tiles, on a square picture")
    return found


@figure(of="launches", foot=EXPLORER)
def window_reads(recording: Recording, *, launch=None, id="reads") -> Markup:
    """``launch``: its name, where there are several."""
    run = read(recording.traced(launch))
    found, times, programs = run.found(), run.times(), run.programs()
    total = sum(found.values())
    cells = [
        [
            {"times": times.get(row * run.side + column, 0), "programs": programs.get(row * run.side + column, 0)}
            if 0 <= row < run.side and 0 <= column < run.side
            else None
            for column in range(-(run.window // 2), run.side + run.window // 2)
        ]
        for row in range(-(run.window // 2), run.side + run.window // 2)
    ]
    across = run.side // run.tile
    results = [
        [pid(row // run.tile * across + column // run.tile) for column in range(run.side)] for row in range(run.side)
    ]
    rows = []
    for tile in SIZES:
        other = walked(run.side, tile, run.window)
        where = other.found()
        rows.append((f"{tile} × {tile}", len(other.loads), sum(where.values()), *(where[level] for level in LEVELS)))
    return render(
        "window_reads/template.html",
        id=id, run=run, cells=cells, results=results, found=found, total=total, levels=LEVELS, rows=rows,
        last=len(run.loads) * (run.window**2 + 1), programs=len(run.loads),
        sizes={size: f"{size} × {size}" for size in SIZES},
    )  # fmt: skip
