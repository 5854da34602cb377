# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise cross_entropy."""

import torch
from coach.spec import Spec


def inputs(size, rng):
    """Some rows are far above 0, some targets far below their row; every third is ignored, the first of them."""
    rows, columns = size["rows"], size["columns"]
    x = 2 * torch.randn(rows, columns, generator=rng)
    x[1::2] += 1000
    target = torch.randint(columns, (rows,), generator=rng)
    x[2::6].scatter_add_(1, target[2::6, None], torch.full((len(x[2::6]), 1), -200.0))
    target[::3] = -100
    return {"x": x, "target": target}


def loss(x, target, log_of_sum=lambda x: torch.logsumexp(x, dim=1), ignored=lambda total: torch.zeros_like(total)):
    """The losses in torch, with what people get wrong as arguments."""
    x = x.double()
    total = log_of_sum(x)
    logit = x.gather(1, target.clamp(min=0)[:, None])[:, 0]
    return torch.where(target == -100, ignored(total), total - logit).float()


def without_maximum(x):
    return torch.logsumexp(x, dim=1) - x.amax(1)


SPEC = Spec(
    title="Cross-entropy of a row",
    kind="gap",
    lesson="fusion/cross-entropy.md",
    goal="Compute the loss of each row: the logarithm of the sum of its exponentials, minus the logit of its "
    "target. A row that should be ignored has a loss of 0.",
    hints=(
        "If you subtract the maximum from every logit, what do you have to add back to the logarithm of the sum?",
        "The loss by hand: fusion/cross-entropy.md#by-hand",
        "log_of_sum = maximum + tl.log(tl.sum(tl.exp(x - maximum), axis=0))",
    ),
    function="cross_entropy",
    signature=("x", "target"),
    inputs=inputs,
    reference=loss,
    sizes=({"rows": 4, "columns": 5}, {"rows": 5, "columns": 100}, {"rows": 2, "columns": 4097}),
    awkward=("rows", "columns"),
    blocks={"rows": 4, "columns": 16},
    smallest=1,
    layouts=("spread", "transposed", "rows_apart"),
    rtol=1e-5,
    atol=3e-4,
    mistaken={
        "An exponential overflows: exp(1000) is infinite. Subtract the row's maximum before "
        "`tl.exp`, and add it again after the logarithm.": lambda x, t: loss(
            x, t, log_of_sum=lambda x: torch.log(torch.exp(x.float()).sum(1))
        ),
        "The maximum was subtracted and never added back: log(sum(exp(x - maximum))) is too small by that much.": (
            lambda x, t: loss(x, t, log_of_sum=without_maximum)
        ),
        "The sign is wrong: the loss is the logarithm of the sum minus the target's logit, never below 0.": (
            lambda x, t: -loss(x, t)
        ),
        "That is the share of the target. The loss is minus its logarithm.": lambda x, t: torch.where(
            t == -100, 0.0, torch.exp(-loss(x, t))
        ),
        "The target's share is rounded to 0 there, and log(0) is -inf. Take the logarithm of the sum alone.": (
            lambda x, t: torch.where(t == -100, 0.0, -x.softmax(1).gather(1, t.clamp(min=0)[:, None])[:, 0].log())
        ),
        "The logarithm is missing: that is maximum + sum - logit.": lambda x, t: loss(
            x, t, log_of_sum=lambda x: x.amax(1) + torch.exp(without_maximum(x))
        ),
        "An ignored row has the loss 0. This one has log(sum(exp(x))), with nothing subtracted.": lambda x, t: loss(
            x, t, ignored=lambda total: total
        ),
        "The maximum was subtracted and never added back. And an ignored row has the loss 0.": lambda x, t: loss(
            x, t, log_of_sum=without_maximum, ignored=lambda total: total
        ),
        "Every loss uses column 0. Do you load the target, and then its column?": lambda x, t: loss(
            x, torch.where(t == -100, -100, 0)
        ),
    },
    most_launches=1,
)
