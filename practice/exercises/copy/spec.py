# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise copy."""

import torch
from coach.spec import Spec

SPEC = Spec(
    title="Copy a matrix of any strides",
    kind="bug",
    lesson="programs/offsets.md",
    goal="This copy is right for many matrices but not for all of them, because two of its lines are wrong. Find "
    "and fix them.",
    hints=(
        "Take a matrix with 9 columns and tiles that are 8 wide. Which columns does the mask leave on in the second "
        "tile?",
        "Offsets from strides: programs/offsets.md#the-kernel",
        "offsets = rows[:, None] * stride_row + columns[None, :] * stride_column",
    ),
    function="copy",
    signature=("x",),
    inputs=lambda size, rng: {"x": torch.randn(size["rows"], size["columns"], generator=rng)},
    reference=lambda x: x.clone(),
    sizes=({"rows": 3, "columns": 5}, {"rows": 4, "columns": 4}, {"rows": 9, "columns": 17}),
    awkward=("rows", "columns"),
    blocks={"rows": 4, "columns": 8},
    layouts=("transposed", "spread", "rows_apart"),
    most_reads={"x": 1},
    most_launches=1,
)
