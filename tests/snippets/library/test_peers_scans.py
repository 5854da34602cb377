# SPDX-License-Identifier: Apache-2.0
"""Scans: few of a peer's cases run small, and none is wrong; a fault is seen."""

import pytest
import torch

from snippets.library import peers_scans as snippet
from tests.snippets.library.peers import few_cases_are_right, sees_a_wrong_side

F32 = torch.float32
CALLS = {
    "sums": lambda: snippet.sums(2, 9, 4, F32, reverse=True),
    "recurrence": lambda: snippet.recurrence(2, 9, 4, F32),
}
SIDES = {
    "sums": (snippet.scan, "cumsum"),
    "recurrence": (snippet.scan, "in_torch"),
}


@pytest.mark.parametrize("peer, name", snippet.PEERS)
def test_few_cases_of_each_are_right(peer, name):
    few_cases_are_right(snippet, peer, name)


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_side_is_seen(call, monkeypatch):
    module, name = SIDES[call]
    sees_a_wrong_side(CALLS[call], module, name, monkeypatch)
