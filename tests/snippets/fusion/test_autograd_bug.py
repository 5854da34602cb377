# SPDX-License-Identifier: Apache-2.0
"""The three wrong gradients are wrong in just the way that the file's docstring says, and in no other."""

from pathlib import Path

import pytest
import torch
from guards import environment

from snippets.fusion import autograd_bug as bug
from snippets.fusion.autograd import in_torch
from tests.processes import run_script

SOURCE = Path(bug.__file__)


def pair(device, *shape):
    random = torch.Generator().manual_seed(0)
    make = lambda: torch.randn(shape, generator=random, dtype=torch.float64).to(device).requires_grad_()
    return make(), make()


def test_without_the_slope_only_grad_x_is_wrong_and_not_at_0(device):
    x, y = bug.toy(device, 2.0, 0.0, -1.0), bug.toy(device, 3.0, 3.0, 3.0)
    found = torch.autograd.grad(bug.NoSlopeBug.apply(x, y).sum(), (x, y))
    right = torch.autograd.grad(in_torch(x, y).sum(), (x, y))
    assert torch.allclose(found[1], right[1])
    assert torch.allclose(found[0], y * torch.sigmoid(x))
    assert (found[0] - right[0]).abs().gt(0.1).tolist() == [True, False, True]


def test_gradcheck_catches_the_missing_slope(device):
    assert bug.gradcheck(bug.NoSlopeBug.apply, *pair(device, 5)).startswith("Jacobian mismatch for output 0")


def test_the_strided_bug_passes_gradcheck_and_sums_of_its_own_layout(device):
    x, y = pair(device, 3, 5)
    assert bug.gradcheck(bug.StridedBug.apply, x, y) == "True"
    weight = torch.randn(3, 5, dtype=torch.float64).to(device)
    found, right = (torch.autograd.grad((f(x, y) * weight).sum(), x)[0] for f in (bug.StridedBug.apply, in_torch))
    assert torch.allclose(found, right)


def test_the_strided_bug_gives_elements_the_gradients_of_others(device):
    x, y = pair(device, 3, 5)
    weight = torch.randn(5, 3, dtype=torch.float64).to(device)
    found, right = (torch.autograd.grad((f(x, y).t() * weight).sum(), x)[0] for f in (bug.StridedBug.apply, in_torch))
    slope = torch.autograd.grad(in_torch(x, y).sum(), x)[0]
    assert torch.allclose(right, slope * weight.t())
    assert torch.allclose(found, slope * weight.reshape(3, 5))


def test_the_penalty_is_left_out(device):
    x, y = bug.toy(device, 2.0), bug.toy(device, 3.0)
    first = torch.autograd.grad(in_torch(x, y), x)[0]
    assert torch.allclose(bug.with_penalty(bug.TwiceBug.apply, x, y), first)
    assert bug.with_penalty(in_torch, x, y) > first + 0.9
    with pytest.raises(RuntimeError, match="no gradient of its gradient"):
        bug.with_penalty(bug.silu_mul, x, y)


def test_prints_what_the_page_shows(device):
    done = run_script(SOURCE, env=environment(device))
    assert done.returncode == 0, done.stderr
    on = "" if device == "cpu" else ", device='cuda:0'"
    lines = done.stdout.replace(on, "").splitlines() if on else done.stdout.splitlines()
    assert [line.strip() for line in lines] == [
        "## no slope",
        "Jacobian mismatch for output 0 with respect to input 0,",
        "numerical:tensor([[3.2724, 0.0000],",
        "[0.0000, 1.5000]], dtype=torch.float64)",
        "analytical:tensor([[2.6424, 0.0000],",
        "[0.0000, 1.5000]], dtype=torch.float64)",
        "## strided",
        "gradcheck: True",
        "grad_x by torch: [[0.5, 100.0, 15000.0], [20.0, 2500.0, 300000.0]]",
        "grad_x by StridedBug: [[0.5, 10.0, 150.0], [2000.0, 25000.0, 300000.0]]",
        "## twice",
        "torch: 4.2553",
        "TwiceBug: 3.2724",
        "silu_mul: silu_mul has no gradient of its gradient, so it refuses create_graph=True, and torch.func.grad"
        " and vjp, which always ask for it; use torch.autograd.grad",
    ]


def test_every_wrong_one_is_tested_here():
    named = {name for name in vars(bug) if name.lower().endswith("bug")}
    assert named == {"no_slope_bug", "NoSlopeBug", "StridedBug", "TwiceBug"}
