# SPDX-License-Identifier: Apache-2.0
"""The statistic of four neighbors sees what is not random."""

import torch

from snippets.fusion import dropout_steps as snippet
from snippets.fusion.dropout import forward


def test_chi_square_sees_what_is_not_random():
    keep = forward(torch.ones(2**17), None, torch.tensor(0), 0.5, block_size=2**15) > 0
    assert snippet.chi_square_of_neighbors(keep[::2].repeat_interleave(2), 0.5) > 1e4
    assert snippet.chi_square_of_neighbors(keep, 0.49) > 40
    exact = torch.tensor([[i >> b & 1 for b in range(4)] for i in range(16)]).bool().flatten()
    assert snippet.chi_square_of_neighbors(exact, 0.5) == 0
