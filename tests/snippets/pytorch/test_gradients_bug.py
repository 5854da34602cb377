# SPDX-License-Identifier: Apache-2.0
"""The bug's backward reads beyond the one number that ``sum`` hands it; with its strides only that one is read."""

import pytest
import torch
from guards import recorded_accesses

from snippets.pytorch import gradients, gradients_bug


def read_of(grad: torch.Tensor, strides: tuple[int, int]) -> set[int]:
    with recorded_accesses() as accesses:
        gradients.scaled(grad, torch.ones(5), strides)
    loads = [addresses for op, addresses in accesses if op == "load"][::2]  # the others are of the weight
    return {int(address - grad.data_ptr()) // 4 for addresses in loads for address in addresses}


@pytest.mark.skipif(not gradients.INTERPRETED, reason="accesses are the interpreter's")
def test_what_is_read():
    grad = torch.ones(16)[:1].expand(3, 5)
    assert read_of(grad, (5, 1)) == {*range(15)} and read_of(grad, grad.stride()) == {0}


def test_what_sum_hands_over(capsys):
    gradients_bug.say(torch.ones(1).expand(3, 5))
    assert capsys.readouterr().out.splitlines() == [
        "shape of the gradient: (3, 5)",
        "strides of the gradient: (0, 0)",
        "numbers that it has in memory: 1",
    ]
