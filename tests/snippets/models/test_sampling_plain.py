# SPDX-License-Identifier: Apache-2.0
"""The waits are those of NumPy's Philox, the token is the first, and nothing else is touched."""

import contextlib

import numpy as np
import torch
from guards import Guarded, check_each_once, recorded_accesses
from philox import philox, uniform

from snippets.models import sampling_plain as snippet


def test_the_first_to_arrive_is_drawn(device):
    logits = torch.randn(5, 13, generator=torch.Generator().manual_seed(0)).to(device)
    seeds = torch.arange(5, device=device) * 1013 - 2
    waits, tokens = snippet.race(logits, seeds)
    u = np.stack([uniform(philox(seed, np.arange(13))[:, 0]) for seed in seeds.tolist()])
    wanted = -np.log1p(-u.astype(np.float64)) / (logits - logits.amax(1, keepdim=True)).exp().double().cpu().numpy()
    assert np.allclose(waits.cpu(), wanted, rtol=1e-4, atol=1e-6)
    assert torch.equal(tokens, waits.argmin(1)) and tokens.unique().numel() > 2


def test_each_element_once(device):
    logits = Guarded((3, 5), torch.float32, device, before=64, after=64, fill=0xFF)
    seeds = Guarded((3,), torch.int64, device, before=64, after=64, fill=0xFF)
    waits, tokens = torch.empty(3, 5, device=device), torch.empty(3, dtype=torch.int64, device=device)
    logits.tensor.fill_(0), seeds.tensor.copy_(torch.arange(3))
    with recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses:
        snippet.race_kernel[(3,)](logits.tensor, seeds.tensor, waits, tokens, 5, BLOCK=8)
    logits.check("logits"), seeds.check("seeds")
    if device == "cpu":
        check_each_once(accesses, "load", logits=logits.tensor, seeds=seeds.tensor)
        check_each_once(accesses, "store", waits=waits, tokens=tokens)


def test_main_races_as_often_as_its_page_says(capsys):
    snippet.main()
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("waits: ") for line in lines) == 48
