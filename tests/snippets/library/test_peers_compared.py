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


CALLS = {
    "attention": lambda: compared.attention(1, 2, 20, 16, F32, 9, kv_heads=1, window=True, alibi=True, sinks=True),
    "attention, packed": lambda: compared.attention(2, 2, 20, 16, F32, 9, causal=True, packed=True, softcap=5.0),
    "decoding": lambda: compared.decoding(2, 16, F32, batch=2, queries=1, keys=20, kv_heads=1, alibi=True),
    "decoding, pages": lambda: compared.decoding(2, 16, F32, sequences=[(1, 20), (3, 9)], page_size=4, causal=True),
    "loss": lambda: compared.loss(5, 20, F32, class_weight=True, z_loss=1e-3, with_z_loss=True, with_accuracy=True),
    "loss, linear": lambda: compared.loss(5, 20, F32, inner=7, bias=True, chunk=2, with_predicted=True),
    "norm": lambda: compared.norm(5, 20, F32, residual_dtype=F32, layer=True, bias=True, offset=1.0),
    "rotary": lambda: compared.rotary(2, 5, 2, 8, F32, kv_heads=1, offset="of each", of_one=True, in_place=True),
    "rotary, padded": lambda: compared.rotary(2, 8, 2, 8, F32, left_pad=True, gradient=False),
    "rotary, packed": lambda: compared.rotary(2, 5, 2, 8, F32, packed=True, interleaved=True),
    "gate": lambda: compared.gate(5, 8, F32, alpha=1.702, limit=7.0, interleaved=True, one=True),
    "gate, none": lambda: compared.gate(5, 8, F32, activation="relu2", gated=False),
    "product": lambda: compared.product(5, 7, 9, F32, a_transposed=True, out_transposed=1, c=True, beta=0.5),
    "layer": lambda: compared.layer(5, 7, 9, F32, bias_dtype=F32, activation="silu", gated=True, strided=True),
    "best": lambda: compared.best(3, 40, 7, F32, softmax=True),
    "sums": lambda: compared.sums(2, 9, 4, F32, reverse=True),
    "recurrence": lambda: compared.recurrence(2, 9, 4, F32),
}


@pytest.mark.parametrize("call", CALLS)
def test_each_operation_agrees(call):
    torch.manual_seed(0)
    assert CALLS[call]()


@pytest.mark.parametrize(
    "call, module, name",
    [
        ("attention", compared.attentions, "in_torch"),
        ("attention, packed", compared.attentions, "in_torch"),
        ("decoding", compared.attentions, "in_torch"),
        ("decoding, pages", compared.attentions, "in_torch"),
        ("loss", compared.losses, "in_torch"),
        ("loss, linear", compared.losses, "in_torch"),
        ("norm", compared.norms, "in_torch"),
        ("rotary", compared.rope, "in_torch"),
        ("rotary, padded", compared.rope, "in_torch"),
        ("gate", compared.swiglu, "in_torch"),
        ("layer", compared.products, "in_torch"),
        ("best", compared.topk, "in_torch"),
        ("recurrence", compared.scan, "in_torch"),
    ],
)
def test_another_reference_disagrees(call, module, name, monkeypatch):
    right = getattr(module, name)

    def wrong(*given, **options):
        found = right(*given, **options)
        return tuple(1.01 * x for x in found) if isinstance(found, tuple) else 1.01 * found

    monkeypatch.setattr(module, name, wrong)
    torch.manual_seed(0)
    assert not CALLS[call]()
