# SPDX-License-Identifier: Apache-2.0
"""Compute online softmax at a moment, for the frame on which a figure rests; ``online.js`` computes all others.

Moment 0 is before all; then each tile has four, one for each of ``PARTS``, and after the last tile it divides.
"""

import math
from dataclasses import dataclass

PARTS = "load", "maximum", "rescale", "add"


@dataclass(frozen=True)
class Kept:
    """What is kept of the scores so far."""

    part: str  # of PARTS, or "begin" or "end"
    tile: int  # -1 before the first
    maximum: float = -math.inf
    scale: float = -math.inf  # the maximum to which the weights belong that have been added
    sum: float = 0.0
    accumulator: float = 0.0


def at(scores: list[float], values: list[float], tile: int, moment: int) -> Kept:
    """Return what is kept at a moment; a score of -inf is one that nobody sees."""
    maximum, scale, total, accumulator = -math.inf, -math.inf, 0.0, 0.0
    tiles = math.ceil(len(scores) / tile)
    part, number = "begin", -1
    for i in range(min(moment, 4 * tiles)):
        number, part = i // 4, PARTS[i % 4]
        own = slice(number * tile, (number + 1) * tile)
        if part == "maximum":
            maximum = max(maximum, *scores[own])
        elif part == "rescale":
            factor = math.exp(scale - maximum)
            scale, total, accumulator = maximum, total * factor, accumulator * factor
        elif part == "add":
            weights = [math.exp(score - maximum) for score in scores[own]]
            total += sum(weights)
            accumulator += sum(weight * value for weight, value in zip(weights, values[own], strict=True))
    return Kept("end" if moment > 4 * tiles else part, number, maximum, scale, total, accumulator)
