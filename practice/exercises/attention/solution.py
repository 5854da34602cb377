# SPDX-License-Identifier: Apache-2.0
"""Fill in the gaps. Attention of one head, with one tile of queries per program.

Suppose a query has the scores 1, 3, 2 and 5, the values are 10, 20, 30 and 40, and a tile holds two keys. The first
tile leaves the maximum 3, the sum 1.13534 and the accumulator 21.3534. After the second they are 5, 1.20344 and
44.3835, so the result is 44.3835 / 1.20344 = 36.8805. The loop already loads a tile of keys and values. Write what it
does with them: scores, maximum, sum and accumulator. The last tile may have fewer keys than rows. The load fills it up
with zeros, and a zero is a valid score.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, queries, keys, scale,
    DIM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    query = tl.program_id(axis=0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    column = tl.arange(0, DIM)[None, :]
    q = tl.load(q_ptr + query[:, None] * DIM + column, mask=query[:, None] < queries, other=0.0)
    maximum = tl.full((BLOCK_Q,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_Q,), tl.float32)
    accumulator = tl.zeros((BLOCK_Q, DIM), tl.float32)
    for begin in range(0, keys, BLOCK_K):
        key = begin + tl.arange(0, BLOCK_K)
        k = tl.load(k_ptr + key[:, None] * DIM + column, mask=key[:, None] < keys, other=0.0)
        v = tl.load(v_ptr + key[:, None] * DIM + column, mask=key[:, None] < keys, other=0.0)
        # gap 1: from q, k and v, the new maximum, total and accumulator
        score = tl.dot(q, k.T, input_precision="ieee") * scale
        score = tl.where(key[None, :] < keys, score, -float("inf"))
        new_maximum = tl.maximum(maximum, tl.max(score, axis=1))
        rescale = tl.exp(maximum - new_maximum)
        weight = tl.exp(score - new_maximum[:, None])
        total = total * rescale + tl.sum(weight, axis=1)
        accumulator = accumulator * rescale[:, None] + tl.dot(weight, v, input_precision="ieee")
        maximum = new_maximum
        # end of gap 1
    out = accumulator / total[:, None]
    tl.store(out_ptr + query[:, None] * DIM + column, out, mask=query[:, None] < queries)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> torch.Tensor:
    """Return softmax(scale · q · kᵀ) · v, for contiguous float32 matrices with 16 columns and at least one key."""
    if not (q.is_contiguous() and k.is_contiguous() and v.is_contiguous()):
        raise ValueError("it takes contiguous tensors")
    (queries, dim), keys = q.shape, len(k)
    out = torch.empty_like(q)
    # gap 2: launch the kernel with tiles of 16 queries and 16 keys
    grid = (triton.cdiv(queries, 16),)
    attention_kernel[grid](q, k, v, out, queries, keys, scale, DIM=dim, BLOCK_Q=16, BLOCK_K=16)
    # end of gap 2
    return out
