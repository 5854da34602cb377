# SPDX-License-Identifier: Apache-2.0
"""FlexAttention's lines mean what ours do, block masks hold the tiles that our kernel visits, and what it refuses."""

import pytest
import torch

from snippets.models import flex_attention as snippet
from snippets.models import window_attention_steps as steps
from snippets.models.window_attention import in_torch


@pytest.mark.parametrize("window", [1, 3, 8, 9, 16])
def test_a_block_mask_holds_the_tiles_that_our_kernel_visits(window):
    mask = snippet.create_block_mask(snippet.window_mod(window), None, None, 16, 16, "cpu", BLOCK_SIZE=2)
    masked = whole = 0
    for start, whole_begin, whole_end, end in steps.edges(16, window, causal=True):
        whole += (whole_end - whole_begin) // 2
        masked += (end - start) // 2 - (whole_end - whole_begin) // 2
    assert snippet.blocks_of(mask) == (masked, whole)
    picture = "".join(snippet.picture(mask))
    assert (picture.count("/"), picture.count("#"), picture.count("·")) == (masked, whole, 64 - masked - whole)


def test_sinks_after_the_fact():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 16, 8)
    sinks = torch.randn(2)
    mask = snippet.create_block_mask(snippet.window_mod(5), None, None, 16, 16, "cpu")
    found = snippet.with_sinks(snippet.flex_attention, q, k, v, sinks, block_mask=mask)
    assert torch.allclose(found.double(), in_torch(q, k, v, window=5, sinks=sinks), atol=1e-5)


def test_bytes_of_a_mask():
    mask = snippet.create_block_mask(snippet.window_mod(3), None, None, 16, 16, "cpu", BLOCK_SIZE=2)
    assert snippet.bytes_of(mask) == 4 * 4 * (8 + 64)  # of keys and of queries, masked and whole: counts and indices


def test_prints_what_is_refused(capsys):
    snippet.main()
    printed = capsys.readouterr().out
    assert printed.count(": True\n") == 4 and "visited with the mask: 7\nvisited without: 0\n" in printed
    assert printed.count("Error: ") == 4
