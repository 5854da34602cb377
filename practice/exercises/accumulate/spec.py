# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise accumulate."""

import torch
from coach.spec import Spec

STEP = 32


def product(a, b):
    return (a.double() @ b.double()).to(a.dtype)


def matrices(size, rng):
    """Whole numbers, so that a sum in float32 is the same in every order; mostly positive, so that it grows."""
    shapes = {"a": (size["m"], size["k"]), "b": (size["k"], size["n"])}
    return {name: torch.randint(-2, 24, shape, generator=rng).half() for name, shape in shapes.items()}


def twice(a, b):
    """``acc += tl.dot(a, b, acc)``: each step doubles what there is."""
    total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64)
    for start in range(0, a.shape[1], STEP):
        total += total + a[:, start : start + STEP].double() @ b[start : start + STEP].double()
    return total.to(a.dtype)


SPEC = Spec(
    title="Sums of float16 numbers",
    kind="bug",
    lesson="matmul/precision.md",
    also=("tools/find-bug.md",),
    goal="This product of two float16 matrices goes wrong as soon as its sums get large, because two of its lines "
    "round too early. Find and fix them.",
    hints=(
        "A step's product, the running sum and the stored result each have a dtype. Which of the three may be float16?",
        "input_precision and out_dtype: matmul/precision.md#one-argument",
        "acc = tl.dot(a, b, acc, out_dtype=SUMS)",
    ),
    function="matmul",
    signature=("a", "b"),
    inputs=matrices,
    reference=product,
    another=lambda a, b: {"a": -a, "b": -b},
    sizes=({"m": 5, "n": 6, "k": 40}, {"m": 3, "n": 9, "k": 160}),
    awkward=("m", "n", "k"),
    blocks={"m": 8, "n": 8, "k": STEP},
    layouts=("spread", "transposed"),
    mistaken={
        "Each step adds the running sum once more. Is it passed to `tl.dot` and also added to what that "
        "returns?": twice,
    },
    most_launches=1,
)
