# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise any_gradient."""

import torch
from coach.spec import Spec


def inputs(size, rng):
    """Return x, contiguous, and a gradient that is a slice of a wider matrix: every so many of its columns."""
    rows, columns, apart = size["rows"], size["columns"], size["apart"]
    wide = torch.randn(rows, columns * apart, generator=rng)
    return {"x": 2 * torch.randn(rows, columns, generator=rng), "grad": wide[:, ::apart]}


def gradient(x, grad, share=lambda grad, y: (grad * y).sum(1, keepdim=True), outer=lambda y: y):
    """The gradient in torch, with what people get wrong as arguments."""
    y = torch.softmax(x.double(), dim=1)
    return (outer(y) * (grad - share(grad, y))).float()


SPEC = Spec(
    title="A gradient of any strides",
    kind="bug",
    lesson="pytorch/gradients.md",
    goal="The backward pass of this softmax is right as long as the gradient is contiguous, and wrong in a model that "
    "slices or transposes the result. Let it read a gradient of any strides, without copying it.",
    hints=(
        "Which of the three tensors that the kernel touches does this file allocate, and which comes from outside?",
        "Which operations hand over which gradients: pytorch/gradients.md#strides",
        "grad = tl.load(grad_ptr + row * stride_row + column * stride_column, mask=mask, other=0.0)",
    ),
    function="gradient",
    signature=("x", "grad"),
    inputs=inputs,
    reference=gradient,
    another=lambda x, grad: {"x": -x},
    sizes=(
        {"rows": 3, "columns": 5, "apart": 1},
        {"rows": 4, "columns": 6, "apart": 3},
        {"rows": 3, "columns": 3, "apart": 2},
        {"rows": 5, "columns": 100, "apart": 1},
    ),
    last=({"rows": 2, "columns": 1025, "apart": 1},),
    awkward=("rows", "columns"),
    blocks={"rows": 4, "columns": 16},
    smallest=1,
    layouts=("spread", "transposed", "rows_apart"),
    rtol=1e-4,
    atol=1e-5,
    mistaken={
        "That is y · grad. Each x also changes the sum by which its row is divided: subtract the sum of grad · y.": (
            lambda x, grad: gradient(x, grad, share=lambda grad, y: 0.0)
        ),
        "That subtracts the sum of grad. It should be the sum of grad · y.": lambda x, grad: gradient(
            x, grad, share=lambda grad, y: grad.sum(1, keepdim=True)
        ),
        "The factor y is missing.": lambda x, grad: gradient(x, grad, outer=lambda y: 1.0),
    },
    most_launches=2,
)
