# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise combine."""

import torch
from coach.spec import Spec

DIM, KEYS = 16, 5  # of a part


def parts(size, rng):
    """Scores around 100, whose exp is infinite in float32; the last parts have seen no key."""
    score = 1.5 * torch.randn(size["queries"], size["parts"], KEYS, generator=rng) + 100
    value = torch.randn(size["parts"], KEYS, DIM, generator=rng) + 2
    score[:, size["parts"] - size["empty"] :] = -float("inf")
    maximum = score.amax(2)
    weight = torch.exp(score - maximum.clamp(min=0)[:, :, None])
    accumulator = (weight[:, :, :, None] * value).sum(2)
    return {"maximum": maximum, "total": weight.sum(2), "accumulator": accumulator}


def combined(maximum, total, accumulator, of_sum=1, of_accumulator=1, guarded=True, largest=True, divided=True):
    """The result in torch, with what people get wrong as arguments: the power of each factor, and more."""
    shift = maximum.amax(1, keepdim=True) if largest else torch.zeros(1)
    if guarded:
        shift = shift.clamp(min=-1e30)
    factor = torch.exp(maximum - shift)
    total = (factor**of_sum * total).sum(1, keepdim=True)
    accumulator = (factor[:, :, None] ** of_accumulator * accumulator).sum(1)
    if not divided:
        return accumulator
    return accumulator / (torch.where(total == 0, 1.0, total) if guarded else total)


def weighted(maximum, total, accumulator):
    """By the factors alone, as if each part were a result already."""
    factor = torch.exp(maximum - maximum.amax(1, keepdim=True))
    mean = accumulator / total[:, :, None]
    return (factor[:, :, None] * mean).sum(1) / factor.sum(1, keepdim=True)


def twice(maximum, total, accumulator):
    """The parts are divided by their own sums, and what they give by the common one."""
    return combined(maximum, total, accumulator / torch.where(total == 0, 1.0, total)[:, :, None])


SPEC = Spec(
    title="Combine the parts of attention",
    kind="gap",
    lesson="fusion/decoding.md",
    goal="The keys of a query were split among several programs, and each program left a maximum, a sum and an "
    "accumulator. Combine them into one result.",
    hints=(
        "A part whose maximum is 3 computed its weights as exp(score - 3). Which factor turns them into weights for "
        "a maximum of 5, and which two of the part's values need it?",
        "Two parts by hand, and a sequence without keys: fusion/decoding.md#two-parts-by-hand",
        "accumulator = tl.sum(tl.exp(maximum - shift)[:, None] * accumulator, axis=0)",
    ),
    function="combine",
    signature=("maximum", "total", "accumulator"),
    inputs=parts,
    reference=lambda *given: combined(*(part.double() for part in given)).float(),
    sizes=(
        {"queries": 3, "parts": 4, "empty": 0},
        {"queries": 2, "parts": 3, "empty": 1},
        {"queries": 2, "parts": 2, "empty": 2},
        {"queries": 1, "parts": 1025, "empty": 0},
    ),
    awkward=("queries", "parts"),
    blocks={"queries": 4, "parts": 16},
    smallest=1,
    strides="refused",
    rtol=1e-4,
    mistaken={
        "No part has seen a key: -inf - (-inf) is NaN, and so is 0 / 0. What should they be instead?": (
            lambda *given: combined(*given, guarded=False)
        ),
        "That is the plain mean of the parts' results. A part counts by its sum and its maximum.": (
            lambda maximum, total, accumulator: (accumulator / total[:, :, None]).mean(1)
        ),
        "Sum and accumulator are added up without a factor. Each part used a maximum of its own.": (
            lambda *given: combined(*given, of_sum=0, of_accumulator=0)
        ),
        "The sums are multiplied by their factors, the accumulators are not. Both were computed with the part's own "
        "maximum.": lambda *given: combined(*given, of_accumulator=0),
        "The accumulators are multiplied by their factors, the sums are not. Both were computed with the part's own "
        "maximum.": lambda *given: combined(*given, of_sum=0),
        "It looks as if the factor is upside down: exp(maximum of the part - common maximum) is at most 1.": (
            lambda *given: combined(*given, of_sum=-1, of_accumulator=-1)
        ),
        "It is divided twice: each part by its own sum, and then everything by the common one. Divide once, "
        "at the end.": (twice),
        "Each part is divided by its own sum, so its sum no longer counts. Add up the accumulators, and divide once.": (
            weighted
        ),
        "That is the accumulator alone. Is it divided by the sum?": lambda *given: combined(*given, divided=False),
        "exp of a score of 100 is infinite in float32. Subtract the largest maximum of all parts first.": (
            lambda *given: combined(*given, guarded=False, largest=False)
        ),
    },
    most_reads={"maximum": 1, "total": 1, "accumulator": 1},
    most_launches=1,
)
