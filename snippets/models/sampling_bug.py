# SPDX-License-Identifier: Apache-2.0
"""What goes wrong when tokens are drawn by a race: a wait rounded to zero, and one seed for all rows or all steps.

In :func:`race`, a token waits ``-log(1 - u) / chance``. If u is at most 2**-25, ``1 - u`` is rounded to 1, the
logarithm is 0, and whatever the token's chance, nobody can arrive before it. :func:`sample` doesn't take that
difference.

Run it on a GPU with ``python sampling_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.models.sampling import sample
from snippets.models.sampling_plain import race, race_kernel


# --8<-- [start:rand]
@triton.jit
def rand_kernel(u_ptr, seed, column):
    tl.store(u_ptr, tl.rand(seed, column))
# --8<-- [end:rand]


def main():
    device = "cuda" if isinstance(race_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## a wait of zero")
    # --8<-- [start:zero]
    columns, seed = 128_256, 335
    logits = torch.full((1, columns), -30.0, device=device)
    logits[0, 7] = 0.0  # this token, nearly always
    seeds = torch.tensor([seed], device=device)
    waits, tokens = race(logits, seeds)
    # --8<-- [end:zero]
    print(f"chance of all others together: {(columns - 1) * torch.tensor(-30.0).double().exp().item():.0e}")
    print("drawn by race: ", tokens.item())
    print("drawn by sample: ", sample(logits, seeds).item())
    u = torch.empty(1, device=device)
    rand_kernel[(1,)](u, seed, tokens.item())
    print(f"its u: {u.item():.1e}")
    print(f"1 - u in float32: {(1 - u).item()}")
    print(f"its wait: {waits.min().item():.1f}")
    print(f"rows in which some token waits 0, one in: {1 / (1 - (1 - 2.0**-25) ** columns):.0f}")

    print("## one seed")
    # --8<-- [start:seeds]
    logits = torch.zeros(8, 50, device=device)  # 50 tokens, all as probable
    same = torch.full((8,), 3, device=device)
    own = torch.arange(8, device=device)
    # --8<-- [end:seeds]
    print("one seed for all rows:", *sample(logits, same).tolist())
    print("a seed for each row: ", *sample(logits, own).tolist())
    print("the next step, same seeds: ", *sample(logits, own).tolist())
    print("the next step, other seeds:", *sample(logits, own + 8).tolist())


if __name__ == "__main__":
    main()
