# SPDX-License-Identifier: Apache-2.0
"""The view that draws when each program of a launch ran, and on which SM: a thin row an SM, time to the right.

It takes benchmarks with a row for each program, numbered from 0, and the lines ``sm``, ``begin`` and ``end``, in
microseconds since the first program of the launch began. All of them share one axis of time, so that a launch which
takes twice as long is twice as long. What was idle is gray. ``theme/assets/schedule-explorer.js`` lets a reader choose
a launch, a moment and a program; it reads the numbers that stand here under the picture, and computes no place anew.
"""

from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from recorder import claims
from recorder.project import RecorderError, nearest

LINES = "sm", "begin", "end"
UNITS = 1000  # of the drawing from left to right, stretched to what the page has
COLORS = 8  # --pid-0 to --pid-7
ORDINALS = "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"


@dataclass(frozen=True)
class Program:
    number: int
    sm: int
    begin: float
    end: float
    place: int  # which of the places on its SM, counted from 0: several programs may run there at once
    turn: int  # how many had that place before it


@dataclass(frozen=True)
class Launch:
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
    def sentence(self) -> str:
        some = f"{self.used} of " if self.used < self.sms else ""
        return (
            f"{_count(len(self.programs), 'program')} on {some}{self.sms} SMs; the last ends after {self.end:.0f} µs. "
            f"Over that time, the SMs were idle for {self.idle:.0%}."
        )


def schedule(snippet, recorded, *, names=..., id="schedule") -> str:
    """`<schedule-explorer>`; `names` lists the benchmarks, or maps them to what their buttons say."""
    tables = {table["name"]: table for table in recorded["benchmarks"]}
    if not isinstance(names, list | dict) or not names:
        raise RecorderError(f"names must list benchmarks such as [schedule_few], not {names!r}")
    if unknown := [name for name in names if name not in tables]:
        raise RecorderError(f"there is no benchmark {unknown[0]!r}{nearest(unknown[0], tables)}")
    labels = names if isinstance(names, dict) else {name: _label(name) for name in names}
    sms = recorded["provenance"].get("multiprocessors")
    launches = [read(tables[name], label, sms) for name, label in labels.items()]
    end = max(launch.end for launch in launches)
    step = _step(end)
    end = ceil(end / step * 50) * step / 50  # the slider's last place: a whole number of its steps
    radios = "".join(
        f'<label><input type="radio" name="launch" value="{escape(launch.name)}"{" checked" if i == 0 else ""}>'
        f"<span>{escape(launch.label)}</span></label>"
        for i, launch in enumerate(launches)
    )
    return (
        f'<schedule-explorer id="{escape(id)}" data-sms="{launches[0].sms}"><form class="explorer" autocomplete="off">'
        f'<fieldset class="explorer__switch explorer__switch--many" hidden><legend>Launch</legend>{radios}'
        f"</fieldset>{_legend(launches)}"
        f'<div class="schedule__plot">{draw(launches, end, step)}<i hidden></i><i hidden></i></div>'
        f'<input type="range" name="time" aria-label="Time" min="0" max="{end:g}" step="{step / 50:g}" '
        f'value="{end:g}" hidden>'
        '<div class="explorer__steps" hidden><button type="button" data-plays="time" data-pace="25">Play</button>'
        '<label>Program <input type="number" name="program" min="0"></label></div>'
        '<output class="explorer__summary" hidden></output><output class="explorer__detail" hidden></output></form>'
        f"{_numbers(launches)}</schedule-explorer>"
    )


def _label(name: str) -> str:
    return name.removeprefix("schedule_").replace("_", " ")


def _count(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def read(table: dict, label: str = "", sms: int | None = None) -> Launch:
    """The launch that a benchmark holds, each program with a place on its SM that nobody else has at that time."""
    if missing := [line for line in LINES if line not in table["lines"]]:
        raise RecorderError(f"{table['name']!r} is no schedule: it has no line {missing[0]!r}")
    rows = claims.medians(table)
    if faulty := [number for number, row in rows.items() if row.end < row.begin]:
        raise RecorderError(f"{table['name']!r} is no schedule: program {faulty[0]} ends before it begins")
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
    end = max(program.end for program in programs)
    about = table["doc"].split("\n\n")[0].replace("\n", " ")
    idle = 1 - busy / (sms * end)
    return Launch(_label(table["name"]).replace(" ", "-"), label, about, sorted(programs, key=_number), end, idle, sms)


def _number(program: Program) -> int:
    return program.number


def _step(end: float) -> float:
    """Between two ticks, so that there are at most seven steps."""
    power = 10.0 ** floor(log10(end))
    return next(step for part in (0.1, 0.2, 0.5, 1, 2) if end / (step := part * power) <= 7)


def draw(launches: list[Launch], end: float, step: float) -> str:
    """The picture of the first launch; the others are in it, not displayed. Widths follow the page, text does not."""
    sms = launches[0].sms
    pitch = 3 if max(launch.places for launch in launches) == 1 else 4  # pixels for each SM
    height = sms * pitch
    marks = sorted({*range(0, sms - sms // 6, max(1, ceil(sms / 4))), sms - 1})
    parts = [
        f'<text x="-5" y="{(sm + 0.5) * pitch + 4:g}" text-anchor="end">{"SM " if sm == 0 else ""}{sm}</text>'
        for sm in marks
    ]
    ticks = [i * step for i in range(int(end / step) + 1)]
    for tick in ticks:
        x = f"{tick / end:.3%}"
        unit = " µs" if tick == ticks[-1] else ""
        parts.append(f'<line x1="{x}" x2="{x}" y2="{height + 5}" stroke="var(--rule)"/>')
        parts.append(f'<text x="{x}" y="{height + 18}" text-anchor="middle">{tick:g}{unit}</text>')
    bars = "".join(_bars(launch, end, pitch, shown=launch is launches[0]) for launch in launches)
    parts.append(
        f'<svg width="100%" height="{height}" viewBox="0 0 {UNITS} {height}" preserveAspectRatio="none" '
        f'overflow="visible">{bars}</svg>'
    )
    parts += (_ending(launch, end, shown=launch is launches[0]) for launch in launches)
    return (
        f'<svg class="schedule" role="img" height="{height}" fill="var(--ink-muted)" font-size="11" '
        f'aria-label="{escape(_spoken(launches[0]))}">{"".join(parts)}</svg>'
    )


def _spoken(launch: Launch) -> str:
    return f"{launch.label}: {launch.sentence}"


def _bars(launch: Launch, end: float, pitch: int, shown: bool) -> str:
    height, thick = launch.sms * pitch, (pitch - 1) / launch.places  # a pixel between two SMs
    strokes: dict[str, list[str]] = {}  # by color
    for p in launch.programs:
        y = p.sm * pitch + (p.place + 0.5) * thick
        x, width = p.begin / end * UNITS, max((p.end - p.begin) / end * UNITS, 0.5)
        strokes.setdefault(_color(p.turn, p.place), []).append(f"M{x:.1f} {y:g}h{width:.1f}")
    bars = "".join(f'<path d="{"".join(parts)}" stroke="{color}"/>' for color, parts in strokes.items())
    last = launch.end / end * UNITS
    return (
        f'<g data-name="{escape(launch.name)}" data-about="{escape(launch.sentence)}" '
        f'data-label="{escape(launch.label)}" data-places="{launch.places}" stroke-width="{thick:g}" '
        f'shape-rendering="crispEdges"{"" if shown else " display=none"}>'
        f'<path d="M0 0H{last:.1f}V{height - 1}H0z" fill="var(--untouched)"/>{bars}'
        f'<path d="M{last:.1f}-5V{height}" stroke="var(--ink)" stroke-width="1" vector-effect="non-scaling-stroke"/>'
        "</g>"
    )


def _color(turn: int, place: int = 0) -> str:
    """That of the turn; every other place on an SM is fainter, so that two bars on top of each other are two."""
    color = f"var(--pid-{turn % COLORS})"
    return f"color-mix(in srgb, {color} 60%, var(--paper))" if place % 2 else color


def _ending(launch: Launch, end: float, shown: bool) -> str:
    share = launch.end / end
    return (
        f'<text data-name="{escape(launch.name)}" x="{share:.3%}" y="-9" text-anchor="{_anchor(share)}" '
        f'fill="var(--ink)"{"" if shown else " display=none"}>ends after {launch.end:.0f} µs</text>'
    )


def _anchor(share: float) -> str:
    """Which end of a text stands at a share of the width, so that it stays in the picture."""
    return "start" if share < 0.15 else "end" if share > 0.8 else "middle"


def _legend(launches: list[Launch]) -> str:
    turns = 1 + max(program.turn for launch in launches for program in launch.programs)
    shared = max(launch.places for launch in launches) > 1
    items = {_color(turn): ORDINALS[turn] for turn in range(min(turns, COLORS))}
    items[_color(0)] = "first program in its place on an SM" if shared else "first program on its SM"
    if turns > COLORS:
        items[_color(COLORS - 1)] += "; then the same colors again"
    if shared:
        items[_color(0, 1)] = "fainter: another at the same time"
    items["var(--untouched)"] = "nothing runs"
    words = (f'<span><i style="background: {color}"></i>{word}</span>' for color, word in items.items())
    return f'<p class="schedule__legend">{"".join(words)}</p>'


def _numbers(launches: list[Launch]) -> str:
    titles = "launch", "programs", "SMs used", "at once on an SM", "last ends after, µs", "SM time idle"
    head = "".join(f'<th scope="col">{title}</th>' for title in titles)
    rows = "".join(
        f"<tr><td>{escape(launch.label)}</td>"
        f"<td>{len(launch.programs)}</td><td>{launch.used}</td><td>{launch.places}</td>"
        f"<td>{launch.end:.1f}</td><td>{launch.idle:.1%}</td></tr>"
        for launch in launches
    )
    lists = "".join(
        f"<p>{escape(launch.label)}:</p>"
        f'<pre class="schedule__programs" tabindex="0" aria-label="The programs of {escape(launch.label)}">'
        "program    SM place   begin     end\n"
        + "\n".join(f"{p.number:7} {p.sm:5} {p.place:5} {p.begin:7.1f} {p.end:7.1f}" for p in launch.programs)
        + "</pre>"
        for launch in launches
    )
    return (
        '<details class="as-table"><summary>The numbers</summary>'
        '<div class="table-scroll" tabindex="0" role="region" aria-label="The launches">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        f"<p>{escape(' '.join(dict.fromkeys(launch.about for launch in launches)))}</p>{lists}</details>"
    )
