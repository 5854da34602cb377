# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise block_scales."""

import torch
from coach.spec import Spec

SIDE = 16


def inputs(size, rng):
    """Whole numbers, and powers of two that differ from block to block, so that sums are exact in every order."""
    m, n, k = size["m"], size["n"], size["k"]
    up = lambda length: -(-length // SIDE)
    whole = lambda *shape: torch.randint(-2, 6, shape, generator=rng).half()
    powers = lambda *shape: 2.0 ** torch.randint(-2, 3, shape, generator=rng)
    return {"x": whole(m, k), "w": whole(n, k), "x_scales": powers(m, up(k)), "w_scales": powers(up(n), up(k))}


def spread(scales, rows, tall=1):
    """The scale of each row, for each group."""
    return scales.double().repeat_interleave(tall, 0)[:rows]


def product(x, w, x_scales, w_scales, scale=lambda a, b: a[:, None] * b[None], sums=False, first=False):
    """In torch; arguments take what people get wrong."""
    y = torch.zeros(len(x), len(w), dtype=torch.float64, device=x.device)
    of_x, of_w = spread(x_scales, len(x)), spread(w_scales, len(w), SIDE)
    for group, begin in enumerate(range(0, x.shape[1], SIDE)):
        part = x[:, begin : begin + SIDE].double() @ w[:, begin : begin + SIDE].double().t()
        at = 0 if first else group
        by = scale(of_x[:, at], of_w[:, at])
        y = (y + part) * by if sums else y + part * by
    return y.float()


SPEC = Spec(
    title="Scale each block",
    kind="gap",
    lesson="models/block-scales.md",
    goal="In each step along K, multiply the product of two tiles by the scales of their blocks, before it joins "
    "the sum.",
    hints=(
        "16 rows of w share a scale. Which of them do the rows n of this program have, if n is 14, 15, 16 and 17?",
        "Where a scale goes in the loop, and why there: models/block-scales.md#the-product",
        "w_scale = tl.load(w_scales_ptr + n // 16 * groups + group, mask=n < N, other=0)",
    ),
    function="scaled_matmul",
    signature=("x", "w", "x_scales", "w_scales"),
    inputs=inputs,
    reference=product,
    sizes=({"m": 6, "n": 5, "k": 32}, {"m": 5, "n": 34, "k": 72}),
    awkward=("m", "n", "k"),
    blocks={"m": 4, "n": 4, "k": SIDE},
    strides="refused",
    mistaken={
        "The scales multiply what earlier steps have added, too. Multiply this step’s product alone.": lambda *x: (
            product(*x, sums=True)
        ),
        "Each step uses the scales of the first group. Where does the step’s number come in?": lambda *x: product(
            *x, first=True
        ),
        "The scales of w are missing.": lambda *x: product(*x, scale=lambda a, b: a[:, None].expand(-1, len(b))),
        "The scales of x are missing.": lambda *x: product(*x, scale=lambda a, b: b[None].expand(len(a), -1)),
        "No scale has multiplied anything.": lambda *x: product(*x, scale=lambda a, b: torch.ones_like(a[:, None] * b)),
        "It looks as if you divide by the scales. A number stands for itself times its scale.": lambda *x: product(
            *x, scale=lambda a, b: 1 / (a[:, None] * b[None])
        ),
    },
    most_launches=1,
)
