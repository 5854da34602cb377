# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise window."""

import torch
from coach.spec import Spec

TILE, DIM = 16, 16


def inputs(size, rng):
    q, k, v = (torch.randn(size["n"], DIM, generator=rng) for _ in range(3))
    return {"q": 2 * q, "k": k, "v": v, "window": size["window"], "scale": 0.25}


def windowed(q, k, v, window, scale, seen=lambda distance, window: (distance >= 0) & (distance < window), visits=None):
    """The result in torch, with what people get wrong as arguments.

    ``visits``: of the first query of a tile and the window, from which key to before which key its program goes.
    """
    place = torch.arange(len(q))
    kept = seen(place[:, None] - place[None, :], window)
    if visits:
        begin, end = visits(place // TILE * TILE, window)
        kept = kept & (place >= begin[:, None]) & (place < end[:, None])
    scores = (q.double() @ k.double().T * scale).masked_fill(~kept, -float("inf"))
    return (scores.softmax(1) @ v.double()).float()


def down(key):
    return key.clamp(min=0) // TILE * TILE


def right(first, window):
    return down(first - window + 1), first + TILE


SPEC = Spec(
    title="Skip what a window hides",
    kind="gap",
    lesson="models/window-attention.md",
    goal="Each token sees only the last few. Find where each program’s loop over the keys begins and ends, so that it "
    "loads no tile for nothing, and say which keys of a tile each token sees.",
    hints=(
        "Which token of a tile sees furthest back: the first or the last?",
        "Where the loop begins and ends: models/window-attention.md#which-tiles",
        "start = tl.maximum(first - (window - 1), 0) // BLOCK * BLOCK",
    ),
    function="attention",
    signature=("q", "k", "v", "window", "scale"),
    inputs=inputs,
    reference=windowed,
    another=lambda q, k, v, window, scale: {"scale": 0.4},
    sizes=(
        {"n": 8, "window": 3},
        {"n": 62, "window": 18},
        {"n": 160, "window": 18},
        {"n": 50, "window": 16},
        {"n": 40, "window": 100},
    ),
    awkward=("n",),
    blocks={"n": TILE},
    smallest=1,
    strides="refused",
    rtol=2e-4,
    atol=2e-4,
    mistaken={
        "It looks as if the loop begins one tile late. A tile’s first token sees furthest back; round the first key "
        "that it sees down.": (
            lambda *given: windowed(*given, visits=lambda first, w: (down(first + TILE - w), first + TILE))
        ),
        "A token counts as one of its window: with a window of 3 it sees itself and two before it.": (
            lambda *given: windowed(*given, seen=lambda distance, w: (distance >= 0) & (distance <= w))
        ),
        "The first tile is seen in part, too. It looks as if nothing hides what lies before the window.": (
            lambda *given: windowed(*given, seen=lambda distance, w: distance >= 0, visits=right)
        ),
        "Tokens see what comes after them. The last tile is seen in part: a key is no later than its query.": (
            lambda *given: windowed(*given, seen=lambda distance, w: distance < w, visits=right)
        ),
        "It looks as if tokens see only the tiles before their own: the loop has to go through their own, too.": (
            lambda *given: windowed(*given, visits=lambda first, w: (down(first - w + 1), first)).nan_to_num(0.0)
        ),
    },
    most_reads={"k": 3, "v": 3},
    most_launches=1,
)
