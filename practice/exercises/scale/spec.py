# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise scale."""

import torch
from coach.spec import Spec, Speed

SPEC = Spec(
    title="Scale a vector",
    kind="scratch",
    lesson="programs/vector-add.md",
    also=("programs/copy-a-bug-hunt.ipynb",),
    goal="Write y = a·x from scratch: a kernel in which each program scales one block, and the function that "
    "launches it.",
    hints=(
        "Which elements belong to program 1, and which of its lanes are left without one?",
        "The kernel of vector add, line by line: programs/vector-add.md#the-kernel",
        "offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)",
    ),
    function="scale",
    signature=("x", "a"),
    inputs=lambda size, rng: {"x": torch.randn(size["n"], generator=rng), "a": 2.5},
    reference=lambda x, a: x * a,
    another=lambda x, a: {"a": -0.75},
    sizes=({"n": 10}, {"n": 1000}),
    awkward=("n",),
    strides="refused",
    rtol=1e-6,
    mistaken={
        "That is x itself. Where is it multiplied by a?": lambda x, a: x,
        "That is 2.5 · x, but a is another number here. Is it hard-coded?": lambda x, a: x * 2.5,
        "That is x + a. Did you add instead of multiply?": lambda x, a: x + a,
    },
    most_reads={"x": 1},
    in_blocks=("x",),
    most_launches=1,
    most_blocks=1,
    speed=Speed(size={"n": 2**25}, least=0.85),
)
