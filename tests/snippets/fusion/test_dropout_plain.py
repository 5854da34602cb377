# SPDX-License-Identifier: Apache-2.0
"""The plain kernel keeps just the elements that Philox says, by any block; nothing else is touched."""

import contextlib
import re

import numpy as np
import pytest
import torch
from compiled import compiled
from guards import Guarded, check_each_once, check_same_bits, handed_out, recorded_accesses
from philox import ones_from_anywhere, philox, uniform

from snippets.fusion import dropout_plain as snippet
from snippets.fusion.dropout import A_THREAD


def guarded(shape, dtype, device):
    return Guarded(shape, dtype, device, before=64, after=64, fill=0xFF)


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32 + 5, 2**63 - 1, -1])
def test_rand_is_philox(device, seed):
    offsets = torch.tensor([0, 1, 5, 2**31, 2**32 - 1, 2**32, 2**40 + 3], device=device)
    found = snippet.rand_at(offsets, torch.tensor(seed, device=device))
    check_same_bits(found.cpu(), torch.from_numpy(uniform(philox(seed, offsets.cpu().numpy())[..., 0])))


def test_rand_is_never_one_and_sometimes_zero(device):
    """The two offsets that the page shows."""
    found = snippet.rand_at(torch.tensor([5145262111, 9297664], device=device), torch.tensor(0, device=device))
    assert found[0] == 0 and found[1] == 1 - 2**-24


@pytest.mark.parametrize("block_size", [4, 8, 1024])
def test_the_same_mask_by_any_block(device, block_size):
    n = min(3 * block_size + 3, 600)
    x = torch.randn(n, generator=torch.Generator().manual_seed(0)).to(device)
    out = snippet.plain_dropout(x, 0.4, torch.tensor(3, device=device), block_size=block_size)
    keep = torch.from_numpy(uniform(philox(3, np.arange(n))[:, 0]) >= np.float32(0.4)).to(device)
    assert torch.allclose(out, torch.where(keep, x / 0.6, 0))


@pytest.mark.parametrize("n", [1, 5, 8, 9])
def test_nothing_else_is_touched(device, n):
    x, u, out = (guarded((n,), torch.float32, device) for _ in range(3))
    offsets, seed = guarded((n,), torch.int64, device), guarded((), torch.int64, device)
    x.tensor.fill_(1), offsets.tensor.copy_(torch.arange(n)), seed.tensor.fill_(5)
    of_seed = lambda found: found.tolist() == [seed.tensor.data_ptr()]
    for function, source, result, programs in (
        (lambda: snippet.plain_dropout(x.tensor, 0.5, seed.tensor, block_size=4), x, out, snippet.triton.cdiv(n, 4)),
        (lambda: snippet.rand_at(offsets.tensor, seed.tensor), offsets, u, 1),
    ):
        seen = recorded_accesses() if device == "cpu" else contextlib.nullcontext()
        name = "empty_like" if result is out else "empty"
        with handed_out(name, result.tensor), seen as accesses:
            function()
        for buffer in (x, u, out, offsets, seed):
            buffer.check("a tensor")
        if device == "cpu":
            check_each_once(accesses, "store", result=result.tensor)
            check_each_once([each for each in accesses if not of_seed(each[1])], "load", source=source.tensor)
            assert len([found for _, found in accesses if of_seed(found)]) == programs
    assert torch.equal(out.tensor > 0, u.tensor >= 0.5)


def test_where_u_is_0_nothing_is_dropped_at_p_0():
    """The element whose u is 0."""
    x, out, seed, element = torch.zeros(1), torch.zeros(1), torch.tensor(0), 5145262111
    pid, lane = element // 1024, element % 1024
    for p, kept in ((0.0, 1.0), (2.0**-40, 0.0)):
        with recorded_accesses(first_program=(pid, 0, 0)), ones_from_anywhere(seed) as stored:
            snippet.dropout_kernel[(1,)](x, out, seed, element + 1, p, 1.0, BLOCK_SIZE=1024)
        ((_, values),) = stored
        assert len(values) == lane + 1 and values[-1] == kept and (values[:-1] == 1).all()


@pytest.mark.parametrize("first", [2**31, 2**32 - 1024, 2**32])
def test_elements_beyond_32_bits(first):
    """Of the program that begins there, told of more elements than there are: addresses, and the mask."""
    x, out, seed = torch.zeros(1), torch.zeros(1), torch.tensor(9)
    n, block = first + 1024, 1024
    keep = uniform(philox(9, np.arange(first, n))[:, 0]) >= 0.5
    launch = lambda: snippet.dropout_kernel[(1,)](x, out, seed, n, 0.5, 2.0, BLOCK_SIZE=block)
    with recorded_accesses(first_program=(first // block, 0, 0), memory=False) as accesses:
        launch()
    begins = [((found - base.data_ptr()) // 4).tolist() for _, found in accesses for base in (x, out)]
    assert begins.count(list(range(first, n))) == 2
    with recorded_accesses(first_program=(first // block, 0, 0)), ones_from_anywhere(seed) as stored:
        launch()
    ((addresses, values),) = stored
    assert (addresses - out.data_ptr()).tolist() == [4 * i for i in range(first, n)]
    assert ((values > 1) == keep).all()


def test_compiles_to_wide_loads_and_a_run_of_philox_for_each_element():
    code = "module.plain_dropout(torch.empty(2**16, dtype=torch.bfloat16), 0.1, torch.tensor(0))"
    (launch,) = compiled("fusion/dropout_plain", code)
    assert (launch.widest("LDG"), launch.widest("STG"), launch.spills) == (128, 128, 0)
    assert "BAR.SYNC" not in launch.sass
    assert len(re.findall(r"IMAD\.HI", launch.sass)) >= 12 * A_THREAD
