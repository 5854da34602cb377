# SPDX-License-Identifier: Apache-2.0
"""Who is faster, case by case, and the sentence that counts it: the title of a chart that compares."""

from collections import Counter
from collections.abc import Iterable
from math import isnan

from recorder.project import RecorderError, nearest
from recorder.recording import Median

WINS, TIES, LOSES = "wins", "ties", "loses"


def verdict(ours: Median, theirs: Median, *, less: bool) -> str:
    """Return ``wins`` or ``loses`` if the worst reading of one side is better than the best of the other.

    ``less``: of these values the smaller is the better, as of times.

    >>> a, b = Median([10.0, 9.0, 11.0]), Median([12.0, 11.5, 13.0])
    >>> verdict(a, b, less=True), verdict(a, b, less=False), verdict(a, Median([10.5]), less=True)
    ('wins', 'loses', 'ties')
    """
    small, large = (ours, theirs) if less else (theirs, ours)
    if small.most < large.least:
        return WINS
    return LOSES if large.most < small.least else TIES


def often(values: Iterable, outcome: object) -> str:
    """
    >>> often(["wins", "wins", "loses"], "wins"), often(["wins"], "wins"), often(["wins"], "loses")
    ('2 of 3', 'all 1', 'none of 1')
    """
    values = list(values)
    count = values.count(outcome)
    return f"all {count}" if count == len(values) else f"{count or 'none'} of {len(values)}"


def said(values: Iterable[str], title: str, **others: str) -> str:
    """Return a title with what was counted in place of its braces: ``{won}``, ``{even}`` and ``{lost}`` are such as
    ``11 of 12``, ``all 12`` or ``none of 12``; ``{wins}``, ``{ties}``, ``{losses}`` and ``{cases}`` are numbers.

    >>> said(["wins", "wins", "loses"], "Faster in {won} cases, slower in {losses}")
    'Faster in 2 of 3 cases, slower in 1'
    """
    values = list(values)
    counts = Counter(values)
    words = {name: often(values, outcome) for name, outcome in (("won", WINS), ("even", TIES), ("lost", LOSES))}
    words |= {"wins": counts[WINS], "ties": counts[TIES], "losses": counts[LOSES], "cases": len(values), **others}
    try:
        return title.format(**words)
    except (KeyError, ValueError, IndexError) as wrong:
        raise RecorderError(f"a title has no {wrong}{nearest(str(wrong).strip(chr(39)), words)}") from None


def finding(values: Iterable[str], ours: str, theirs: str) -> str:
    """Return a sentence that says how often each side is faster.

    >>> finding(["wins"] * 3, "ours", "torch"), finding(["wins", "ties", "loses"], "ours", "cuBLAS")
    ('Ours is faster than torch in all 3 cases', 'Of 3 cases, ours is faster than cuBLAS in 1, even in 1, slower in 1')
    """
    counts = Counter(values)
    cases = counts.total()
    words = {WINS: f"faster than {theirs}", TIES: f"even with {theirs}", LOSES: f"slower than {theirs}"}
    found = [outcome for outcome in words if counts[outcome]]
    if len(found) < 2:
        often = f" in all {cases} cases" if cases > 1 else ""
        return f"{ours[:1].upper()}{ours[1:]} is {words[found[0]] if found else f'not measured beside {theirs}'}{often}"
    short = {TIES: "even", LOSES: "slower"}
    parts = [f"{words[outcome] if i == 0 else short[outcome]} in {counts[outcome]}" for i, outcome in enumerate(found)]
    return f"Of {cases} cases, {ours} is {', '.join(parts)}"


def measured(value: float) -> bool:
    """Return whether there is a number: a side that does not serve a case has none."""
    return not isnan(value)
