# SPDX-License-Identifier: Apache-2.0
"""Rows that no expert has are left as they were, multiplying by 0 keeps their NaN, and so is their gradient."""

import torch

from snippets.models import experts_bug as snippet


def test_what_goes_wrong(capsys):
    snippet.main()
    lines = dict(line.split(": ") for line in capsys.readouterr().out.splitlines() if ":" in line)
    assert lines == {
        "rows with NaN": "4 5", "after multiplying by 0": "4 5", "after torch.where": "none",
        "in the gradient of the tokens": "4 5",
    }  # fmt: skip


def test_memory_is_poisoned_no_longer_than_needed():
    with snippet.poisoned_memory():
        assert torch.empty(5).isnan().all()
    assert not torch.are_deterministic_algorithms_enabled()
