# SPDX-License-Identifier: Apache-2.0
"""The three wrong ones are wrong in just the way that the file's docstring says, and in no other."""

import pytest
import torch

from snippets.fusion import dropout_bug as bug
from snippets.fusion.dropout_plain import plain_dropout


def kept(kernel, n, block_size, device, p=0.4, seed=2):
    return bug.dropped(kernel, torch.ones(n, device=device), p, seed, block_size) > 0


def right(n, device, p=0.4, seed=2):
    """By ``tl.rand`` of the element's index."""
    return plain_dropout(torch.ones(n, device=device), p, torch.tensor(seed, device=device), block_size=1024) > 0


def test_all_programs_drop_the_same(device):
    mask = kept(bug.offsets_bug, 10 * 64, 64, device).view(10, 64)
    assert (mask == mask[0]).all() and torch.equal(mask[0], right(64, device))


def test_one_program_drops_as_it_should(device):
    assert torch.equal(kept(bug.offsets_bug, 700, 1024, device), right(700, device))


def test_the_share_that_each_keeps_is_right(device):
    for kernel in (bug.offsets_bug, bug.pid_bug):
        share = kept(kernel, 2**14, 2**13, device).double().mean().item()
        assert share == pytest.approx(0.6, abs=0.02)


def test_another_block_another_mask(device):
    n = 1000
    masks = {block: kept(bug.pid_bug, n, block, device) for block in (256, 512, 1024)}
    assert torch.equal(masks[256][:256], masks[1024][:256]) and torch.equal(masks[1024], right(n, device))
    for one, other, first in ((256, 512, 256), (512, 1024, 512)):
        differ = (masks[one] != masks[other])[first:].double().mean().item()
        assert differ == pytest.approx(2 * 0.4 * 0.6, abs=0.1)  # as often as by chance


def test_a_backward_with_another_block_is_no_gradient(device):
    """Where the forward dropped, it has gradients; a step moves x, and out does not follow."""
    forward, backward = (kept(bug.pid_bug, 1000, block, device) for block in (64, 128))
    assert (backward & ~forward).sum() > 100


def test_layers_with_one_seed_keep_the_same(device):
    x = torch.ones(3000, device=device)
    out, once = bug.layers_bug(x, 0.1, 0, 4), bug.layers_bug(x, 0.1, 0, 1)
    assert torch.equal(out > 0, once > 0)
    assert out.mean().item() == pytest.approx(0.9 / 0.9**4, rel=0.02)


def test_layers_with_a_seed_each_keep_the_mean(device):
    out = bug.layers_right(torch.ones(10_000, device=device), 0.1, 0, 4)
    assert out.mean().item() == pytest.approx(1, abs=0.03)
    assert (out > 0).double().mean().item() == pytest.approx(0.9**4, abs=0.02)


def test_every_wrong_one_is_tested_here():
    assert {name for name in vars(bug) if name.endswith("bug")} == {"offsets_bug", "pid_bug", "layers_bug"}
