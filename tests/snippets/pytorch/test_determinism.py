# SPDX-License-Identifier: Apache-2.0
"""Each way to add gives the sum, and touches nothing else; three of them give the same bits in every run."""

import contextlib

import pytest
import torch
from guards import Guarded, check_each_once, recorded_accesses

from snippets.pytorch import determinism as snippet

INTERPRETED = not torch.cuda.is_available()
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


@pytest.mark.parametrize("fusion", [True, False])
def test_products_and_sums(device, fusion):
    x, y, z = (Guarded.around(torch.randn(3072, device=device), before=1024, after=1024, fill=0xFF) for _ in range(3))
    out = Guarded((3072,), torch.float32, device, before=1024, after=1024, fill=0xFF)
    given = [each.tensor for each in (x, y, z)]
    with recorded_accesses() if INTERPRETED else contextlib.nullcontext() as accesses:
        snippet.multiply_add_kernel[(3,)](*given, out.tensor, BLOCK=1024)
    if accesses:
        check_each_once(accesses, "load", x=given[0], y=given[1], z=given[2])
        check_each_once(accesses, "store", out=out.tensor)
    out.check("out")
    wanted = given[0] * given[1] + given[2]
    torch.testing.assert_close(out.tensor, wanted)
    torch.testing.assert_close(snippet.multiplied(*given, fusion), wanted)


@pytest.mark.parametrize("parts", [1, 1000, 1025, 3000])
def test_parts_are_loaded_once_and_added(device, parts):
    part = Guarded.around(torch.randn(parts, device=device), before=4096, after=4096, fill=0xFF)
    out = Guarded((1,), torch.float32, device, before=16, after=16, fill=0xFF)
    with recorded_accesses() if INTERPRETED else contextlib.nullcontext() as accesses:
        snippet.add_parts_kernel[(1,)](part.tensor, out.tensor, parts, BLOCK=1024)
    if accesses:
        check_each_once(accesses, "load", part=part.tensor)
    torch.testing.assert_close(out.tensor[0], part.tensor.sum(), rtol=1e-4, atol=1e-4)


def test_each_number_of_warps_gives_the_parts(device):
    x = torch.randn(2500, device=device)
    wanted = torch.nn.functional.pad(x, (0, 572)).view(3, 1024).sum(1)
    for warps in (1, 8):
        torch.testing.assert_close(snippet.by_warps(x, warps), wanted, rtol=1e-4, atol=1e-4)


def test_integers_keep_what_32_bits_behind_the_point_hold(device):
    x = torch.tensor([0.25, -0.5, 2.0**-32, 1e5], device=device)
    assert snippet.sum_integers(x).dtype == torch.float32 and snippet.sum_integers(x).item() == 99999.75
    assert snippet.sum_integers(x[2:3]).item() == 2.0**-32 and snippet.sum_integers(x[2:3], bits=8).item() == 0
    many = torch.full((2000,), 1e6, device=device)
    assert snippet.sum_integers(many).item() == 2e9


@pytest.mark.skipif(not INTERPRETED, reason="programs are started anywhere only by the interpreter")
@pytest.mark.parametrize("name", ["sum_atomic_kernel", "parts_kernel", "sum_last_kernel", "sum_integers_kernel"])
def test_a_program_beyond_two_to_the_31(name):
    first, n = 2**22, 2**32 + 2**11
    x, out, more = torch.ones(4), torch.zeros(1), torch.zeros(1)
    arguments = {
        "sum_atomic_kernel": (x, out, n),
        "parts_kernel": (x, out, n),
        "sum_last_kernel": (x, more, torch.zeros(1, dtype=torch.int32), out, n),
        "sum_integers_kernel": (x, torch.zeros(1, dtype=torch.int64), n, 1.0),
    }[name]
    with recorded_accesses(first_program=(first, 0, 0), memory=False) as accesses:
        getattr(snippet, name)[(1,)](*arguments, BLOCK=1024)
    op, addresses = accesses[0]
    assert op == "load" and addresses.min() == x.data_ptr() + 4 * 1024 * first


@pytest.mark.gpu
def test_only_atomics_differ_from_run_to_run():
    x = torch.randn(2**20, device="cuda", generator=torch.Generator("cuda").manual_seed(0))
    assert snippet.different(snippet.sum_atomic(x) for _ in range(100)) > 1
    for add in WAYS[1:]:
        assert snippet.different(add(x) for _ in range(100)) == 1
    fused, plain = (snippet.multiplied(x, x, x, fusion) for fusion in (True, False))
    assert torch.equal(plain, x * x + x) and not torch.equal(fused, plain)
