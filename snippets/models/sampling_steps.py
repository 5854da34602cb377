# SPDX-License-Identifier: Apache-2.0
"""The thresholds of top-k and top-p in small: six logits, a line for each guess, and floats that compare as integers.

The logits are multiples of a half, so here the integers are simply twice the logits. What ``order_of`` of
``sampling.py`` makes of a float's bits is shown for two pairs, as bfloat16 has them.

Run it on a GPU with ``python sampling_steps.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from snippets.models.sampling import order_of

LOGITS = 2.0, 1.5, 1.0, 0.5, 0.0, -1.0
PAIRS = (1.5, 2.0), (-2.0, -1.5)


class Guess(NamedTuple):
    """A guess between ``low`` and ``high``, and what those who reach it have together."""

    low: int
    high: int
    middle: int
    kept: float


# --8<-- [start:kernel]
@triton.jit
def order_kernel(logits_ptr, order_ptr, ZEROS: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    logits = tl.load(logits_ptr + column)
    tl.store(order_ptr + column, order_of(logits, ZEROS))
# --8<-- [end:kernel]


# --8<-- [start:guesses]
def guesses(order: Sequence[int], weights: Sequence[float], wanted: float) -> tuple[list[Guess], int]:
    """Return each guess, and the highest threshold whose weights add to ``wanted``: ``threshold`` in Python.

    >>> guesses([4, 3, 2, 1, 0, -2], [1] * 6, 3)[1]
    2
    """
    low, high, found = min(order), max(order), []
    while low < high:
        middle = low + (high - low + 1) // 2
        kept = sum(weight for each, weight in zip(order, weights, strict=True) if each >= middle)
        found.append(Guess(low, high, middle, kept))
        low, high = (middle, high) if kept >= wanted else (low, middle - 1)
    return found, low
# --8<-- [end:guesses]


def show(order: Sequence[int], weights: Sequence[float], wanted: float, what: str) -> None:
    """Print a line for each guess, and the threshold."""
    found, threshold = guesses(order, weights, wanted)
    for low, high, middle, kept in found:
        then = f"{middle} or more" if kept >= wanted else f"below {middle}"
        print(f"{low} to {high}: guess {middle} keeps {kept:{what}}, so {then}")
    print(f"threshold: {threshold}, a logit of {threshold / 2:.1f}")


def main():
    device = "cuda" if isinstance(order_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    order = [round(2 * logit) for logit in LOGITS]
    print("## top-k 3")
    print("logits, in halves:", *order)
    show(order, [1] * len(order), 3, "d")
    print("## top-p 0.7")
    chances = torch.tensor(LOGITS).softmax(0).tolist()
    print("chances:", *(f"{each:.3f}" for each in chances))
    show(order, chances, 0.7, ".3f")
    print("## floats as integers")
    for pair in PAIRS:
        logits = torch.tensor(pair, device=device)
        integers = torch.empty(len(pair), dtype=torch.int32, device=device)
        order_kernel[(1,)](logits, integers, ZEROS=16, BLOCK=len(pair))
        for logit, integer in zip(pair, integers.tolist(), strict=True):
            bits = torch.tensor(logit, dtype=torch.bfloat16).view(torch.int16).item() & 0xFFFF
            print(f"{logit:4}: bits {bits:016b}, order {integer}")


if __name__ == "__main__":
    main()
