# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise one_read."""

import torch
from coach.spec import Spec, Speed


def inputs(size, rng):
    """Powers of two, and their sums are whole numbers, so that a sum is the same in every order."""
    return {"x": 2.0 ** torch.randint(0, 4, (size["rows"], size["columns"]), generator=rng)}


def by_block(x, block):
    """Each element divided by the sum of its block of so many columns."""
    parts = torch.nn.functional.pad(x, (0, -x.shape[1] % block)).unflatten(1, (-1, block))
    return (parts / parts.sum(2, keepdim=True)).flatten(1)[:, : x.shape[1]]


SPEC = Spec(
    title="Read each element once",
    kind="faster",
    lesson="gpu/memory.md",
    goal="Two kernels divide each row by its sum, and each of them reads the whole matrix. Write one kernel that "
    "reads each element only once.",
    hints=(
        "Which values does the second kernel load although a program of the first one already had them?",
        "One load, many uses: gpu/memory.md#how-to-hide-the-wait",
        "tl.store(out_ptr + row * n_columns + columns, x / tl.sum(x, axis=0), mask=mask)",
    ),
    function="normalize",
    signature=("x",),
    inputs=inputs,
    reference=lambda x: x / x.sum(1, keepdim=True),
    # Of both signs, with some quotients far from 0, no whole numbers, and more digits than float16 has.
    another=lambda x: {"x": x * torch.where(torch.arange(x.shape[1]) % 2 == 0, 2048.5, -2048.0)},
    sizes=(
        {"rows": 3, "columns": 5},
        {"rows": 4, "columns": 4},
        {"rows": 5, "columns": 100},
    ),
    last=({"rows": 1, "columns": 1025},),
    awkward=("rows", "columns"),
    blocks={"rows": 4, "columns": 16},
    smallest=1,
    layouts=("spread", "transposed", "rows_apart"),
    rtol=1e-6,
    mistaken={
        "Each row is divided by its mean, not by its sum.": lambda x: x / x.mean(1, keepdim=True),
        "Each element is divided by the sum of the absolute values.": lambda x: x / x.abs().sum(1, keepdim=True),
        "Each element is divided by the sum of its column. Which axis does the sum go along?": lambda x: x / x.sum(0),
        "Each element is divided by the sum of the whole matrix.": lambda x: x / x.sum(),
        "That is x. Is it divided by the sum?": lambda x: x,
        "Every quotient is 0: the sum is infinite. What do the lanes that are off add to it?": lambda x: 0 * x,
    }
    | {
        f"Each element is divided by the sum of a block of {block} columns. A program needs the whole row.": (
            lambda x, block=block: by_block(x, block)
        )
        for block in (2, 4, 8, 16, 32, 64)
    },
    most_reads={"x": 1},
    most_moved=1.75,  # where a row is short, sums that go through memory are more; x read twice is not
    most_launches=1,
    speed=Speed(size={"rows": 2**13, "columns": 4096}, least=0.75),
)
