# SPDX-License-Identifier: Apache-2.0
"""Ordinary and programmatic edges are told apart."""

import ctypes

import pytest
import torch

from snippets.matmul.cublas_starts import CALLS, Edge, edges, row


def test_a_row_counts_both_kinds():
    assert row("16", [0, 1, 1]).split() == ["16", "1", "2"] and ctypes.sizeof(Edge) == 8


@pytest.mark.gpu
def test_ordinary_kernels_wait_for_each_other():
    x = torch.ones(1000, device="cuda")
    assert edges(lambda: x + x) == [0] * (CALLS - 1)


@pytest.mark.gpu
def test_a_kernel_launched_early_is_seen():
    from snippets.matmul import persistent

    a = torch.randn(1024, 1024, device="cuda", dtype=torch.float16)
    assert 1 in edges(lambda: persistent.matmul(a, a))
