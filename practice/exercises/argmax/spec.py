# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise argmax."""

import torch
from coach.spec import Spec

BLOCK = 4


def inputs(size, rng):
    """In turn: a negative row, one of both signs, one of nothing but −∞. All have equal elements."""
    x = torch.randint(-2, 3, (size["rows"], size["columns"]), generator=rng).float()
    x[0::3] -= 5
    x[2::3] = -torch.inf
    return {"x": x}


def scan(x, other=-torch.inf, later=False, kept=True, last=False):
    """Return the loop's result with another ``other``, a later block that wins among equals, or a ``best`` not kept.

    ``last``: of equal elements in a block the last wins, lanes that are off included.
    """
    best, found = x.new_full((len(x),), -torch.inf), torch.zeros(len(x), dtype=torch.int64)
    for start in range(0, x.shape[1], BLOCK):
        part = x[:, start : start + BLOCK]
        part = torch.nn.functional.pad(part, (0, BLOCK - part.shape[1]), value=other)
        largest, column = part.max(1).values, start + part.argmax(1)
        if last:
            column = start + BLOCK - 1 - part.flip(1).argmax(1)
        found = torch.where(largest >= best if later else largest > best, column, found)
        best = torch.maximum(largest, best) if kept else largest
    return found


SPEC = Spec(
    title="The largest of each row",
    kind="bug",
    lesson="tools/testing.md",
    goal="This function finds the column of the largest element in each row, and its author's test passes. Two "
    "lines are wrong all the same. Find and fix them.",
    hints=(
        "The author's rows hold only positive numbers, and no number twice. Which rows would you try?",
        "How test data can hide a bug: tools/testing.md#what-goes-wrong",
        "found = tl.where(largest > best, column, found)",
    ),
    function="argmax",
    signature=("x",),
    inputs=inputs,
    reference=lambda x: x.argmax(1),
    another=lambda x: {"x": x + 4096},  # more digits than float16 has
    sizes=({"rows": 3, "columns": 6}, {"rows": 5, "columns": 23}),
    awkward=("columns",),
    blocks={"columns": BLOCK},
    smallest=1,
    layouts=("spread", "transposed"),
    mistaken={
        "Different numbers become equal when they are rounded to float16.": lambda x: scan(x.half().float()),
        "Each block is compared with the one before it. What should it be compared with?": (
            lambda x: scan(x, kept=False)
        ),
        "Only the first block is searched. Do the columns move on with `start`?": lambda x: x[:, :BLOCK].argmax(1),
        "Wrong in a row of −∞: a lane that is off holds a larger number, and wins. Which `other` changes no maximum?": (
            lambda x: scan(x, other=-1000.0)
        ),
        "Wrong in a row of negative numbers: a lane that is off holds 0, and wins. Which `other` changes no maximum?": (
            lambda x: scan(x, other=0.0)
        ),
        "Wrong in a row of negative numbers, at least: a lane that is off holds 0, and wins. Which `other` changes no "
        "maximum?": lambda x: scan(x, other=0.0, later=True),
        "Of two blocks with the same maximum, the later one wins, but the first should. When may a later block win?": (
            lambda x: scan(x, later=True)
        ),
        "Of equal elements in one block, the last one wins, but the first should.": lambda x: scan(x, last=True),
        "That is the last of several equal elements, but it should be the first.": lambda x: (
            x.shape[1] - 1 - x.flip(1).argmax(1)
        ),
    },
    most_reads={"x": 1},
    most_launches=1,
)
