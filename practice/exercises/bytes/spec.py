# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise bytes."""

import torch
from coach.spec import Spec, Speed

SPEC = Spec(
    title="Move only what must move",
    kind="faster",
    lesson="gpu/limits.md",
    also=("pytorch/launch-overhead.md",),
    goal="These three kernels each compute a little and move everything. Since memory is the limit here, write one "
    "kernel that does the same work and moves a third of the bytes.",
    hints=(
        "Which bytes have to move however you compute this, and which move only because one kernel leaves them for "
        "the next?",
        "What helps when memory is the limit: gpu/limits.md#memory-arithmetic-launch",
        "tl.store(out_ptr + offsets, tl.maximum(a * x + b, 0.0), mask=mask)",
    ),
    function="relu",
    signature=("x", "a", "b"),
    inputs=lambda size, rng: {"x": torch.randn(size["n"], generator=rng), "a": -2.5, "b": 0.5},
    reference=lambda x, a, b: torch.relu(a * x + b),
    another=lambda x, a, b: {"a": 1.5, "b": -0.25},
    sizes=({"n": 10}, {"n": 1500}),
    awkward=("n",),
    strides="refused",
    rtol=1e-5,
    atol=1e-6,
    mistaken={
        "The relu is missing. Where do the numbers below 0 become 0?": lambda x, a, b: a * x + b,
        "That is the smaller of a * x + b and 0.": lambda x, a, b: (a * x + b).clamp(max=0),
        "b is added after the relu. In which order did the three kernels work?": lambda x, a, b: torch.relu(a * x) + b,
        "That is a * relu(x) + b. In which order did the three kernels work?": lambda x, a, b: a * torch.relu(x) + b,
        "That is a * (x + b). Which comes first, the multiplication or the addition?": lambda x, a, b: torch.relu(
            a * (x + b)
        ),
    },
    twice=True,  # what stores an element twice moves too much
    most_reads={"x": 1},
    most_moved=1,
    most_launches=1,
    speed=Speed(size={"n": 2**25}, least=0.85),
)
