# SPDX-License-Identifier: Apache-2.0
"""A mask by offset is wrong at the left and right edges alone, and the first inputs are not the last ones."""

import torch

from snippets.models import convolution_bug as snippet
from snippets.models.convolution import last_inputs
from snippets.models.stencil import blur


def test_only_the_edges_are_wrong(device):
    x = torch.rand(11, 13, generator=torch.Generator().manual_seed(0)).to(device)
    found, right = snippet.blur_bug(x), blur(x)
    assert torch.allclose(found[:, 1:-1], right[:, 1:-1], atol=1e-6)
    assert ((found - right)[1:-1, [0, -1]] > 1e-3).all()


def test_what_is_kept_is_right_for_a_text_no_longer_than_a_window():
    x = torch.arange(3.0).view(1, 1, 3)
    assert torch.equal(snippet.kept_bug(x, 4), last_inputs(x, 4))
    longer = torch.arange(5.0).view(1, 1, 5)
    assert not torch.equal(snippet.kept_bug(longer, 4), last_inputs(longer, 4))


def test_what_is_printed(capsys):
    snippet.main()
    said = capsys.readouterr().out
    assert "0 0 0 0 0 0 -> 1 0 0 0 0 0" in said, "the row below the blur has its light at the left edge"
    assert "with the last three: [6543, 7654, 8765]" in said and "with the first three:[6321" in said
