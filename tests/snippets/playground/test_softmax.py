# SPDX-License-Identifier: Apache-2.0
"""Each row sums to 1, as torch computes it."""

import pytest
import torch
from guards import Guarded, check_each_once, recorded_accesses

from snippets.playground import softmax


@pytest.mark.parametrize(("rows", "columns"), [(2, 6), (3, 8), (1, 1)])
def test_a_row_becomes_its_softmax(rows, columns):
    numbers = 100 * torch.randn(rows, columns, generator=torch.Generator().manual_seed(columns))
    x = Guarded.around(numbers, before=64, after=64, fill=0xFF)
    out = Guarded.around(torch.zeros_like(numbers), before=64, after=64, fill=0xFF)
    with recorded_accesses() as accesses:
        softmax.softmax_kernel[(rows,)](x.tensor, out.tensor, columns, BLOCK=8)
    torch.testing.assert_close(out.tensor, torch.softmax(numbers, dim=1))
    check_each_once(accesses, "load", x=x.tensor)
    check_each_once(accesses, "store", out=out.tensor)
