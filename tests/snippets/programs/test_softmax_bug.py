# SPDX-License-Identifier: Apache-2.0
"""The three wrong kernels are wrong in just the way that the file's docstring says, and in no other."""

import pytest
import torch

from snippets.programs import softmax_bug as bug

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy in the interpreter: inf, 0 / 0


def right(x):
    return torch.softmax(x, dim=1)


def test_without_the_maximum_large_numbers_become_nan(device):
    x = bug.rows_of_five(device, 0.0, -3.0, 1000.0)
    shares = bug.by_rows(bug.no_maximum_bug, x)
    assert torch.allclose(shares[:2], right(x)[:2]), "small numbers are right"
    assert shares[2].isnan().all()


def test_without_the_maximum_very_small_numbers_become_nan_too(device):
    assert bug.by_rows(bug.no_maximum_bug, bug.rows_of_five(device, -1000.0)).isnan().all()  # 0 / 0


def test_with_other_0_three_lanes_that_are_off_take_shares(device):
    x = bug.rows_of_five(device, 0.0, 1000.0, -1000.0)
    shares = bug.by_rows(bug.other_zero_bug, x)
    with_zeros = torch.cat([x, torch.zeros(3, 3, device=device)], dim=1)
    assert torch.allclose(shares, right(with_zeros)[:, :5])
    assert torch.allclose(shares[1], right(x)[1]) and not shares[2].any()


def test_with_other_0_full_blocks_are_right(device):
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0)).to(device)
    assert torch.allclose(bug.by_rows(bug.other_zero_bug, x), right(x))


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_two_rows_near_each_other_are_right(device, rows):
    x = torch.randn(rows, 5, generator=torch.Generator().manual_seed(rows)).to(device)
    assert torch.allclose(bug.by_two_rows(x), right(x))


def test_the_lower_of_two_rows_far_apart_becomes_nan(device):
    x = bug.rows_of_five(device, 0.0, 1000.0, 1000.0, 1000.0)
    shares = bug.by_two_rows(x)
    assert shares[0].isnan().all() and torch.allclose(shares[1:], right(x)[1:])


def test_every_wrong_kernel_is_tested_here():
    kernels = {name for name, value in vars(bug).items() if hasattr(value, "fn") and name.endswith("_bug")}
    assert kernels == {"no_maximum_bug", "other_zero_bug", "two_rows_bug"}
