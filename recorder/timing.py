# SPDX-License-Identifier: Apache-2.0
"""Choose what to measure again on a GPU of the kind that recorded it, and judge how far the numbers agree.

GPUs of one kind agree within 3 % if the host has no part in a number. If it has, as in a launch, another processor can
take twice as long; and another torch or Triton may bring other kernels. So there are two bounds.
"""

import random
from typing import NamedTuple

from recorder.recording import Provenance, Recording

CLOSE = 0.05  # of what was recorded
LEAST = 0.8  # the share of the numbers that must be that close
LEAST_ELSEWHERE = 0.5  # the same, if one of the surroundings has changed since they were recorded
SURROUNDINGS = ("processor", "torch", "triton")
FEW = 20  # numbers, too few to judge a share of them
WORST = 10  # numbers to name
UNKNOWN = 60.0  # seconds, for a recording that does not say how long it took


class Number(NamedTuple):
    name: str  # "programs/vector_add: bandwidth[4096].triton, in GB/s"
    before: float
    now: float

    @property
    def close(self) -> bool:
        return abs(self.now - self.before) <= CLOSE * abs(self.before)

    @property
    def apart(self) -> float:
        """Return the ratio of the larger to the smaller."""
        small, large = sorted((self.now, self.before))
        return large / small if small > 0 else float("inf")


def sample(recorded: list[Recording], seconds: float, seed: int) -> set[str]:
    """Return the names of the snippets to measure again: as many as fit into the time, in an order that the seed sets.

    The same seed chooses the same snippets, so that a run which fails can be repeated. The first is measured in any
    case, for some take longer than that alone.
    """
    measured = [each for each in recorded if seconds > 0 and numbers(each, each)]
    chosen, left = set(), seconds
    for each in random.Random(seed).sample(measured, len(measured)):
        takes = each.provenance.seconds or UNKNOWN
        if takes <= left or not chosen:
            chosen.add(each.snippet)
            left -= takes
    return chosen


def numbers(old: Recording, new: Recording) -> list[Number]:
    """Return the medians that both recordings measured several times; leave out what was counted or read once."""
    numbers = []
    for benchmark in old.benchmarks:
        again = [table for table in new.benchmarks if table.name == benchmark.name]
        rows = {tuple(row.x): row.y for table in again for row in table.readings()}
        for row in benchmark.readings():
            for line, measured in row.y.items():
                now = rows.get(tuple(row.x), {}).get(line, [])
                if len(measured) == len(now) == 3:
                    x = ", ".join(map(str, row.x))
                    name = f"{old.snippet}: {benchmark.name}[{x}].{line}, in {benchmark.ylabel}"
                    numbers.append(Number(name, measured[0], now[0]))
    return numbers


def _changed(old: Provenance, new: Provenance, names: tuple[str, ...]) -> list[str]:
    values = [(name, getattr(old, name), getattr(new, name)) for name in names]
    return [f"{name}: {now}, was {before or 'not recorded'}" for name, before, now in values if now != before]


def report(pairs: list[tuple[Recording, Recording]]) -> tuple[list[str], list[str]]:
    """Return lines that compare old recordings with new ones, for a person to read, and the bounds that are broken."""
    here, elsewhere, others = [], [], {}
    for old, new in pairs:
        changed = _changed(old.provenance, new.provenance, SURROUNDINGS)
        (elsewhere if changed else here).extend(numbers(old, new))
        others |= dict.fromkeys([*changed, *_changed(old.provenance, new.provenance, ("gpu", "driver"))])
    lines, wrong = [], []
    for measured, least, where in ((here, LEAST, "the same"), (elsewhere, LEAST_ELSEWHERE, "another")):
        if measured:
            share = sum(number.close for number in measured) / len(measured)
            result = (
                f"of {len(measured)} numbers measured again with {where} processor, torch or Triton, {share:.1%} are "
                f"within {CLOSE:.0%} of what was recorded"
            )
            few = len(measured) < FEW
            lines.append(f"{result} ({'too few to judge' if few else f'at least {least:.0%} must be'})")
            if share < least and not few:
                wrong.append(f"timings: {result}, and at least {least:.0%} must be")
    far = sorted((number for number in [*here, *elsewhere] if not number.close), key=lambda each: -each.apart)
    lines += [f"  now {change}" for change in others]
    lines += [f"  {n.name}: {n.now:.4g}, was {n.before:.4g}: {n.apart:.2f} times apart" for n in far[:WORST]]
    return lines, wrong
