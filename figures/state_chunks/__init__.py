# SPDX-License-Identifier: Apache-2.0
"""`<state-chunks>`: steps of a recurrence in chunks: a chain of states, then a triangle for each chunk, at once.

It takes the run of ``snippets/models/state_steps.py``: for each size of a chunk a section with the decay, and how much
of each step is in the last result, as the kernels computed it. A square is a key that a query meets itself; a dot is
one that reaches it through the state. Both have the size of what is left. The script computes the same for other
decays, and ``tests/figures/test_state_chunks.py`` compares with the recording.
"""

import re
from dataclasses import dataclass

from markupsafe import Markup

from figures.registry import EXPLORER, figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError
from recorder.recording import Recording

CHOSEN = 4  # steps of a chunk with which it begins
COLORS = 8  # of programs, in turn
NAME = re.compile(r"^(\d+) steps, chunks of (\d+)$")


@dataclass(frozen=True)
class Run:
    """How many steps; what is left after each; by the size of a chunk, how much of each step is in the last result."""

    steps: int
    decay: float
    left: dict[int, list[float]]


def read(recording: Recording) -> Run:
    """Return the run that a recording's output holds, or raise ``RecorderError``."""
    left, decays, lengths = {}, set(), set()
    for name, text in printed.sections(recording.output).items():
        if not (of := NAME.match(name)):
            continue
        steps, chunk = map(int, of.groups())
        last = re.search(rf"^step {steps - 1}: ([\d. ]+)$", text, re.M)
        decay = re.search(r"^decay: ([\d.]+)$", text, re.M)
        if not last or not decay or len(last[1].split()) != steps:
            raise RecorderError(f"section {name!r} must have its decay, and what the last of its steps gets of each")
        left[chunk] = [float(each) for each in last[1].split()]
        decays.add(float(decay[1]))
        lengths.add(steps)
    if CHOSEN not in left or len(decays) > 1 or len(lengths) > 1:
        raise RecorderError(f"the output needs sections 'N steps, chunks of …' of one decay, {CHOSEN} among the chunks")
    return Run(lengths.pop(), decays.pop(), left)


@figure(of="output", foot=EXPLORER)
def state_chunks(recording: Recording, *, id="chunked") -> Markup:
    """Steps in chunks: the states that are handed on, and what each query meets itself."""
    run = read(recording)
    cells = [
        {
            "t": t,
            "s": s,
            "left": run.decay ** (t - s),
            "met": s // CHOSEN == t // CHOSEN,
            "pid": t // CHOSEN % COLORS,
        }
        for t in range(run.steps)
        for s in range(t + 1)
    ]
    return render(
        "state_chunks/template.html",
        id=id,
        run=run,
        cells=cells,
        chosen=CHOSEN,
        chunks=run.steps // CHOSEN,
        chains=[t % CHOSEN == 0 for t in range(run.steps)],
        sizes={chunk: chunk for chunk in sorted(run.left)},
        met=sum(cell["met"] for cell in cells),
        rows=[[chunk, *(f"{each:.4f}" for each in row)] for chunk, row in run.left.items()],
    )
