# SPDX-License-Identifier: Apache-2.0
"""Fill in the gap: the results of one chunk of linear attention, from the state before it.

Step by step it would be: state = exp(log_decay[t]) * state + outer(k[t], v[t]), and y[t] = q[t] @ state. Compute all
steps at once instead. The state before the chunk has faded by all decays up to step t. And a key of step s, which is
t itself or an earlier one, has faded by the decays after s, up to t.

Take three steps that each keep half. Step 2 finds an eighth of the state, a quarter of step 0, half of step 1, and all
of its own.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def chunk_kernel(
    q_ptr, k_ptr, v_ptr, log_decay_ptr, state_ptr, y_ptr, steps, keys, values,
    CHUNK: tl.constexpr, KEYS: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(axis=0)
    step, key, value = tl.arange(0, CHUNK), tl.arange(0, KEYS), tl.arange(0, VALUES)
    row = (head * steps + step)[:, None]
    by_key = (step < steps)[:, None] & (key < keys)[None, :]
    by_value = (step < steps)[:, None] & (value < values)[None, :]
    q = tl.load(q_ptr + row * keys + key[None, :], mask=by_key, other=0.0)
    k = tl.load(k_ptr + row * keys + key[None, :], mask=by_key, other=0.0)
    v = tl.load(v_ptr + row * values + value[None, :], mask=by_value, other=0.0)
    log_decay = tl.load(log_decay_ptr + head * steps + step, mask=step < steps, other=0.0)
    state = tl.load(
        state_ptr + head * keys * values + key[:, None] * values + value[None, :],
        mask=(key < keys)[:, None] & (value < values)[None, :], other=0.0,
    )  # fmt: skip
    # gap 1: y, (CHUNK, VALUES)
    so_far = tl.cumsum(log_decay, axis=0)
    reaches = step[:, None] >= step[None, :]
    decay = tl.where(reaches, tl.exp(so_far[:, None] - so_far[None, :]), 0.0)
    weights = tl.dot(q, tl.trans(k), input_precision="ieee") * decay
    y = tl.dot(q, state, input_precision="ieee") * tl.exp(so_far)[:, None]
    y += tl.dot(weights, v, input_precision="ieee")
    # end of gap 1
    tl.store(y_ptr + row * values + value[None, :], y, mask=by_value)


def chunk_results(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, log_decay: torch.Tensor, state: torch.Tensor
) -> torch.Tensor:
    """Return the results, (heads, steps, values), of at most 64 steps; all float32 and contiguous.

    q and k are (heads, steps, keys), v is (heads, steps, values), log_decay is (heads, steps), and the state before the
    first step is (heads, keys, values).
    """
    if not all(x.is_contiguous() for x in (q, k, v, log_decay, state)):
        raise ValueError("it takes contiguous tensors")
    (heads, steps, keys), values = q.shape, v.shape[2]
    y = torch.empty_like(v)
    if y.numel():
        wide = lambda n: max(16, triton.next_power_of_2(n))
        chunk_kernel[(heads,)](
            q, k, v, log_decay, state, y, steps, keys, values, CHUNK=wide(steps), KEYS=wide(keys), VALUES=wide(values)
        )
    return y
