# SPDX-License-Identifier: Apache-2.0
"""Two mistakes with windows, neither of which raises: a tile that begins too late, and a window that counts one more.

``tiles_seen_bug`` takes the place of ``tiles_seen`` in ``window_attention.py``: it lets the loop begin where the last
query of a tile sees its first key. What the queries before it see further back is lost.

Run it with ``TRITON_INTERPRET=1 python window_attention_bug.py``: in the interpreter one function can stand for
another.
"""

from unittest import mock

import torch
import triton
import triton.language as tl

from snippets.library.attention import attention
from snippets.models import window_attention as snippet
from snippets.models.window_attention import in_torch, window_attention


# --8<-- [start:late]
@triton.jit
def tiles_seen_bug(
    first,
    queries,
    keys,
    left,
    right,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    last = first + (keys - queries) + BLOCK_Q - 1
    start = tl.maximum(last - left, 0) // BLOCK_K * BLOCK_K
    end = tl.minimum(last + right + 1, keys)
    return start, end, end, end
# --8<-- [end:late]


def example() -> list[torch.Tensor]:
    """Return q, k and v of one head, 128 tokens: four tiles of 32."""
    random = torch.Generator().manual_seed(0)
    return [torch.randn(1, 1, 128, 16, generator=random) for _ in range(3)]


def wrong(window: int) -> torch.Tensor:
    """Return which queries come out wrong if the loop begins too late."""
    q, k, v = example()
    with mock.patch.object(snippet, "tiles_seen", tiles_seen_bug):
        found = window_attention(q, k, v, window=window)
    exact = in_torch(q, k, v, window=window)
    return ~torch.isclose(found.double(), exact, atol=1e-4).all(dim=3)[0, 0]


def main():
    if isinstance(snippet.window_attention_kernel, triton.JITFunction):
        raise SystemExit("this needs the interpreter: set TRITON_INTERPRET=1")
    print("## begins too late")
    for window in (128, 40):
        found = wrong(window)
        print(f"window of {window}, wrong queries: {found.sum()} of {len(found)}")

    print("## one more")
    q, k, v = example()
    ours = window_attention(q, k, v, window=4)
    for left in (4, 3):
        alike = torch.allclose(attention(q, k, v, window=(left, 0)), ours, atol=1e-4)
        print(f"window=4 here is window=({left}, 0) there: {alike}")


if __name__ == "__main__":
    main()
