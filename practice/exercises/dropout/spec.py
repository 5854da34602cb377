# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise dropout."""

import numpy as np
import torch
from coach.spec import Spec

BLOCK = 256  # of the backward


def rand(seed, offsets):
    """``tl.rand`` in NumPy: ten rounds of Philox."""
    low = np.uint64(0xFFFFFFFF)
    c0, c1, c2, c3 = (np.array(x, np.uint64) for x in (offsets, 0 * offsets, 0 * offsets, 0 * offsets))
    k0, k1 = np.array(seed, np.uint64), np.array(0 * seed, np.uint64)
    for _ in range(10):
        b, a = np.uint64(0xCD9E8D57) * c2, np.uint64(0xD2511F53) * c0
        c0, c1 = (b >> np.uint64(32)) ^ c1 ^ k0, b & low
        c2, c3 = (a >> np.uint64(32)) ^ c3 ^ k1, a & low
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    signed = c0.astype(np.uint32).view(np.int32)
    return np.where(signed < 0, -signed - 1, signed).astype(np.float32) * np.float32(4.6566127342e-10)


def factor(x, p, seed, offsets=lambda i: i, seeds=lambda i: 0, kept=lambda u, p: u >= p, scale=True):
    """Return the factor of each element, 0 or the scale; arguments take what people get wrong."""
    i = np.arange(x.numel())
    kept = kept(rand(seed + seeds(i), offsets(i)), np.float32(p))
    factors = kept * (1 / (1 - p) if scale else 1.0)
    return torch.from_numpy(factors.astype(np.float32)).reshape(x.shape).to(x.device)


below = lambda u, p: u < p
above = lambda u, p: u > p
lanes = lambda i: i % BLOCK
no_seed = "It looks as if the backward draws with the seed 0, in place of the forward's. Is ctx.seed passed on?"
dropped = "That keeps what the forward dropped. An element is kept if u >= p."

SPEC = Spec(
    title="A backward pass that drops the wrong elements",
    kind="bug",
    lesson="fusion/dropout.md",
    goal="The backward pass of this dropout draws different random numbers from its forward pass, so it drops "
    "different elements. Find and fix its three bugs.",
    hints=(
        "Which two numbers determine u, and does each element get the same two in the forward and the backward pass?",
        "The backward pass is the forward pass: fusion/dropout.md#the-backward-is-the-forward",
        "u = tl.rand(seed, offsets)",
    ),
    function="dropout",
    signature=("x", "p", "seed"),
    inputs=lambda size, rng: {
        "x": torch.randn(size["n"], generator=rng),
        "p": 0.25,
        "seed": int(torch.randint(1, 2**31, (), generator=rng)),
    },
    reference=lambda x, p, seed: x * factor(x, p, seed),
    another=lambda x, p, seed: {"p": float(rand(seed, np.arange(1))[0])},  # the first u, whose element is kept
    sizes=({"n": 10}, {"n": 300}),
    awkward=("n",),
    blocks={"n": BLOCK},
    rtol=1e-6,
    gradients=("x",),
    mistaken_gradient={
        dropped: lambda grad, x, p, seed: grad * factor(x, p, seed, kept=below),
        no_seed: lambda grad, x, p, seed: grad * factor(x, p, 0),
        f"{no_seed} And another thing is wrong: it keeps those of which u < p.": lambda grad, x, p, seed: (
            grad * factor(x, p, 0, kept=below)
        ),
        "An element is kept if u >= p, so also when u equals p.": lambda grad, x, p, seed: (
            grad * factor(x, p, seed, kept=above)
        ),
        "That is the gradient of what was kept, without the scale.": lambda grad, x, p, seed: (
            grad * factor(x, p, seed, scale=False)
        ),
        "It looks as if p is swapped with 1 - p, the probability that an element is kept.": lambda grad, x, p, seed: (
            grad * factor(x, 1 - p, seed)
        ),
        "Every program draws the same numbers, those of the first block. `lane` counts from 0 in each program.": (
            lambda grad, x, p, seed: grad * factor(x, p, seed, offsets=lanes)
        ),
        "It looks as if the program's number is in the seed. Then what is dropped depends on the block "
        "size, which in the "
        "backward pass is another one.": lambda grad, x, p, seed: (
            grad * factor(x, p, seed, offsets=lanes, seeds=lambda i: i // BLOCK)
        ),
        "That is the seed plus 1. The backward pass needs the forward pass's own.": lambda grad, x, p, seed: (
            grad * factor(x, p, seed + 1)
        ),
    },
    torch_ops=("clone",),
    most_launches=2,
)
