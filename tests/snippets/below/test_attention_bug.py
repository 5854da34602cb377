# SPDX-License-Identifier: Apache-2.0
"""Attention whose products land too early is right, and refuses what the other does."""

import functools
from unittest import mock

import gluon_stand_in
import pytest
import torch
from stand_ins import Kernel

from snippets.below import attention, attention_bug
from snippets.below.attention_bug import landing, landing_kernel

HEAD = 64


def run(late, grid, *arguments, num_warps, **options):
    with mock.patch.object(attention_bug, "landing_kernel", landing_kernel):
        gluon_stand_in.run([attention_bug, attention], "landing_kernel", grid, *arguments, late=late, **options)


@pytest.mark.parametrize("late", [False, True])
def test_is_right_all_the_same(monkeypatch, late):
    monkeypatch.setattr(attention_bug, "landing_kernel", Kernel(functools.partial(run, late)))
    monkeypatch.setattr(attention_bug, "check_gpu", lambda device: None)
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 1, 300, HEAD, generator=random).bfloat16() for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double())
    torch.testing.assert_close(landing(q, k, v).double(), expected, atol=0.01, rtol=0)


def test_refuses():
    x = torch.zeros(1, 1, 8, HEAD).bfloat16()
    with pytest.raises(ValueError, match="must be on a Hopper GPU"):
        landing(x, x, x)
    with pytest.raises(ValueError, match="D must be 64 or 128"):
        landing(x[..., :32], x[..., :32], x[..., :32])
    with pytest.raises(SystemExit, match="no GPU found"):
        attention_bug.main()
