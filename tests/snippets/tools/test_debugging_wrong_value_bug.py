# SPDX-License-Identifier: Apache-2.0
"""The wrong softmax is wrong in the way that the page says, and its probe shows where that begins."""

import torch

from snippets.tools.debugging_wrong_value_bug import compare, main, softmax, softmax_kernel_bug


def test_wrong_only_where_lanes_are_off(device):
    x = torch.randn(3, 4, device=device)
    out, probe = softmax(softmax_kernel_bug, x, block=4)
    torch.testing.assert_close(out, torch.softmax(x, dim=1))
    out, probe = softmax(softmax_kernel_bug, x[:, :3].contiguous(), block=4)
    wrong = torch.softmax(x[:, :3], dim=1)
    assert ((out - wrong).abs() > 1e-3).any(dim=1).all()
    assert (probe[:, 2, 3] > 0).all(), "the lane that is off adds to the total"


def test_the_first_wrong_block_is_the_total(device, capsys):
    x = torch.tensor([[1.0, 2.0, 3.0], [6.0, 5.0, 4.0]], device=device)
    _, probe = softmax(softmax_kernel_bug, x)
    compare(probe, x)
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [
        ["x", "right"], ["largest", "right"], ["e", "right"], ["total", "wrong"],
    ]  # fmt: skip


def test_without_a_probe_it_computes_the_same(device):
    x = torch.randn(2, 5, device=device)
    out, _ = softmax(softmax_kernel_bug, x, block=8)
    alone = torch.empty_like(x)
    softmax_kernel_bug[(2,)](x, alone, 5, BLOCK=8)
    assert torch.equal(alone, out)


def test_prints_what_the_page_shows(capsys):
    main()
    printed = capsys.readouterr().out
    assert "e, row 0:    [0.135, 0.368, 1.0, 0.05]" in printed and "total    wrong by up to 0.050" in printed
