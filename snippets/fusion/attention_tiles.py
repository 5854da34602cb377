# SPDX-License-Identifier: Apache-2.0
"""Attention small enough to watch: one query by online softmax; then eight queries, and what is kept after each tile.

``online_softmax_kernel`` goes through the scores of one query, a tile at a time, and keeps the maximum so far, the sum
of the weights, and the sum of weight times value. The scores of the eight queries are whole numbers: ``q`` holds them,
and ``k`` is a unit matrix, so ``q @ kᵀ`` gives them back. The value of key ``i`` is ``i + 1`` in every column. Run on
the first keys alone, the kernel says what is kept after them. ``attention`` of ``attention.py``, and torch, give the
results to compare with, without a mask and with the causal one.

Source: Milakov and Gimelshein, *Online normalizer calculation for softmax*, 2018.

Run it on a GPU with ``python attention_tiles.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.fusion.attention import attention

TILE = 2
SCORES = (
    (3, 1, 2, 0, 5, 4, 1, 2),
    (1, 3, 0, 2, 2, 1, 6, 3),
    (2, 0, 4, 3, 1, 2, 0, 5),
    (0, 2, 1, 1, 3, 5, 2, 1),
    (1, 2, 4, 0, 2, 3, 6, 4),
    (4, 3, 0, 1, 2, 0, 1, 3),
    (2, 1, 3, 5, 0, 4, 2, 1),
    (0, 1, 2, 3, 4, 3, 5, 6),
)


# --8<-- [start:online]
@triton.jit
def online_softmax_kernel(
    score_ptr,
    value_ptr,
    out_ptr,
    n,
    BLOCK: tl.constexpr,
):
    maximum, total, accumulator = -float("inf"), 0.0, 0.0
    for begin in range(0, n, BLOCK):
        offsets = begin + tl.arange(0, BLOCK)
        score = tl.load(
            score_ptr + offsets, mask=offsets < n, other=-float("inf")
        )
        value = tl.load(value_ptr + offsets, mask=offsets < n, other=0.0)
        new_maximum = tl.maximum(maximum, tl.max(score, axis=0))
        rescale = tl.exp(maximum - new_maximum)
        weight = tl.exp(score - new_maximum)
        total = total * rescale + tl.sum(weight, axis=0)
        accumulator = accumulator * rescale + tl.sum(weight * value, axis=0)
        maximum = new_maximum
    tl.store(out_ptr, maximum)
    tl.store(out_ptr + 1, total)
    tl.store(out_ptr + 2, accumulator)
# --8<-- [end:online]


# --8<-- [start:toy]
def toy(device):
    """Return the scores of one query with twelve keys, and a value of each key."""
    scores = torch.tensor([1.0, 3, 2, 0, 2, 5, 4, 1, 3, 0, 4, 2], device=device)
    return scores, torch.arange(1.0, 13, device=device)


def state(scores, values, n: int, block: int) -> list[float]:
    """Return maximum, sum and weighted sum of values after the first ``n`` scores, in tiles of ``block``."""
    out = torch.empty(3, device=scores.device)
    online_softmax_kernel[(1,)](scores, values, out, n, BLOCK=block)
    return out.tolist()
# --8<-- [end:toy]


# --8<-- [start:example]
def example(device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return q, k and v of one head, whose scores are ``SCORES``.

    >>> q, k, v = example("cpu")
    >>> (q @ k.mT)[0, 0].int().tolist() == [list(row) for row in SCORES], v[0, 0, :, 0].int().tolist()
    (True, [1, 2, 3, 4, 5, 6, 7, 8])
    """
    scores = torch.tensor(SCORES, dtype=torch.float32, device=device)
    q = torch.nn.functional.pad(scores, (0, 16 - len(SCORES)))[None, None]
    k = torch.eye(len(SCORES), 16, device=device)[None, None]
    v = torch.arange(1.0, len(SCORES) + 1, device=device).view(1, 1, -1, 1).expand(1, 1, len(SCORES), 16).contiguous()
    return q, k, v
# --8<-- [end:example]


def states(query: int, causal: bool, device: str) -> list[tuple[int, list[float]]]:
    """Return what is kept of a query after each tile: how many keys were gone through; maximum, sum, accumulator."""
    scores = torch.tensor(SCORES[query], dtype=torch.float32, device=device)
    values = torch.arange(1.0, len(scores) + 1, device=device)
    last = len(scores)
    if causal:
        scores[query + 1 :] = -float("inf")
        last = (query // TILE + 1) * TILE  # a tile of which its queries see nothing is not gone through
    return [(n, state(scores, values, n, TILE)) for n in range(TILE, last + 1, TILE)]


def main():
    device = "cuda" if isinstance(online_softmax_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## online softmax")
    scores, values = toy(device)
    print("scores:", *(f"{score:.0f}" for score in scores.tolist()))
    print("values:", *(f"{value:.0f}" for value in values.tolist()))
    for n in range(4, 13, 4):
        maximum, total, accumulator = state(scores, values, n, block=4)
        print(f"after {n}, maximum: {maximum:.0f}")
        print(f"after {n}, sum: {total:.4f}")
        print(f"after {n}, accumulator: {accumulator:.4f}")
    print(f"result: {accumulator / total:.4f}")
    print(f"torch: {scores.softmax(0) @ values:.4f}")

    q, k, v = example(device)
    print("## scores")
    for row in (q @ k.mT)[0, 0].tolist():
        print(*(f"{score:.0f}" for score in row))
    print("## values")
    print(*(f"{value:.0f}" for value in v[0, 0, :, 0].tolist()))
    for section, causal in (("all keys", False), ("causal", True)):
        print(f"## {section}")
        for query in range(len(SCORES)):
            kept = (f"{n}: {m:.0f} {s:.4f} {a:.4f}" for n, (m, s, a) in states(query, causal, device))
            print(f"query {query}", *kept, sep=" | ")
        found = attention(q, k, v, causal=causal, scale=1.0)[0, 0, :, 0]
        print("attention:", *(f"{x:.4f}" for x in found.tolist()))
        wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=1.0)[0, 0, :, 0]
        print("as torch:", torch.allclose(found, wanted, atol=1e-4))


if __name__ == "__main__":
    main()
