# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise dropout."""

import torch
from coach.spec import Spec

BLOCK = 256  # of the backward
LOW = 0xFFFFFFFF  # the lower of two words


def high(product):
    """Return the upper 32 bits of a product of two words, which as an int64 may have become negative."""
    return product >> 32 & LOW


def rand(seed, offsets):
    """``tl.rand`` in torch: ten rounds of Philox. ``seed`` is a number, or one for each offset."""
    c0, c1, c2, c3 = (offsets, 0 * offsets, 0 * offsets, 0 * offsets)
    k0, k1 = seed + 0 * offsets, 0 * offsets
    for _ in range(10):
        b, a = 0xCD9E8D57 * c2, 0xD2511F53 * c0
        c0, c1 = high(b) ^ c1 ^ k0, b & LOW
        c2, c3 = high(a) ^ c3 ^ k1, a & LOW
        k0, k1 = (k0 + 0x9E3779B9) & LOW, (k1 + 0xBB67AE85) & LOW
    signed = torch.where(c0 < 2**31, c0, LOW - c0)  # -x - 1 of a negative x
    return signed.float() * torch.tensor(4.6566127342e-10)


def factor(x, p, seed, offsets=lambda i: i, seeds=lambda i: 0, kept=lambda u, p: u >= p, scale=True):
    """Return the factor of each element, 0 or the scale; arguments take what people get wrong."""
    i = torch.arange(x.numel())
    kept = kept(rand(seed + seeds(i), offsets(i)), torch.tensor(p))
    return (kept * (1 / (1 - p) if scale else 1.0)).float().reshape(x.shape).to(x.device)


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
    another=lambda x, p, seed: {"p": float(rand(seed, torch.arange(1))[0])},  # the first u, whose element is kept
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
