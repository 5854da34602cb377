# SPDX-License-Identifier: Apache-2.0
"""Attention small enough to watch: eight queries, eight keys, and what is kept after each tile of two keys.

The scores are whole numbers: ``q`` holds them, and ``k`` is a unit matrix, so ``q @ kᵀ`` gives them back. The value of
key ``i`` is ``i + 1`` in every column. ``online_softmax_kernel`` of ``attention.py`` goes through the keys of a query,
two at a time; run on the first keys alone, it says what is kept after them. ``attention`` itself, and torch, give the
results to compare with, without a mask and with the causal one.

Source: Milakov and Gimelshein, *Online normalizer calculation for softmax*, 2018.

Run it on a GPU with ``python attention_tiles.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton

from snippets.fusion.attention import attention, online_softmax_kernel, state

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
