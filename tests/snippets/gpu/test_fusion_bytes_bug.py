# SPDX-License-Identifier: Apache-2.0
"""The relu in the loop is right for one step and wrong for two, as the page says."""

import torch

from snippets.gpu import fusion_bytes_bug as bug


def whole(*shape, device):
    return torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(0)).float().to(device)


def test_right_as_long_as_one_step_is_enough(device):
    for M, N, K in ((1, 2, 16), (16, 16, 16), (3, 5, 7)):
        x, w = whole(M, K, device=device), whole(K, N, device=device)
        assert torch.equal(bug.run(x, w), torch.relu(x @ w))


def test_wrong_beyond(device):
    x, w = whole(16, 33, device=device), whole(33, 16, device=device)
    stored, right = bug.run(x, w), torch.relu(x @ w)
    assert not torch.equal(stored, right)
    assert (stored >= right).all(), "what was below zero has been forgotten, so nothing is too small"


def test_what_the_page_shows(device, capsys):
    bug.main()
    assert capsys.readouterr().out.splitlines() == [
        "K = 16: relu(x @ w) is [0.0, 16.0], stored was [0.0, 16.0]",
        "K = 32: relu(x @ w) is [0.0, 0.0], stored was [16.0, 0.0]",
    ]
