# SPDX-License-Identifier: Apache-2.0
"""A matrix of state, step by step: as the formula says it, as the next token is written, and in small, by hand.

    S[t] = exp(log_decay[t]) * S[t - 1] + outer(k[t], v[t])
    y[t] = q[t] @ S[t]

A program keeps some columns of a head's state in registers, and takes one step after the other. For a single step,
as in decoding, nothing is quicker. For a long text ``state.py`` computes the same in chunks.

Shapes: as in ``state.py``; states are float32.

Run it on a GPU with ``python state_steps.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.models.state import LEAST, StateScan, check_arguments, served


# --8<-- [start:kernel]
@triton.jit(do_not_specialize=["heads", "steps"])
def steps_kernel(
    q_ptr, k_ptr, v_ptr, log_decay_ptr, initial_ptr, y_ptr, final_ptr,
    q_strides, k_strides, v_strides, decay_strides,
    heads, steps, keys, values,
    KEYS: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Take one head's steps, for ``BLOCK_V`` columns of its state."""
    row = tl.program_id(axis=0).to(tl.int64)
    batch, head = row // heads, row % heads
    key = tl.arange(0, KEYS)
    value = tl.program_id(axis=1) * BLOCK_V + tl.arange(0, BLOCK_V)
    cell = row * keys * values + key[:, None] * values + value[None, :]
    inside = (key < keys)[:, None] & (value < values)[None, :]
    state = tl.zeros((KEYS, BLOCK_V), tl.float32)
    if initial_ptr is not None:
        state = tl.load(initial_ptr + cell, mask=inside, other=0.0)
    # --8<-- [start:begins]
    q_ptr += batch * q_strides[0] + head * q_strides[1] + key
    k_ptr += batch * k_strides[0] + head * k_strides[1] + key
    v_ptr += batch * v_strides[0] + head * v_strides[1] + value
    log_decay_ptr += batch * decay_strides[0] + head * decay_strides[1]
    y_ptr += row * steps * values + value
    # --8<-- [end:begins]
    # --8<-- [start:loop]
    for t in range(steps):
        t = tl.cast(t, tl.int64)
        log_decay = tl.load(log_decay_ptr + t * decay_strides[2])
        q = tl.load(q_ptr + t * q_strides[2], mask=key < keys, other=0.0)
        k = tl.load(k_ptr + t * k_strides[2], mask=key < keys, other=0.0)
        v = tl.load(
            v_ptr + t * v_strides[2], mask=value < values, other=0.0
        )
        added = k.to(tl.float32)[:, None] * v.to(tl.float32)[None, :]
        state = tl.exp(tl.maximum(log_decay, LEAST)) * state + added
        y = tl.sum(q.to(tl.float32)[:, None] * state, axis=0)
        tl.store(y_ptr + t * values, y, mask=value < values)
    # --8<-- [end:loop]
    tl.store(final_ptr + cell, state, mask=inside)
# --8<-- [end:kernel]


# --8<-- [start:host]
def step_by_step(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    log_decay: torch.Tensor,
    initial: torch.Tensor | None = None,
    *,
    block_v: int = 16,
    num_warps: int = 4,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what ``state_scan`` returns, one step after the other, and without gradients.

    Args:
        q, k, v, log_decay, initial: As of ``state_scan``.
        block_v: How many columns of a state a program has, a power of two.
        num_warps: Of a program.

    Raises:
        ValueError: As ``state_scan``, or a tensor requires a gradient.

    >>> ones, half = torch.ones(1, 1, 3, 1), torch.full((1, 1, 3), 0.5).log()
    >>> step_by_step(ones, ones, ones, half)[0].flatten()
    tensor([1.0000, 1.5000, 1.7500])
    """
    check_arguments(q, k, v, log_decay, initial)
    given = [x for x in (q, k, v, log_decay, initial) if x is not None]
    if torch.is_grad_enabled() and any(x.requires_grad for x in given):
        raise ValueError("a tensor requires a gradient, which step_by_step does not compute; use state_scan")
    q, k, v, log_decay = *map(served, (q, k, v)), log_decay.resolve_neg()
    initial = None if initial is None else initial.contiguous().resolve_neg()
    (batch, heads, steps, keys), values = q.shape, v.shape[3]
    y = torch.empty(v.shape, dtype=v.dtype, device=v.device)
    final = torch.empty(batch, heads, keys, values, dtype=torch.float32, device=v.device)
    if final.numel():
        with torch.cuda.device_of(q):
            steps_kernel[batch * heads, triton.cdiv(values, block_v)](
                q, k, v, log_decay, initial, y, final,
                q.stride()[:3], k.stride()[:3], v.stride()[:3], log_decay.stride(),
                heads, steps, keys, values,
                KEYS=triton.next_power_of_2(keys), BLOCK_V=block_v, num_warps=num_warps,
            )  # fmt: skip
    return y, final
# --8<-- [end:host]


# --8<-- [start:toy]
def toy(device="cpu"):
    """Return q, k, v and log decays of four steps: keys and values of two numbers, and half is left after a step."""
    rows = lambda *numbers: torch.tensor([[numbers]], dtype=torch.float32, device=device)
    q = rows([1, 0], [0, 1], [1, 1], [1, 0])
    k = rows([1, 0], [0, 1], [1, 1], [0, 1])
    v = rows([4, 0], [0, 8], [2, 2], [8, 4])
    return q, k, v, torch.full((1, 1, 4), 0.5, device=device).log()


def reaches(steps: int, decay: float, chunk: int, device="cpu") -> torch.Tensor:
    """Return how much of each step's value, a column, there is in each step's result, a row: by the kernels in chunks.

    With queries and keys of 1, and an identity for values, the results are the factors themselves.
    """
    ones = torch.ones(1, 1, steps, 1, device=device)
    log_decay = torch.full((1, 1, steps), decay, device=device).log()
    return StateScan.apply(ones, ones, torch.eye(steps, device=device)[None, None], log_decay, None, chunk)[0][0, 0]
# --8<-- [end:toy]


# --8<-- [start:nudge]
def of_so_far() -> tuple[list[float], list[float], list[float]]:
    """Return, for each of two steps, ``q * of_q``, ``k * of_k``, and what the result gains if ``so_far`` grows by 0.01.

    The gradients are those of the kernels. Keys and values are single numbers, half is left after a step, and the
    result is the sum of both steps'.
    """
    q, k, v = (torch.tensor(x).view(1, 1, 2, 1).requires_grad_() for x in ([3.0, 1.0], [2.0, 1.0], [3.0, 5.0]))
    log_decay = torch.full((1, 1, 2), 0.5).log()
    y = lambda log_decay: StateScan.apply(q, k, v, log_decay, None, 2)[0].sum()
    y(log_decay).backward()
    gained = []
    for step in range(2):
        so_far = log_decay.cumsum(2)
        so_far[:, :, step] += 0.01
        nudged = so_far.diff(dim=2, prepend=torch.zeros(1, 1, 1))
        gained.append((y(nudged) - y(log_decay)).item())
    return *((x * x.grad).flatten().tolist() for x in (q, k)), gained
# --8<-- [end:nudge]


def main():
    device = "cuda" if isinstance(steps_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    shown = lambda values: " ".join(f"{each:g}" for each in values)
    matrix = lambda state: " / ".join(shown(round(each, 6) for each in row) for row in state.tolist())
    q, k, v, log_decay = toy(device)

    print("## step by step")
    state = None
    for t in range(4):
        to = slice(t, t + 1)
        y, state = step_by_step(q[:, :, to], k[:, :, to], v[:, :, to], log_decay[:, :, to], state)
        print(
            f"step {t}: key {shown(k[0, 0, t].tolist())}, value {shown(v[0, 0, t].tolist())}",
            f"-> state {matrix(state[0, 0])}; query {shown(q[0, 0, t].tolist())} -> {shown(y[0, 0, 0].tolist())}",
        )

    if device == "cpu":  # tl.dot of a GPU wants 16 steps or more
        print("## in chunks of two")
        y, final, states = StateScan.apply(q, k, v, log_decay, None, 2)
        for chunk, state in enumerate(states[0, 0]):
            results = matrix(y[0, 0, 2 * chunk : 2 * chunk + 2])
            print(f"chunk {chunk}: state before {matrix(state)} -> results {results}")
        print(f"the last state: {matrix(final[0, 0])}")

        print("## a little more")
        of_queries, of_keys, gained = of_so_far()
        for step, (of_q, of_k) in enumerate(zip(of_queries, of_keys, strict=True)):
            print(f"step {step}: q * of_q - k * of_k = {of_q:g} - {of_k:g} = {of_q - of_k:g}")
        for step, gain in enumerate(gained):
            print(f"so_far of step {step} + 0.01: y changes by {gain:.4f}")

        for chunk in (1, 2, 4, 8, 16):
            print(f"## 16 steps, chunks of {chunk}")
            table = reaches(16, 0.8, chunk)
            print("decay: 0.8")
            print("step 15:", " ".join(f"{each:.4f}" for each in table[15].tolist()))


if __name__ == "__main__":
    main()
