# SPDX-License-Identifier: Apache-2.0
"""The result names the configuration that ran, and within an operator each length has its own."""

import contextlib

import pytest
import torch
from guards import Guarded, check_each_once, recorded_accesses

from snippets.pytorch import tuner_key as snippet


@pytest.mark.parametrize("n", [1, 16, 21])
def test_every_element_says_its_block(device, n):
    out = Guarded((n,), torch.int32, device, before=64, after=64, fill=0xFF)
    with recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses:
        snippet.say_block_kernel.fn[(-(-n // 8),)](out.tensor, n, BLOCK=8)
    if accesses:
        check_each_once(accesses, "store", out=out.tensor)
    out.check("out")
    assert out.tensor.eq(8).all()


@pytest.mark.skipif(torch.cuda.is_available(), reason="programs are started anywhere only by the interpreter")
def test_a_program_beyond_two_to_the_31():
    out, program = torch.ones(16, dtype=torch.int32), 2**28
    with recorded_accesses(first_program=(program, 0, 0), memory=False) as accesses:
        snippet.say_block_kernel.fn[(1,)](out, 2**40, BLOCK=16)
    assert accesses[0][1].min() == out.data_ptr() + 4 * program * 16


def test_the_operator_keeps_its_promises(device, monkeypatch):
    monkeypatch.setattr(snippet.say_block_kernel, "configs", snippet.CONFIGS[:1])  # nothing to tune without a GPU
    snippet.say_block_kernel.cache.clear()
    x = torch.zeros(20, dtype=torch.int32, device=device)
    assert snippet.closed(x).eq(16).all()
    torch.library.opcheck(snippet.closed, (x,))


@pytest.mark.gpu
def test_each_length_has_its_winner_in_an_operator():
    for how in ("eager", "compiled, in a custom_op"):
        snippet.say_block_kernel.cache.clear()
        function = snippet.cases()[how]
        assert [snippet.chosen(function, n) for n in (snippet.SHORT, snippet.LONG)] == [16, 2**15]
