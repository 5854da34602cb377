# SPDX-License-Identifier: Apache-2.0
"""The steps of cross-entropy by hand are those of the kernel, and the comparison with torch tells what differs."""

import math

import pytest
import torch

from snippets.fusion import cross_entropy_steps as steps
from snippets.fusion.cross_entropy import cross_entropy, toy


def test_by_hand_as_the_kernels(device):
    logits, target = toy(device)
    found = steps.by_hand(logits[0].tolist(), target[0].item())
    x = logits[:1].requires_grad_()
    loss = cross_entropy(x, target[:1])
    (grad,) = torch.autograd.grad(loss, x)
    assert found["loss"] == pytest.approx(loss.item())
    assert found["gradient of the target"] == pytest.approx(grad[0, 1].item())
    assert found["gradient of the last"] == pytest.approx(grad[0, 3].item())
    assert found["loss"] == pytest.approx(-math.log(found["share of the target"]))


def test_as_torch_tells_what_differs(device):
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0)).to(device).requires_grad_()
    target = torch.zeros(3, dtype=torch.int64, device=device)
    theirs = lambda x: steps.in_torch(x, target)
    assert steps.as_torch(lambda x: cross_entropy(x, target), theirs, [x])
    assert not steps.as_torch(lambda x: 1.01 * cross_entropy(x, target), theirs, [x])
    assert not steps.as_torch(lambda x: cross_entropy(x.detach(), target) + 0 * x.sum(), theirs, [x])
