# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise causal."""

import torch
from coach.spec import Spec


def inputs(size, rng):
    new = lambda *shape: torch.randn(*shape, generator=rng)
    channels, steps, width = (size[name] for name in ("channels", "steps", "width"))
    return {"x": new(channels, steps), "weight": new(channels, width), "initial": new(channels, width - 1)}


def results(x, weight, initial, shift=0, known=True, back=False, mixed=False):
    """The result in torch; arguments take what people get wrong."""
    (_, steps), width = x.shape, weight.shape[1]
    weight = weight.flip(1) if back else weight[:1].expand_as(weight) if mixed else weight
    before, after = initial if known else torch.zeros_like(initial), torch.zeros(len(x), width)
    longer = torch.cat([before, x, after], 1)
    return sum(weight[:, k, None] * longer[:, k + shift : k + shift + steps] for k in range(width))


SPEC = Spec(
    title="A causal convolution",
    kind="gap",
    lesson="models/convolution.md",
    goal="Each result sees the last few inputs of its own channel, each with a weight of its own, and no later one; "
    "before the first step there is a state.",
    hints=(
        "Which input does tap 0 see at step 5, if there are four taps? And tap 3?",
        "How a window reads what came before: models/convolution.md#along-time",
        "at = step - (WIDTH - 1) + k; where at is negative, the input is initial[at + WIDTH - 1].",
    ),
    function="causal_conv",
    signature=("x", "weight", "initial"),
    inputs=inputs,
    reference=results,
    sizes=(
        {"channels": 2, "steps": 6, "width": 3},
        {"channels": 3, "steps": 37, "width": 4},
        {"channels": 1, "steps": 2, "width": 4},
    ),
    awkward=("steps",),
    strides="refused",
    rtol=1e-5,
    atol=1e-5,
    mistaken={
        "A result sees later inputs. The last tap, `WIDTH - 1`, is that of the step itself.": lambda *given: results(
            *given, shift=given[1].shape[1] - 1
        ),
        "The first results need what came before step 0: it is in `initial`.": lambda *given: results(
            *given, known=False
        ),
        "The taps are in the opposite order: weight 0 belongs to the oldest input.": lambda *given: results(
            *given, back=True
        ),
        "All channels have the weights of channel 0.": lambda *given: results(*given, mixed=True),
    },
    most_launches=1,
)
