# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise softmax."""

import torch
from coach.spec import Spec, Speed


def inputs(size, rng):
    """Rows near 0, near 200 and near −200 in turn, of which the first elements count."""
    rows, columns = size["rows"], size["columns"]
    x = 2 * torch.randn(rows, columns, generator=rng)
    x[1::3] += 200
    x[2::3] -= 200
    lengths = torch.randint(1, columns + 1, (rows,), generator=rng, dtype=torch.int32)
    return {"x": x, "lengths": lengths, "scale": size["scale"]}


def counts(x, lengths):
    return torch.arange(x.shape[1], device=x.device) < lengths[:, None]


def shares(x, lengths, scale):
    x = torch.where(counts(x, lengths), x.double() * scale, -torch.inf)
    return x.softmax(1).float()


def with_zeros(x, lengths, scale):
    """The row in its block, scaled, where each lane that is off counts as an element 0."""
    block = 1 << (x.shape[1] - 1).bit_length()
    x = torch.where(counts(x, lengths), x * scale, 0)
    return torch.nn.functional.pad(x, (0, block - x.shape[1]))


def minus(x, lengths, scale, subtracted):
    """Shares whose numerators are exp(scale · x - subtracted)."""
    numerator = torch.where(counts(x, lengths), torch.exp(x * scale - subtracted), 0)
    return numerator / numerator.sum(1, keepdim=True)


def largest(x, lengths):
    return torch.where(counts(x, lengths), x, -torch.inf).amax(1, keepdim=True)


SPEC = Spec(
    title="Masked softmax with a scale",
    kind="gap",
    lesson="programs/softmax.md",
    goal="A program computes the softmax of scale · x for one row, but only the first elements of the row take "
    "part. Their shares add up to 1, and all the others get 0.",
    hints=(
        "What must a lane hold when it is off, so that it changes neither the maximum nor the sum? And is that still "
        "true after you have multiplied it by a negative scale?",
        "The kernel, line by line: programs/softmax.md#the-kernel",
        'x = tl.where(mask, x * scale, -float("inf"))',
    ),
    function="softmax",
    signature=("x", "lengths", "scale"),
    inputs=inputs,
    reference=shares,
    sizes=(
        {"rows": 3, "columns": 5, "scale": 1},
        {"rows": 4, "columns": 8, "scale": 2},
        {"rows": 5, "columns": 37, "scale": -2},
        {"rows": 1, "columns": 4097, "scale": 1},
    ),
    awkward=("rows", "columns"),
    blocks={"rows": 4, "columns": 16},
    smallest=1,
    strides="either",
    layouts=("rows_apart", "transposed"),
    rtol=1e-4,
    atol=1e-6,
    mistaken={
        "The lanes that are off count as elements of 0. Which value would keep them out?": (
            lambda x, lengths, scale: with_zeros(x, lengths, scale).softmax(1)[:, : x.shape[1]]
        ),
        "The shares of a row add up to less than 1: lanes that are off take part in the sum.": (
            lambda x, lengths, scale: (
                with_zeros(x, lengths, scale).softmax(1)[:, : x.shape[1]].where(counts(x, lengths), 0)
            )
        ),
        "Which maximum is subtracted, that of x or that of scale · x? The largest exponent should be 0.": (
            lambda x, lengths, scale: minus(x, lengths, scale, largest(x, lengths))
        ),
        "`exp` overflows in one row, and is 0 in another. Is the largest element of the row subtracted first?": (
            lambda x, lengths, scale: minus(x, lengths, scale, 0)
        ),
        "In a row of negative numbers the maximum is that of a lane that is off. What does such a lane hold?": (
            lambda x, lengths, scale: minus(x, lengths, scale, with_zeros(x, lengths, scale).amax(1, keepdim=True))
        ),
        "−∞ times a negative scale is +∞: what do the lanes that are off hold after the scale?": (
            lambda x, lengths, scale: shares(x, lengths, scale) * (1 if scale > 0 else torch.nan)
        ),
        "Every row with a lane that is off is NaN. Does such a lane hold +∞, so that it is the maximum?": (
            lambda x, lengths, scale: shares(x, lengths, scale).where(
                lengths[:, None] == 1 << (x.shape[1] - 1).bit_length(), torch.nan
            )
        ),
        "All columns take part. Does the mask use the row's length?": (
            lambda x, lengths, scale: torch.softmax(x * scale, 1)
        ),
        "That is the softmax of x. Where does scale come in?": lambda x, lengths, scale: shares(x, lengths, 1),
        "Those are the numerators. What should each of them be divided by?": lambda x, lengths, scale: (
            shares(x, lengths, scale) / shares(x, lengths, scale).amax(1, keepdim=True)
        ),
    }
    | {
        f"Only the first {block} elements of a row take part. Is the block as long as the row?": (
            lambda x, lengths, scale, block=block: shares(x, lengths.clamp(max=block), scale)
        )
        for block in (32, 64, 128, 256, 512, 1024, 2048)
    },
    most_reads={"x": 1},
    most_launches=1,
    speed=Speed(size={"rows": 2**14, "columns": 1024, "scale": 1}, least=0.8),
)
