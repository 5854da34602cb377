# SPDX-License-Identifier: Apache-2.0
"""The three wrong kernels are wrong in just the way that the file's docstring says, and in no other."""

from pathlib import Path

import pytest
import torch
from guards import environment

from snippets.fusion import norms_bug as bug
from snippets.library.norms import layer_norm
from tests.processes import run_script

SOURCE = Path(bug.__file__)


def numbers(*shape, device, shift=0.0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device) + shift


@pytest.mark.parametrize("columns", [3, 5, 8, 31, 32])
def test_lanes_that_are_off_count_in_the_variance(device, columns):
    """Each of them as the mean squared: nothing where no lane is off."""
    x = numbers(4, columns, device=device, shift=2.0)
    off = bug.triton.next_power_of_2(columns) - columns
    mean = x.mean(dim=1, keepdim=True)
    variance = x.var(dim=1, keepdim=True, correction=0) + off / columns * mean**2
    found = bug.normalized(bug.lanes_bug, x)
    assert torch.allclose(found, (x - mean) / (variance + 1e-5).sqrt(), rtol=1e-4, atol=1e-5)
    assert torch.allclose(found, layer_norm(x, torch.ones_like(x[0])), atol=1e-4) == (off == 0)


def test_lanes_are_right_where_the_mean_is_0(device):
    x = torch.tensor([[-1.0, 0.0, 1.0]], device=device)
    assert torch.allclose(bug.normalized(bug.lanes_bug, x), layer_norm(x, torch.ones_like(x[0])))


def test_squares_are_right_near_0_and_wrong_far_from_it(device):
    x = numbers(4, 300, device=device)
    weight = torch.ones_like(x[0])
    far = x + 30_000
    assert torch.allclose(bug.normalized(bug.squares_bug, x), layer_norm(x, weight), atol=1e-4)
    wrong = (bug.normalized(bug.squares_bug, far) - layer_norm(far, weight)).abs()
    assert not (wrong.amax(dim=1) < 0.1).any()


def test_the_sum_depends_on_the_order():
    x, grad = numbers(2, 64, 100, device="cpu")
    one, other = (bug.weight_gradient(grad, x, backwards) for backwards in (False, True))
    assert torch.allclose(one, other, atol=1e-4) and not torch.equal(one, other)
    assert torch.equal(one, bug.weight_gradient(grad, x, False))  # the interpreter has one order
    exact = (x.double() * grad.double()).sum(dim=0)
    assert torch.allclose(one.double(), exact, atol=1e-4)


def test_prints_what_the_page_shows(device):
    done = run_script(SOURCE, env=environment(device))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:10] == [
        "## lanes",
        "layer_norm:  -1.500  -0.500   0.000   0.500   1.500",
        "lanes_bug:   -0.688  -0.229   0.000   0.229   0.688",
        "8 columns, as layer_norm: True",
        "## squares",
        "x + 0:",
        "  layer_norm:   -1.500  -0.500   0.000   0.500   1.500",
        "  squares_bug:  -1.500  -0.500   0.000   0.500   1.500",
        "x + 10000:",
        "  layer_norm:   -1.500  -0.500   0.000   0.500   1.500",
    ]
    assert lines[10].startswith("  squares_bug:  -1.") and lines[10].split()[1:] != lines[9].split()[1:]
    if device == "cpu":  # a GPU has an order of its own, and rounds products and sums in one
        assert lines[10] == "  squares_bug:  -1.061  -0.354   0.000   0.354   1.061"
        assert lines[14:] == [
            "## order",
            "first to last: 0.0",
            "last to first: 1.0",
            "of 781 sums of 64 rows differ: 662",
        ]


def test_every_wrong_one_is_tested_here():
    assert {name for name in vars(bug) if name.endswith("bug")} == {"lanes_bug", "squares_bug", "atomic_bug"}
