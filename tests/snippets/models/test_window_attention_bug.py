# SPDX-License-Identifier: Apache-2.0
"""Each is wrong in the way that the page says, and right where it says so."""

import torch

from snippets.models import window_attention_bug as snippet


def test_a_loop_that_begins_too_late_loses_what_the_first_queries_of_a_tile_see():
    assert not snippet.wrong(128).any() and not snippet.wrong(33).any()
    lost = [query for query in range(128) if (query - 39) // 32 < (query // 32 * 32 + 31 - 39) // 32 and query >= 40]
    assert snippet.wrong(40).nonzero().flatten().tolist() == lost and len(lost) == 14


def test_one_more(capsys):
    snippet.main()
    printed = capsys.readouterr().out
    assert "window=(4, 0) there: False\nwindow=4 here is window=(3, 0) there: True" in printed
    assert torch.equal(snippet.example()[0], snippet.example()[0])
