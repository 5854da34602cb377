# SPDX-License-Identifier: Apache-2.0
"""Every side adds the same numbers, however long they are."""

import pytest
import torch

from snippets.pytorch import determinism_measured as measured


@pytest.mark.parametrize("side", measured.SIDES)
def test_a_side_is_the_sum(device, side):
    x = torch.randn(20_000, generator=torch.Generator().manual_seed(0)).to(device)
    torch.testing.assert_close(measured.SIDES[side](x).double(), x.double().sum(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("n", "block"), [(1, 1024), (2**22, 1024), (2**24, 4096), (2**28, 8192)])
def test_a_block_grows_with_the_sum(n, block):
    assert measured.block_for(torch.empty(n, device="meta")) == block
