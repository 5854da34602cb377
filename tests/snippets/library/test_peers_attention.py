# SPDX-License-Identifier: Apache-2.0
"""Attention: few of a peer's cases run small, and none is wrong; a fault is seen."""

import pytest
import torch

from snippets.library import peers_attention as snippet
from tests.snippets.library.peers import few_cases_are_right, sees_a_wrong_side

F32 = torch.float32
CALLS = {
    "attention": lambda: snippet.attention(1, 2, 20, 16, F32, 9, kv_heads=1, window=True, alibi=True, sinks=True),
    "attention, packed": lambda: snippet.attention(2, 2, 20, 16, F32, 9, causal=True, packed=True, softcap=5.0),
    "decoding": lambda: snippet.decoding(2, 16, F32, batch=2, queries=1, keys=20, kv_heads=1, alibi=True),
    "decoding, pages": lambda: snippet.decoding(2, 16, F32, sequences=[(1, 20), (3, 9)], page_size=4, causal=True),
}


@pytest.mark.parametrize("peer, name", snippet.PEERS)
def test_few_cases_of_each_are_right(peer, name):
    few_cases_are_right(snippet, peer, name)


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_side_is_seen(call, monkeypatch):
    sees_a_wrong_side(CALLS[call], snippet.attentions, "in_torch", monkeypatch)
