# SPDX-License-Identifier: Apache-2.0
"""Without a mask along K the product is right where K fills its steps, and else only if zeros lie behind."""

import pytest

from snippets.matmul.naive_tuned_bug import TILE, product


@pytest.mark.parametrize("M, N, K", [(100, 40, 96), (1, 33, 64), (64, 32, 33), (7, 5, 1)])
def test_what_lies_behind_decides(device, M, N, K):
    for behind in (0.0, 7.0):
        result, right = product(M, N, K, behind, device)
        assert (result == right).all().item() == (K % TILE["BLOCK_K"] == 0 or behind == 0)
