# SPDX-License-Identifier: Apache-2.0
"""Every number is counted, and no lane that is off."""

import pytest
import torch
import triton
from guards import Guarded, check_each_once, recorded_accesses

from snippets.playground import histogram


@pytest.mark.parametrize(("n", "block"), [(14, 4), (100, 32)])
def test_numbers_are_counted(n, block):
    numbers = torch.randint(10, (n,), generator=torch.Generator().manual_seed(n))
    x = Guarded.around(numbers, before=64, after=64, fill=0)
    counts = Guarded.around(torch.zeros(10, dtype=torch.int32), before=64, after=64, fill=0)
    with recorded_accesses() as accesses:
        histogram.histogram_kernel[(triton.cdiv(n, block),)](x.tensor, counts.tensor, n, BLOCK=block)
    assert torch.equal(counts.tensor, torch.bincount(numbers, minlength=10).int())
    check_each_once(accesses, "load", x=x.tensor)
    counts.check("the counts")
