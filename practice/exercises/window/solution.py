# SPDX-License-Identifier: Apache-2.0
"""Fill in the gaps. Attention of one head in which a token sees the last `window` tokens, itself among them.

Take 8 tokens in tiles of 2, and a window of 3. Token 6 sees 4, 5 and 6, and token 7 sees 5, 6 and 7. So their program
begins with the tile of keys 4 and 5, of which token 7 sees only the second key, and ends with that of 6 and 7, of which
token 6 sees only the first. The six keys before are never loaded. Here a tile has 16 tokens.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def window_kernel(q_ptr, k_ptr, v_ptr, out_ptr, n, window, scale, DIM: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(axis=0) * BLOCK
    query = first + tl.arange(0, BLOCK)
    column = tl.arange(0, DIM)[None, :]
    q = tl.load(q_ptr + query[:, None] * DIM + column, mask=query[:, None] < n, other=0.0)
    maximum = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    accumulator = tl.zeros((BLOCK, DIM), tl.float32)
    # gap 1: start, where the first tile begins of which a query sees a key, and end, before which the last one begins
    start = tl.maximum(first - (window - 1), 0) // BLOCK * BLOCK
    end = tl.minimum(first + BLOCK, n)
    # end of gap 1
    for begin in range(start, end, BLOCK):
        key = begin + tl.arange(0, BLOCK)
        k = tl.load(k_ptr + key[:, None] * DIM + column, mask=key[:, None] < n, other=0.0)
        v = tl.load(v_ptr + key[:, None] * DIM + column, mask=key[:, None] < n, other=0.0)
        score = tl.dot(q, k.T, input_precision="ieee") * scale
        # gap 2: seen, which of these keys each query sees
        distance = query[:, None] - key[None, :]
        seen = (distance >= 0) & (distance < window)
        # end of gap 2
        score = tl.where(seen, score, -float("inf"))
        new_maximum = tl.maximum(maximum, tl.max(score, axis=1))
        shift = tl.where(new_maximum == -float("inf"), 0.0, new_maximum)
        rescale = tl.exp(maximum - shift)
        weight = tl.exp(score - shift[:, None])
        total = total * rescale + tl.sum(weight, axis=1)
        accumulator = accumulator * rescale[:, None] + tl.dot(weight, v, input_precision="ieee")
        maximum = new_maximum
    out = accumulator / total[:, None]
    tl.store(out_ptr + query[:, None] * DIM + column, out, mask=query[:, None] < n)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int, scale: float) -> torch.Tensor:
    """Return softmax(scale · q · kᵀ) · v over the keys that each token sees, for contiguous float32, (n, 16) each."""
    if not (q.is_contiguous() and k.is_contiguous() and v.is_contiguous()):
        raise ValueError("it takes contiguous tensors")
    n, dim = q.shape
    out = torch.empty_like(q)
    window_kernel[(triton.cdiv(n, 16),)](q, k, v, out, n, window, scale, DIM=dim, BLOCK=16)
    return out
