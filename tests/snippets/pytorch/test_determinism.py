# SPDX-License-Identifier: Apache-2.0
"""Each way to add gives the sum, and touches nothing else; three of them give the same bits in every run."""

import pytest
import torch
from guards import Guarded

from snippets.pytorch import determinism as snippet

WAYS = [snippet.sum_atomic, snippet.sum_parts, snippet.sum_last, snippet.sum_integers]


@pytest.mark.parametrize("n", [0, 1, 1023, 1024, 5000])
@pytest.mark.parametrize("add", WAYS)
def test_it_is_the_sum(device, add, n):
    x = torch.randn(n, generator=torch.Generator().manual_seed(n)).to(device)
    guarded = Guarded.around(x, before=4096, after=4096, fill=0xFF)
    found = add(guarded.tensor)
    guarded.check("x")
    torch.testing.assert_close(found.double(), x.double().sum(), rtol=1e-5, atol=1e-4)


def test_the_counter_is_left_at_zero(device):
    x, arrived = torch.randn(5000, device=device), torch.zeros((), dtype=torch.int32, device=device)
    first, second = snippet.sum_last(x, arrived), snippet.sum_last(x, arrived)
    assert arrived.item() == 0 and torch.equal(first, second)
    torch.testing.assert_close(first, x.sum(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("add", WAYS)
def test_refuses_what_it_would_get_wrong(device, add):
    with pytest.raises(ValueError, match=r"x must be float32; got torch\.float64"):
        add(torch.ones(3, dtype=torch.float64, device=device))
    with pytest.raises(ValueError, match=r"x must be contiguous; pass x\.contiguous\(\)"):
        add(torch.ones(6, device=device)[::2])


def test_orders_are_told_apart():
    parts = torch.tensor([2.0**24, 1.0, 1.0])
    assert snippet.different([snippet.one_by_one(parts), snippet.one_by_one(parts.flip(0))]) == 2
    assert snippet.different([torch.tensor(-0.0), torch.tensor(0.0)]) == 2
    assert snippet.different([parts.bfloat16(), parts.bfloat16().clone()]) == 1


@pytest.mark.gpu
def test_only_atomics_differ_from_run_to_run():
    x = torch.randn(2**20, device="cuda", generator=torch.Generator("cuda").manual_seed(0))
    assert snippet.different(snippet.sum_atomic(x) for _ in range(100)) > 1
    for add in WAYS[1:]:
        assert snippet.different(add(x) for _ in range(100)) == 1
    fused, plain = (snippet.multiplied(x, x, x, fusion) for fusion in (True, False))
    assert torch.equal(plain, x * x + x) and not torch.equal(fused, plain)
