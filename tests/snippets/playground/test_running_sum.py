# SPDX-License-Identifier: Apache-2.0
"""The total goes on from block to block."""

import pytest
import torch
from guards import Guarded, check_each_once, recorded_accesses

from snippets.playground import running_sum


@pytest.mark.parametrize(("n", "block"), [(10, 4), (1, 2), (33, 16)])
def test_each_number_is_the_sum_so_far(n, block):
    numbers = 1 + torch.arange(n).float()
    x = Guarded.around(numbers, before=64, after=64, fill=0xFF)
    out = Guarded.around(torch.zeros(n), before=64, after=64, fill=0xFF)
    with recorded_accesses() as accesses:
        running_sum.running_sum_kernel[(1,)](x.tensor, out.tensor, n, BLOCK=block)
    assert torch.equal(out.tensor, numbers.cumsum(dim=0))
    check_each_once(accesses, "load", x=x.tensor)
    check_each_once(accesses, "store", out=out.tensor)
