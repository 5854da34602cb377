# SPDX-License-Identifier: Apache-2.0
"""Fill the gaps. Attention of one head, a tile of queries per program.

Scores 1, 3 and 2, 5 with the values 10, 20 and 30, 40, in two tiles of keys: the first leaves the maximum 3, the sum
1.13534 and the accumulator 21.3534. Both leave 5, 1.20344 and 44.3835; the result is 44.3835 / 1.20344 = 36.8805.
The loop loads a tile of keys and values. Write the step that works on it: scores, maximum, sum, accumulator.
The last tile may have fewer keys than rows; load filled it up with zeros, and a zero is a valid score.
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
