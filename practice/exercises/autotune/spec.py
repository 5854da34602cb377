# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise autotune."""

import torch
from coach.spec import Spec


def matrices(size, rng):
    """Whole numbers, so that a sum in float32 is the same in every order; mostly positive, so that it grows."""
    shapes = {"a": (size["m"], size["k"]), "b": (size["k"], size["n"])}
    return {name: torch.randint(-2, 16, shape, generator=rng).half() for name, shape in shapes.items()}


SPEC = Spec(
    title="A grid for every config",
    kind="gap",
    lesson="matmul/autotuned.md",
    goal="Let the tuner choose the tile of a matrix product. The number of programs then depends on the tile it "
    "chose, so the grid has to be a function.",
    hints=(
        "Who knows which tile this launch will use, the host function or the tuner?",
        "The tuner's lines, and a grid that is a function: matmul/autotuned.md#three-configs-and-a-key",
        'grid = lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)',
    ),
    function="matmul",
    signature=("a", "b"),
    inputs=matrices,
    reference=lambda a, b: (a.double() @ b.double()).to(a.dtype),
    # Each twice, for the calls take the configs in turn; another k is another key.
    sizes=(
        {"m": 12, "n": 12, "k": 24},
        {"m": 12, "n": 12, "k": 8},
        {"m": 12, "n": 3, "k": 24},
        {"m": 12, "n": 3, "k": 8},
    ),
    awkward=("m",),
    blocks={"m": 8},
    smallest=1,
    layouts=("transposed",),
    mistaken={
        f"From row {kept} on there is no program. Does the grid divide by the sides of this call's tile, which are in "
        "`meta`, and round up?": lambda a, b, kept=kept: (
            (a.double() @ b.double()) * (torch.arange(len(a)) < kept)[:, None]
        )
        for kept in (4, 8)
    },
    most_launches=1,
)
