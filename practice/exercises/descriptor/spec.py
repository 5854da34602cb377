# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise descriptor."""

import torch
from coach.spec import Spec

ROWS, COLUMNS = 16, 32  # of a tile


def by_tiles(turned):
    """A function like the reader's: ``turned(read, m, n)`` is what becomes of a tile, and where that goes."""

    def transpose(x):
        (M, N), more = x.shape, max(x.shape) + COLUMNS  # room for what lies beyond the edges
        padded, out = x.new_zeros(2, 2 * more, 2 * more)
        padded[:M, :N] = x
        for m in range(0, M, ROWS):
            for n in range(0, N, COLUMNS):
                tile, (row, column) = turned(lambda r, c: padded[r : r + ROWS, c : c + COLUMNS], m, n)
                out[row : row + COLUMNS, column : column + ROWS] = tile
        return out[:N, :M]

    return transpose


SPEC = Spec(
    title="Transpose with descriptors",
    kind="gap",
    lesson="matmul/persistent.md",
    goal="Load a tile through one tensor descriptor, transpose it, and store it through another. You need neither "
    "offsets nor masks.",
    hints=(
        "A tile begins at row m and column n of x. Where does it go in the result, and what shape does it have there?",
        "What descriptors are, and how a kernel loads through them: matmul/persistent.md#gap-two-addresses",
        "out.store([n, m], x.load([m, n]).T)",
    ),
    function="transpose",
    signature=("x",),
    inputs=lambda size, rng: {"x": torch.randn(size["m"], size["n"], generator=rng)},
    reference=lambda x: x.T.contiguous(),
    # Multiples of 4, for rows begin at multiples of 16 bytes; tiles that hang over an edge, and one that does not.
    sizes=(
        {"m": 20, "n": 36},
        {"m": 4, "n": 4},
        {"m": 16, "n": 32},
        {"m": 64, "n": 64},
        {"m": 12, "n": 100},
        {"m": 52, "n": 8},
        {"m": 0, "n": 8},
    ),
    strides="refused",
    layouts=("spread", "transposed"),
    mistaken={
        "Each tile is transposed, but stored where it was in x. Where does the tile at row m, column n go?": by_tiles(
            lambda read, m, n: (read(m, n).T, (m, n))
        ),
        "Each tile is in its place, but not transposed: `tl.reshape` keeps the elements in their order. Is it `.T`?": (
            by_tiles(lambda read, m, n: (read(m, n).reshape(COLUMNS, ROWS), (n, m)))
        ),
        "It looks as if [n, m] is loaded, too. A tile of x begins at row m and column n; only the result's "
        "is [n, m].": (by_tiles(lambda read, m, n: (read(n, m).T, (n, m)))),
        "It looks as if [n, m] is loaded and [m, n] stored. Where does a tile of x begin, and where one of "
        "the result?": (by_tiles(lambda read, m, n: (read(n, m).T, (m, n)))),
    },
    twice=True,  # a tile at a wrong place is told as wrong values: that says more
    most_reads={"x": 1},
    most_launches=1,
)
