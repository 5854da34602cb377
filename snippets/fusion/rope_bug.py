# SPDX-License-Identifier: Apache-2.0
"""Rotary embedding, wrong on purpose in three ways. Do not copy these.

- ``overwritten_bug`` computes the second of a pair from the first that has been turned already.
- ``layout_bug`` turns neighbors, in a model whose pairs are half a head apart.
- ``coarse_tables_bug`` computes angles in bfloat16, which has no 257.

The right ones are those of ``rope.py``.
Run it on a GPU with ``python rope_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.fusion.rope import rope, rope_tables, shown, toy
from snippets.library.rope import rope as rope_to_copy


# --8<-- [start:overwritten]
@triton.jit
def overwritten_bug(
    x_ptr, out_ptr, cos_ptr, sin_ptr, half, BLOCK: tl.constexpr
):  # fmt: skip
    token = tl.program_id(axis=0)
    pair = tl.arange(0, BLOCK)
    mask = pair < half
    x_row, out_row = x_ptr + token * half * 2, out_ptr + token * half * 2
    first = tl.load(x_row + pair, mask=mask)
    second = tl.load(x_row + half + pair, mask=mask)
    cos = tl.load(cos_ptr + token * half + pair, mask=mask)
    sin = tl.load(sin_ptr + token * half + pair, mask=mask)
    first = first * cos - second * sin
    second = second * cos + first * sin
    tl.store(out_row + pair, first, mask=mask)
    tl.store(out_row + half + pair, second, mask=mask)


# --8<-- [end:overwritten]


def overwritten(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Launch ``overwritten_bug`` for ``x`` ``(tokens, head_dim)``, one head."""
    out = torch.empty_like(x)
    half = x.shape[1] // 2
    overwritten_bug[(len(x),)](x, out, cos, sin, half, BLOCK=triton.next_power_of_2(half))
    return out


# --8<-- [start:layout]
def layout_bug(q, k, cos, sin):
    return rope_to_copy(q, k, cos, sin, interleaved=True)


# --8<-- [end:layout]


# --8<-- [start:coarse]
def coarse_tables_bug(positions, head_dim, base=10000.0, device=None):
    t = torch.arange(positions, device=device, dtype=torch.bfloat16)
    i = torch.arange(0, head_dim, 2, device=device)
    angles = t[:, None] * (base ** -(i / head_dim)).bfloat16()
    return angles.cos(), angles.sin()


# --8<-- [end:coarse]


def scores(x: torch.Tensor) -> torch.Tensor:
    """Return the score of each token as a query with each as a key, of one head ``(tokens, 1, head_dim)``."""
    return x[:, 0] @ x[:, 0].T


def main():
    device = "cuda" if isinstance(overwritten_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## overwritten")
    x, cos, sin = toy(device)
    right, _ = rope(x, x, cos, sin)
    wrong = overwritten(x[:, 0], cos, sin)
    for name, found in {"rope": right[:, 0], "overwritten_bug": wrong}.items():
        print(f"{name + ':':16}", shown(found[1]), "  length:", f"{found[1].norm().item():.3f}")

    print("## layout")
    for name, function in {"rope": rope, "layout_bug": layout_bug}.items():
        found, _ = function(x, x, cos, sin)
        print(f"{name + ':':11} query at 2:", shown(scores(found)[2]), "  length:", f"{found[2].norm().item():.3f}")

    print("## coarse angles")
    tables = {"coarse_tables_bug": coarse_tables_bug(4096, 128, device=device)}
    tables["rope_tables"] = rope_tables(4096, 128, dtype=torch.bfloat16, device=device)
    for name, (cos, sin) in tables.items():
        different = torch.unique(torch.cat([cos, sin], dim=1).float(), dim=0)
        print(f"of 4096 positions, different in {name}: {len(different)}")
    cos, _ = tables["coarse_tables_bug"]
    print("256 and 257 alike:", torch.equal(cos[256], cos[257]))


if __name__ == "__main__":
    main()
