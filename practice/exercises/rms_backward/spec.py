# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise rms_backward."""

import torch
from coach.spec import Spec


def rrms_of(x):
    return torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-6)


def gradient(g, x, sign=-1.0, outer=True, n=None, by_x=False, in_mean=None, of_g=False):
    """The gradient of x from that of x_hat, in torch, with what people get wrong as arguments."""
    rrms = rrms_of(x)
    x_hat = x * rrms
    mean = ((g if in_mean is None else in_mean) * (1.0 if of_g else x_hat)).sum(1, keepdim=True) / (n or x.shape[1])
    return (rrms if outer else 1.0) * (g + sign * (x if by_x else x_hat) * mean)


SPEC = Spec(
    title="The backward pass of RMS norm",
    kind="gap",
    lesson="fusion/norms.md",
    goal="Write the gradient of RMS norm with respect to x. It has two parts, because each x changes its own result "
    "and, through the root, every other result in its row.",
    hints=(
        "If you double a whole row of x, does its normalized row change? So what must grad_x · x add up to over the "
        "row?",
        "The gradient by hand: fusion/norms.md#the-gradient-by-hand",
        "grad_x = rrms * (g - x_hat * tl.sum(g * x_hat, axis=0) / columns)",
    ),
    function="rms_norm",
    signature=("x", "weight"),
    inputs=lambda size, rng: {
        "x": 2 * torch.randn(size["rows"], size["columns"], generator=rng) + 1,
        "weight": torch.randn(size["columns"], generator=rng),
    },
    reference=lambda x, weight: x * rrms_of(x) * weight,
    sizes=(
        {"rows": 3, "columns": 5},
        {"rows": 4, "columns": 4},
        {"rows": 5, "columns": 100},
    ),
    last=({"rows": 1, "columns": 1025},),
    awkward=("rows", "columns"),
    blocks={"rows": 4, "columns": 16},
    smallest=1,
    layouts=("spread", "transposed", "rows_apart"),
    rtol=1e-4,
    atol=1e-5,
    gradients=("x",),
    mistaken_gradient={
        "That treats the root as a constant. A larger x also makes the root larger and all elements smaller: subtract "
        "x_hat times the mean of g · x_hat.": lambda grad, x, weight: gradient(grad * weight, x, sign=0.0),
        "The sign of the mean is wrong: a larger root makes all elements smaller.": lambda grad, x, weight: gradient(
            grad * weight, x, sign=1.0
        ),
        "The weight is missing: what arrives at x_hat is g = grad · weight.": lambda grad, x, weight: gradient(grad, x),
        "The weight is missing in the mean: it is that of g · x_hat, and g = grad · weight.": lambda grad, x, weight: (
            gradient(grad * weight, x, in_mean=grad)
        ),
        "That is the gradient of x_hat, not yet of x: multiply it by rrms once more.": lambda grad, x, weight: gradient(
            grad * weight, x, outer=False
        ),
        "Each element's share of the mean goes with x_hat. Here it goes with x.": lambda grad, x, weight: gradient(
            grad * weight, x, by_x=True
        ),
        "That is the mean of g. What a larger root costs is the mean of g · x_hat.": lambda grad, x, weight: gradient(
            grad * weight, x, of_g=True
        ),
        "Two things: the mean is over `columns`, not the block; and that is the gradient of x_hat, not yet of x.": (
            lambda grad, x, weight: gradient(grad * weight, x, n=1 << (x.shape[1] - 1).bit_length(), outer=False)
        ),
        "The sum of g · x_hat has to be divided by the columns to become a mean.": lambda grad, x, weight: gradient(
            grad * weight, x, n=1
        ),
        "It looks as if the sum is divided by the block size. The row has only `columns` elements.": (
            lambda grad, x, weight: gradient(grad * weight, x, n=1 << (x.shape[1] - 1).bit_length())
        ),
    },
    torch_ops=("clone",),
    most_launches=2,
)
