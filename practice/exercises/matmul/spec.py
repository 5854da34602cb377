# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise matmul."""

import torch
from coach.spec import Spec, Speed

STEP = 16


def product(a, b):
    return (a.double() @ b.double()).to(a.dtype)


def whole(a, more=0):
    """Where along K the last full step ends; ``more=-1``: where the last step begins."""
    return (a.shape[1] + more) // STEP * STEP


def matrices(size, rng):
    """Whole numbers, so that a sum in float32 is the same in every order; mostly positive, so that it grows.

    Where K is large, around 0, so that no sum is too large for float16.
    """
    most = 16 if size["k"] < 1024 else 3
    shapes = {"a": (size["m"], size["k"]), "b": (size["k"], size["n"])}
    return {name: torch.randint(-2, most, shape, generator=rng).half() for name, shape in shapes.items()}


SPEC = Spec(
    title="A matrix product, tile by tile",
    kind="gap",
    lesson="matmul/naive.md",
    goal="A program computes one tile of a @ b by walking along K. Write its loop, so that it works for any sizes "
    "and any strides, and say how many programs to launch.",
    hints=(
        "K is 24, and a step covers 16. Which k do the 16 lanes of the second step stand for, and what must the "
        "lanes from k = 24 on add to the sum?",
        "The loop and its masks: matmul/naive.md#the-code-in-pieces",
        "a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (k[None, :] < K), other=0)",
    ),
    function="matmul",
    signature=("a", "b"),
    inputs=matrices,
    reference=product,
    another=lambda a, b: {"a": -a, "b": -b},
    sizes=({"m": 7, "n": 6, "k": 24}, {"m": 2, "n": 3, "k": 160}),
    awkward=("m", "n", "k"),
    blocks={"m": 4, "n": 4, "k": STEP},
    layouts=("spread", "transposed", "rows_apart"),
    mistaken={
        "That is the last step alone. Does each step add to the sum of the steps before?": lambda a, b: product(
            a[:, whole(a, -1) :], b[whole(a, -1) :]
        ),
        "Every step multiplies the first columns of a by the first rows of b. Where does k move on?": lambda a, b: (
            product(a[:, :STEP], b[:STEP]) * -(-a.shape[1] // STEP)
        ),
        "The accumulator is added twice: `tl.dot(a, b, accumulator)` already adds it. Should it be `=`?": lambda a, b: (
            sum(  # each step doubles what the steps before found
                2.0**i * (a[:, k : k + STEP].double() @ b[k : k + STEP].double())
                for i, k in enumerate(reversed(range(0, a.shape[1], STEP)))
            ).to(a.dtype)
        ),
        "The last columns of a and rows of b are missing. Does the loop take a last, partial step?": (
            lambda a, b: product(a[:, : whole(a)], b[: whole(a)])
        ),
        "Each k counts up to 16 times. Does the loop take steps of BLOCK_K: `range(0, K, BLOCK_K)`?": lambda a, b: (
            product(a.double() * torch.arange(1, a.shape[1] + 1).clamp(max=STEP), b).to(a.dtype)
        ),
        "That is a @ b with everything below 0 set to 0. Is the lesson's relu left in?": lambda a, b: product(
            a, b
        ).clamp(min=0),
    },
    most_launches=1,
    speed=Speed(size={"m": 4096, "n": 4096, "k": 4096}, least=0.55, against=torch.matmul),
)
