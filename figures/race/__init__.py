# SPDX-License-Identifier: Apache-2.0
"""`<token-race>`: tokens that wait random times; the first to arrive is drawn, as often as its probability says.

It takes a printed section: the tokens' ``chances``, and a line of ``waits`` for each race with the token that came in
first. The picture is refused if another token than that one waited the shortest time.
"""

from typing import NamedTuple

from figures.registry import figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Recording


class Race(NamedTuple):
    """How long each token waited, as printed, and which one was drawn."""

    waits: list[str]
    first: int


@figure(of="output")
def race(recording: Recording, *, section=..., longest=6.0, id="race"):
    """``longest``: the wait that fills a lane; what waits longer leaves the picture."""
    sections = printed.sections(recording.output)
    if section not in sections:
        raise RecorderError(f"the output has no section {section!r}{nearest(section, sections)}")
    lines = [line.split(": ", 1) for line in sections[section].splitlines() if ": " in line]
    chances = [float(each) for name, text in lines if name == "chances" for each in text.split()]
    races = [read(text) for name, text in lines if name == "waits"]
    if not chances or not races:
        raise RecorderError(f"section {section!r} has no line {'waits' if chances else 'chances'!r}")
    for number, (waits, first) in enumerate(races, 1):
        if len(waits) != len(chances) or float(waits[first]) > min(map(float, waits)):
            raise RecorderError(f"race {number}: token {first} did not arrive first of {len(chances)}")
    drawn = [each.first for each in races]
    return render(
        "race/template.html",
        id=id,
        chances=chances,
        races=races,
        last=races[-1],
        counts=[drawn.count(token) for token in range(len(chances))],
        longest=longest,
        about=about(drawn, chances),
    )


def read(text: str) -> Race:
    """Read a line of the output.

    >>> read("0.25 1.50 first: 0")
    Race(waits=['0.25', '1.50'], first=0)
    """
    waits, first = text.split(" first: ")
    return Race(waits.split(), int(first))


def about(drawn: list[int], chances: list[float]) -> str:
    """Say what the picture shows, of the races up to one.

    >>> about([0, 1], [0.75, 0.25])
    'Race 2: token 1 arrives first. So far 0 was drawn 1 time (75% expected), 1 was drawn 1 time (25% expected).'
    """
    counts = [
        f"{token} was drawn {drawn.count(token)} time{'s' * (drawn.count(token) != 1)} ({100 * chance:.0f}% expected)"
        for token, chance in enumerate(chances)
    ]
    return f"Race {len(drawn)}: token {drawn[-1]} arrives first. So far {', '.join(counts)}."
