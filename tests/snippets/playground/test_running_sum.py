# SPDX-License-Identifier: Apache-2.0
"""The total goes on from block to block."""

import pytest
import torch

from snippets.playground import running_sum

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize(("n", "block"), [(10, 4), (1, 2), (33, 16)])
def test_each_number_is_the_sum_so_far(n, block):
    x = torch.arange(n, device=DEVICE).float()
    out = torch.empty_like(x)
    running_sum.running_sum_kernel[(1,)](x, out, n, BLOCK=block)
    assert torch.equal(out, x.cumsum(dim=0))
