# SPDX-License-Identifier: Apache-2.0
"""The product of matrices whose sizes the tile divides."""

import pytest
import torch

from snippets.playground import matmul

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize(("m", "n", "k"), [(16, 32, 32), (32, 16, 64)])
def test_it_is_the_product(m, n, k):
    a, b = (
        torch.arange(rows * columns, device=DEVICE).reshape(rows, columns) % 7 for rows, columns in ((m, k), (k, n))
    )
    a, b = a.float(), b.float()  # small whole numbers, which TF32 holds, too
    c = torch.empty(m, n, device=DEVICE)
    matmul.matmul_kernel[(m // 16, n // 16)](a, b, c, n, k, TILE=16)
    assert torch.equal(c, a @ b)
