# SPDX-License-Identifier: Apache-2.0
"""Each row sums to 1, as torch computes it."""

import pytest
import torch

from snippets.playground import softmax

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize(("rows", "columns"), [(2, 6), (3, 8), (1, 1)])
def test_a_row_becomes_its_softmax(rows, columns):
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(columns)).to(DEVICE)
    out = torch.empty_like(x)
    softmax.softmax_kernel[(rows,)](x, out, columns, BLOCK=8)
    torch.testing.assert_close(out, torch.softmax(x, dim=1))
