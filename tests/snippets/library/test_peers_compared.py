# SPDX-License-Identifier: Apache-2.0
"""Comparing ours with torch: what is right agrees, and a fault in a result, a gradient or a shape is seen."""

import pytest
import torch

from snippets.library import peers_compared as compared

F32 = torch.float32
X = torch.linspace(-2, 2, 12).view(3, 4)


class WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2.01


def test_what_is_right_agrees():
    assert compared.agrees(lambda x: x * 2, lambda x: x + x, X)
    assert compared.agrees(lambda x: (x.sin(), x.argmax()), lambda x: (x.sin(), x.argmax()), X)
    assert compared.agrees(lambda x: x * 2, lambda x: x + x, X[:0])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x * 2.001,
        lambda x: (x * 2).flatten(),
        lambda x: x * 2 + 1e-3 * (x == x.max()),
        lambda x: torch.where(x == x.max(), torch.nan, x * 2),
        WrongGradient.apply,
    ],
    ids=["result", "shape", "one element", "NaN", "gradient"],
)
def test_what_is_wrong_does_not(wrong):
    assert not compared.agrees(wrong, lambda x: x * 2, X)


def test_a_place_that_differs_is_wrong():
    assert not compared.agrees(lambda x: x.argmax(), lambda x: x.argmin(), X)


def test_16_bits_are_judged_by_what_they_do_to_torch():
    x = torch.linspace(1, 9, 1000).half()
    difference = lambda x: (x + 100) - 100 - x  # 0, but rounded to steps of 1/16
    assert compared.agrees(lambda x: difference(x), difference, x, gradient=False)
    assert not compared.agrees(lambda x: difference(x) * 2.5, difference, x, gradient=False)
    assert not compared.agrees(lambda x: difference(x.half()).float(), difference, x.float(), gradient=False)


def test_only_an_error_of_ours_is_a_refusal():
    def refuse(x):
        raise ValueError("float32 is not served")

    with pytest.raises(compared.Refused, match="float32 is not served"):
        compared.agrees(refuse, lambda x: x, X)
    with pytest.raises(ValueError, match="float32"):
        compared.agrees(lambda x: x, refuse, X)
