# SPDX-License-Identifier: Apache-2.0
"""`<lane-rows>`: a row of numbers in the lanes of a block, with those that are off, and what becomes of all of them.

``reduction``: a maximum or a sum of such rows, by what lanes that are off hold. Its rows are given by the page; which
lanes are off was recorded, and it is refused if its maxima are not those that the run printed.
``row_softmax``: the softmax of one row, step by step, as the run printed it.
"""

import math
import re
from dataclasses import dataclass

from figures import svg
from figures.registry import figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Recording

OTHERS = {"0": 0.0, "-inf": -math.inf}
REDUCTIONS = {"maximum": max, "sum": sum}
PRINTED = re.compile(r"other 0: \[(.*)\], should be \[(.*)\]")
STEPS = {  # of a softmax: what is printed last of each, and what happens then
    "load": "The program loads five scores. The three lanes that are off hold −∞.",
    "maximum": "The program finds the largest score. A lane with −∞ never wins.",
    "subtract": "It subtracts the maximum in every lane. The largest score is now 0, and −∞ stays −∞.",
    "exp": "exp makes each number positive. The largest becomes 1, and −∞ becomes 0.",
    "sum": "The program adds up these numbers. The lanes that are off add 0.",
    "divide": "The program divides each number by the sum and stores five shares, which add up to 1.",
}
LINES = ("x", "maximum", "shifted", "numerator", "total", "share")  # as they are printed


@dataclass(frozen=True)
class Lane:
    said: str
    on: bool
    value: float
    wins: bool = False


@dataclass(frozen=True)
class Row:
    """A program's lanes, and the one number that is left of them."""

    color: str
    name: str
    lanes: list[Lane]
    result: str
    right: str  # what it should be

    @property
    def about(self) -> str:
        verdict = "right" if self.result == self.right else f"wrong: it should be {self.right}"
        return f"{self.name} holds {', '.join(lane.said for lane in self.lanes)}, and finds {self.result}, {verdict}."


# The masks and the maximum with 0 are the run's; the sum and −∞ follow from the same numbers.
FOOT = "The maximum with 0 is a run recorded on {date}, Triton {triton}; the rest is computed from its numbers"


@figure(of="launches", foot=FOOT)
def reduction(recording: Recording, *, launch=None, rows=..., section=..., tensor="x_ptr", id="lanes"):
    """``rows``: the numbers of each program; ``section``: of the output, with the maxima that the kernel found."""
    masks = _masks(recording, launch, tensor)
    if [sum(mask) for mask in masks] != [len(row) for row in rows]:
        raise RecorderError(f"{launch} has {[sum(mask) for mask in masks]} lanes that are on, by program")
    found = [[float(number) for number in part.split(",")] for part in _line(recording, section).groups()]
    if found != [[max(0, *row) for row in rows], [max(row) for row in rows]]:
        raise RecorderError(f"the run printed other maxima than those of {rows}")
    programs = list(zip(masks, rows, strict=True))
    states = {
        (name, other): [_row(program, *lanes, name, other) for program, lanes in enumerate(programs)]
        for name in REDUCTIONS
        for other in OTHERS
    }
    return render(
        "lanes/reduction.html", id=id, states=states, reductions={name: name for name in REDUCTIONS},
        others={"0": "0", "-inf": "−∞"},
    )  # fmt: skip


def _masks(recording: Recording, launch: str | None, tensor: str) -> list[list[bool]]:
    return [each.mask for each in recording.traced(launch).accesses if (each.op, each.tensor) == ("load", tensor)]


def _sections(recording: Recording, section: str) -> str:
    sections = printed.sections(recording.output)
    if section not in sections:
        raise RecorderError(f"the output has no section {section!r}{nearest(section, sections)}")
    return sections[section]


def _line(recording: Recording, section: str) -> re.Match:
    match = PRINTED.search(_sections(recording, section))
    if not match:
        raise RecorderError(f"section {section!r} has no line: maxima, other 0: […], should be […]")
    return match


def _row(program: int, mask: list[bool], row: list[float], name: str, other: str) -> Row:
    numbers = iter(row)
    values = [next(numbers) if on else OTHERS[other] for on in mask]
    result = REDUCTIONS[name](values)
    lanes = [Lane(said(x), on, x, name == "maximum" and x == result) for x, on in zip(values, mask, strict=True)]
    return Row(svg.pid(program), f"program {program}", lanes, said(result), said(REDUCTIONS[name](row)))


def said(number: float) -> str:
    """
    >>> said(-10.0), said(-math.inf)
    ('−10', '−∞')
    """
    text = "∞" if math.isinf(number) else f"{abs(number):g}"
    return f"−{text}" if number < 0 else text


@figure(of="launches")
def row_softmax(recording: Recording, *, launch=None, section=..., tensor="x_ptr", id="lanes"):
    """``section``: of the output, with a line for each step: its name, and the numbers of the row."""
    text = _sections(recording, section)
    read = {name: numbers for name, *numbers in (line.split() for line in text.splitlines() if line.strip())}
    if missing := [name for name in LINES if name not in read]:
        raise RecorderError(f"section {section!r} has no line {missing[0]!r}")
    mask = _masks(recording, launch, tensor)[0]
    if sum(mask) != len(read["x"]):
        raise RecorderError(f"{launch} loads {sum(mask)} numbers a row, and section {section!r} has {len(read['x'])}")
    lanes = {name: _lanes(read[name], mask, off) for name, off in
             (("x", -math.inf), ("shifted", -math.inf), ("numerator", 0.0), ("share", 0.0))}  # fmt: skip
    most = max(abs(lane.value) for name in ("x", "shifted") for lane in lanes[name] if lane.on)
    return render(
        "lanes/softmax.html", id=id, lanes=lanes, most=most, largest=max(lane.value for lane in lanes["share"]),
        text=text, steps=STEPS,
        maximum=said(float(*read["maximum"])), total=read["total"][0], shares=[x for x in lanes["share"] if x.on],
    )  # fmt: skip


def _lanes(numbers: list[str], mask: list[bool], off: float) -> list[Lane]:
    numbers = iter(numbers)
    known = [next(numbers) if on else off for on in mask]
    return [Lane(_short(x) if on else said(x), on, float(x)) for x, on in zip(known, mask, strict=True)]


def _short(number: str) -> str:
    """Return a printed number as a lane has room for it: a whole one without decimals, others without the leading 0."""
    value = float(number)
    return said(value) if value.is_integer() else number.removeprefix("0")
