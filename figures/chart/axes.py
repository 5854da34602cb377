# SPDX-License-Identifier: Apache-2.0
"""The axes of a chart: where a value stands between the ends, and which values have a label."""

from math import ceil, floor, log10
from typing import NamedTuple

from figures.table import is_power_of_two

LETTER = 7  # pixels: the average width of a letter in a label
ROOM = 270  # pixels for the labels below the plot on a phone
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Axis(NamedTuple):
    """An axis from its lower to its upper end."""

    low: float
    high: float
    ticks: dict[float, str]  # the label of each value that has one
    log: bool = False

    def at(self, value: float) -> float:
        """Return where a value stands: 0 at the lower end, 1 at the upper end."""
        low, high, value = map(log10, (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        return (value - low) / (high - low)


def of_names(names: list[str]) -> Axis:
    """Return the axis for names, one beside the other."""
    return Axis(-0.5, len(names) - 0.5, dict(enumerate(names)))


def of_sizes(values: list[float], log: bool) -> Axis:
    """Return the axis for what was varied; if logarithmic, with as many of these sizes for labels as fit on a phone."""
    low, high = min(values), max(values)
    if log and low > 0:
        beyond = (high / low) ** 0.03 if high > low else 2  # so that no marker stands on the edge of the plot
        labels = sizes(values)
        every = ceil(len(values) / min(9, ROOM // (LETTER * (max(map(len, labels)) + 1))))
        ticks = dict(list(zip(values, labels, strict=True))[::every])
        return Axis(low / beyond, high * beyond, ticks, log=True)
    beyond = (high - low) * 0.03 or 1
    low, high = low - beyond, high + beyond
    return Axis(low, high, {value: text for value, text in _round_values(low, high, 8).items() if low <= value <= high})


def of_values(values: list[float], log: bool) -> Axis:
    """Return the axis for what was measured: from zero, or logarithmic over at least one power of ten."""
    low, high = min(values), max(values)
    if log and 0 < low <= high / 10:
        low, high = low / 1.2, high * 1.2
        return Axis(low, high, _powers_of_ten(low, high), log=True)
    ticks = _round_values(min(low, 0), max(high, 0) or 1, 6)
    return Axis(min(ticks), max(ticks), ticks)


def sizes(values: list[float]) -> list[str]:
    """Return the sizes as a page spells them: as powers of two if all are, otherwise in digits.

    >>> sizes([64, 1024]), sizes([1, 1024])
    (['2⁶', '2¹⁰'], ['1', '1,024'])
    """
    if all(map(is_power_of_two, values)):
        return [_power(2, value.bit_length() - 1) for value in values]
    return [f"{value:,}" for value in values]


def _power(base: int, exponent: int) -> str:
    return f"{base}{str(exponent).translate(SUPERSCRIPTS)}"


def _round_values(low: float, high: float, most: int) -> dict[float, str]:
    """Return the labels of round values from ``low`` or just below to ``high`` or just above, in some ``most`` steps.

    >>> list(_round_values(0, 4300, 6).values())
    ['0', '1,000', '2,000', '3,000', '4,000', '5,000']
    """
    power = floor(log10((high - low) / most))
    step = next(part * 10**power for part in (1, 2, 5, 10) if part * 10**power >= 0.999 * (high - low) / most)
    decimals = max(0, -floor(log10(step) + 1e-9))
    counted = range(floor(low / step + 1e-9), ceil(high / step - 1e-9) + 1)
    return {count * step: f"{count * step:,.{decimals}f}" for count in counted}


def _powers_of_ten(low: float, high: float) -> dict[float, str]:
    """Return the labels of powers of ten between ``low`` and ``high``; of 2 and 5 times these too if they are few.

    >>> list(_powers_of_ten(3, 44).values()), list(_powers_of_ten(1e-6, 1e-4).values())
    (['5', '10', '20'], ['10⁻⁶', '10⁻⁵', '10⁻⁴'])
    """
    within = lambda values: [value for value in values if low <= value <= high]
    exponents = range(floor(log10(low)), ceil(log10(high)) + 1)
    powers = within(10.0**exponent for exponent in exponents)
    if low < 1e-4 or high >= 1e6:
        return {power: _power(10, round(log10(power))) for power in powers}
    if len(powers) < 3:
        powers = within(part * 10.0**exponent for exponent in exponents for part in (1, 2, 5))
    return {power: f"{power:,g}" for power in powers}
