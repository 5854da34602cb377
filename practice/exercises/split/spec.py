# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise split."""

import torch
from coach.spec import Spec

STEP = 16


def matrices(size, rng):
    """Whole numbers, so that a sum in float32 is the same in every order; mostly positive, so that it grows."""
    shapes = {"a": (size["m"], size["k"]), "b": (size["k"], size["n"])}
    whole = {name: torch.randint(-2, 16, shape, generator=rng).half() for name, shape in shapes.items()}
    return whole | {"parts": size["parts"]}


def added(a, b, ranges):
    """The sum of products, each over one range along K."""
    total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64)
    for k in ranges:
        total += a[:, k].double() @ b[k].double()
    return total.float()


def steps(a, parts, begin=lambda part: part * STEP, step=None):
    """The ranges of all steps of all parts, which a loop from ``begin`` on takes."""
    K = a.shape[1]
    starts = (start for part in range(parts) for start in range(begin(part), K, step or parts * STEP))
    return [slice(start, start + STEP) for start in starts]


SPEC = Spec(
    title="Split K across programs",
    kind="gap",
    lesson="matmul/cublas.md",
    goal="This product has only a few tiles, but a long K. Let several programs share each tile: each takes some of "
    "the steps along K and adds its sums to the tile in memory.",
    hints=(
        "With 3 parts, part 1 takes steps 1, 4 and 7. At which k does its loop begin, how large is a step, and what "
        "must c hold before the first program adds to it?",
        "What split-K gains: matmul/cublas.md#what-each-step-brought; how to write it: "
        "matmul/split-k.md#the-shortest-kernel. tl.atomic_add: gpu/schedule.md#no-promised-order",
        "for start in range(part * BLOCK_K, K, PARTS * BLOCK_K):",
    ),
    function="matmul",
    signature=("a", "b", "parts"),
    inputs=matrices,
    reference=lambda a, b, parts: added(a, b, [slice(None)]),
    another=lambda a, b, parts: {"a": -a, "b": -b},
    sizes=({"m": 3, "n": 3, "k": 88, "parts": 2}, {"m": 2, "n": 6, "k": 64, "parts": 3}),
    awkward=("m", "n", "k"),
    blocks={"m": 4, "n": 4, "k": STEP},
    layouts=("spread", "transposed"),
    shared="Several programs add to the same tile here. With an ordinary store the last one wins: `tl.atomic_add` "
    "loses none.",
    mistaken={
        "Each program takes every step, so the result is as many times too large as there are parts.": (
            lambda a, b, parts: added(a, b, steps(a, parts, lambda part: 0, STEP))
        ),
        "Every part takes the steps of part 0. Where does the part's number come in?": lambda a, b, parts: added(
            a, b, steps(a, parts, lambda part: 0)
        ),
        "The parts overlap: each begins at its own step, and then takes all that follow. How large is a step?": (
            lambda a, b, parts: added(a, b, steps(a, parts, step=STEP))
        ),
        "Each part takes only its first step. Where is its loop?": lambda a, b, parts: added(
            a, b, steps(a, parts, step=a.shape[1])
        ),
        "Only part 0 is in the sum. Does the grid's second axis have a program for each part?": lambda a, b, parts: (
            added(a, b, steps(a, 1, step=parts * STEP))
        ),
        "The parts overlap: their first steps are one k apart, and a step takes 16.": lambda a, b, parts: added(
            a, b, steps(a, parts, lambda part: part)
        ),
        "The last, partial step is missing. Does the number of steps round up?": lambda a, b, parts: added(
            a, b, [slice(0, a.shape[1] // STEP * STEP)]
        ),
        "The last steps are missing. Who takes those left over after dealing them out evenly?": (
            lambda a, b, parts: added(a, b, [slice(0, a.shape[1] // STEP // parts * parts * STEP)])
        ),
    },
    most_launches=1,
)
