# SPDX-License-Identifier: Apache-2.0
"""What tests of ``state.py`` and ``state_steps.py`` share: numbers, decays from all to nothing, and ways to lie."""

import math

import torch

LAYOUTS = {  # of a tensor (batch, heads, steps, width)
    "contiguous": lambda x: x,
    "steps before heads": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "columns": lambda x: x.mT.contiguous().mT,
    "wider": lambda x: torch.cat([x, torch.full_like(x, 99)], -1)[..., : x.shape[-1]],
    "one head for all": lambda x: x[:, :1].expand(x.shape),
    "flipped sign": lambda x: torch._neg_view(-x),
}
DECAYS = {
    "some": lambda x: torch.nn.functional.logsigmoid(x + 2),
    "one": lambda x: torch.zeros_like(x),
    "strong": lambda x: -20 * x.abs(),
    "none is left": lambda x: torch.where(x > 0.5, -math.inf, torch.nn.functional.logsigmoid(x + 2)),
}

def inputs(batch, heads, steps, keys, values, decay="some", device="cpu", dtype=torch.float32, seed=0):
    random = torch.Generator().manual_seed(seed)
    new = lambda *shape: torch.randn(shape, generator=random).to(device)
    return [
        (new(batch, heads, steps, keys) / keys**0.5).to(dtype),
        new(batch, heads, steps, keys).to(dtype),
        new(batch, heads, steps, values).to(dtype),
        DECAYS[decay](new(batch, heads, steps)),
        new(batch, heads, keys, values),
    ]
