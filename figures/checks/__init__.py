# SPDX-License-Identifier: Apache-2.0
"""Which check catches which slip: a row of cells for each slip, in the order of the checks.

It takes a printed table: a line of titles that begins with the name of a kernel, then a line for each of its versions,
with CAUGHT or - for each check. The first check that catches a slip stands out, because whoever stops before it ships
the slip.
"""

import re

from figures.registry import figure
from figures.templates import render
from recorder.project import RecorderError
from recorder.recording import Recording

WORDS = {"CAUGHT": True, "-": False}
ABOUT = {  # a check in three words
    "round": "full blocks only",
    "ragged": "a part-filled block",
    "guards": "bytes around tensors",
    "poison": "NaN until written",
    "accesses": "every address used",
    "far": "offsets from 2³¹",
    "test": "one easy size",
    "awkward": "odd sizes, empty and long rows",
    "interpreter": "the same on the CPU",
    "assert": "tl.device_assert",
    "memcheck": "every address",
    "racecheck": "shared memory",
    "initcheck": "reads before writes",
    "GSan": "programs in each other's way",
    "FpSan": "another formula",
}


@figure(of="output")
def checks(recording: Recording, *, kernel=..., row="version of the kernel"):
    """``kernel``: the word with which the line of titles begins; ``row``: what a row is."""
    lines = iter(recording.output.splitlines())
    titles = next((line.split()[1:] for line in lines if line.split()[:1] == [kernel]), None)
    if not titles:
        raise RecorderError(f"the output has no line of titles that begins with {kernel!r}")
    rows = {}
    for line in lines:
        name, *verdicts = re.split(r"\s{2,}", line.strip())
        if len(verdicts) != len(titles) or not set(verdicts) <= WORDS.keys():
            break
        rows[name] = [WORDS[verdict] for verdict in verdicts]
    if not rows:
        raise RecorderError(f"no line below {kernel!r} says CAUGHT or - for each of {', '.join(titles)}")
    caught = [sum(each) for each in zip(*rows.values(), strict=True)]
    return render("checks/template.html", titles=titles, rows=rows, caught=caught, about=ABOUT, row=row)
