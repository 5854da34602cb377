# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise rope."""

import torch
from coach.spec import Spec, Speed


def inputs(size, rng):
    angles = 6.28 * torch.rand(size["tokens"], size["half"], generator=rng)
    x = torch.randn(size["tokens"], 2 * size["half"], generator=rng)
    return {"x": x, "cos": angles.cos(), "sin": angles.sin()}


def turn(x, cos, sin):
    first, second = x.chunk(2, dim=1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=1)


def too_early(x, cos, sin):
    first, second = x.chunk(2, dim=1)
    turned = first * cos - second * sin
    return torch.cat([turned, second * cos + turned * sin], dim=1)


def both_signs(x, cos, sin, sign):
    first, second = x.chunk(2, dim=1)
    return torch.cat([first * cos + sign * second * sin, second * cos + sign * first * sin], dim=1)


def interleaved(x, cos, sin):
    first, second = x[:, ::2], x[:, 1::2]
    return torch.stack([first * cos - second * sin, second * cos + first * sin], dim=2).flatten(1)


SPEC = Spec(
    title="Turn pairs of columns: RoPE",
    kind="scratch",
    lesson="fusion/swiglu-rope.md",
    goal="RoPE turns each pair of columns of a token by an angle. Write the kernel and its launch.",
    hints=(
        "In a row of 8 columns, where in memory is the partner of column 1?",
        "Turn pairs of columns: fusion/swiglu-rope.md#rope-turn-pairs-of-columns",
        "second = tl.load(x_ptr + offsets + half, mask=mask)",
    ),
    function="rope",
    signature=("x", "cos", "sin"),
    inputs=inputs,
    reference=turn,
    another=lambda x, cos, sin: {"x": 64 * x},
    sizes=({"tokens": 3, "half": 5}, {"tokens": 5, "half": 32}, {"tokens": 1, "half": 4097}),
    awkward=("tokens", "half"),
    blocks={"tokens": 4, "half": 16},
    smallest=1,
    strides="refused",
    rtol=1e-5,
    atol=1e-6,
    mistaken={
        "Nobody turns the pairs past the first 1024. Is the block as long as half a row?": lambda x, cos, sin: (
            turn(x, cos, sin) * (torch.arange(x.shape[1]) % cos.shape[1] < 1024)
        ),
        "The second of a pair is computed from a first that has already been turned. Keep both until then.": too_early,
        "That turns the other way: the minus belongs to the first, the plus to the second.": lambda x, cos, sin: turn(
            x, cos, -sin
        ),
        "Both signs are plus. The first of a pair is first · cos - second · sin.": lambda x, cos, sin: both_signs(
            x, cos, sin, 1.0
        ),
        "Both signs are minus. The second of a pair is second · cos + first · sin.": lambda x, cos, sin: both_signs(
            x, cos, sin, -1.0
        ),
        "Those are pairs of neighbors, interleaved. Half-split, partners lie half a row apart.": interleaved,
        "Every token is turned by the angles of token 0. Where does the token come into the offsets of cos and sin?": (
            lambda x, cos, sin: turn(x, cos[:1], sin[:1])
        ),
        "cos and sin are swapped.": lambda x, cos, sin: turn(x, sin, cos),
    },
    most_reads={"x": 1},
    most_launches=1,
    speed=Speed(size={"tokens": 2**14, "half": 1024}, least=0.7),
)
