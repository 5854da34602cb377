# SPDX-License-Identifier: Apache-2.0
"""A ragged descriptor gives the rows of a sequence and zeros; a plain one goes on into the next sequence."""

import pytest
import torch

from snippets.fusion.ragged import load

LENGTHS = (5, 0, 1, 16, 7)


@pytest.mark.parametrize("ragged", [True, False])
@pytest.mark.parametrize("height", [1, 8])
def test_every_tile_of_every_sequence(ragged, height, device):
    x = 1 + torch.rand(sum(LENGTHS), 16, device=device)
    begin = 0
    for rows in LENGTHS:
        for first in range(0, rows + 1, height):
            end = begin + rows if ragged else len(x)
            expected = torch.zeros(height, 16, device=device)
            there = x[begin + first : min(begin + first + height, end)]
            expected[: len(there)] = there
            assert torch.equal(load(x, begin, rows, first, height, ragged), expected)
        begin += rows


@pytest.mark.parametrize(
    "wrong", [{"height": 3}, {"height": 512}, {"first": 4}, {"begin": -1}, {"rows": 9}, {"x": torch.ones(8, 6)},
              {"x": torch.ones(8, 2)}, {"x": torch.ones(4, 8).t()}, {"x": torch.ones(8)}],
)  # fmt: skip
def test_refused(wrong):
    with pytest.raises(ValueError, match=r"must be|no such rows"):
        load(**{"x": torch.ones(8, 4), "begin": 1, "rows": 3, "first": 0, "height": 4} | wrong)
