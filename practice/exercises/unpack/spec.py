# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise unpack."""

import torch
from coach.spec import Spec


def inputs(size, rng):
    """Words of all bits; scales and zeros that differ from row to row."""
    rows, columns = size["rows"], size["columns"]
    return {
        "words": torch.randint(-(2**31), 2**31, (rows, columns), generator=rng).int(),
        "scale": torch.randint(1, 9, (rows,), generator=rng) / 4,
        "zero": torch.randint(1, 15, (rows,), generator=rng).int(),
    }


def weights(words, scale, zero, shift=4, keep=lambda q: q & 15, apart=True, late=False):
    """The weight, in torch; arguments take what people get wrong."""
    parts = [keep(words >> shift * p) for p in range(8)]
    q = torch.stack(parts, 1 if apart else 2).flatten(1)
    scale, zero = scale[:, None], zero[:, None]
    return scale * q - zero if late else scale * (q - zero)


SPEC = Spec(
    title="Unpack four bits",
    kind="gap",
    lesson="models/int4.md",
    goal="Eight whole numbers of 4 bits lie in each int32. Take them out by shift and mask, subtract the row's zero, "
    "multiply by its scale, and store each number at its place.",
    hints=(
        "Which bits of a word are part p, and what else is in the register once they're at its right end?",
        "How one shift takes a number out of every word: models/int4.md#unpack",
        "q = (words >> (4 * p)) & 15",
    ),
    function="unpack",
    signature=("words", "scale", "zero"),
    inputs=inputs,
    reference=weights,
    sizes=({"rows": 2, "columns": 2}, {"rows": 3, "columns": 70}),
    awkward=("rows", "columns"),
    blocks={"rows": 4, "columns": 64},
    strides="refused",
    mistaken={
        "What's left of a part are higher ones. Mask them off: & 15.": lambda *x: weights(*x, keep=lambda q: q),
        "Part p begins at bit 4 * p, and it looks as if the shift is by p.": lambda *x: weights(*x, shift=1),
        "The zero is subtracted before the scale multiplies: scale * (q - zero).": lambda *x: weights(*x, late=True),
        "Parts of a word aren't neighbors: part p of word j goes to p * columns + j.": lambda *x: weights(
            *x, apart=False
        ),
        "It looks as if 3 bits are kept. The largest number of 4 bits is 15.": lambda *x: weights(
            *x, keep=lambda q: q & 7
        ),
    },
    most_launches=1,
)
