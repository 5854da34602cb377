# SPDX-License-Identifier: Apache-2.0
"""Two ways to lose the decays of ``state.py``, both wrong on purpose.

- :func:`quotient_kernel_bug` divides them, as the formula exp(A[t] - A[s]) = exp(A[t]) / exp(A[s]) seems to allow: a
  query is multiplied by exp(A[t]), a key by exp(-A[s]). The first goes to zero, the second beyond all numbers.
- :func:`one_sum_bug` adds up the logarithms over a whole text, and not anew in each chunk. A sum of many thousands has
  no digits left for the decay of a single step.

Shapes: one chunk of one head; q and k are (steps, 16), v is (steps, 16), log_decay is (steps,).

Run it on a GPU with ``python state_bug.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import torch
import triton
import triton.language as tl

WIDTH = 16


# --8<-- [start:quotient]
@triton.jit
def quotient_kernel_bug(
    q_ptr, k_ptr, v_ptr, log_decay_ptr, y_ptr,
    STEPS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    step, column = tl.arange(0, STEPS), tl.arange(0, WIDTH)
    cell = step[:, None] * WIDTH + column[None, :]
    q, k, v = (
        tl.load(q_ptr + cell), tl.load(k_ptr + cell), tl.load(v_ptr + cell)
    )  # fmt: skip
    so_far = tl.cumsum(tl.load(log_decay_ptr + step), axis=0)
    # --8<-- [start:quotients]
    faded = (q * tl.exp(so_far)[:, None]).to(q.dtype)
    grown = (k * tl.exp(-so_far)[:, None]).to(k.dtype)
    weights = tl.dot(faded, grown.T, input_precision="ieee")
    # --8<-- [end:quotients]
    weights = tl.where(step[:, None] >= step[None, :], weights, 0.0)
    y = tl.dot(weights.to(v.dtype), v, input_precision="ieee")
    tl.store(y_ptr + cell, y)
# --8<-- [end:quotient]


def by_quotients(q, k, v, log_decay):
    """Return the results of one chunk, (steps, 16), as far as they are numbers."""
    y = torch.empty_like(v)
    quotient_kernel_bug[(1,)](q, k, v, log_decay, y, STEPS=len(q), WIDTH=WIDTH)
    return y


def first_lost(dtype: torch.dtype, decay: float, steps: int = 64, device="cpu") -> int:
    """Return the first step whose result is no number, or ``steps`` if all are."""
    random = torch.Generator().manual_seed(0)
    new = lambda: torch.randn(steps, WIDTH, generator=random).to(device, dtype)
    log_decay = torch.full((steps,), decay, device=device).log()
    lost = ~by_quotients(new(), new(), new(), log_decay).isfinite().all(1)
    return int(lost.nonzero()[0]) if lost.any() else steps


# --8<-- [start:one_sum]
def one_sum_bug(log_decay, step):
    """Return what is left of a step at the next one."""
    so_far = log_decay.cumsum(0)
    return (so_far[step] - so_far[step - 1]).exp()
# --8<-- [end:one_sum]


def main():
    device = "cuda" if isinstance(quotient_kernel_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    print("## a quotient")
    for dtype in (torch.float16, torch.float32):
        for decay in (0.95, 0.8, 0.2):
            first = first_lost(dtype, decay, device=device)
            name = f"{str(dtype)[6:]}, decay {decay}"
            print(f"{name}:", "64 numbers" if first == 64 else f"no number from step {first} on")

    print("## one sum for the text")
    log_decay = torch.full((1_000_000,), 0.5, device=device).log()
    for step in (10, 10_000, 999_999):
        print(f"left after step {step:,}: {one_sum_bug(log_decay, step):.6f}")


if __name__ == "__main__":
    main()
