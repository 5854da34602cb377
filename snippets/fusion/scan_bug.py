# SPDX-License-Identifier: Apache-2.0
"""A scan with an operator that is not associative. Do not copy it.

``h[t] = 0.5 * h[t - 1] + x[t]``, a recurrence whose gate is always 0.5, looks as if it needed no pairs. But
``half_and_add`` is right only if its second argument is a single step: of a stretch of n steps, the part before it has
been halved n times, not once. A scan joins stretches of any length.

- ``half_bug`` gives each block its own scan, and joins what came before by the same operator

The interpreter goes through a block step by step, so there all is right in rows of one block. A GPU joins stretches
inside a block, too, as ``by_doubling`` does. The right kernel is ``recurrence_kernel`` of ``scan.py``.

Run it on a GPU with ``python scan_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.fusion.scan import recurrence


# --8<-- [start:bug]
@triton.jit
def half_and_add(before, x):
    return 0.5 * before + x


@triton.jit
def half_bug(x_ptr, h_ptr, length, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    carry = 0.0
    for start in range(0, length, BLOCK):
        mask = lane < length - start
        x = tl.load(x_ptr + start + lane, mask=mask, other=0)
        own = tl.associative_scan(x, 0, half_and_add)
        h = half_and_add(carry, own)
        tl.store(h_ptr + start + lane, h, mask=mask)
        carry = tl.sum(tl.where(lane == BLOCK - 1, h, 0), axis=0)


# --8<-- [end:bug]


def halved(x: torch.Tensor, block: int) -> torch.Tensor:
    h = torch.empty_like(x)
    half_bug[(1,)](x, h, len(x), BLOCK=block)
    return h


# --8<-- [start:doubling]
def by_doubling(x: torch.Tensor) -> torch.Tensor:
    """Join each element with the one before it, then with the second before it, the fourth, …"""
    distance = 1
    while distance < len(x):
        joined = 0.5 * x[:-distance] + x[distance:]
        x = torch.cat([x[:distance], joined])
        distance *= 2
    return x


# --8<-- [end:doubling]


def right(x: torch.Tensor) -> torch.Tensor:
    return recurrence(torch.full_like(x, 0.5), x)


def first_wrong(found: torch.Tensor, wanted: torch.Tensor) -> int | None:
    wrong = (found - wanted).abs() > 1e-5
    return int(wrong.nonzero()[0]) if wrong.any() else None


def shown(values: torch.Tensor) -> str:
    return " ".join(f"{value:6.3f}" for value in values.tolist())


def main():
    device = "cuda" if isinstance(half_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## operator")
    half = lambda before, x: 0.5 * before + x
    print("first two first:", half(half(8, 0), 0))
    print("last two first: ", half(8, half(0, 0)))

    print("## rows")
    x = torch.tensor([8.0, 0, 0, 0, 0, 0, 0, 0], device=device)
    print("x          ", shown(x))
    print("recurrence ", shown(right(x)))
    print("block of 4 ", shown(halved(x, 4)))
    print("block of 8 ", shown(halved(x, 8)))
    print("by doubling", shown(by_doubling(x)))

    print("## lengths")
    random = torch.randn(200, generator=torch.Generator().manual_seed(0)).to(device)
    for length in (50, 64, 65, 66, 200):
        x = random[:length].contiguous()
        print(f"{length} in blocks of 64: first wrong at {first_wrong(halved(x, 64), right(x))}")


if __name__ == "__main__":
    main()
