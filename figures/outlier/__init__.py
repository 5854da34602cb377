# SPDX-License-Identifier: Apache-2.0
"""`<outlier-bars>`: ten numbers in 8 bits, one of which grows, and takes along the range that their scale can reach.

It takes printed lines of the ten numbers and of what came back, for a few sizes of the large one, with one scale and
with two. All else is computed, here and in ``script.js``, and the picture is refused if that isn't what was printed.
"""

import re
import struct
from math import floor, log2
from typing import NamedTuple

from figures.registry import EXPLORER, figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Recording

LARGEST, LEAST_NORMAL, LEAST = 448.0, 2.0**-6, 2.0**-9  # of float8_e4m3fn
LOW, HIGH = -10, 20  # of the axis, as powers of two
LINE = re.compile(r"^2\*\*(\d+) +(.+)\n +one scale +(.+)\n +two scales +(.+)$", re.M)
SCHEMES = {"one": "one scale", "two": "a scale for each five"}
REST = 17  # the power at which it rests


class Bar(NamedTuple):
    """A number, what came back, and how it fared: "kept", "coarse" below full precision, or "lost"."""

    number: float
    back: float
    state: str


@figure(of="output", foot=EXPLORER)
def outlier(recording: Recording, *, section=..., id="outlier"):
    sections = printed.sections(recording.output)
    if section not in sections:
        raise RecorderError(f"the output has no section {section!r}{nearest(section, sections)}")
    runs = [(int(power), *map(str.split, rows)) for power, *rows in LINE.findall(sections[section])]
    if len(runs) < 2 or any(len(row) != 10 for _, *rows in runs for row in rows):
        raise RecorderError(f"section {section!r} must have ten numbers and what came back, for two powers or more")
    grows = [float(number) for number in runs[0][1]].index(1.0)
    first = [float(number) for number in runs[0][1]]
    for power, _, *rows in runs:
        for scheme, row in zip(SCHEMES, rows, strict=True):
            found = [f"{bar.back + 0:.3g}" for bar in bars(first, grows, power, scheme)]
            if found != row:
                raise RecorderError(f"at 2**{power}, with {SCHEMES[scheme]}, {found} came back, not {row}")
    return render(
        "outlier/template.html",
        id=id,
        numbers=first,
        grows=grows,
        bars=bars(first, grows, REST, "one"),
        windows=windows(first, grows, REST, "one"),
        schemes=SCHEMES,
        rest=REST,
        high=HIGH,
        low=LOW,
        height=height,
        brief=brief,
        said=said(first, grows, REST, "one"),
    )


def float32(x: float) -> float:
    return struct.unpack("f", struct.pack("f", x))[0]


def e4m3(x: float) -> float:
    """Round to the nearest float8_e4m3fn, from halfway to the even one.

    >>> [e4m3(x) for x in (1.07, -460.0, 0.0175, 2.0**-10, 2.0**-10 * 1.01)]
    [1.125, -448.0, 0.017578125, 0.0, 0.001953125]
    """
    if x == 0:
        return 0.0
    step = 2.0 ** (max(floor(log2(abs(x))), -6) - 3)
    return max(-LARGEST, min(round(x / step) * step, LARGEST))


def groups_of(numbers: list[float], scheme: str) -> list[list[float]]:
    size = 10 if scheme == "one" else 5
    return [numbers[i : i + size] for i in range(0, 10, size)]


def with_outlier(first: list[float], grows: int, power: int) -> list[float]:
    return [2.0**power if i == grows else number for i, number in enumerate(first)]


def bars(first: list[float], grows: int, power: int, scheme: str) -> list[Bar]:
    """Return the ten numbers, as they come back with such scales."""
    found = []
    for group in groups_of(with_outlier(first, grows, power), scheme):
        group = [float32(number) for number in group]
        scale = float32(max(map(abs, group)) / LARGEST)
        for number in group:
            q = e4m3(float32(number / scale))
            state = "lost" if q == 0 else "kept" if abs(q) >= LEAST_NORMAL else "coarse"
            found.append(Bar(number, float32(q * scale), state))
    return found


def windows(first: list[float], grows: int, power: int, scheme: str) -> list[tuple[float, float, float]]:
    """Return of each scale the heights of its largest number, its least of full precision, and its least."""
    found = []
    for group in groups_of(with_outlier(first, grows, power), scheme):
        largest = max(map(abs, group))
        found.append(tuple(height(largest * part / LARGEST) for part in (LARGEST, LEAST_NORMAL, LEAST)))
    return found


def height(number: float) -> float:
    """Return where a number stands on the axis, which is logarithmic: 0 at the bottom, 1 at the top.

    >>> height(2.0**-10), height(-32.0), height(2.0**30)
    (0.0, 0.5, 1.0)
    """
    return min(max((log2(abs(number)) - LOW) / (HIGH - LOW), 0.0), 1.0)


def brief(number: float) -> str:
    """Return a number in five characters at most, or so.

    >>> [brief(x) for x in (0.9, -0.35, 0.0039, 131072.0, 1048576.0, 0.0)]
    ['.9', '−.35', '.0039', '131k', '1049k', '0']
    """
    if abs(number) >= 9999.5:
        return f"{number / 1000:.0f}k"
    text = f"{number:.2g}" if abs(number) < 99.5 else f"{number:.0f}"
    return "0" if number == 0 else text.replace("0.", ".").replace("-", "−")


def said(first: list[float], grows: int, power: int, scheme: str) -> str:
    """Return how the numbers fare, in a sentence."""
    states = [bar.state for bar in bars(first, grows, power, scheme)]
    lost, coarse = states.count("lost"), states.count("coarse")
    return f"{lost} of 10 numbers became zero, and {coarse} lost some of their precision."
