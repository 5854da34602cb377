# SPDX-License-Identifier: Apache-2.0
"""A program that returns early leaves what the memory held; one that stores does not."""

import math

import pytest
import torch

from snippets.pytorch import early_return_bug as bug


@pytest.mark.parametrize("held", [0.0, 40.0, math.nan])
def test_what_is_left_of_the_memory(device, held):
    logits, target = bug.example()
    right = torch.nn.functional.cross_entropy(logits, target, ignore_index=-100).item()
    assert bug.mean_loss(logits, target, held, all_store=True) == pytest.approx(right)
    left = bug.mean_loss(logits, target, held, all_store=False)
    assert left == pytest.approx(right + held / 3, nan_ok=True), "of the three rows that count"
