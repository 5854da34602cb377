# SPDX-License-Identifier: Apache-2.0
"""The wrapper that takes X and Y and uses x and y: a NameError, or the sum of something else."""

import pytest
import torch

from snippets.programs import vector_add_names_bug as bug


def test_raises(device):
    a = torch.arange(7.0, device=device)
    with pytest.raises(NameError, match="name 'x' is not defined"):
        bug.add_bug(a, a)


def test_adds_what_it_was_not_given(device, monkeypatch):
    a, other = torch.arange(7.0, device=device), torch.full((7,), 50.0, device=device)
    monkeypatch.setattr(bug, "x", other, raising=False)
    monkeypatch.setattr(bug, "y", other, raising=False)
    assert bug.add_bug(a, a).tolist() == [100.0] * 7 != (a + a).tolist()
