# SPDX-License-Identifier: Apache-2.0
"""Losses: few of a peer's cases run small, and none is wrong; a fault is seen."""

import pytest
import torch

from snippets.library import peers_losses as snippet
from tests.snippets.library.peers import few_cases_are_right, sees_a_wrong_side

F32 = torch.float32
CALLS = {
    "loss": lambda: snippet.loss(5, 20, F32, class_weight=True, z_loss=1e-3, with_z_loss=True, with_accuracy=True),
    "loss, linear": lambda: snippet.loss(5, 20, F32, inner=7, bias=True, chunk=2, with_predicted=True),
}


@pytest.mark.parametrize("peer, name", snippet.PEERS)
def test_few_cases_of_each_are_right(peer, name):
    few_cases_are_right(snippet, peer, name)


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_side_is_seen(call, monkeypatch):
    sees_a_wrong_side(CALLS[call], snippet.losses, "in_torch", monkeypatch)
