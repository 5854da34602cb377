# SPDX-License-Identifier: Apache-2.0
"""`<sum-order>`: a few parts of a sum in the order in which they arrive, and what float32 makes of each order.

It takes a printed line of the parts, and the sums that a run made of them in this order and backwards. The other orders
are drawn by chance, always the same ones; their sums are computed here and in ``script.js``, as float32. The picture is
refused if its first two sums are not those that were printed.
"""

import random
import struct
from itertools import accumulate

from figures.registry import figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Recording

ORDERS = 12  # how many are shown; the first two are the printed ones


@figure(of="output")
def sum_order(recording: Recording, *, section=..., id="order"):
    sections = printed.sections(recording.output)
    if section not in sections:
        raise RecorderError(f"the output has no section {section!r}{nearest(section, sections)}")
    lines = dict(line.split(": ", 1) for line in sections[section].splitlines() if ": " in line)
    for name in ("parts", "in this order", "backwards"):
        if name not in lines:
            raise RecorderError(f"section {section!r} has no line {name!r}")
    parts = [float32(float(part)) for part in lines["parts"].split()]
    found = orders(len(parts))
    sums = [running(parts, order)[-1] for order in found]
    for name, value in (("in this order", sums[0]), ("backwards", sums[1])):
        if float32(float(lines[name])) != value:
            raise RecorderError(f"{name}, the parts add up to {digits(value)}, not {lines[name]}")
    last, results = found[-1], [digits(value) for value in sums]
    return render(
        "sum_order/template.html",
        id=id,
        parts=[digits(part) for part in parts],
        orders=found,
        order=last,
        totals=[digits(value) for value in running(parts, last)],
        results=sorted(set(results), key=float),
        about=about(results),
    )


def about(results: list[str]) -> str:
    """Say what the picture shows, of the runs up to one.

    >>> about(["1.5", "1.25"])
    'Run 2: the parts add up to 1.25. So far, 2 different results.'
    """
    count = len(set(results))
    return f"Run {len(results)}: the parts add up to {results[-1]}. So far, {count} different result{'s'[: count - 1]}."


def float32(value: float) -> float:
    """Return the nearest float32.

    >>> float32(0.1)
    0.10000000149011612
    """
    return struct.unpack("f", struct.pack("f", value))[0]


def digits(value: float) -> str:
    """Write a float32 with as many digits as tell it from its neighbors.

    >>> digits(float32(0.1)), digits(float32(123.456))
    ('0.100000001', '123.456001')
    """
    return f"{value:.9g}"


def orders(count: int) -> list[list[int]]:
    """Return the orders: first to last, last to first, and others that chance made, the same every time.

    >>> orders(3)[:2]
    [[0, 1, 2], [2, 1, 0]]
    """
    chance = random.Random(count)
    first = list(range(count))
    return [first, first[::-1], *(chance.sample(first, count) for _ in range(ORDERS - 2))]


def running(parts: list[float], order: list[int]) -> list[float]:
    """Return the sum in float32 after each part, added one after the other.

    >>> running([16777216.0, 1.0, 1.0], [0, 1, 2]), running([16777216.0, 1.0, 1.0], [1, 2, 0])
    ([16777216.0, 16777216.0, 16777216.0], [1.0, 2.0, 16777218.0])
    """
    return list(accumulate((parts[i] for i in order), lambda total, part: float32(total + part)))
