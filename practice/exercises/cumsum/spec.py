# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise cumsum."""

import torch
from coach.spec import Spec

BLOCK = 64


def blocks(x, carried):
    """The cumulative sum of each block, plus what ``carried`` makes of the blocks before: one number a row for each."""
    parts = x.split(BLOCK, dim=1)
    before = [carried(parts[:i]) if i else 0.0 for i in range(len(parts))]
    return torch.cat([part.cumsum(1) + each for part, each in zip(parts, before, strict=True)], dim=1)


def whole(part):
    return part.sum(1, keepdim=True)


def twice(parts):
    """The carry, if each block adds its carry to it again."""
    carry = 0.0
    for part in parts:
        carry = carry + carry + whole(part)
    return carry


def of_results(parts):
    """The carry, if it is increased by the sum of the results."""
    carry = 0.0
    for part in parts:
        carry = carry + (carry + part.cumsum(1)).sum(1, keepdim=True)
    return carry


SPEC = Spec(
    title="A cumulative sum with a carry",
    kind="gap",
    lesson="fusion/scan-sort-histogram.md",
    goal="Compute the cumulative sum of rows that are longer than a block. What does each block have to pass on to "
    "the next?",
    hints=(
        "If a block knows nothing about the blocks before it, by how much are its cumulative sums too small?",
        "A carry for longer rows: fusion/scan-sort-histogram.md#longer-rows-a-carry",
        "tl.store(out_ptr + start + column, carry + tl.cumsum(x, axis=0), mask=mask)",
    ),
    function="cumsum",
    signature=("x",),
    # Whole numbers, so that the sum is the same in every order.
    inputs=lambda size, rng: {"x": torch.randint(-9, 10, (size["rows"], size["columns"]), generator=rng).float()},
    reference=lambda x: x.cumsum(1),
    another=lambda x: {"x": x + 4096.5},  # more digits than float16 has, and no whole numbers
    sizes=({"rows": 3, "columns": 5}, {"rows": 4, "columns": 300}),
    awkward=("rows", "columns"),
    blocks={"rows": 2, "columns": BLOCK},
    layouts=("spread", "transposed", "rows_apart"),
    mistaken={
        "Each block begins at 0 again. What do the blocks before it add up to?": lambda x: blocks(x, lambda parts: 0.0),
        "The carry knows only the previous block. It has to grow by every block: `+=`, not `=`.": lambda x: blocks(
            x, lambda parts: whole(parts[-1])
        ),
        "The carry grows by the results, which already contain it. It should grow by the sum of x.": lambda x: blocks(
            x, of_results
        ),
        "The carry is counted twice: the last result already contains it, so that result is the next carry.": (
            lambda x: blocks(x, twice)
        ),
        "The carry already contains its own block. Does it grow before it is added?": lambda x: torch.cat(
            [part + whole(p) for part, p in zip(x.cumsum(1).split(BLOCK, 1), x.split(BLOCK, 1), strict=True)], dim=1
        ),
        "That is x, and the sums of the blocks before. Is the block scanned, with `tl.cumsum`?": lambda x: torch.cat(
            [part + before[:, None] for part, before in zip(x.split(BLOCK, 1), _before(x), strict=True)], dim=1
        ),
        "Only row 0 is written. Does the grid have a program for each row?": lambda x: torch.cat(
            [x[:1].cumsum(1), 0.0 * x[1:]]
        ),
    },
    most_reads={"x": 1},
    in_blocks=("x",),
    most_launches=1,
)


def _before(x):
    """Return the sum of all blocks before each block."""
    sums = torch.stack([part.sum(1) for part in x.split(BLOCK, 1)])
    return sums.cumsum(0) - sums
