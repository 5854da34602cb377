# SPDX-License-Identifier: Apache-2.0
"""The average of three neighbors, as torch computes it; beyond the ends lie zeros."""

import pytest
import torch
import triton
from guards import Guarded, check_each_once, check_inside, recorded_accesses

from snippets.playground import average


@pytest.mark.parametrize(("n", "block"), [(1, 4), (10, 4), (17, 16)])
def test_each_number_becomes_the_average_of_three(n, block):
    numbers = torch.randn(n, generator=torch.Generator().manual_seed(n))
    x = Guarded.around(numbers, before=64, after=64, fill=0xFF)
    out = Guarded.around(torch.zeros(n), before=64, after=64, fill=0xFF)
    with recorded_accesses() as accesses:
        average.average_kernel[(triton.cdiv(n, block),)](x.tensor, out.tensor, n, BLOCK=block)
    wanted = torch.nn.functional.conv1d(numbers[None, None], torch.ones(1, 1, 3) / 3, padding=1)
    torch.testing.assert_close(out.tensor, wanted[0, 0])
    check_inside(accesses, "load", x=x.tensor)
    check_each_once(accesses, "store", out=out.tensor)
