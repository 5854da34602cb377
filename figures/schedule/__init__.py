# SPDX-License-Identifier: Apache-2.0
"""Draw when each program of a launch ran, and on which SM: a thin row an SM, time to the right.

It takes benchmarks with a row for each program, numbered from 0, and the lines ``sm``, ``begin`` and ``end``, in
microseconds since the first program of the launch began. All of them share one axis of time, so that a launch which
takes twice as long is twice as long. Where nothing ran it is gray, and hatched from the end of an SM's last program to
that of the launch: idle, with nothing left to run. Beside that stands the machine at one moment, which a line in the
picture says: its multiprocessors in a plain grid, by their numbers. ``script.js`` lets a reader play a launch, and
choose another one, a moment and a program; it reads the numbers that stand here under the picture, and computes no
place anew.
"""

from dataclasses import dataclass
from math import ceil, floor, log10

from markupsafe import Markup

from figures import machine
from figures.registry import figure
from figures.svg import COLORS, element, hatch, pid, text, unique
from figures.templates import render
from figures.words import plural
from recorder.project import RecorderError
from recorder.recording import Benchmark, Recording

PITCH = 2  # pixels for each SM
ALONE = 0.5  # opacity of a program, in a launch of which several share an SM
SECONDS = 8  # that the longest launch is played
UNITS = 1000  # of the drawing from left to right, stretched to what the page has
TAIL = "repeating-linear-gradient(135deg, var(--ink-muted) 0 1px, var(--untouched) 1px 5px)"  # hatched, in the legend
ORDINALS = "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"


@dataclass(frozen=True)
class Program:
    number: int
    sm: int
    begin: float  # in µs
    end: float
    place: int  # which of the places on its SM, counted from 0: several programs may run there at once
    turn: int  # how many had that place before it


@dataclass(frozen=True)
class Schedule:
    """The schedule of one launch."""

    name: str  # in the page's address
    label: str
    about: str  # a sentence of the benchmark
    programs: list[Program]
    end: float
    idle: float  # share of the time of all SMs during which no program was on them
    sms: int

    @property
    def places(self) -> int:
        return 1 + max(program.place for program in self.programs)

    @property
    def used(self) -> int:
        return len({program.sm for program in self.programs})

    @property
    def last(self) -> list[float]:
        """Return when the last program of each SM ended; 0 on one that ran none."""
        ends = [0.0] * self.sms
        for program in self.programs:
            ends[program.sm] = max(ends[program.sm], program.end)
        return ends

    @property
    def tails(self) -> list[float]:
        """Return how long each SM had nothing left to run, where that is more than a hundredth of the launch."""
        return [tail for last in self.last if (tail := self.end - last) > self.end / 100]

    @property
    def gaps(self) -> bool:
        """Tell whether one can see that an SM had to wait for a program, and one came."""
        free = [0.0] * self.sms
        for program in sorted(self.programs, key=lambda each: each.begin):
            if program.begin - free[program.sm] > self.end / 100:
                return True
            free[program.sm] = max(free[program.sm], program.end)
        return False

    @property
    def rest(self) -> float:
        """Return the moment that says most, in whole µs: late in the tail, or the middle of a launch without one."""
        tails = self.tails
        return round(self.end - sum(tails) / len(tails) / 8 if tails else self.end / 2)

    def working(self, time: float) -> list[Program]:
        return [program for program in self.programs if program.begin <= time < program.end]

    @property
    def sentence(self) -> str:
        some = f"{self.used} of " if self.used < self.sms else ""
        sentence = (
            f"{plural(len(self.programs), 'program')} on {some}{self.sms} SMs; the last ends after {self.end:.0f} µs. "
            f"The SMs were idle for {self.idle:.0%} of that time."
        )
        if tails := self.tails:
            mean = sum(tails) / len(tails)
            average = " on average" if len(tails) > 1 else ""
            sentence += f" At the end, {plural(len(tails), 'SM')} had nothing left to run, for {mean:.0f} µs{average}."
        return sentence


@figure(of="rows")
def schedule(recording: Recording, *, names=..., id="schedule"):
    """`<schedule-explorer>`; ``names`` lists the benchmarks, or maps them to what their buttons say.

    It begins with the first; the buttons stand by the number of programs.
    """
    if not isinstance(names, list | dict) or not names:
        raise RecorderError(f"names must list benchmarks such as [schedule_few], not {names!r}")
    labels = names if isinstance(names, dict) else {name: _label(name) for name in names}
    tables = [recording.benchmark(name, "sm", "begin", "end") for name in labels]
    sms = recording.provenance.multiprocessors
    launches = [read(table, label, sms) for table, label in zip(tables, labels.values(), strict=True)]
    first = launches[0]
    launches.sort(key=lambda launch: len(launch.programs))
    end = max(launch.end for launch in launches)
    step = _step(end)
    end = ceil(end / step * 50) * step / 50  # a whole number of the bar's steps
    return render(
        "schedule/template.html",
        id=id,
        launches=launches,
        buttons={i: launch.label for i, launch in enumerate(launches)},
        first=launches.index(first),
        cells=machine.multiprocessors(first.programs, sms, first.rest),
        working=len({program.sm for program in first.working(first.rest)}),
        sms=sms,
        seconds=SECONDS,
        picture=draw(launches, first, end, step),
        legend=_legend(launches),
        shared=_shared(),
        end=f"{end:g}",
        step=f"{step / 50:g}",
        rows=[
            (each.label, len(each.programs), each.used, each.places, f"{each.end:.1f}", f"{each.idle:.1%}")
            for each in launches
        ],
    )


def _label(name: str) -> str:
    return name.removeprefix("schedule_").replace("_", " ")


def read(table: Benchmark, label: str = "", sms: int | None = None) -> Schedule:
    """Read a benchmark; give each program a place on its SM that no other has at that time.

    ``sms``: how many the GPU has. Raises ``RecorderError``.
    """
    rows = table.medians()
    if faulty := [number for number, row in rows.items() if row.end < row.begin]:
        raise RecorderError(f"{table.name!r} is no schedule: program {faulty[0]} ends before it begins")
    sms = sms or 1 + int(max(row.sm for row in rows.values()))
    taken: dict[int, list[list[float]]] = {}  # by SM and place: when each program there ended
    busy, programs = 0.0, []
    for number, row in sorted(rows.items(), key=lambda item: item[1].begin):
        places = taken.setdefault(int(row.sm), [])
        busy += max(0.0, row.end - max([row.begin, *(place[-1] for place in places)]))
        place = next((i for i, place in enumerate(places) if place[-1] <= row.begin), len(places))
        if place == len(places):
            places.append([])
        programs.append(Program(number, int(row.sm), row.begin, row.end, place, len(places[place])))
        places[place].append(row.end)
    programs.sort(key=lambda program: program.number)
    end = max(program.end for program in programs)
    about = table.doc.split("\n\n")[0].replace("\n", " ")
    return Schedule(_label(table.name).replace(" ", "-"), label, about, programs, end, 1 - busy / (sms * end), sms)


def _step(end: float) -> float:
    """Between two ticks, so that there are at most seven steps."""
    power = 10.0 ** floor(log10(end))
    return next(step for part in (0.1, 0.2, 0.5, 1, 2) if end / (step := part * power) <= 7)


def draw(launches: list[Schedule], first: Schedule, end: float, step: float) -> Markup:
    """Draw the first launch; the others are in the picture, not displayed. Widths follow the page, text does not."""
    sms = first.sms
    height = sms * PITCH
    hatched = unique("idle")
    lines = hatch(hatched, every=5, color="var(--ink-muted)", stroke_width=1)
    parts = [element("defs", lines)]
    for sm in sorted({*range(0, sms - sms // 6, max(1, ceil(sms / 4))), sms - 1}):
        y = (sm + 0.5) * PITCH + 4
        parts.append(element("text", f"{'' if sm else 'SM '}{sm}", x=-5, y=y, text_anchor="end"))
    ticks = [i * step for i in range(int(end / step) + 1)]
    for tick in ticks:
        x, unit = f"{tick / end:.3%}", " µs" if tick == ticks[-1] else ""
        parts.append(element("line", x1=x, x2=x, y2=height + 5, stroke="var(--rule)"))
        parts.append(element("text", f"{tick:g}{unit}", x=x, y=height + 18, text_anchor="middle"))
    parts += (_launch(launch, end, hatched, shown=launch is first) for launch in launches)
    look = {"height": height, "fill": "var(--ink-muted)", "font_size": 13}
    sentence = f"{first.label}: {first.sentence}"
    return element("svg", *parts, class_="schedule", role="img", **look, aria_label=sentence)


def _launch(launch: Schedule, end: float, hatched: str, shown: bool) -> Markup:
    """Draw idle time, hatched; on top of that, stretched, the programs; and the words."""
    height = launch.sms * PITCH
    idle = {"width": f"{launch.end / end:.3%}", "height": height - 1}
    stretched = {"viewBox": f"0 0 {UNITS} {height}", "preserveAspectRatio": "none", "overflow": "visible"}
    return element(
        "g",
        element("rect", **idle, fill="var(--untouched)"),
        element("rect", **idle, fill=f"url(#{hatched})"),
        element("svg", *_bars(launch, end), width="100%", height=height, **stretched),
        _ending(launch, end),
        *_idle(launch, end),
        data_name=launch.name,
        data_about=launch.sentence,
        data_label=launch.label,
        data_places=launch.places,
        data_rest=launch.rest,
        data_last=ceil(launch.end),
        display=None if shown else "none",
    )


def _bars(launch: Schedule, end: float) -> list[Markup]:
    """Return the bars of programs. Of several at once on an SM all have its whole height, too low to be divided, and
    shine through: where they overlap, it is darker."""
    height, thick = launch.sms * PITCH, 0.75 * PITCH  # a gap between two SMs
    strokes: dict[tuple[int, int], list[str]] = {}  # by turn and place: within one, nothing overlaps
    for p in launch.programs:
        y = p.sm * PITCH + 0.5 * thick
        x, width = p.begin / end * UNITS, max((p.end - p.begin) / end * UNITS, 0.5)
        strokes.setdefault((p.turn, p.place), []).append(f"M{x:.1f} {y:g}h{width:.1f}")
    begun = "".join(f"H{last / end * UNITS:.1f}v{PITCH}" for last in launch.last)  # as far as an SM's last program goes
    last = launch.end / end * UNITS
    line = {"stroke": "var(--ink)", "stroke_width": 1, "vector_effect": "non-scaling-stroke"}
    opacity = ALONE if launch.places > 1 else None
    bars = (
        element("path", d="".join(parts), stroke=_color(turn), stroke_opacity=opacity)
        for (turn, _), parts in strokes.items()
    )
    return [
        element("path", d=f"M0 0{begun}H0z", fill="var(--untouched)"),
        element("g", *bars, stroke_width=thick),
        element("path", d=f"M{last:.1f}-5V{height}", **line),
    ]


def _color(turn: int) -> str:
    return f"var(--{pid(turn)})"


def _shared() -> str:
    """Return the two grounds of a swatch: one program on an SM, and two at once."""
    two = 1 - (1 - ALONE) ** 2
    one, both = (f"color-mix(in srgb, {_color(0)} {share:.0%}, var(--untouched))" for share in (ALONE, two))
    return f"linear-gradient(90deg, {one} 50%, {both} 50%)"


def _ending(launch: Schedule, end: float) -> Markup:
    share = launch.end / end
    anchor = "start" if share < 0.15 else "end" if share > 0.8 else "middle"  # so that it stays in the picture
    place = {"x": f"{share:.3%}", "y": -9, "text_anchor": anchor, "fill": "var(--ink)"}
    return element("text", f"ends after {launch.end:.0f} µs", **place)


def _idle(launch: Schedule, end: float) -> list[Markup]:
    """Write how many are idle, in the widest part of the tail that is as high as a word, where there is room for it."""
    tails = [launch.end - last for last in launch.last]
    rows = min(ceil(18 / PITCH), launch.sms)
    free = [sum(tails[i : i + rows]) for i in range(launch.sms - rows + 1)]
    best = max(range(len(free)), key=lambda i: (round(free[i]), -abs(2 * i + rows - launch.sms)))  # or in the middle
    here = [tail for tail in tails[best : best + rows] if tail > end / 100]
    if free[best] / rows < end / 8:
        return []
    begin = launch.end - sum(here) / len(here)
    # Before the line at the moment, if that is late in the tail.
    x = (begin + (launch.rest if launch.rest > (begin + launch.end) / 2 else launch.end)) / 2 / end
    word = f"{plural(len(launch.tails), 'SM')} idle" if free[best] / rows > end * 0.27 else "idle"
    return [text(f"{x:.3%}", (best + rows / 2) * PITCH + 4, word, halo=6, text_anchor="middle", font_weight=600)]


def _legend(launches: list[Schedule]) -> dict[str, str]:
    """Return colors and what they say, but for those of a shared SM, which only some launches have."""
    turns = 1 + max(program.turn for launch in launches for program in launch.programs)
    shared = max(launch.places for launch in launches) > 1
    items = {_color(turn): ORDINALS[turn] for turn in range(min(turns, COLORS))}
    items[_color(0)] = "ran first" if shared else "first program on its SM"
    if turns > COLORS:
        items[_color(COLORS - 1)] += "; then the same colors again"
    if gaps := any(launch.gaps for launch in launches):
        items["var(--untouched)"] = "between two programs"
    if any(launch.tails for launch in launches):
        items[TAIL] = "idle to the end" if gaps else "idle"
    return items
