# SPDX-License-Identifier: Apache-2.0
"""Check what a small model has guessed, in its shortest form, so that the text is one that the large model could write.

The small model drew each guess with the probabilities q; the large model has scored all of them at once, and gives it
the probability p::

    keep a guess with the probability min(1, p / q)
    at the first that is not kept, draw from max(p - q, 0) instead, and stop
    if all are kept, draw one more from the last p

Then each token is distributed as p, whatever q is: a token comes out with min(p, q) as a guess, and with max(p - q, 0)
as a replacement, which is p together. The draw is a race (``sampling_plain.py``), so nothing has to add up to 1.

Shapes: ``guesses`` ``(rows, n)``; ``q`` ``(rows, n, columns)`` and ``p`` ``(rows, n + 1, columns)``, contiguous, a
token's probabilities no longer than one program holds; a seed a row.
Source: Leviathan, Kalman and Matias, *Fast Inference from Transformers via Speculative Decoding*, 2023.

Run it on a GPU with ``python speculative_plain.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.models.sampling_plain import race


# --8<-- [start:kernel]
@triton.jit
def verify_kernel(
    guesses_ptr, q_ptr, p_ptr, seeds_ptr, tokens_ptr, kept_ptr, n, columns,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(axis=0)
    seed = tl.load(seeds_ptr + row)
    q_row = q_ptr + row * n * columns
    p_row = p_ptr + row * (n + 1) * columns
    kept, going = tl.full((), 0, tl.int32), True
    while going & (kept < n):
        guess = tl.load(guesses_ptr + row * n + kept)
        q = tl.load(q_row + kept * columns + guess)
        p = tl.load(p_row + kept * columns + guess)
        going = tl.rand(seed, kept) * q < p
        if going:
            tl.store(tokens_ptr + row * (n + 1) + kept, guess)
            kept += 1
    column = tl.arange(0, BLOCK)
    mask = column < columns
    p = tl.load(p_row + kept * columns + column, mask=mask, other=0)
    q = tl.load(
        q_row + kept * columns + column, mask=mask & (kept < n), other=0
    )
    left = tl.maximum(p - q, 0)
    if tl.max(left, axis=0) == 0:
        left = p  # rounding alone left nothing
    # numbers that no guess has used
    u = tl.rand(seed, n + column)
    token = tl.argmin(-tl.log(1 - u) / left, axis=0)
    tl.store(tokens_ptr + row * (n + 1) + kept, token)
    tl.store(kept_ptr + row, kept)
# --8<-- [end:kernel]


# --8<-- [start:verify]
def verify(guesses, q, p, seeds) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the tokens, (rows, n + 1), and how many guesses were kept.

    Of a row, the kept guesses and one token more count; the rest is -1.
    """
    rows, n, columns = q.shape
    tokens = guesses.new_full((rows, n + 1), -1)
    kept = torch.empty(rows, dtype=torch.int32, device=q.device)
    verify_kernel[(rows,)](
        guesses, q, p, seeds, tokens, kept, n, columns,
        BLOCK=triton.next_power_of_2(columns),
    )  # fmt: skip
    return tokens, kept
# --8<-- [end:verify]


def shares(tokens: torch.Tensor, columns: int) -> str:
    found = torch.bincount(tokens, minlength=columns) / len(tokens)
    return " ".join(f"{each:.2f}" for each in found.tolist())


def main():
    device = "cuda" if isinstance(verify_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    rows, numbers = 500, lambda *each: torch.tensor(each, device=device)
    q, p = numbers(0.10, 0.20, 0.30, 0.25, 0.15), numbers(0.40, 0.30, 0.15, 0.10, 0.05)
    _, guesses = race(q.log().repeat(rows, 1), torch.arange(rows, device=device))
    both = q.repeat(rows, 1, 1), p.repeat(rows, 2, 1)
    tokens, kept = verify(guesses[:, None], *both, torch.arange(rows, 2 * rows, device=device))
    print("## a draft")
    line = lambda each: " ".join(f"{x:.2f}" for x in each.tolist())
    print("small model:", line(q))
    print("large model:", line(p))
    print("guesses:", shares(guesses, 5))
    print("first tokens:", shares(tokens[:, 0], 5))
    both = torch.minimum(p, q)
    print(f"kept: {(kept / rows).sum().item():.2f}")
    print(f"should be kept: {both.sum().item():.2f}")
    print("if replaced by a draw from p:", line(both + (1 - both.sum()) * p))


if __name__ == "__main__":
    main()
