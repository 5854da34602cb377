# SPDX-License-Identifier: Apache-2.0
"""What the small example says is kept after each tile is online softmax, and ends in what attention returns."""

import math

import pytest
import torch

from snippets.fusion import attention_tiles as snippet
from snippets.fusion.attention import attention


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("query", range(8))
def test_what_is_kept_is_that_of_the_keys_so_far(query, causal, device):
    seen = snippet.SCORES[query][: query + 1] if causal else snippet.SCORES[query]
    kept = snippet.states(query, causal, device)
    for n, (maximum, total, accumulator) in kept:
        weights = [math.exp(score - maximum) for score in seen[:n]]
        assert maximum == max(seen[:n]) and math.isclose(total, sum(weights), rel_tol=1e-5)
        assert math.isclose(accumulator, sum(w * (i + 1) for i, w in enumerate(weights)), rel_tol=1e-5)
    q, k, v = snippet.example(device)
    assert math.isclose(
        accumulator / total, attention(q, k, v, causal=causal, scale=1.0)[0, 0, query, 0].item(), rel_tol=1e-4
    )


@pytest.mark.parametrize("block", [1, 2, 4, 16])
def test_the_online_softmax_of_one_query(device, block):
    scores, values = snippet.toy(device)
    for n in range(1, 13):
        maximum, total, accumulator = snippet.state(scores, values, n, block)
        seen = scores[:n].double()
        weights = (seen - seen.max()).exp()
        assert maximum == seen.max()
        assert math.isclose(total, weights.sum().item(), rel_tol=1e-6)
        assert math.isclose(accumulator, (weights * values[:n].double()).sum().item(), rel_tol=1e-6)
        if block == 4:  # what lies behind them is not read
            behind = [torch.cat([x[:n], x.new_full((8,), math.nan)]) for x in (scores, values)]
            assert snippet.state(*behind, n, block) == [maximum, total, accumulator]
    assert snippet.state(scores, values, 0, block) == [-math.inf, 0.0, 0.0]


def test_with_the_causal_mask_ten_of_sixteen_tiles_are_gone_through(device):
    tiles = {(query // 2, n) for query in range(8) for n, _ in snippet.states(query, True, device)}
    assert len(tiles) == 10


def test_the_scores_come_from_queries_and_keys(device):
    q, k, _ = snippet.example(device)
    assert torch.equal((q @ k.mT)[0, 0], torch.tensor(snippet.SCORES, dtype=torch.float32, device=device))
