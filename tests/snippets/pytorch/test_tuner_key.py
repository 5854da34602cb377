# SPDX-License-Identifier: Apache-2.0
"""The result names the configuration that ran, and within an operator each length has its own."""

import contextlib

import pytest
import torch
from guards import Guarded, check_each_once, recorded_accesses

from snippets.pytorch import tuner_key as snippet


@pytest.mark.parametrize("n, programs", [(1, 1), (16, 1), (21, 2), (40, 2)])
def test_every_element_says_how_many_programs(device, n, programs):
    out = Guarded((n,), torch.int32, device, before=64, after=64, fill=0xFF)
    with recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses:
        snippet.say_programs_kernel.fn[(programs,)](out.tensor, n, PROGRAMS=programs, BLOCK=8)
    if accesses:
        check_each_once(accesses, "store", out=out.tensor)
    out.check("out")
    assert out.tensor.eq(programs).all()


def test_the_operator_keeps_its_promises(device, monkeypatch):
    monkeypatch.setattr(snippet.say_programs_kernel, "configs", snippet.CONFIGS[:1])  # nothing to tune without a GPU
    snippet.say_programs_kernel.cache.clear()
    x = torch.zeros(20, dtype=torch.int32, device=device)
    assert snippet.closed(x).eq(1).all()
    torch.library.opcheck(snippet.closed, (x,))


@pytest.mark.gpu
def test_each_length_has_its_winner_in_an_operator():
    for how in ("eager", "compiled, in a custom_op"):
        snippet.say_programs_kernel.cache.clear()
        function = snippet.cases()[how]
        assert [snippet.chosen(function, n) for n in (snippet.SHORT, snippet.LONG)] == [1, 16384]
