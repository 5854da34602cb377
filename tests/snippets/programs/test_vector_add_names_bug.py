# SPDX-License-Identifier: Apache-2.0
"""The wrapper that takes X and Y and uses x and y: a NameError, or the sum of something else."""

from pathlib import Path

import pytest
import torch
from guards import environment

from snippets.programs import vector_add_names_bug as bug
from tests.processes import run_script


def test_raises(device):
    a = torch.arange(7.0, device=device)
    with pytest.raises(NameError, match="name 'x' is not defined"):
        bug.add_bug(a, a)


def test_adds_what_it_was_not_given(device, monkeypatch):
    a, other = torch.arange(7.0, device=device), torch.full((7,), 50.0, device=device)
    monkeypatch.setattr(bug, "x", other, raising=False)
    monkeypatch.setattr(bug, "y", other, raising=False)
    assert bug.add_bug(a, a).tolist() == [100.0] * 7 != (a + a).tolist()


def test_as_a_script(device):
    path = Path(bug.__file__)
    done = run_script(path, env=environment(device, PYTHONPATH=str(path.parents[2])))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "add_bug(a, a): NameError: name 'x' is not defined"
    assert "add_bug(a, a): [100.0, 100.0" in done.stdout
