# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise grid_stride."""

import torch
from coach.spec import Spec


def only(x, stored):
    """The squares where something was stored, and 0, as fresh memory is, elsewhere."""
    return torch.where(stored(torch.arange(len(x))), x * x, 0)


SPEC = Spec(
    title="A few programs share all blocks",
    kind="gap",
    lesson="programs/programs-and-threads.md",
    goal="A vector may have any number of blocks, and a launch any number of programs. Have each program loop over "
    "its share of the blocks.",
    hints=(
        "With 4 programs, program 1 takes blocks 1, 5 and 9. Where does its loop begin, and how large is a step?",
        "What a program is: programs/programs-and-threads.md#what-sits-inside-what. How a program finds out how many "
        "there are, with tl.num_programs: programs/vector-add-step-by-step.ipynb#does-the-order-matter. Inside a "
        "kernel, triton.cdiv becomes tl.cdiv.",
        "for block in range(tl.program_id(axis=0), tl.cdiv(n, BLOCK), tl.num_programs(axis=0)):",
    ),
    function="square",
    signature=("x", "programs"),
    inputs=lambda size, rng: {"x": torch.randn(size["n"], generator=rng), "programs": size["programs"]},
    reference=lambda x, programs: x * x,
    another=lambda x, programs: {"x": 64 * x},
    # Two programs first: at the awkward sizes, up to four blocks, each of them has to loop.
    sizes=({"n": 44, "programs": 2}, {"n": 20, "programs": 4}, {"n": 100, "programs": 3}, {"n": 33, "programs": 1}),
    awkward=("n",),
    strides="refused",
    mistaken={
        "Each program takes only its first block. Where is the loop over the others?": (
            lambda x, programs: only(x, lambda i: i < 8 * programs)
        ),
        "The loop steps by four, but there are not always four programs: what does `tl.num_programs` return?": (
            lambda x, programs: only(x, lambda i: i // 8 % 4 < programs)
        ),
        "The last, partial block is missing. Does the number of blocks round up, with `tl.cdiv`?": (
            lambda x, programs: only(x, lambda i: i < len(x) // 8 * 8)
        ),
        "That is x. Is it multiplied by itself?": lambda x, programs: x,
    },
    most_reads={"x": 1},
    in_blocks=("x",),
    lanes=8,
    most_launches=1,
    idle=True,  # there may be fewer blocks than programs
    programs="programs",
)
