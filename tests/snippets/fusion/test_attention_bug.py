# SPDX-License-Identifier: Apache-2.0
"""Each is wrong in the way that the page says, and right where it says so."""

import math

import pytest
import torch

from snippets.fusion import attention_bug as snippet
from snippets.fusion.attention import attention
from snippets.fusion.attention_tiles import online_softmax_kernel, toy

silent = pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of NumPy in the interpreter: -inf - -inf


def test_without_the_rescaling_old_values_weigh_too_much(device):
    scores, values = toy(device)
    wrong = snippet.result(snippet.no_rescale_bug, scores, values)
    # Of the first tile, at the maximum 3 instead of 5, all weights are e² times too large.
    weights = (scores - 5).exp()
    weights[:4] *= math.exp(2)
    assert math.isclose(wrong, (weights @ values / (scores - 5).exp().sum()).item(), rel_tol=1e-5)


@pytest.mark.parametrize("order", ["largest first", "one tile"])
def test_the_bug_hides_where_the_first_tile_has_the_maximum(device, order):
    scores, values = (x.roll(-4) if order == "largest first" else x[:4] for x in toy(device))
    found = snippet.result(snippet.no_rescale_bug, scores, values)
    assert math.isclose(found, (scores.softmax(0) @ values).item(), rel_tol=1e-5)


@silent
def test_a_first_tile_that_is_not_seen_makes_nan_without_the_guard(device):
    scores, values = toy(device)
    scores[:4] = -math.inf
    expected = (scores.softmax(0) @ values).item()
    assert math.isnan(snippet.result(online_softmax_kernel, scores, values))
    assert math.isclose(snippet.result(online_softmax_kernel, scores.flip(0), values.flip(0)), expected, rel_tol=1e-5)


def test_the_kernel_of_the_lesson_has_the_guard(device):
    q, k, v = (torch.ones(1, 1, rows, 16, device=device) for rows in (20, 3, 3))
    assert attention(q, k, v, causal=True)[0, 0, :, 0].tolist() == [0] * 17 + [1] * 3
