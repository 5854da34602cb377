# SPDX-License-Identifier: Apache-2.0
"""`<warp-reduction>`: how the threads of a warp add up their numbers by butterfly shuffles, a shuffle a step.

In a step, each thread gets the sum of the thread whose number differs in one bit: ``thread ^ 16``, then 8, 4, 2, 1.
That order is the compiler's. The recorded code, in which fewer threads may take part, must end with the same steps, and
``tests/figures/test_warp_reduction.py`` compiles the sum of as many float32 as are drawn here. The script shows one
step; without it, all of them stand in a table a number of threads.
"""

import re
from itertools import groupby

from markupsafe import Markup

from figures.registry import figure
from figures.svg import element
from figures.templates import render
from recorder.project import RecorderError
from recorder.recording import Recording

SIZES = (8, 32)  # threads: a toy, and a warp
SHUFFLE = re.compile(r"shfl\.sync\.bfly\.b32\s+%\w+, %\w+, (\d+), 31, -1;")
FOOT = "The last steps as compiled without a GPU by Triton {compiler}, {date}; earlier steps follow the same rule"


@figure(of="stages", foot=FOOT)
def warp_reduction(recording: Recording, *, launch=None, target="sm_90", id="reduction") -> Markup:
    """``launch``: one whose PTX adds up by shuffles."""
    measured = shuffled("\n".join(line.text for line in recording.stage(launch, target, "ptx")))
    if not measured or measured != distances(max(SIZES))[-len(measured) :]:
        raise RecorderError(f"the launch shuffles over {measured or 'nothing'}, which is not the end of this figure")
    tables = [{"threads": n, "distances": distances(n), "sums": sums(n), "lines": _lines(n)} for n in SIZES]
    sizes = {n: f"{n} threads" for n in SIZES}
    return render("warp_reduction/template.html", id=id, tables=tables, sizes=sizes)


def shuffled(ptx: str) -> list[int]:
    """Over how many threads each step shuffles; a number of 64 bits does it twice in a row, by halves."""
    return [int(distance) for distance, _ in groupby(SHUFFLE.findall(ptx))]


def distances(threads: int) -> list[int]:
    """
    >>> distances(8)
    [4, 2, 1]
    """
    return [1 << bit for bit in reversed(range(threads.bit_length() - 1))]


def sums(threads: int) -> list[list[int]]:
    """Return what each thread holds, before the first step and after each.

    >>> sums(4)
    [[1, 2, 3, 4], [4, 6, 4, 6], [10, 10, 10, 10]]
    """
    held = [list(range(1, threads + 1))]
    for distance in distances(threads):
        held.append([held[-1][thread] + held[-1][thread ^ distance] for thread in range(threads)])
    return held


def _lines(threads: int) -> list[Markup]:
    """Draw the lines of each step, from every thread to itself and to the other, in columns and rows."""
    lines = []
    for step, distance in enumerate(distances(threads), 1):
        ends = [(thread, other) for thread in range(threads) for other in (thread, thread ^ distance)]
        path = "".join(f"M{step - 0.5:g} {begin + 0.5:g}L{step + 0.5:g} {end + 0.5:g}" for begin, end in ends)
        lines.append(element("path", d=path, data_at=step))
    return lines
