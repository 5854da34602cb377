# SPDX-License-Identifier: Apache-2.0
"""Norms and gates: few of a peer's cases run small, and none is wrong; a fault is seen."""

import pytest
import torch

from snippets.library import peers_norms as snippet
from tests.snippets.library.peers import few_cases_are_right, sees_a_wrong_side

F32 = torch.float32
CALLS = {
    "norm": lambda: snippet.norm(5, 20, F32, residual_dtype=F32, layer=True, bias=True, offset=1.0),
    "gate": lambda: snippet.gate(5, 8, F32, alpha=1.702, limit=7.0, interleaved=True, one=True),
    "gate, none": lambda: snippet.gate(5, 8, F32, activation="relu2", gated=False),
}


@pytest.mark.parametrize("peer, name", snippet.PEERS)
def test_few_cases_of_each_are_right(peer, name):
    few_cases_are_right(snippet, peer, name)


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_side_is_seen(call, monkeypatch):
    module = snippet.norms if call == "norm" else snippet.swiglu
    sees_a_wrong_side(CALLS[call], module, "in_torch", monkeypatch)
