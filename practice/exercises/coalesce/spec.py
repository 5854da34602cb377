# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise coalesce."""

import torch
from coach.spec import Spec, Speed

STEP = 256  # of the solution

SPEC = Spec(
    title="Lanes side by side",
    kind="faster",
    lesson="gpu/coalescing.md",
    also=("tools/find-time.md",),
    goal="The row sums are right, but neighboring lanes read elements that are a whole row apart. Rearrange the "
    "loads so that every sector they fetch is used in full.",
    hints=(
        "A sector holds eight float32 numbers. Which eight share one, and how many of them does a load of this "
        "kernel use?",
        "Tall and wide tiles: gpu/coalescing.md#a-tile-row-or-column",
        "total += tl.load(x_ptr + rows[:, None] * n_columns + columns[None, :], mask=mask, other=0)",
    ),
    function="row_sum",
    signature=("x",),
    # Whole numbers, so that the sum is the same in every order.
    inputs=lambda size, rng: {"x": torch.randint(-9, 10, (size["rows"], size["columns"]), generator=rng).float()},
    reference=lambda x: x.sum(1),
    another=lambda x: {"x": x + 4096.5},  # more digits than float16 has, and no whole numbers
    sizes=({"rows": 6, "columns": 5}, {"rows": 3, "columns": 260}, {"rows": 64, "columns": 128}),
    awkward=("rows", "columns"),
    blocks={"rows": 4, "columns": 16},
    strides="refused",
    layouts=("spread", "transposed", "rows_apart"),
    mistaken={
        "Every step adds the first columns again. Where do the columns move on?": lambda x: (
            x[:, :STEP].sum(1) * -(-x.shape[1] // STEP)
        ),
        "The last columns are missing. Does the loop take a last, partial step?": lambda x: x[
            :, : x.shape[1] // STEP * STEP
        ].sum(1),
        "Only the first column of each step is added. Is a whole block of columns loaded?": lambda x: x[:, ::STEP].sum(
            1
        ),
    },
    most_reads={"x": 1},
    most_launches=1,
    least_used={"x": 0.9},
    speed=Speed(size={"rows": 2**13, "columns": 4096}, least=0.7, against=lambda x: x.sum(1)),
)
