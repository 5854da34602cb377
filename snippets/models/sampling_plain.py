# SPDX-License-Identifier: Apache-2.0
"""Draw a token by a race, in its shortest form: each token waits a random time, and the first to arrive is drawn.

::

    chance = exp(logit)
    wait = -log(1 - u) / chance          u between 0 and 1

A token that is twice as probable waits half as long on average, and arrives first twice as often. So nothing has to be
added up, and nothing sorted. ``sampling.py`` is the file to build on: it has a temperature, top-k and top-p.

Shapes: ``logits`` ``(rows, columns)``, contiguous, a row no longer than one program holds; a seed and a token a row.

Run it on a GPU with ``python sampling_plain.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl


# --8<-- [start:kernel]
@triton.jit
def race_kernel(
    logits_ptr, seeds_ptr, waits_ptr, tokens_ptr, columns,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(axis=0)
    column = tl.arange(0, BLOCK)
    offsets = row * columns + column
    mask = column < columns
    logits = tl.load(logits_ptr + offsets, mask=mask, other=float("-inf"))
    u = tl.rand(tl.load(seeds_ptr + row), column)
    wait = -tl.log(1 - u) / tl.exp(logits - tl.max(logits, axis=0))
    tl.store(waits_ptr + offsets, wait, mask=mask)
    tl.store(tokens_ptr + row, tl.argmin(wait, axis=0))
# --8<-- [end:kernel]


# --8<-- [start:race]
def race(logits: torch.Tensor, seeds: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return how long each token waits, and which one arrives first in each row.

    >>> waits, tokens = race(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([5]))
    >>> [round(wait, 2) for wait in waits[0].tolist()], tokens.tolist()
    ([0.63, 3.22, 0.56], [2])
    """
    rows, columns = logits.shape
    waits = torch.empty_like(logits)
    tokens = torch.empty(rows, dtype=torch.int64, device=logits.device)
    race_kernel[(rows,)](
        logits, seeds, waits, tokens, columns, BLOCK=triton.next_power_of_2(columns)
    )  # fmt: skip
    return waits, tokens
# --8<-- [end:race]


def main():
    device = "cuda" if isinstance(race_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    draws = 48
    logits = torch.tensor([2.0, 1.5, 1.0, 0.0, -1.0], device=device)
    waits, tokens = race(logits.repeat(draws, 1), torch.arange(draws, device=device))

    print("## races")
    print("logits:", *(f"{each:.1f}" for each in logits.tolist()))
    print("chances:", *(f"{each:.3f}" for each in logits.softmax(0).tolist()))
    for wait, token in zip(waits.tolist(), tokens.tolist(), strict=True):
        print("waits:", *(f"{each:.2f}" for each in wait), "first:", token)


if __name__ == "__main__":
    main()
