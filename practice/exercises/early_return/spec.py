# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise early_return."""

import torch
from coach.spec import Spec


def inputs(size, rng):
    """Every third row is ignored, the second of them, and is full of inf, of which arithmetic makes NaN."""
    x = 2 * torch.randn(size["rows"], size["columns"], generator=rng)
    target = torch.randint(size["columns"], (size["rows"],), generator=rng)
    x[1::3] = float("inf")
    target[1::3] = -100
    return {"x": x, "target": target}


def results(x, target):
    """The losses and their gradient, in torch."""
    counts = target != -100
    share = torch.softmax(torch.where(counts[:, None], x, 0.0).double(), dim=1)
    there = torch.arange(x.shape[1])[None, :] == target[:, None]
    loss = torch.where(counts, -torch.where(there, share, 0.0).sum(1).log(), 0.0)
    return loss.float(), torch.where(counts[:, None], share - there.double(), 0.0).float()


SPEC = Spec(
    title="No program returns early",
    kind="bug",
    lesson="pytorch/compile.md",
    goal="In this loss, the program of an ignored row returns before it stores anything, so the result there is "
    "whatever the memory held. Let every program store its loss and its gradient.",
    hints=(
        "What does the result hold where no program stores, if its memory was another tensor's a moment ago?",
        "How an early return goes wrong under torch.compile: pytorch/compile.md#what-goes-wrong. "
        "Choosing lane by lane, with tl.where: programs/masks.md#maximum-and-product",
        "tl.store(grad_ptr + row * columns + column, tl.where(counts, grad, 0.0), mask=mask)",
    ),
    function="cross_entropy",
    signature=("x", "target"),
    inputs=inputs,
    reference=results,
    sizes=({"rows": 4, "columns": 5}, {"rows": 5, "columns": 100}),
    last=({"rows": 2, "columns": 1025},),
    awkward=("rows", "columns"),
    blocks={"rows": 4, "columns": 16},
    smallest=1,
    strides="refused",
    rtol=1e-4,
    atol=1e-5,
    most_launches=1,
)
