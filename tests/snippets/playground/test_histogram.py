# SPDX-License-Identifier: Apache-2.0
"""Every number is counted, and no lane that is off."""

import pytest
import torch
import triton

from snippets.playground import histogram

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize(("n", "block"), [(14, 4), (100, 32)])
def test_numbers_are_counted(n, block):
    x = torch.randint(10, (n,), generator=torch.Generator().manual_seed(n)).to(DEVICE)
    counts = torch.zeros(10, dtype=torch.int32, device=DEVICE)
    histogram.histogram_kernel[(triton.cdiv(n, block),)](x, counts, n, BLOCK=block)
    assert torch.equal(counts, torch.bincount(x, minlength=10).int())
