# SPDX-License-Identifier: Apache-2.0
"""The row does what its docstring says: the maximum grows in each block, and the shares are torch's."""

import itertools
import math

import torch

from snippets.fusion import long_softmax_blocks as snippet
from snippets.fusion.long_softmax import Plan, forward
from snippets.fusion.long_softmax_blocks import running


def test_the_maximum_grows_in_each_block_and_the_sum_is_of_all_before(device):
    row = torch.tensor(snippet.ROW, dtype=torch.float32, device=device)
    found = running(row, snippet.BLOCK)
    assert all(before < after for (before, _), (after, _) in itertools.pairwise(found))
    for i, (maximum, total) in enumerate(found, 1):
        seen = snippet.ROW[: snippet.BLOCK * i]
        assert maximum == max(seen)
        assert math.isclose(total, sum(math.exp(score - maximum) for score in seen), rel_tol=1e-5)


def test_the_shares_are_those_of_torch(device):
    row = torch.tensor(snippet.ROW, dtype=torch.float32, device=device)
    shares = forward(row[None], Plan("online", snippet.BLOCK, num_warps=1))[0]
    torch.testing.assert_close(shares, row.softmax(0))


def test_it_says_so(capsys):
    snippet.main()
    printed = capsys.readouterr().out
    assert "scores: 2 1 3 0 2 4 1 3 2 6 5 3\n" in printed and "as torch: True" in printed
