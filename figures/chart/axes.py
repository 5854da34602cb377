# SPDX-License-Identifier: Apache-2.0
"""The axes of a chart: where a value stands between the ends, which have labels, and what must be said of it."""

from collections.abc import Callable
from itertools import pairwise
from math import ceil, floor, log2, log10
from typing import NamedTuple

from markupsafe import Markup

from figures.svg import element
from figures.table import as_powers

LETTER = 7  # pixels: the average width of a letter in a label
ROOM = {False: 190, True: 440}  # pixels for the labels below the plot: on a phone, and where there is room
LINES = 8  # across a plot, at most
LOG = "log scale"  # what is said of an axis that is logarithmic
PART = {True: 0.5, False: 0.75}  # of the greatest value, a share or not: if the least is more, the axis begins near it
BINARY = ("bytes", "KiB", "MiB", "GiB", "TiB")
WORDS = {10**6: "million", 10**9: "billion", 10**12: "trillion"}


class Axis(NamedTuple):
    """An axis from its lower to its upper end."""

    low: float
    high: float
    ticks: dict[float, str]  # the label of each value that has one
    log: bool = False
    note: str = ""  # what a reader must know of it
    narrow: frozenset[float] = frozenset()  # those of the labels for which a phone has room
    broken: bool = False  # it begins neither at zero nor is it logarithmic, and is drawn with a break

    def at(self, value: float) -> float:
        """Return where a value stands: 0 at the lower end, 1 at the upper end."""
        low, high, value = map(log10, (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        return (value - low) / (high - low)


def better(unit: str) -> str:
    """Return which way is better, for a reader who sees the lines first; nothing where neither is.

    >>> better("useful GB/s"), better("µs, flush before"), better("share of torch's time"), better("GB")
    ('higher is faster', 'lower is faster', 'lower is faster', '')
    """
    first = unit.removeprefix("useful ").split(",")[0].split(" ")[0]
    if first.endswith("/s") or unit.endswith("speed"):
        return "higher is faster"
    if first in ("s", "ms", "µs", "ns", "cycles") or unit.endswith("time"):
        return "lower is faster"
    return "lower is closer" if first == "error" else ""


def break_of(begin: str, *, upright: bool = True) -> Markup:
    """Return the break of an axis that does not begin at zero, a zigzag at its end that says where it begins."""
    zigzag = "M-22 8v3l-4 2 8 4-4 2v3" if upright else "M1 0h-7l-2.5-5-5 10-2.5-5h-6"
    path = element("path", d=zigzag, fill="none", stroke="var(--ink-muted)", stroke_width=1.5)
    return element("g", element("title", f"the axis begins at {begin}"), path)


def of_names(names: list[str]) -> Axis:
    """Return the axis for names, one beside the other."""
    ticks = dict(enumerate(names))
    return Axis(-0.5, len(names) - 0.5, ticks, narrow=frozenset(ticks))


def of_sizes(values: list[float], log: bool, unit: str = "") -> Axis:
    """Return the axis for what was varied; if logarithmic, with as many of these sizes for labels as fit."""
    low, high = min(values), max(values)
    if log and low > 0:
        labels = sizes(values, unit)
        letters = LETTER * (max(map(len, labels)) + 1)
        step, fewer = (ceil(len(values) / max(2, room // letters)) for room in (ROOM[True], ROOM[False]))
        ticks = dict(list(zip(values, labels, strict=True))[::step])
        narrow = frozenset(list(ticks)[:: ceil(fewer / step)])
        beyond = 1 if high > low else 2
        return Axis(low / beyond, high * beyond, ticks, True, "" if _even(values) else LOG, narrow)
    beyond = 0 if high > low else 1
    low, high = low - beyond, high + beyond
    ticks = {value: text for value, text in round_values(low, high, 8).items() if low <= value <= high}
    fewer = ceil(len(ticks) * LETTER * (max(map(len, ticks.values())) + 1) / ROOM[False])
    return Axis(low, high, ticks, narrow=frozenset(list(ticks)[::fewer]))


def _even(values: list[float]) -> bool:
    """Return whether sizes grow by one factor, which their labels then show.

    >>> _even([1, 2, 4]), _even([512, 2048, 8192]), _even([1, 2, 10])
    (True, True, False)
    """
    return len({round(b / a, 3) for a, b in pairwise(values)}) <= 1


def of_values(values: list[float], log: bool, share: bool = False) -> Axis:
    """Return the axis for what was measured. It is logarithmic over at least one power of ten; otherwise it begins at
    zero, or near the least value if all are close together, and is then drawn with a break."""
    low, high = min(values), max(values)
    if log and 0 < low <= high / 10:
        low, high = low / 1.2, high * 1.2
        return Axis(low, high, _powers(low, high), True, LOG)
    if high > low > PART[share] * high:
        ticks = round_values(low - 0.02 * (high - low), high, 6, share)
        first = min(ticks)
        return Axis(first, max(ticks), ticks, broken=first > 0)
    ticks = round_values(min(low, 0), max(high, 0) or 1, 6, share)
    return Axis(min(ticks), max(ticks), ticks)


def sizes(values: list[float], unit: str = "") -> list[str]:
    """Return the sizes as a page spells them: bytes in binary units, large powers of two as such, others in digits.

    >>> sizes([512, 1024]), sizes([1024, 2**20]), sizes([2**12, 2**31], "bytes")
    (['512', '1,024'], ['2¹⁰', '2²⁰'], ['4 KiB', '2 GiB'])
    """
    if unit.split(" ")[0] == "bytes" and all(isinstance(value, int) and value % 1024 == 0 for value in values):
        return [_binary(value) for value in values]
    if as_powers(values):
        return [_power(value.bit_length() - 1) for value in values]
    return [f"{value:,}" for value in values]


def _binary(value: int) -> str:
    power = min((value.bit_length() - 1) // 10, len(BINARY) - 1)
    return f"{value / 2 ** (10 * power):.3g} {BINARY[power]}"


def _power(exponent: int) -> str:
    return "2" + str(exponent).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def round_values(low: float, high: float, most: int, share: bool = False) -> dict[float, str]:
    """Return the labels of round values from ``low`` or just below to ``high`` or just above, in some ``most`` steps.

    >>> list(round_values(0, 4300, 6).values()), list(round_values(0.7, 1.1, 4, share=True).values())
    (['0', '1,000', '2,000', '3,000', '4,000', '5,000'], ['70%', '80%', '90%', '100%', '110%'])
    """
    power = floor(log10((high - low) / most))
    step = next(part * 10.0**power for part in (1, 2, 5, 10) if part * 10.0**power >= 0.999 * (high - low) / most)
    decimals = max(0, -floor(log10(step) + 1e-9))
    counted = range(floor(low / step + 1e-9), ceil(high / step - 1e-9) + 1)
    say: Callable[[float], str] = lambda value: f"{value:,.{decimals}f}"
    if share:
        say = lambda value: f"{value:.{max(0, decimals - 2)}%}"
    return {count * step: say(count * step) for count in counted}


def _powers(low: float, high: float) -> dict[float, str]:
    """Return the labels of values that grow by one factor, the least for which the lines are few.

    >>> list(_powers(30, 500).values()), list(_powers(2e-7, 0.02).values())
    (['50', '100', '200', '400'], ['1 in 1 million', '1 in 100,000', '1 in 10,000', '1 in 1,000', '1 in 100'])
    """
    if high / low <= 2**LINES:
        part = next(part * 10.0 ** floor(log10(low)) for part in (1, 2, 5, 10) if part * 10 ** floor(log10(low)) >= low)
        ticks = [part * 2**i for i in range(floor(log2(high / part)) + 1)]
        return {tick: said(tick) for tick in ticks}
    exponents = range(ceil(log10(low) - 1e-9), floor(log10(high) + 1e-9) + 1)
    step, say = ceil(len(exponents) / LINES), _part if low < 1e-5 and high <= 1 else said
    return {10.0**exponent: say(10.0**exponent) for exponent in exponents[::step]}


def said(value: float) -> str:
    """Return a round value in words that can be read at a glance.

    >>> said(0.0001), said(0.5), said(2000.0), said(5e7)
    ('0.0001', '0.5', '2,000', '50 million')
    """
    if value >= 1e6:
        size = max(size for size in WORDS if size <= value)
        return f"{value / size:,g} {WORDS[size]}"
    digits = max(0, 1 - floor(log10(value) + 1e-9))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _part(value: float) -> str:
    return f"1 in {said(float(round(1 / value)))}"
