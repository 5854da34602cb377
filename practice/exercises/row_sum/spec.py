# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise row_sum."""

import torch
from coach.spec import Spec, Speed

SPEC = Spec(
    title="Sum each row with a mask",
    kind="gap",
    lesson="programs/masks.md",
    goal="Each program sums one row, using a block that may be longer than the row. Load the row so that the spare "
    "lanes change nothing.",
    hints=(
        "What does a lane hold when the mask has switched it off, and what does tl.sum do with that?",
        "Sum each row: programs/masks.md#sum-each-row",
        "x = tl.load(…, mask=mask, other=0.0)",
    ),
    function="row_sum",
    signature=("x",),
    # Whole numbers, so that the sum is the same in every order.
    inputs=lambda size, rng: {"x": torch.randint(-9, 10, (size["rows"], size["columns"]), generator=rng).float()},
    reference=lambda x: x.sum(1),
    another=lambda x: {"x": x + 4096.5},  # more digits than float16 has, and no whole numbers
    sizes=({"rows": 3, "columns": 5}, {"rows": 4, "columns": 4}, {"rows": 5, "columns": 100}),
    awkward=("rows", "columns"),
    blocks={"rows": 4, "columns": 16},
    smallest=1,
    layouts=("spread", "transposed", "rows_apart"),
    mistaken={
        "That is the sum of each column. Which index stays fixed within a program?": lambda x: x.sum(0),
        "That is the sum of row 0, for each row. Where does the row's number come in?": lambda x: (
            x[:1].sum(1).expand(x.shape[0])
        ),
        "Row 0 is right, the others are 0 or too small. Does the mask compare columns, or offsets?": lambda x: x.where(
            torch.arange(x.numel()).view(x.shape) < x.shape[1], 0
        ).sum(1),
        "That is the first element of each row. Does the load get a block of offsets?": lambda x: x[:, 0],
    },
    most_reads={"x": 1},
    most_launches=1,
    speed=Speed(size={"rows": 2**13, "columns": 4096}, least=0.85, against=lambda x: x.sum(1)),
)
