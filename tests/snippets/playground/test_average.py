# SPDX-License-Identifier: Apache-2.0
"""The average of three neighbors, as torch computes it; beyond the ends lie zeros."""

import pytest
import torch
import triton

from snippets.playground import average

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize(("n", "block"), [(1, 4), (10, 4), (17, 16)])
def test_each_number_becomes_the_average_of_three(n, block):
    x = torch.randn(n + 2, generator=torch.Generator().manual_seed(n)).to(DEVICE)[1:-1]
    out = torch.full_like(x, float("nan"))
    average.average_kernel[(triton.cdiv(n, block),)](x, out, n, BLOCK=block)
    wanted = torch.nn.functional.conv1d(x[None, None], torch.ones(1, 1, 3, device=DEVICE) / 3, padding=1)
    torch.testing.assert_close(out, wanted[0, 0])
