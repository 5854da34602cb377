# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise add."""

import torch
from coach.spec import Spec, Speed

SPEC = Spec(
    title="Add two vectors",
    kind="gap",
    lesson="programs/vector-add-step-by-step.ipynb",
    also=("programs/vector-add.md",),
    goal="Write the body of the vector-add kernel: the offsets, the mask, two loads and a store. Then work out how "
    "many programs to launch, so that vectors of any length come out right.",
    hints=(
        "Take ten elements in blocks of four. Which of them belong to program 2, and which of its lanes are left "
        "without one?",
        "What each line of the kernel does: programs/vector-add-step-by-step.ipynb#the-whole-kernel",
        "offsets = pid * BLOCK + tl.arange(0, BLOCK)",
    ),
    function="add",
    signature=("x", "y"),
    inputs=lambda size, rng: {
        "x": torch.randn(size["n"], generator=rng),
        "y": torch.randn(size["n"], generator=rng),
    },
    reference=lambda x, y: x + y,
    another=lambda x, y: {"x": 64 * x, "y": -64 * y},  # as large as random numbers hardly are
    sizes=({"n": 10}, {"n": 256}, {"n": 1000}),
    awkward=("n",),
    strides="refused",
    mistaken={
        "That is x. Where is y added?": lambda x, y: x,
        "That is y. Where is x added?": lambda x, y: y,
        "That is x + x. Does the second load read from y_ptr?": lambda x, y: x + x,
        "That is x · y. Did you multiply?": lambda x, y: x * y,
        "Every element is x[0] + y[0]. Loading a bare pointer gives one number: where are its offsets?": (
            lambda x, y: (x[:1] + y[:1]).expand(len(x))
        ),
    },
    most_reads={"x": 1, "y": 1},
    in_blocks=("x", "y"),
    most_launches=1,
    most_blocks=1,
    speed=Speed(size={"n": 2**25}, least=0.85),
)
