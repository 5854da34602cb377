# SPDX-License-Identifier: Apache-2.0
"""Each of the three is wrong in just the way that the file's docstring says, and in no other."""

import pytest
import torch

from snippets.fusion import cross_entropy_bug as bug
from snippets.library.cross_entropy import cross_entropy, linear_cross_entropy


def layer(device):
    random = torch.Generator().manual_seed(0)
    hidden, weight = (torch.randn(n, 4, generator=random).to(device).requires_grad_() for n in (5, 9))
    return hidden, weight, torch.tensor([0, 8, 3, 3, 1], device=device)


def gradients(function, device, grad_loss):
    hidden, weight, target = layer(device)
    losses = function(hidden, weight, target)
    return losses.detach(), *torch.autograd.grad(losses, (hidden, weight), grad_loss)


def right(hidden, weight, target):
    return linear_cross_entropy(hidden, weight, target, reduction="none")


def test_scaled_afterwards_the_gradient_of_the_weight_is_wrong_unless_all_rows_are_scaled_alike(device):
    for grad_loss, alike in ((torch.full((5,), 3.0), True), (torch.arange(1.0, 6.0), False)):
        found, wanted = (gradients(f, device, grad_loss.to(device)) for f in (bug.LinearCrossEntropyBug.apply, right))
        for a, b in zip(found[:2], wanted[:2], strict=True):
            assert torch.allclose(a, b, atol=1e-6)
        assert torch.allclose(found[2], wanted[2], atol=1e-5) == alike


def test_no_number_repairs_it(device):
    """The least squares, over all numbers."""
    grad_loss = torch.arange(1.0, 6.0).to(device)
    *_, wrong = gradients(bug.LinearCrossEntropyBug.apply, device, grad_loss)
    *_, wanted = gradients(right, device, grad_loss)
    best = wrong * (wrong * wanted).sum() / wrong.square().sum()
    assert (best - wanted).norm() > 0.1 * wanted.norm()


@pytest.mark.parametrize("columns", [5, 700])
def test_read_too_late_the_loss_is_off_by_what_the_gradient_is_less_than_the_logit(device, columns):
    logits = torch.randn(3, columns, generator=torch.Generator().manual_seed(0)).to(device)
    target = torch.tensor([0, columns - 1, 2], device=device)
    leaf = logits.clone().requires_grad_()
    losses = cross_entropy(leaf, target, reduction="none")
    losses.sum().backward()
    written = logits.clone()
    found = bug.late_bug(written, target)
    assert torch.allclose(written, leaf.grad, atol=1e-6), "the gradient is right"
    at = lambda x: x.gather(1, target[:, None])[:, 0]
    assert torch.allclose(found, losses.detach() + at(logits) - at(leaf.grad), atol=1e-5)


def test_divided_in_the_forward_only_what_is_small_is_wrong(device):
    random = torch.Generator().manual_seed(0)
    for columns, count, alike in ((2**15, 4096, False), (16, 2, True)):
        logits = torch.randn(2, columns, generator=random).half().to(device)
        given = logits, torch.tensor([0, 1], device=device), torch.tensor(count, device=device)
        found, wanted = (
            f(*given, torch.tensor(65536.0 / 2**12, device=device)) for f in (bug.too_small_bug, bug.as_it_should_be)
        )
        assert torch.allclose(found, wanted, rtol=0.01, atol=0) == alike
        leaf = logits.double().requires_grad_()
        (cross_entropy(leaf, given[1], reduction="sum") / count * (65536.0 / 2**12)).backward()
        assert torch.allclose(wanted.double(), leaf.grad, rtol=2e-3, atol=1e-7)


def test_every_wrong_kernel_is_tested_here():
    kernels = {name for name, value in vars(bug).items() if hasattr(value, "fn") and name.endswith("_bug")}
    assert kernels == {"late_kernel_bug"}
