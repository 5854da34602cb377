# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise flip."""

import torch
from coach.spec import Spec, Speed

SPEC = Spec(
    title="Flip a matrix of any strides",
    kind="scratch",
    lesson="programs/offsets.md",
    goal="Write a kernel that reverses every row of a matrix, whatever strides the matrix has.",
    hints=(
        "Which column of x goes into column 0 of the result, and which one into the last?",
        "Where to load, where to store: programs/offsets.md#the-kernel",
        "tile = tl.load(x_ptr + rows * stride_row + (n_columns - 1 - columns) * stride_column, mask=mask)",
    ),
    function="flip",
    signature=("x",),
    inputs=lambda size, rng: {"x": torch.randn(size["rows"], size["columns"], generator=rng)},
    reference=lambda x: x.flip(1),
    another=lambda x: {"x": x.half()},
    sizes=({"rows": 3, "columns": 5}, {"rows": 4, "columns": 4}, {"rows": 40, "columns": 100}),
    awkward=("rows", "columns"),
    layouts=("transposed", "spread", "rows_apart"),
    mistaken={
        "That is x itself. Which column of x is loaded for column 0 of the result?": lambda x: x,
        "The rows are flipped, from top to bottom. Which index should run backward?": lambda x: x.flip(0),
        "Rows and columns both run backward. Only the columns should.": lambda x: x.flip(0, 1),
    },
    most_reads={"x": 1},
    in_blocks=("x",),
    most_launches=1,
    speed=Speed(size={"rows": 2**13, "columns": 4096}, least=0.6),
)
