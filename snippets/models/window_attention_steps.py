# SPDX-License-Identifier: Apache-2.0
"""Window attention small enough to watch: which tiles each program visits, and where the weights go.

Sixteen queries and keys in tiles of two, so 64 tiles. ``edges_kernel`` stores what ``tiles_seen`` tells each program,
for every window from 1 to 16, and then for 16,384 queries and keys in tiles of 128 and 64. The scores of the toy are
whole numbers: ``q`` holds them, and ``k`` and ``v`` are unit matrices, so that the result of
``window_attention_kernel`` is each query's weights. Every query likes the first key best, as in many language models:
it takes the weight that no other key deserves. The sink, where there is one, is a score of 4, too.

Tiles of two are for the interpreter alone: on a GPU ``tl.dot`` takes 16 rows and more.

Run it with ``TRITON_INTERPRET=1 python window_attention_steps.py``.
"""

import torch
import triton
import triton.language as tl

from snippets.models import window_attention as snippet

TOKENS, TILE, SINK = 16, 2, 4.0


# --8<-- [start:edges]
@triton.jit
def edges_kernel(
    out_ptr,
    queries,
    keys,
    left,
    right,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    pid = tl.program_id(axis=0)
    start, whole, whole_end, end = snippet.tiles_seen(
        pid * BLOCK_Q, queries, keys, left, right, BLOCK_Q, BLOCK_K
    )
    tl.store(out_ptr + 4 * pid, start)
    tl.store(out_ptr + 4 * pid + 1, whole)
    tl.store(out_ptr + 4 * pid + 2, whole_end)
    tl.store(out_ptr + 4 * pid + 3, end)
# --8<-- [end:edges]


def edges(tokens: int, window: int, causal: bool, block_q: int = TILE, block_k: int = TILE) -> list[list[int]]:
    """Return, for each tile of queries, the four keys between which its program goes.

    >>> edges(8, 3, causal=True)  # with TRITON_INTERPRET=1
    [[0, 0, 0, 2], [0, 2, 2, 4], [2, 4, 4, 6], [4, 6, 6, 8]]
    """
    tiles = triton.cdiv(tokens, block_q)
    out = torch.empty(tiles, 4, dtype=torch.int32)
    left, right = snippet.reach(window, causal, 2 * tokens)
    edges_kernel[(tiles,)](out, tokens, tokens, left, right, BLOCK_Q=block_q, BLOCK_K=block_k)
    return out.tolist()


def scores() -> torch.Tensor:
    """Return the scores: 4 for the first key, and from 0 to 3 for the others."""
    query, key = torch.arange(TOKENS)[:, None], torch.arange(TOKENS)[None, :]
    found = (query * 7 + key * 5 + query * key) % 4
    return torch.where(key == 0, 4, found).float()


def weights(window: int, causal: bool, sink: bool) -> torch.Tensor:
    """Return each query's weights, ``(16, 16)``, by the kernel in tiles of two."""
    q, eye = scores()[None, None], torch.eye(TOKENS)[None, None]
    out = torch.empty_like(q)
    left, right = snippet.reach(window, causal, 2 * TOKENS)
    snippet.window_attention_kernel[(TOKENS // TILE,)](
        q, eye, eye, out, torch.tensor([SINK]) if sink else None, *[x.stride()[:3] for x in (q, eye, eye, out)],
        1, 1, TOKENS, TOKENS, left, right,
        SCALE=1.0, SOFTCAP=None, DESCRIBED=False, HEAD_DIM=TOKENS, BLOCK_Q=TILE, BLOCK_K=TILE,
    )  # fmt: skip
    return out[0, 0]


def in_words(tile: int, found: list[int]) -> str:
    """Return which tiles of keys a tile of queries visits."""
    start, whole, whole_end, end = found
    how = lambda key: "no mask" if whole <= key < whole_end else "masked"
    tiles = [f"keys {key} {key + 1}, {how(key)}" for key in range(start, end, TILE)]
    return f"queries {TILE * tile} {TILE * tile + 1} | {' | '.join(tiles)}"


def main():
    if isinstance(edges_kernel, triton.JITFunction):
        raise SystemExit("tiles of two need the interpreter: set TRITON_INTERPRET=1")
    print("## by hand")
    found = edges(8, 3, causal=True)
    print(*map(in_words, range(4), found), sep="\n")
    print("tiles visited:", sum((end - start) // TILE for start, _, _, end in found))
    print("## by hand, a window of 5")
    found = edges(8, 5, causal=True)
    print(*map(in_words, range(4), found), sep="\n")
    print("queries 6 7 | start {}, whole {}, whole_end {}, end {}".format(*found[3]))

    print("## real size")
    for window in (16384, 4096, 1024, 512, 128):
        found = edges(16384, window, True, block_q=128, block_k=64)
        print(f"window of {window}, tiles visited: {sum(triton.cdiv(end - start, 64) for start, _, _, end in found)}")
        print(f"window of {window}, with a mask: {sum((end - start - e + b) // 64 for start, b, e, end in found)}")

    print("## scores")
    for row in scores().int().tolist():
        print(*row)
    for causal in (True, False):
        print(f"## edges, {'causal' if causal else 'both sides'}")
        for window in range(1, TOKENS + 1):
            print(window, *(" ".join(map(str, each)) for each in edges(TOKENS, window, causal)), sep=" | ")
    for name, window, causal, sink in (
        ("all keys", 16, True, False), ("window 5", 5, True, False), ("window 5, sink", 5, True, True),
        ("window 4, both sides", 4, False, False),
    ):  # fmt: skip
        print(f"## weights, {name}")
        for row in weights(window, causal, sink).tolist():
            print(*(f"{weight:.3f}" for weight in row))


if __name__ == "__main__":
    main()
