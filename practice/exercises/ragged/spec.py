# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise ragged."""

import torch
from coach.spec import Spec

TILE = 4  # rows


def inputs(size, rng):
    """Some experts have no rows; in the last size all rows are the last expert's."""
    rows, experts = size["rows"], size["experts"]
    chosen = torch.randint(experts, (rows,), generator=rng)
    chosen = torch.where(chosen == size["empty"], (chosen + 1) % experts, chosen)
    counts = (chosen[:, None] == torch.arange(experts)[None, :]).sum(0)
    if size["empty"] == experts:
        counts = torch.zeros(experts, dtype=torch.int64)
        counts[-1] = rows
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]).to(torch.int32)
    return {
        "x": torch.randn(rows, size["columns"], generator=rng),
        "bias": 10 * torch.randn(experts, size["columns"], generator=rng),
        "offsets": offsets,
    }


def added(x, bias, offsets):
    """The result in torch."""
    expert = (torch.arange(len(x))[:, None] >= offsets.long()[None, 1:]).sum(1)  # how many end before the row
    return x + bias[expert]


def by_tiles(x, bias, offsets, most=None, round_up=True, through=True, from_begin=True):
    """The result tile by tile, with what people get wrong as arguments; what no program stores is 0."""
    out, offsets = torch.zeros_like(x), offsets.long()
    counts = offsets[1:] - offsets[:-1]
    until = ((counts + (TILE - 1 if round_up else 0)) // TILE).cumsum(0)
    for tile in range(most(len(x)) if most else len(x) // TILE + len(bias)):
        over = until <= tile if through else until < tile
        mine, before = int(over.sum()), int(torch.where(over, until, 0).max())
        if mine < len(bias):
            first = int(offsets[mine]) + (tile - before) * TILE if from_begin else tile * TILE
            rows = slice(first, max(first, min(first + TILE, int(offsets[mine + 1]))))
            out[rows] = x[rows] + bias[mine]
    return out


SPEC = Spec(
    title="Each expert’s rows",
    kind="gap",
    lesson="models/experts.md",
    goal="Rows are sorted by expert, and only the GPU knows how many each expert has. Let each program find out which "
    "expert’s tile it has, and which of the tile’s rows exist.",
    hints=(
        "How many tiles has an expert with 5 rows, if a tile has 4? Which number does its first tile have?",
        "How a program finds its tile: models/experts.md#which-expert",
        "until = tl.cumsum(tl.cdiv(end - begin, BLOCK), axis=0) says how many tiles there are up to each expert’s end.",
    ),
    function="add_bias",
    signature=("x", "bias", "offsets"),
    inputs=inputs,
    reference=added,
    sizes=(
        {"rows": 11, "experts": 3, "columns": 2, "empty": 1},
        {"rows": 23, "experts": 5, "columns": 3, "empty": 0},
        {"rows": 9, "experts": 4, "columns": 2, "empty": 4},
    ),
    last=({"rows": 300, "experts": 33, "columns": 5, "empty": 2},),
    awkward=("rows", "columns"),
    blocks={"rows": 4, "columns": 4},
    smallest=1,
    strides="refused",
    mistaken={
        "The last rows of an expert are missing. What does tl.cdiv(5, 4) say that 5 // 4 doesn’t?": (
            lambda *given: by_tiles(*given, round_up=False)
        ),
        "The rows begin where they would if all tiles before were full. This tile’s begin with its expert’s first row, "
        "and its number among the expert’s tiles.": lambda *given: by_tiles(*given, from_begin=False),
        "If 2 tiles end with an expert, tile 2 is no longer its own. Is it `<=`?": (
            lambda *given: by_tiles(*given, through=False)
        ),
        "There are too few programs: every expert may have a tile that isn’t full.": (
            lambda *given: by_tiles(*given, most=lambda rows: -(-rows // TILE))
        ),
    },
    most_launches=1,
    idle=True,  # programs that have no tile
)
