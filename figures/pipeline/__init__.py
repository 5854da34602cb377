# SPDX-License-Identifier: Apache-2.0
"""`<pipeline-explorer>`: when the steps of a product were loaded and multiplied, by the clock, in lanes of time.

Two figures take what ``matmul/pipeline_clock`` records, in nanoseconds: the lines ``asked`` (the loads of a step were
begun), ``waits`` (the program began to wait for them), ``begins`` and ``ends`` (of the multiplication), and as last row
the store of the tile.

- ``pipeline``: the steps of one tile, by ``num_stages``. A lane for each buffer, from asked for to multiplied; one for
  the matrix unit; and shared memory as a tank, which the buffers fill until a launch is refused.
- ``handover``: the end of one tile and the beginning of the next, each in its color, on the same multiprocessor, for
  two kernels. Of one with a program for each tile it has the steps of a single program, and puts its beginning right
  behind its end: how long the hardware takes to start the next one is not known, so the pause is at least as long as
  drawn.

The third, ``overlap``, takes what ``below/attention_clock`` records: for each of several kernels the steps of two
groups of warps, when their products were in flight, and when they computed the softmax.

Their script moves time, and counts what was multiplied until then.
"""

import re
from dataclasses import dataclass
from math import ceil

from figures.registry import figure
from figures.templates import render
from figures.words import plural
from recorder import printed, recording
from recorder.project import RecorderError, find
from recorder.recording import Benchmark, Recording, Row

SHOWN = 12  # steps of the fastest: as long is the window for all
BEFORE, AFTER, STAGES = 5, 5, 3  # steps that `handover` shows on either side, and the buffers of its kernels
TICK = 1000  # ns
UNIT = "matrix unit"  # a lane's name
SECONDS = 7  # that it plays
ROOM = re.compile(r"^num_stages=(\d+): (?:(\d+) bytes of shared memory|(out of resource: .*))$", re.M)
REFUSED = re.compile(r"Required: (\d+), Hardware limit: (\d+)")


@dataclass(frozen=True)
class Bar:
    """Something that lasts, in nanoseconds since the picture's left edge."""

    kind: str  # "asked", "waits", "multiplied", "idle" or "stored"
    begin: float
    end: float
    label: str = ""
    tile: int = 0

    @property
    def style(self) -> str:
        return f"--b: {self.begin:.0f}; --e: {self.end:.0f}"


@dataclass(frozen=True)
class Lane:
    name: str
    bars: list[Bar]


@dataclass(frozen=True)
class Room:
    """What so many stages take of shared memory."""

    stages: int
    bytes: int
    error: str = ""  # how the launch was refused


@dataclass(frozen=True)
class Launch:
    """Lanes that belong together."""

    name: str  # what a button says
    lanes: list[Lane]
    about: str  # a sentence
    gap: Bar | None = None  # between two tiles, which the picture names


@figure(of="rows")
def pipeline(seen: Recording, *, rates="matmul/persistent_measured", of="by_stages", id="pipeline"):
    """``rates`` names the recording, and ``of`` its benchmark, that has the TFLOP/s by number of stages."""
    rooms = read_rooms(seen.output)
    steps = {room.stages: read(seen.benchmark(f"stages_{room.stages}", *LINES)) for room in rooms if not room.error}
    measured = recording.load(find(rates), seen.device).benchmark(of, "rate").medians()
    if missing := [stages for stages in steps if stages not in measured]:
        raise RecorderError(f"{rates} has no rate of {missing[0]} stages")
    speeds = {stages: measured[stages].rate for stages in steps}
    best = max(speeds, key=speeds.get)
    window = ceil(steps[best][SHOWN - 1].ends / TICK) * TICK
    launches = {stages: launch_of(stages, rows, window) for stages, rows in steps.items()}
    return render(
        "pipeline/template.html",
        id=id,
        launches=launches,
        first=best,
        window=window,
        seconds=SECONDS,
        ticks=range(0, window + 1, 2 * TICK),
        tank=Tank(rooms),
        speeds={
            room.stages: {"share": speeds[room.stages] / max(speeds.values()), "said": f"{speeds[room.stages]:.0f}"}
            | {"label": room.stages}
            if not room.error
            else {"share": 0, "said": "refused", "label": room.stages}
            for room in rooms
        },
        rows=[
            [stages, f"{speeds[stages]:.0f}", f"{room.bytes:,}", *(f"{rows[i].ends / 1000:.2f}" for i in (0, 3, 7, 11))]
            for room in rooms
            if (stages := room.stages) in steps
            for rows in [steps[stages]]
        ],
    )


@figure(of="rows")
def handover(seen: Recording, *, names=..., id="handover"):
    """``names`` maps benchmarks to what a page calls them; their rows are numbered by step, or by tile and step."""
    if not isinstance(names, dict) or not names:
        raise RecorderError(f"names must map benchmarks to their names, such as each_tile: …, not {names!r}")
    tables = {label: read_pair(seen.benchmark(name, *LINES)) for name, label in names.items()}
    cut = {label: Cut(label, *pair) for label, pair in tables.items()}
    window = ceil(max(each.ends for each in cut.values()) / TICK * 2) * TICK // 2
    return render(
        "pipeline/handover.html",
        id=id,
        launches={label: each.launch(window) for label, each in cut.items()},
        window=window,
        seconds=SECONDS,
        ticks=range(0, window + 1, 2 * TICK),
        rows=[
            (label, f"{each.gap / 1000:.2f}", f"{(each.store.ends - each.store.begins) / 1000:.2f}")
            for label, each in cut.items()
        ],
    )


@figure(of="rows")
def overlap(seen: Recording, *, names=..., id="overlap"):
    """``names`` maps benchmarks to what a page calls them; their rows are numbered by group and step."""
    if not isinstance(names, dict) or not names:
        raise RecorderError(f"names must map benchmarks to their names, such as waiting: …, not {names!r}")
    tables = {label: seen.benchmark(name, *OVERLAPPED).medians() for name, label in names.items()}
    window = ceil(min(max(row.added for row in rows.values()) for rows in tables.values()) / TICK * 2) * TICK // 2
    taken = {label: Overlap(label, rows, window) for label, rows in tables.items()}
    return render(
        "pipeline/overlap.html",
        id=id,
        launches={label: each.launch for label, each in taken.items()},
        window=window,
        seconds=SECONDS,
        ticks=range(0, window + 1, 2 * TICK),
        rows=[(label, f"{each.steps:.1f}", f"{each.flying:.0%}", f"{each.both:.0%}") for label, each in taken.items()],
    )


OVERLAPPED = ("begins", "scored", "weighed", "asked", "added")


class Overlap:
    """Two groups of warps, each with a lane for its products and one for its softmax."""

    def __init__(self, label: str, rows: dict, window: float):
        lanes, products, softmaxes = [], [], []
        for group in sorted({group for group, _ in rows}):
            steps = [row for key, row in sorted(rows.items()) if key[0] == group]
            flying = [(row.begins, row.scored) for row in steps]
            flying += [(max(row.asked, row.scored), row.added) for row in steps]
            weighing = [(row.scored, row.weighed) for row in steps]
            for name, kind, spans in (("products", "multiplied", flying), ("softmax", "weighed", weighing)):
                cut = [(begin, min(end, window)) for begin, end in sorted(spans) if begin < window]
                (products if kind == "multiplied" else softmaxes).extend(cut)
                lanes.append(Lane(f"{name} {group}", [Bar(kind, *span, tile=group) for span in cut]))
        self.steps = sum(row.added <= window for row in rows.values()) / len(lanes) * 2
        self.flying = covered(products) / window
        self.both = (covered(products) + covered(softmaxes) - covered(products + softmaxes)) / window
        words = f"{plural(round(self.steps), 'step')} of each group in {window / 1000:g} µs"
        about = f"{label}: {words}, a product in flight {self.flying:.0%} of the time"
        self.launch = Launch(label, lanes, about)


def covered(spans: list[tuple[float, float]]) -> float:
    """Return how long at least one of some spans lasts.

    >>> covered([(0, 2), (1, 3), (5, 6)])
    4.0
    """
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0, end - max(begin, until))
        until = max(until, end)
    return total


LINES = ("asked", "waits", "begins", "ends")


def read(table: Benchmark) -> list:
    """Return the steps of a tile, in order, and then its store."""
    return [row for _, row in sorted(table.medians().items())]


def read_pair(table: Benchmark) -> tuple[list, list]:
    """Return the rows of two tiles: of those of a loop; or those of one program, and the same behind its end."""
    rows = table.medians()
    if len(table.x) == 1:
        first = read(table)
        end = first[-1].ends
        return first, [Row(**{line: row[line] + end for line in LINES}) for row in first]
    if {tile for tile, _ in rows} != {0, 1}:
        raise RecorderError(f"{table.name!r} must have two tiles, 0 and 1")
    first, second = ([row for key, row in sorted(rows.items()) if key[0] == tile] for tile in (0, 1))
    return first, second


def read_rooms(output: str) -> list[Room]:
    """Return what each number of stages takes, up to the first that was refused."""
    rooms = []
    for stages, bytes_, error in ROOM.findall(printed.sections(output).get("room", "")):
        refused = REFUSED.search(error)
        rooms.append(Room(int(stages), int(refused[1] if refused else bytes_), error))
        if refused and len(rooms) > 2:
            return rooms
    raise RecorderError("the output must have a section 'room', such as num_stages=1: … up to one that was refused")


def launch_of(stages: int, rows: list, window: float) -> Launch:
    """Return a lane for each buffer, and that of the matrix unit."""
    *steps, _ = rows
    shown = [(number, step) for number, step in enumerate(steps) if step.asked < window]
    buffers = [[] for _ in range(stages)]
    unit = []
    for number, step in shown:
        begin, end = min(step.begins, window), min(step.ends, window)
        lane = buffers[number % stages]
        lane.append(Bar("asked", step.asked, begin))
        if step.waits < window:
            unit.append(Bar("waits", step.waits, begin))
        if step.begins < window:
            lane.append(Bar("multiplied", begin, end))
            unit.append(Bar("multiplied", begin, end, str(number + 1)))
    done = sum(step.ends <= window for step in steps)
    waited = sum(bar.end - bar.begin for bar in unit if bar.kind == "waits") / window
    lanes = [*(Lane(f"buffer {i + 1}", bars) for i, bars in enumerate(buffers)), Lane(UNIT, unit)]
    words = f"{plural(stages, 'stage')}: in {window / 1000:g} µs, {plural(done, 'step')} multiplied"
    return Launch(str(stages), lanes, f"{words}; the program waited for tiles {waited:.0%} of the time.")


class Tank:
    """Shared memory, and what is in it, in shares of the limit."""

    def __init__(self, rooms: list[Room]):
        *fit, refused = rooms
        self.error = refused.error
        self.limit = int(REFUSED.search(refused.error)[2])
        self.stage = rooms[-1].bytes - rooms[-2].bytes  # of both tiles, and their barrier
        self.stages = refused.stages
        self.rest = max(0, fit[-1].bytes - fit[-1].stages * self.stage)  # the tile of C, above all
        self.bytes = {room.stages: room.bytes for room in rooms}

    def share(self, bytes_: float) -> float:
        return bytes_ / self.limit


class Cut:
    """The end of one tile and the beginning of the next; the time in between is counted in idle nanoseconds."""

    def __init__(self, label: str, first: list, second: list):
        *steps, self.store = first
        self.label = label
        self.apart = second[0].asked >= self.store.ends  # by a program of its own: only then is there memory for it
        both = [(number, step, 0) for number, step in enumerate(steps)]
        both += [(number + (0 if self.apart else len(steps)), step, 1) for number, step in enumerate(second)]
        self.shown = both[len(steps) - BEFORE : len(steps) + AFTER]
        self.start = steps[-BEFORE].begins
        self.gap = second[0].begins - steps[-1].ends
        self.pause = f"{'at least ' if self.apart else ''}{self.gap / 1000:.1f} µs"

    @property
    def ends(self) -> float:
        return self.shown[-1][1].ends - self.start

    def launch(self, window: float) -> Launch:
        at = lambda time: min(max(time - self.start, 0), window)
        bar = lambda kind, begin, end, tile, label="": Bar(kind, at(begin), at(end), label, tile)
        buffers = [[] for _ in range(STAGES)]
        for number, step, tile in self.shown:
            buffers[number % STAGES].append(bar("asked", step.asked, step.begins, tile))
            buffers[number % STAGES].append(bar("multiplied", step.begins, step.ends, tile))
        unit = [
            bar(kind, begin, end, tile)
            for _, step, tile in self.shown
            for kind, begin, end in (("waits", step.waits, step.begins), ("multiplied", step.begins, step.ends))
        ]
        last = self.shown[BEFORE - 1][1].ends
        gap = bar("idle", last, last + self.gap, 0, f"idle {self.pause.replace('at least', '≥')}")
        store = bar("stored", self.store.begins, self.store.ends, 0)
        lanes = [Lane(UNIT, [*unit, bar("idle", last, last + self.gap, 0)]), Lane("store", [store])]
        lanes += [Lane(f"buffer {i + 1}", bars) for i, bars in enumerate(buffers)]
        about = f"{self.label}: between two tiles the matrix unit is idle for {self.pause}."
        return Launch(self.label, lanes, about, gap)
