# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise apart."""

import torch
from coach.spec import Spec

SPEC = Spec(
    title="Differences of neighbors",
    kind="bug",
    lesson="programs/copy-a-bug-hunt.ipynb",
    goal="This function subtracts each number of a vector from the next one, and its author's test passes. Two "
    "lines are wrong all the same. Find and fix them, and launch no program that would have nothing to store.",
    hints=(
        "Four numbers have only three differences. So which element of x does lane 3 load?",
        "What happens at the end of a tensor: programs/copy-a-bug-hunt.ipynb. How large the grid has to be: "
        "programs/vector-add.md#two-things-change-with-the-length",
        "mask = offsets < n - 1",
    ),
    function="apart",
    signature=("x",),
    inputs=lambda size, rng: {"x": torch.randn(size["n"], generator=rng)},
    reference=lambda x: x[1:] - x[:-1],
    sizes=({"n": 10}, {"n": 9}, {"n": 100}),
    awkward=("n",),
    blocks={"n": 4},
    smallest=1,
    strides="refused",
    mistaken={
        "The sign is wrong: which of the two numbers should be subtracted from the other?": lambda x: x[:-1] - x[1:],
    },
    most_reads={"x": 2},
    most_launches=1,
    most_blocks=1,
)
