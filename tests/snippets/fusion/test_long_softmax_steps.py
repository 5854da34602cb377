# SPDX-License-Identifier: Apache-2.0
"""The steps by hand are those of the kernels, and the comparison with torch tells what differs."""

import math

import pytest
import torch

from snippets.fusion import long_softmax_steps as snippet
from snippets.fusion.long_softmax import softmax


def test_the_row_of_the_page(device):
    row = torch.tensor([1.0, 3.0, 2.0, 5.0], device=device)
    wanted = torch.softmax(row.double(), dim=0)
    first, both = snippet.running(row, 2)
    assert first == (3, pytest.approx(1 + math.exp(-2)))
    assert both == (5, pytest.approx(sum(math.exp(x - 5) for x in (1, 3, 2, 5))))
    steps = snippet.by_hand()
    assert steps["last share"] == pytest.approx(wanted[3].item())
    assert steps["its gradient for the last x"] == pytest.approx((wanted[3] * (1 - wanted[3])).item())
    assert steps["old sum, rescaled"] + steps["sum of the second block"] == steps["sum of both"]
    assert steps["sum of both"] == pytest.approx(both[1]) and steps["sum of the first block"] == pytest.approx(first[1])


def test_as_torch_tells_what_differs(device):
    x, grad = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0)).to(device)
    as_torch = lambda function: snippet.as_torch(snippet.with_gradient(function, x, grad), x, grad)
    assert as_torch(softmax)
    assert not as_torch(lambda x: 1.01 * softmax(x))
    assert not as_torch(lambda x: softmax(x.detach()) + 0 * x)
