# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise chunk."""

import torch
from coach.spec import Spec


def inputs(size, rng):
    """Decays between a half and nearly 1; in the size that says so, some keep next to nothing."""
    heads, steps, keys, values = (size[name] for name in ("heads", "steps", "keys", "values"))
    new = lambda *shape: torch.randn(*shape, generator=rng)
    log_decay = -torch.rand(heads, steps, generator=rng) * 0.7
    return {
        "q": new(heads, steps, keys),
        "k": new(heads, steps, keys),
        "v": new(heads, steps, values),
        "log_decay": log_decay * size["strength"],
        "state": new(heads, keys, values),
    }


def results(q, k, v, log_decay, state, so_far=lambda x: x.cumsum(1), mask=lambda t, s: t >= s, fades=True):
    """The result in torch; arguments take what people get wrong."""
    sums = so_far(log_decay)
    step = torch.arange(q.shape[1])
    between = (sums[:, :, None] - sums[:, None, :]).exp()
    weights = q @ k.mT * torch.where(mask(step[:, None], step[None, :]), between, 0.0)
    known = q @ state
    return weights @ v + (known * sums.exp()[:, :, None] if fades else known)


def quotients(q, k, v, log_decay, state):
    """The result if decays are divided: where that overflows, no number."""
    sums = log_decay.cumsum(1)
    step = torch.arange(q.shape[1])
    between = sums.exp()[:, :, None] * (-sums).exp()[:, None, :]
    weights = q @ k.mT * torch.where(step[:, None] >= step[None, :], between, 0.0)
    return weights @ v + (q @ state) * sums.exp()[:, :, None]


SPEC = Spec(
    title="One chunk of a recurrence",
    kind="gap",
    lesson="models/state.md",
    goal="Compute all steps of a chunk at once. Each result is a sum of two parts: what the state before the chunk "
    "still knows, and a small causal attention whose weights are decays.",
    hints=(
        "Which decays lie between the key of step 1 and the query of step 3? And between the state and step 3?",
        "How decays become differences of a sum: models/state.md#a-chunk-at-once",
        "so_far = tl.cumsum(log_decay, axis=0), and step s reaches step t with tl.exp(so_far[t] - so_far[s]).",
    ),
    function="chunk_results",
    signature=("q", "k", "v", "log_decay", "state"),
    inputs=inputs,
    reference=results,
    sizes=(
        {"heads": 2, "steps": 4, "keys": 3, "values": 2, "strength": 1},
        {"heads": 3, "steps": 21, "keys": 16, "values": 17, "strength": 1},
        {"heads": 1, "steps": 64, "keys": 5, "values": 4, "strength": 20},
    ),
    awkward=("steps", "values"),
    blocks={"steps": 16, "values": 16},
    smallest=1,
    strides="refused",
    rtol=1e-4,
    atol=1e-4,
    mistaken={
        "The state before the chunk fades, too: by all decays up to the query’s step.": lambda *x: results(
            *x, fades=False
        ),
        "A query must not meet keys of later steps.": lambda *x: results(*x, mask=lambda t, s: t == t + 0 * s),
        "A step’s own key counts, too. Is it `>=`?": lambda *x: results(*x, mask=lambda t, s: t > s),
        "It looks as if each step had its own decay alone. Decays in between multiply, so add up their logarithms.": (
            lambda *x: results(*x, so_far=lambda d: d)
        ),
        "The decay of a step comes before its key is added, so the state before the chunk has faded by this step’s, "
        "too.": lambda *x: results(*x, so_far=lambda d: d.cumsum(1) - d),
        "exp(-so_far) has grown beyond float32, and infinity times 0 is no number. Subtract the sums before you take "
        "`tl.exp`.": quotients,
    },
    most_launches=1,
)
