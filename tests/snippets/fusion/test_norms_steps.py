# SPDX-License-Identifier: Apache-2.0
"""The steps by hand are those of the kernels."""

import torch

from snippets.fusion import norms_steps as snippet
from snippets.fusion.norms import rms_norm, toy


def test_by_hand_as_the_kernels(device):
    x, weight, grad = toy(device)
    steps = snippet.by_hand(*(each.tolist() for each in (x[0], weight, grad[0])))
    x.requires_grad_()
    out = rms_norm(x, weight, 0.0)
    (grad_x,) = torch.autograd.grad(out, x, grad)
    found = [out[0, -1], grad_x[0, -1], grad_x[0, -2]]
    assert [round(each.item(), 6) for each in found] == [1.0, 0.02, -0.032]
    assert [round(steps[each], 6) for each in ("out", "grad_x", "grad_x, the fourth")] == [1.0, 0.02, -0.032]
