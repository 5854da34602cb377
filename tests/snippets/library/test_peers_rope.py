# SPDX-License-Identifier: Apache-2.0
"""RoPE: few of a peer's cases run small, and none is wrong; a fault is seen."""

import pytest
import torch

from snippets.library import peers_rope as snippet
from tests.snippets.library.peers import few_cases_are_right, sees_a_wrong_side

F32 = torch.float32
CALLS = {
    "rotary": lambda: snippet.rotary(2, 5, 2, 8, F32, kv_heads=1, offset="of each", of_one=True, in_place=True),
    "rotary, padded": lambda: snippet.rotary(2, 8, 2, 8, F32, left_pad=True, gradient=False),
    "rotary, packed": lambda: snippet.rotary(2, 5, 2, 8, F32, packed=True, interleaved=True),
}


@pytest.mark.parametrize("peer, name", snippet.PEERS)
def test_few_cases_of_each_are_right(peer, name):
    few_cases_are_right(snippet, peer, name)


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_side_is_seen(call, monkeypatch):
    sees_a_wrong_side(CALLS[call], snippet.rope, "in_torch", monkeypatch)
