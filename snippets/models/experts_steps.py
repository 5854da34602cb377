# SPDX-License-Identifier: Apache-2.0
"""Mixture of experts in small: eight tokens, four experts, two for each token, and tiles of four rows.

The kernels are those of ``experts.py``. A kernel of this file only says which tile each program of a product finds.

Run it on a GPU with ``python experts_steps.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import itertools

import torch
import triton
import triton.language as tl

from snippets.models import experts
from snippets.models.experts import find, tiles_until

EXPERTS, TOP_K, BLOCK_M = 4, 2, 4
# Each token's two experts, the one with the larger logit first.
ROUTINGS = {
    "even": ["02", "13", "20", "31", "01", "23", "10", "32"],
    "skewed": ["02", "01", "10", "03", "01", "02", "12", "01"],
    "two experts": ["02", "20", "02", "02", "20", "02", "20", "20"],
}


# --8<-- [start:kernel]
@triton.jit
def toy_kernel(
    offsets_ptr, found_ptr, experts, tiles_n,
    EXPERTS: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    until = tiles_until(offsets_ptr, experts, EXPERTS, BLOCK_M)
    if pid < tl.max(until, axis=0) * tiles_n:
        expert, begin, rows, pid_m, _ = find(pid, until, offsets_ptr, tiles_n, BLOCK_M, GROUP_M=8)
        tl.store(found_ptr + 3 * pid, expert)
        tl.store(found_ptr + 3 * pid + 1, begin + pid_m * BLOCK_M)
        tl.store(found_ptr + 3 * pid + 2, tl.minimum(rows - pid_m * BLOCK_M, BLOCK_M))


@triton.jit
def until_kernel(
    offsets_ptr, until_ptr, experts,
    EXPERTS: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    until = tiles_until(offsets_ptr, experts, EXPERTS, BLOCK_M)
    tl.store(until_ptr + tl.arange(0, EXPERTS), until)


# --8<-- [end:kernel]


def logits_of(chosen: list[str]) -> torch.Tensor:
    """Return logits by which each token goes to these experts; the weights of the two are 0.75 and 0.25."""
    logits = torch.full((len(chosen), EXPERTS), -9.0)
    for token, (first, second) in enumerate(chosen):
        logits[token, int(first)], logits[token, int(second)] = torch.log(torch.tensor([3.0, 1.0]))
    return logits


def found(routing: experts.Routing) -> list[tuple[int, ...]]:
    """Return what each program finds that has a tile: the expert, the first row, and how many rows."""
    programs = experts.most_tiles(routing.pairs.numel(), EXPERTS, BLOCK_M)
    out = torch.full((programs, 3), -1, dtype=torch.int32, device=routing.offsets.device)
    toy_kernel[(programs,)](routing.offsets, out, EXPERTS, 1, EXPERTS=EXPERTS, BLOCK_M=BLOCK_M)
    return [tuple(row) for row in out.tolist()]


def until(routing: experts.Routing) -> list[int]:
    """Return how many tiles there are up to each expert's end."""
    out = torch.empty(EXPERTS, dtype=torch.int32, device=routing.offsets.device)
    until_kernel[(1,)](routing.offsets, out, EXPERTS, EXPERTS=EXPERTS, BLOCK_M=BLOCK_M)
    return out.tolist()


def by_hand(tile: int, until: list[int], offsets: list[int]) -> str:
    """Return in words how a program finds out which expert's tile it has.

    >>> by_hand(3, [2, 4, 5, 6], [0, 7, 12, 15, 16])
    'over 1 0 0 0, expert 1, its tile 3 - 2 = 1, from row 7 + 1 * 4 = 11'
    """
    over = [int(each <= tile) for each in until]
    expert, passed = sum(over), max(each * is_over for each, is_over in zip(until, over, strict=True))
    own, begin = tile - passed, offsets[expert]
    return (
        f"over {' '.join(map(str, over))}, expert {expert}, its tile {tile} - {passed} = {own},"
        f" from row {begin} + {own} * {BLOCK_M} = {begin + own * BLOCK_M}"
    )


def main():
    device = "cuda" if isinstance(toy_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    shown = lambda values: " ".join(map(str, values))
    print("most tiles:", experts.most_tiles(8 * TOP_K, EXPERTS, BLOCK_M))
    for name, chosen in ROUTINGS.items():
        print(f"## {name}")
        routing = experts.route(logits_of(chosen).to(device), TOP_K)
        print("experts:", shown("".join(map(str, pair)) for pair in routing.experts.tolist()))
        offsets = routing.offsets.tolist()
        print("counts:", shown(end - begin for begin, end in itertools.pairwise(offsets)))
        print("offsets:", shown(offsets))
        print("row of each pair:", shown(routing.rows.tolist()))
        print("token of each row:", shown(pair // TOP_K for pair in routing.pairs.tolist()))
        print("until:", shown(until(routing)))
        print("tile 3:", by_hand(3, until(routing), offsets))
        for pid, (expert, first, rows) in enumerate(found(routing)):
            print(f"program {pid}:", f"expert {expert}, rows {first} to {first + rows - 1}" if rows > 0 else "leaves")


if __name__ == "__main__":
    main()
