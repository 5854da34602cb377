# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise add_norm."""

import torch
from coach.spec import Spec


def rows(size, rng):
    """Rows of large numbers, whose squares float16 cannot hold; the fourth so small that eps counts, the fifth 0."""
    shapes = {"x": (size["rows"], size["columns"]), "residual": (size["rows"], size["columns"])}
    large = {name: (150 * torch.randn(shape, generator=rng) + 300).half() for name, shape in shapes.items()}
    for x in large.values():
        x[3::5] /= 300_000
        x[4::5] = 0
    return large | {"weight": (torch.rand(size["columns"], generator=rng) + 0.5).half()}


def normalized(total, weight=1.0, divisor=None, eps=1e-6):
    total = total.double()
    return (total * torch.rsqrt((total**2).sum(1, keepdim=True) / (divisor or total.shape[1]) + eps) * weight).half()


SPEC = Spec(
    title="Residual and norm in one kernel",
    kind="scratch",
    lesson="fusion/layer.md",
    goal="Between two of its matrix products, a transformer layer adds the residual and normalizes the sum. Do both "
    "in a single kernel that reads everything once and returns both results.",
    hints=(
        "You need the sum twice: once to store it, once to normalize it. Where is it already when you come to the "
        "norm?",
        "Where this happens in a layer: fusion/layer.md. The kernel: fusion/norms.md#the-kernel. The "
        "residual: fusion/norms.md#the-residual",
        "rrms = tl.rsqrt(tl.sum(x * x, axis=0) / columns + 1e-6)",
    ),
    function="add_rms_norm",
    signature=("x", "residual", "weight"),
    inputs=rows,
    reference=lambda x, residual, weight: (normalized(x + residual, weight.double()), x + residual),
    another=lambda x, residual, weight: {"weight": -8 * weight},
    sizes=(
        {"rows": 3, "columns": 5},
        {"rows": 4, "columns": 4},
        {"rows": 5, "columns": 100},
        {"rows": 1, "columns": 4097},
    ),
    awkward=("rows", "columns"),
    blocks={"rows": 4, "columns": 16},
    smallest=1,
    strides="refused",
    rtol=1.2e-3,  # of float16, and a little more than the last of its 11 bits
    mistaken={
        "That is the sum. The norm comes first, the sum second.": lambda x, residual, weight: x + residual,
        "That is the norm of x alone. Where is the residual added?": lambda x, residual, weight: normalized(
            x, weight.double()
        ),
        "The weight is missing.": lambda x, residual, weight: normalized(x + residual),
        "All are 0: the squares are infinite in float16. Convert the row to float32 before you square it.": (
            lambda x, residual, weight: torch.zeros_like(x)
        ),
        "The sum of the squares is not divided by the columns, but it should be their mean.": (
            lambda x, residual, weight: normalized(x + residual, weight.double(), divisor=1)
        ),
        "It looks as if the mean divides by the block size. The row has only `columns` elements.": (
            lambda x, residual, weight: normalized(
                x + residual, weight.double(), divisor=1 << (x.shape[1] - 1).bit_length()
            )
        ),
        "The eps is missing: the mean of the squares + 1e-6, or a row of zeros is 0 · infinity.": (
            lambda x, residual, weight: normalized(x + residual, weight.double(), eps=0.0)
        ),
        "It looks as if eps is 1e-5. It should be 1e-6.": lambda x, residual, weight: normalized(
            x + residual, weight.double(), eps=1e-5
        ),
        "That is a layer norm: RMS norm does not subtract the mean.": lambda x, residual, weight: normalized(
            (x + residual).double() - (x + residual).double().mean(1, keepdim=True), weight.double()
        ),
        "That is divided by the mean of the squares. Where is its root?": lambda x, residual, weight: (
            (x + residual).double() / (x + residual).double().square().mean(1, keepdim=True) * weight
        ).half(),
    },
    most_reads={"x": 1, "residual": 1},
    most_launches=1,
)
