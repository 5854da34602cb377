# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise online."""

import torch
from coach.spec import Spec

BLOCK = 64
LOWEST = torch.finfo(torch.float32).min


def inputs(size, rng):
    """Rows that grow to the right, rows far below 0, and rows whose first half is -inf."""
    rows, columns = size["rows"], size["columns"]
    x = torch.randn(rows, columns, generator=rng) + torch.arange(columns) * 0.1
    x[1::3] -= 300
    x[2::3, : columns // 2] = float("-inf")
    return {"x": x}


def online(x, lowest=LOWEST, rescale=lambda old, new: torch.exp(old - new), kept=1.0, blocks=None, begun=0.0):
    """Online softmax in torch, with what people get wrong as arguments."""
    maximum, total = torch.full((len(x), 1), lowest), torch.full((len(x), 1), begun)
    for block in blocks or x.split(BLOCK, dim=1):
        grown = torch.maximum(maximum, block.amax(1, keepdim=True))
        total = kept * total * rescale(maximum, grown) + torch.exp(block - grown).sum(1, keepdim=True)
        maximum = grown
    return torch.exp(x - maximum) / total


def never_grown(x):
    """The maximum stays LOWEST: each block's sum alone is by its own, and the second pass subtracts LOWEST."""
    total, maximum = torch.zeros(len(x), 1), torch.full((len(x), 1), LOWEST)
    for block in x.split(BLOCK, dim=1):
        grown = torch.maximum(maximum, block.amax(1, keepdim=True))
        total = total * torch.exp(maximum - grown) + torch.exp(block - grown).sum(1, keepdim=True)
    return torch.exp(x - maximum) / total


SPEC = Spec(
    title="Softmax of a long row",
    kind="gap",
    lesson="fusion/long-softmax.md",
    goal="The row is too long for one block. Find its maximum and the sum of its exponentials in a single pass over "
    "the blocks.",
    hints=(
        "A sum was computed with 3 subtracted from every element, and now the maximum is 5. By what factor is each "
        "of its terms too large?",
        "The first pass: fusion/long-softmax.md#the-first-pass-maximum-and-sum",
        "total = total * tl.exp(maximum - grown) + tl.sum(tl.exp(x - grown), axis=0)",
    ),
    function="softmax",
    signature=("x",),
    inputs=inputs,
    reference=lambda x: torch.softmax(x.double(), dim=1).float(),
    another=lambda x: {"x": x.index_fill(0, torch.arange(0, len(x), 3), float("-inf"))},  # of which torch makes NaN
    sizes=({"rows": 3, "columns": 5}, {"rows": 4, "columns": 200}),
    awkward=("rows", "columns"),
    blocks={"rows": 2, "columns": BLOCK},
    layouts=("spread", "transposed", "rows_apart"),
    rtol=1e-4,
    atol=1e-7,
    mistaken={
        "A row of -inf has the sum 0, so its softmax is 0 / 0, NaN. Does the sum begin at 0?": lambda x: online(
            x, begun=1.0
        ),
        "The old sum is not rescaled. It was computed with the old maximum subtracted, not the new one.": lambda x: (
            online(x, rescale=lambda old, new: 1.0)
        ),
        "Does the maximum begin at 0? Some elements are far below, so every exponential is 0, and 0 / 0 is NaN.": (
            lambda x: online(x, lowest=0.0)
        ),
        "Is the maximum -inf after a first block that is all -inf? Then -inf - (-inf) is NaN. Begin with LOWEST, and "
        "keep the larger of the maximum so far and the block's.": lambda x: online(x, lowest=-float("inf")),
        "The old sum is not rescaled. And the maximum is -inf after a block that is all -inf: begin with LOWEST.": (
            lambda x: online(x, lowest=-float("inf"), rescale=lambda old, new: 1.0)
        ),
        "It looks as if the factor is upside down: exp(new - old) is 1 or more, and the old sum was too large.": (
            lambda x: online(x, rescale=lambda old, new: torch.exp(new - old))
        ),
        "Do lanes that are off count as elements of 0? `other=` says what they hold.": lambda x: online(
            torch.nn.functional.pad(x, (0, -x.shape[1] % BLOCK))
        )[:, : x.shape[1]],
        "Only row 0 is written. Does the grid have a program for each row?": lambda x: torch.cat(
            [torch.softmax(x[:1], dim=1), 0.0 * x[1:].isnan()]
        ),
        "Maximum and sum are those of the first block. Is there a loop over all blocks?": lambda x: online(
            x, lowest=-float("inf"), blocks=[x[:, :BLOCK]]
        ),
        "Each step of the loop loads the first block again. Is `start` in the offsets of the load?": lambda x: online(
            x, blocks=[x[:, : block.shape[1]] for block in x.split(BLOCK, dim=1)]
        ),
        "The second pass subtracts LOWEST, so exp overflows. Does each step pass the larger maximum on to the next?": (
            never_grown
        ),
        "That divides by the sum of the last block alone. Is the old sum kept?": lambda x: online(x, kept=0.0),
    },
    most_reads={"x": 2},
    in_blocks=("x",),
    most_launches=1,
)
