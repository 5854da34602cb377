# SPDX-License-Identifier: Apache-2.0
"""Products and top-k: few of a peer's cases run small, and none is wrong; a fault is seen."""

import pytest
import torch

from snippets.library import peers_products as snippet
from tests.snippets.library.peers import few_cases_are_right, sees_a_wrong_side

F32 = torch.float32
CALLS = {
    "product": lambda: snippet.product(5, 7, 9, F32, a_transposed=True, out_transposed=1, c=True, beta=0.5),
    "layer": lambda: snippet.layer(5, 7, 9, F32, bias_dtype=F32, activation="silu", gated=True, strided=True),
    "best": lambda: snippet.best(3, 40, 7, F32, softmax=True),
}
SIDES = {
    "product": (snippet.products, "matmul"),
    "layer": (snippet.products, "in_torch"),
    "best": (snippet.topk, "in_torch"),
}


@pytest.mark.parametrize("peer, name", snippet.PEERS)
def test_few_cases_of_each_are_right(peer, name):
    few_cases_are_right(snippet, peer, name)


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_side_is_seen(call, monkeypatch):
    module, name = SIDES[call]
    sees_a_wrong_side(CALLS[call], module, name, monkeypatch)
