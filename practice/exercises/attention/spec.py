# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise attention."""

import torch
from coach.spec import Spec

TILE, DIM = 16, 16


def inputs(size, rng):
    """Scores that grow from key to key, so that each tile brings a larger maximum."""
    q, k, v = (torch.randn(size[name], DIM, generator=rng) for name in ("queries", "keys", "keys"))
    q[:, 0], k[:, 0] = 4.0, torch.arange(size["keys"]) * 0.25
    return {"q": q, "k": k, "v": v, "scale": 0.25}


def by_query(score, maximum):
    return torch.exp(score - maximum[:, None])


def online(
    q, k, v, scale, masked=True, scores=lambda q, k: q @ k.T, rescale=lambda old, new: torch.exp(old - new),
    of_sum=True, of_accumulator=True, weights=by_query, added=lambda weight, score: weight, axis=1,
    sum_axis=1, across=False, mask_axis=0, largest=torch.amax,
):  # fmt: skip
    """Attention in tiles in torch, as in the kernel, with what people get wrong as arguments."""
    parts, keys = [], len(k)
    q_tiles, k_tiles, v_tiles = (torch.nn.functional.pad(x, (0, 0, 0, -len(x) % TILE)).split(TILE) for x in (q, k, v))
    for q_tile in q_tiles:
        maximum = torch.full((TILE,), -float("inf"))
        total, accumulator = torch.zeros(TILE), torch.zeros(TILE, DIM)
        for i, (k_tile, v_tile) in enumerate(zip(k_tiles, v_tiles, strict=True)):
            score = scores(q_tile, k_tile) * scale
            if masked:
                gone = i * TILE + torch.arange(TILE) >= keys
                score = score.masked_fill(gone.unsqueeze(mask_axis), -float("inf"))
            new = torch.maximum(maximum, largest(score, axis))
            factor, weight = rescale(maximum, new), weights(score, new)
            total = total * (factor if of_sum else 1.0) + weight.sum(sum_axis)
            old = accumulator * ((factor if across else factor[:, None]) if of_accumulator else 1.0)
            accumulator = old + added(weight, score) @ v_tile
            maximum = new
        parts.append(accumulator / total[:, None])
    return torch.cat(parts)[: len(q)]


def far_apart(q):
    """Every second query so much longer that the maxima of two are too far apart for one exponential."""
    return q * torch.where(torch.arange(len(q)) % 2 == 1, 20.0, 1.0)[:, None]


SPEC = Spec(
    title="One step of attention",
    kind="gap",
    lesson="fusion/attention.md",
    goal="Each program holds a tile of queries and walks through the keys one tile at a time. Write what happens at "
    "each step: the scores, the new maximum, the new sum and the new accumulator.",
    hints=(
        "When the maximum of a query grows, which two of its running values were computed with the old maximum?",
        "Online softmax by hand, and as a loop over tiles: fusion/attention.md#online-softmax-by-hand",
        'accumulator = accumulator * rescale[:, None] + tl.dot(weight, v, input_precision="ieee")',
    ),
    function="attention",
    signature=("q", "k", "v", "scale"),
    inputs=inputs,
    reference=lambda q, k, v, scale: (torch.softmax(q.double() @ k.double().T * scale, dim=1) @ v.double()).float(),
    another=lambda q, k, v, scale: {"scale": 0.4, "q": far_apart(q)},
    sizes=({"queries": 3, "keys": 16}, {"queries": 16, "keys": 48}, {"queries": 20, "keys": 40}),
    awkward=("queries", "keys"),
    blocks={"queries": TILE, "keys": TILE},
    smallest=1,
    strides="refused",
    rtol=2e-4,
    atol=2e-4,
    mistaken={
        "The lanes after the last key count, with scores of 0. Make those scores -inf.": lambda *given: online(
            *given, masked=False
        ),
        "The sum is rescaled, but the accumulator is not. Both were computed with the old maximum.": lambda *given: (
            online(*given, of_accumulator=False)
        ),
        "The accumulator is rescaled, but the sum is not. Both were computed with the old maximum.": lambda *given: (
            online(*given, of_sum=False)
        ),
        "Neither sum nor accumulator is rescaled. Is `rescale` computed before `maximum` is overwritten?": (
            lambda *given: online(*given, of_sum=False, of_accumulator=False)
        ),
        "It looks as if the factor is upside down: before the first tile the maximum is -inf, and exp(old - "
        "new) is 0.": (lambda *given: online(*given, rescale=lambda old, new: torch.exp(new - old))),
        "It looks as if the weights of a tile are made with its own maximum, not with the largest so far.": (
            lambda *given: online(*given, weights=lambda score, new: by_query(score, score.amax(1)))
        ),
        "Each query has its own maximum. Here query 3's is subtracted from key 3: is a `[:, None]` missing?": (
            lambda *given: online(*given, weights=lambda score, new: torch.exp(score - new))
        ),
        "It looks as if each key gets a maximum, over the queries. Each query needs its own: axis 1.": (
            lambda *given: online(*given, axis=0)
        ),
        "It looks as if each key gets a maximum and a sum, over the queries. Each query needs its own: axis 1.": (
            lambda *given: online(*given, axis=0, sum_axis=0, across=True, weights=lambda s, new: torch.exp(s - new))
        ),
        "Each query has its own factor. Here query 3's rescales column 3: is a `[:, None]` missing?": (
            lambda *given: online(*given, across=True)
        ),
        "It looks as if the mask runs along the queries. A score's key is its column: `key[None, :] < keys`.": (
            lambda *given: online(*given, mask_axis=1)
        ),
        "exp2 is 2 to the power of x. For e to the power of x, use `tl.exp`, or multiply the scale by log2(e).": (
            lambda q, k, v, scale: online(q, k, v, scale * 0.6931471805599453)
        ),
        "The scale is 1/√16 instead of `scale`, which is another number here.": lambda q, k, v, scale: online(
            q, k, v, 0.25
        ),
        "All queries of a tile share one maximum, so a query with scores far below it is left with the sum 0.": (
            lambda *given: online(*given, largest=lambda score, axis: score.max().expand(TILE))
        ),
        "The scale is missing: a score is scale · q · k.": lambda q, k, v, scale: online(q, k, v, 1.0),
        "The accumulator adds up scores times values. It should be weights times values.": lambda *given: online(
            *given, added=lambda weight, score: score
        ),
        "That is q · k. A score is the product of two rows, so k has to be transposed: `k.T`.": lambda *given: online(
            *given, scores=lambda q, k: q @ k
        ),
    },
    most_launches=1,
)
