# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise backward."""

import torch
from coach.spec import Spec

relu = torch.relu


def inputs(size, rng):
    """A vector, or for 3,000 elements a matrix, which may be stored by columns."""
    x = torch.randn(size["n"], generator=rng)
    return {"x": x.view(50, 60) if size["n"] == 3000 else x}


SPEC = Spec(
    title="Write a backward pass",
    kind="gap",
    lesson="fusion/autograd.md",
    goal="relu(x)² already has a forward kernel. Give it a gradient: write the backward kernel and the method that "
    "launches it.",
    hints=(
        "At x = 3, how fast does x² grow when x grows a little? And what becomes of that when the incoming gradient "
        "is 5?",
        "Two kernels, and how PyTorch learns about them: fusion/autograd.md#two-kernels",
        "tl.store(grad_x_ptr + offsets, grad * 2 * tl.maximum(x, 0.0), mask=mask)",
    ),
    function="relu_squared",
    signature=("x",),
    inputs=inputs,
    reference=lambda x: relu(x) ** 2,
    another=lambda x: {"x": 64 * x},
    sizes=({"n": 10}, {"n": 3000}),
    awkward=("n",),
    layouts=("spread", "transposed"),
    rtol=1e-6,
    gradients=("x",),
    mistaken_gradient={
        "That is the slope alone. Multiply it by the incoming gradient.": lambda grad, x: 2 * relu(x),
        "That is the incoming gradient, unchanged. Where is the slope, 2·relu(x)?": lambda grad, x: grad,
        "That is grad · 2x for a negative x, too. relu(x) is 0 there, and so is its slope.": lambda grad, x: (
            grad * 2 * x
        ),
        "The factor 2 is missing: the slope of relu(x)² is 2·relu(x).": lambda grad, x: grad * relu(x),
        "That is the result times grad. The slope of relu(x)² is not relu(x)².": lambda grad, x: grad * relu(x) ** 2,
        "That is the slope at relu(x)², the result. It should be taken at x.": lambda grad, x: grad * 2 * relu(x) ** 2,
        "It looks as if grad and x are swapped: that is x · 2·relu(grad).": lambda grad, x: x * 2 * relu(grad),
    },
    torch_ops=("clone",),
    most_launches=2,
)
