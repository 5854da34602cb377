# SPDX-License-Identifier: Apache-2.0
"""Draw a launch of a matrix product, alive: the multiprocessors at work, while the result fills tile by tile.

It takes benchmarks with a row for each program, numbered from 0, and the lines ``sm``, ``begin`` and ``end``, in
microseconds since the first program of the launch began, of a product whose result has as many rows of tiles as
columns. Which tile a program computes follows from its number and the order, which the benchmark's name says:
``schedule_groups_of_8``, or else row-major. Multiprocessors stand in a plain grid by their numbers, for where they are
on the chip is not recorded. A program's color is its wave: how many ran before it on its multiprocessor. Between
beginning and end it fills evenly, which is drawn, not recorded. ``script.js`` moves what stands here at one moment.
"""

import re
import statistics
from dataclasses import dataclass
from functools import cached_property
from math import ceil, isqrt

from figures import machine
from figures.machine import Cell
from figures.registry import figure
from figures.schedule import Program, Schedule, read
from figures.svg import element, pid
from figures.templates import render
from figures.words import plural
from recorder.project import RecorderError
from recorder.recording import Recording

SECONDS = 9  # that a launch is played
STEP = 0.5  # µs
TILE = 128  # rows and columns of a tile
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Launch:
    """A launch: its schedule, and the tile that each program computes."""

    name: str
    group: int  # rows of tiles in a group
    schedule: Schedule
    tiles: list[int]  # by program; tiles are numbered row by row

    @property
    def label(self) -> str:
        return "Row-major" if self.group == 1 else f"Groups of {self.group} rows"

    @property
    def programs(self) -> list[Program]:
        return self.schedule.programs

    @property
    def side(self) -> int:
        return isqrt(len(self.programs))

    @cached_property
    def waves(self) -> list[tuple[float, float]]:
        """Return when the programs of each wave began and ended, in the middle of them."""
        turns = 1 + max(program.turn for program in self.programs)
        each = ([program for program in self.programs if program.turn == turn] for turn in range(turns))
        middle = statistics.median
        return [(middle(p.begin for p in programs), middle(p.end for p in programs)) for programs in each]

    @property
    def stops(self) -> list[float]:
        """Return moments for the steps of the bar of time: the beginning and the middle of each wave."""
        return [_grid(moment) for begin, end in self.waves for moment in (begin, (begin + end) / 2)]

    @property
    def rows(self) -> list[tuple]:
        """Return a row of a table for each wave."""
        turns = [program.turn for program in self.programs]
        return [
            (self.label, turn + 1, turns.count(turn), f"{begin:.1f}", f"{end:.1f}")
            for turn, (begin, end) in enumerate(self.waves)
        ]

    @property
    def data(self) -> str:
        """Return, one after the other and in base 36, each program's SM, beginning and length in 0.1 µs, and tile."""
        tenths = ((p.sm, round(10 * p.begin), round(10 * p.end) - round(10 * p.begin)) for p in self.programs)
        return "".join(
            digits(sm, 2) + digits(begin, 3) + digits(length, 3) + digits(tile, 2)
            for (sm, begin, length), tile in zip(tenths, self.tiles, strict=True)
        )


@dataclass(frozen=True)
class Moment:
    """A launch at a moment."""

    launch: Launch
    time: float

    @property
    def running(self) -> list[Program]:
        return [program for program in self.launch.programs if program.begin <= self.time < program.end]

    @property
    def ended(self) -> int:
        return sum(program.end <= self.time for program in self.launch.programs)

    @property
    def matrix(self) -> list[Cell]:
        by_tile = sorted(zip(self.launch.tiles, self.launch.programs, strict=True), key=lambda each: each[0])
        return [machine.cell(program, self.time) for _, program in by_tile]

    @property
    def machine(self) -> list[Cell]:
        return machine.multiprocessors(self.launch.programs, self.launch.schedule.sms, self.time)

    @property
    def lines(self) -> tuple[set[int], set[int]]:
        """Return which rows of A and columns of B the running programs read."""
        tiles = [self.launch.tiles[program.number] for program in self.running]
        return {tile // self.launch.side for tile in tiles}, {tile % self.launch.side for tile in tiles}

    @property
    def reads(self) -> int:
        return sum(map(len, self.lines))

    @property
    def sentence(self) -> str:
        rows, columns = self.lines
        waiting = len(self.launch.programs) - self.ended - len(self.running)
        return (
            f"{self.launch.label}, after {self.time:g} µs: {plural(len(self.running), 'program')} at work on "
            f"{plural(len(rows), 'row')} of A and {plural(len(columns), 'column')} of B, {self.ended} done, "
            f"{waiting} waiting."
        )


@figure(of="rows")
def waves(recording: Recording, *, names=..., memory=None, compact=False, id="waves"):
    """``names``: benchmarks, the first of which is shown at first; ``memory``: a size, of which the counters are shown,
    and the first wave's shape.

    ``compact``: only the first is drawn, and only the picture with its bar of time. It rests where the first launch
    reads fewest rows and columns, compared with the last one.
    """
    if not isinstance(names, list) or not names:
        raise RecorderError(f"names must list benchmarks such as [schedule_row_major], not {names!r}")
    sms = recording.provenance.multiprocessors
    launches = [read_launch(recording, name, sms) for name in names]
    first, rest = launches[0], Moment(launches[0], resting(launches))
    launches = launches[:1] if compact else launches
    last = ceil(max(launch.schedule.end for launch in launches))
    return render(
        "waves/template.html",
        id=id, compact=compact, launches=launches, first=first, rest=rest, end=last, step=STEP, seconds=SECONDS,
        columns=machine.COLUMNS, colors=[pid(turn) for turn in range(max(len(launch.waves) for launch in launches))],
        slower=int(round(SECONDS / last * 1e6, -4)), device=recording.provenance.device,
        stops=[launch.stops for launch in launches],
        waves=[row for launch in launches for row in launch.rows],
        counted=_counted(recording, memory, launches, sms) if memory else [], size=memory and f"{memory:,}",
        tiles=memory and memory // TILE,
    )  # fmt: skip


def resting(launches: list[Launch]) -> float:
    """Return the middle of that wave in which the first launch reads fewest rows and columns, beside the last launch.

    In the middle, because between waves a launch reads for two at once, or for the few programs that are there already.
    """
    first, *_, last = launches * 2
    middles = [_grid((begin + end) / 2) for begin, end in first.waves]
    return max(middles, key=lambda time: Moment(last, time).reads - Moment(first, time).reads)


def read_launch(recording: Recording, name: str, sms: int | None = None) -> Launch:
    schedule = read(recording.benchmark(name, "sm", "begin", "end"), name, sms)
    count = len(schedule.programs)
    side = isqrt(count)
    if side**2 != count or schedule.places != 1:
        raise RecorderError(f"{name!r} must have a program for each tile of a square, one at a time on each SM")
    group = re.search(r"groups_of_(\d+)", name)
    group = int(group[1]) if group else 1
    return Launch(name, group, schedule, [row * side + column for row, column in order(side, side, group)])


def order(rows: int, columns: int, group: int) -> list[tuple[int, int]]:
    """Return the tile of each program, as ``tl.swizzle2d`` has it.

    >>> order(3, 2, group=2)
    [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
    """
    firsts = range(0, rows, group)
    return [(row, column) for first in firsts for column in range(columns)
            for row in range(first, min(first + group, rows))]  # fmt: skip


def digits(number: int, places: int) -> str:
    """Write a number in base 36.

    >>> digits(131, 2), digits(7, 2)
    ('3n', '07')
    """
    if not 0 <= number < 36**places:
        raise RecorderError(f"{number} does not fit in {places} places")
    return "".join(DIGITS[number // 36**place % 36] for place in reversed(range(places)))


def _grid(moment: float) -> float:
    return round(moment / STEP) * STEP


def _counted(recording: Recording, size: int, launches: list[Launch], sms: int) -> list[dict]:
    """Return what the GPU's counters said of a product of that size, in each order: GB from memory, and hits.

    And the first wave of that product: a program for each multiprocessor.
    """
    memory, hits = (recording.benchmark(f"{what}_{size}", line).medians()
                    for what, line in (("memory", "memory"), ("hits", "answered")))  # fmt: skip
    most = max(memory[launch.group].memory for launch in launches)
    return [
        {"launch": launch, "gb": memory[launch.group].memory, "share": memory[launch.group].memory / most,
         "hits": hits[launch.group].answered, **_shape(size // TILE, launch.group, sms)}
        for launch in launches
    ]  # fmt: skip


def _shape(side: int, group: int, programs: int) -> dict:
    """Return how many rows and columns of tiles the first programs of a product read, and a drawing of it.

    >>> _shape(4, 2, 5)["rows"], _shape(4, 2, 5)["columns"], _shape(4, 1, 5)["columns"]
    (2, 3, 4)
    """
    wave = order(side, side, group)[:programs]
    rows, columns = (1 + max(places) for places in zip(*wave, strict=True))
    gap = side // 16
    box = lambda x, y, width, height, fill: element("rect", x=x, y=y, width=width, height=height, fill=f"var(--{fill})")
    tiles = "".join(f"M{column} {row}h1v1h-1z" for row, column in wave)
    drawing = element(
        "svg", box(0, 0, side, side, "untouched"), element("path", d=tiles, fill="var(--pid)"),
        box(0, -2 * gap, columns, gap, "memory-hbm"), box(-2 * gap, 0, gap, rows, "memory-hbm"),
        viewBox=f"{-2 * gap} {-2 * gap} {side + 2 * gap} {side + 2 * gap}", class_=pid(0), aria_hidden="true",
    )  # fmt: skip
    return {"rows": rows, "columns": columns, "drawing": drawing}
