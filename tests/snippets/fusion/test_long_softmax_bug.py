# SPDX-License-Identifier: Apache-2.0
"""The two wrong kernels are wrong in just the way that the file's docstring says, and in no other."""

import pytest
import torch

from snippets.fusion import long_softmax_bug as bug

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy in the interpreter: inf - inf


def rows(device, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device)


def right(x):
    return torch.softmax(x, dim=1)


def test_without_rescaling_rows_whose_maximum_is_not_in_the_first_block_are_too_small(device):
    x = rows(device, 60, 11)
    shares = bug.launched(bug.no_rescale_bug, x, 4)
    grows = x.argmax(dim=1) >= 4
    assert 10 < grows.sum() < 50
    assert torch.allclose(shares[~grows], right(x)[~grows])
    factor = shares[grows] / right(x)[grows]
    assert torch.allclose(factor, factor[:, :1].expand_as(factor)), "all shares of a row by the same"
    assert (factor < 0.999).all() and torch.allclose(shares[grows].sum(dim=1), factor[:, 0])


def test_without_rescaling_descending_rows_and_single_blocks_are_right(device):
    x = rows(device, 9, 11)
    descending, ascending = x.sort(dim=1, descending=True).values, x.sort(dim=1).values
    assert torch.allclose(bug.launched(bug.no_rescale_bug, descending, 4), right(descending))
    assert torch.allclose(bug.launched(bug.no_rescale_bug, x, 16), right(x))
    assert (bug.launched(bug.no_rescale_bug, ascending, 4).sum(dim=1) < 0.9).all()


def test_beginning_with_minus_infinity_only_rows_that_begin_with_a_block_of_it_are_nan(device):
    x = rows(device, 6, 11)
    x[1, :4] = x[2, :9] = -float("inf")
    x[3, :3] = x[4, 4:] = x[5, 1::2] = -float("inf")
    shares = bug.launched(bug.minus_infinity_bug, x, 4)
    assert shares.isnan().all(dim=1).tolist() == [False, True, True, False, False, False]
    assert torch.allclose(shares[[0, 3, 4, 5]], right(x)[[0, 3, 4, 5]])
    assert not right(x).isnan().any()


def test_every_wrong_kernel_is_tested_here():
    kernels = {name for name, value in vars(bug).items() if hasattr(value, "fn") and name.endswith("_bug")}
    assert kernels == {"no_rescale_bug", "minus_infinity_bug"}
