# SPDX-License-Identifier: Apache-2.0
"""`<memory-trip>`: one load on its way through the levels of memory, drawn as a sea whose depth is time.

It takes what ``gpu/memory`` records: the benchmark ``ladder`` with a row for each level and the lines ``answers`` (ns)
and ``cycles``; ``latency``, cycles of a step by the bytes walked through; and the same around the ends of two levels,
``edge_l1`` (KiB) and ``edge_l2`` (MiB), which draw the cliffs. To the right: how many bytes are read again and again,
each step of the slider twice as many. Down: how long the answer takes, to scale. A dot sinks from the surface to where
its number is found, and comes back; ``script.js`` moves it, and all depths stand here.
"""

from dataclasses import dataclass
from math import floor, log2, log10

from markupsafe import Markup

from figures.registry import figure
from figures.svg import element
from figures.templates import render
from recorder.project import RecorderError
from recorder.recording import Recording

PACE = 5  # milliseconds of the reader's time for a nanosecond
DEPTH = 250  # pixels from the surface to the deepest level
ROCK = 72  # pixels of it below that
GAP, HOST = 0.6, 3.8  # from the last size to the host's shelf, and its width, in steps of the slider
LEVELS = {  # as the ladder has them: color, and where a page calls it so
    "L1": ("l1", "L1"), "L2": ("l2", "L2"), "HBM": ("hbm", "HBM"), "host": ("host", "the host's memory"),
}  # fmt: skip


@dataclass(frozen=True)
class Ping:
    """A load that is sent."""

    name: str
    ink: str  # of its level
    x: float  # from 0 to 1
    ns: float


@dataclass(frozen=True)
class Stop:
    """A size that the slider has."""

    label: str
    ns: float
    where: str  # in words
    said: float  # ns in a sentence: those of the level, where this walk agrees with it


@dataclass(frozen=True)
class Shelf:
    """The ground of one level, from one place on the axis to another."""

    name: str
    ink: str
    begin: float  # from 0 to 1
    end: float
    ns: float
    holds: str
    points: list[tuple[float, float]]  # x from 0 to 1, ns

    @property
    def middle(self) -> float:
        return (self.begin + self.end) / 2


def size(count: float) -> str:
    """
    >>> size(4096), size(2**20), size(216 * 1024)
    ('4 KiB', '1 MiB', '216 KiB')
    """
    power = min(int(log2(count)) // 10, 4)
    return f"{count / 1024**power:.3g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


@figure(of="rows")
def memory_trip(recording: Recording, *, id="trip") -> Markup:
    sea = Sea(recording)
    return render(
        "memory_trip/template.html",
        id=id,
        sea=sea,
        picture=draw(sea),
        end=round(sea.deepest),
        seconds=f"{sea.deepest * PACE / 1000:.3g}",
        depth=DEPTH,
        height=DEPTH + ROCK,
        rows=[(stop.label, f"{stop.ns:.0f}", stop.where) for stop in sea.stops],
    )


class Sea:
    """The depths that a recording has, and where they stand. Raise ``RecorderError`` if some are missing."""

    def __init__(self, recording: Recording):
        ladder = recording.benchmark("ladder", "answers", "cycles").medians()
        if missing := [name for name in LEVELS if name not in ladder]:
            raise RecorderError(f"the ladder has no row {missing[0]!r}")
        self.l2 = recording.provenance.l2_bytes
        if not self.l2:
            raise RecorderError("the recording does not say how large L2 is")
        a_ns = ladder["HBM"].cycles / ladder["HBM"].answers  # cycles in it
        walks = {
            bytes_ * unit: row.all / a_ns
            for table, unit in (("edge_l1", 2**10), ("edge_l2", 2**20), ("latency", 1))
            for bytes_, row in recording.benchmark(table, "all").medians().items()
        }
        sizes = sorted(recording.benchmark("latency", "all").medians())
        self.first, self.last = log2(sizes[0]), log2(sizes[-1])
        self.width = self.last - self.first + 1 + GAP + HOST  # half a step before the first, and behind the last
        self.answers = {name: ladder[name].answers for name in LEVELS}
        self.l1 = max(size for size, ns in walks.items() if ns < 1.05 * self.answers["L1"])
        self.deepest = max(self.answers.values())
        self.stops = [Stop(size(each), ns := walks[each], self.where(each, ns), self.said(ns)) for each in sizes]
        self.shelves = list(self._shelves(sorted(walks.items())))
        self.pings = [Ping(each.name, each.ink, each.middle, each.ns) for each in self.shelves]
        self.ends = self.x(sizes[0]), self.x(sizes[-1])
        self.start = sizes.index(max(each for each in sizes if each <= self.l2 / 2))

    def x(self, bytes_: float) -> float:
        """Return where a size stands, from 0 to 1."""
        return (log2(bytes_) - self.first + 0.5) / self.width

    def where(self, bytes_: int, ns: float) -> str:
        """Say where a walk through so many bytes finds its numbers."""
        if bytes_ <= self.l1:
            return "L1"
        if bytes_ > self.l2:
            return "HBM"
        if ns < 0.95 * self.answers["L2"]:
            return "L2 (and partly still in L1)"
        return "L2 (partly in its far half)" if ns > 1.05 * self.answers["L2"] else "L2"

    def said(self, ns: float) -> float:
        """Return the wait of a level for a walk that took as long to a hundredth; two runs never agree to the digit."""
        return next((level for level in self.answers.values() if abs(ns / level - 1) < 0.01), ns)

    def _shelves(self, walks: list[tuple[int, float]]):
        ends = {"L1": self.l1, "L2": self.l2, "HBM": 2.0**self.last}
        before, last = 0.0, (0.0, walks[0][1])
        for name, most in ends.items():
            end = self.x(most) if name != "HBM" else (self.last - self.first + 1) / self.width
            inside = [(self.x(bytes_), ns) for bytes_, ns in walks if before < self.x(bytes_) <= self.x(most)]
            holds = f"up to {size(most)}" if name != "HBM" else f"beyond {size(self.l2)}"
            points = [last, *inside, (end, inside[-1][1])]
            yield Shelf(name, LEVELS[name][0], before, end, self.answers[name], holds, points)
            before, last = end, points[-1]
        begin, ns = 1 - HOST / self.width, self.answers["host"]
        yield Shelf("host", LEVELS["host"][0], begin, 1.0, ns, "over PCIe", [(begin, ns), (1.0, ns)])

    @property
    def ticks(self) -> list[float]:
        """Return round waits for the axis: a few, and none is deeper than the host."""
        power = 10 ** floor(log10(self.deepest / 2))
        step = next(power * times for times in (5, 2, 1) if power * times <= self.deepest / 2)
        return [step * i for i in range(1, floor(self.deepest / step) + 1)]

    def y(self, ns: float) -> float:
        """Return the depth of an answer in pixels."""
        return ns / self.deepest * DEPTH

    @property
    def sentence(self) -> str:
        parts = ", ".join(f"{LEVELS[name][1]} {ns:.0f} ns" for name, ns in self.answers.items())
        return f"How long one load waits, drawn as depth: {parts}."


def draw(sea: Sea) -> Markup:
    """Draw the ground of each level, stretched to the width that the page has, its edge, and the axis of waits."""
    bottom = DEPTH + ROCK
    parts = []
    for shelf in sea.shelves:
        floor = "L".join(f"{1000 * x:.1f} {sea.y(ns):.1f}" for x, ns in shelf.points)
        left, right = 1000 * shelf.points[0][0], 1000 * shelf.points[-1][0]
        line = {"fill": "none", "stroke_width": 2, "vector_effect": "non-scaling-stroke"}
        ground = f"M{left:.1f} {bottom}L{floor}L{right:.1f} {bottom}z"
        parts += [
            element("path", d=ground, class_=f"trip__rock trip--{shelf.ink}"),
            element("path", d=f"M{floor}", class_=f"trip__floor trip--{shelf.ink}", **line),
        ]
    _, l2, _, host = sea.shelves
    for ns in sea.ticks:  # beside HBM's name, not through it
        y = f"{sea.y(ns):.1f}"
        line = f"M0 {y}H{1000 * l2.end:.1f}M{1000 * host.begin:.1f} {y}H1000"
        parts.append(element("path", d=line, class_="trip__tick", vector_effect="non-scaling-stroke"))
    stretched = {"viewBox": f"0 0 1000 {bottom}", "preserveAspectRatio": "none", "width": "100%", "height": bottom}
    return element("svg", *parts, role="img", aria_label=sea.sentence, **stretched)
