# SPDX-License-Identifier: Apache-2.0
"""A tuned kernel that adds into its result: cleared before each try or not, eager and compiled."""

import pytest
import torch
from guards import Guarded

from snippets.pytorch import tuned_op as snippet


@pytest.mark.parametrize("way", snippet.WAYS)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("n", [10, 17, 1000])
def test_the_first_call_tunes(device, way, compiled, n):
    snippet.WAYS[way][0].cache.clear()
    total = torch.compile(snippet.total, fullgraph=True, backend="aot_eager") if compiled else snippet.total
    x = torch.arange(1, n + 1, device=device, dtype=torch.float32)
    x = Guarded.around(x, before=64, after=64, fill=0xFF).tensor
    runs = 3 if way == "torch.zeros alone" else 1  # two tries and the call, all of them into one number
    assert [total(x, way).item() for _ in range(2)] == [runs * x.sum().item(), x.sum().item()]


def test_each_length_has_its_winner(device):
    kernel = snippet.WAYS["and reset_to_zero"][0]
    kernel.cache.clear()
    for n in (10, 1000):
        snippet.total(torch.ones(n, device=device), "and reset_to_zero")
    assert [config.kwargs["BLOCK"] for config in kernel.cache.values()] == [16, 1024]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_operator_keeps_its_promises(device, dtype):
    torch.library.opcheck(snippet.total, (torch.ones(10, device=device, dtype=dtype), "and reset_to_zero"))
