# SPDX-License-Identifier: Apache-2.0
"""Threads that do not wait for each other: nothing shows in the interpreter, and a GPU gets elements wrong."""

import pytest
import torch
from guards import Guarded, check_each_once, check_same_bits, recorded_accesses

from snippets.gpu import hierarchy_bug as bug

BLOCK = bug.BLOCK_SIZE


def reversed_blocks(x):
    return x.view(-1, BLOCK).flip(1).flatten()


def test_reverse(device):
    for programs in (0, 1, 3):
        x = torch.arange(7, 7 + programs * BLOCK, dtype=torch.int32, device=device)
        check_same_bits(bug.reverse(x), reversed_blocks(x))
        if device == "cpu":  # the interpreter cannot get it wrong
            check_same_bits(bug.reverse_bug(x), reversed_blocks(x))


def test_touches_each_element_once():
    x = torch.arange(2 * BLOCK, dtype=torch.int32)
    scratch, out = (Guarded((2 * BLOCK,), torch.int32, x.device, before=64, after=64, fill=0x5A) for _ in range(2))
    with recorded_accesses() as accesses:
        bug.reverse_kernel[(2,)](x, scratch.tensor, out.tensor, BLOCK_SIZE=BLOCK, WAIT=True)
    scratch.check("the scratch tensor"), out.check("the result")
    check_each_once(accesses, "load", x=x, scratch=scratch.tensor)
    check_each_once(accesses, "store", scratch=scratch.tensor, out=out.tensor)


@pytest.mark.gpu
def test_without_a_barrier_elements_are_wrong():
    x = torch.arange(16384 * BLOCK, dtype=torch.int32, device="cuda")
    wrong = bug.reverse_bug(x) != reversed_blocks(x)
    assert bool(wrong.any()), "no thread overtook another: the page says that some do"
    assert bool((bug.reverse_bug(x)[wrong.nonzero().flatten()] >= -1).all())
    for _ in range(5):
        check_same_bits(bug.reverse(x), reversed_blocks(x))


@pytest.mark.parametrize("make", [lambda x: x.float(), lambda x: x[:-1], lambda x: x[::2], lambda x: x[None]])
def test_refuses(device, make):
    for function in (bug.reverse, bug.reverse_bug):
        with pytest.raises(ValueError, match="a multiple of 1024"):
            function(make(torch.ones(2 * BLOCK, dtype=torch.int32, device=device)))


def test_prints(device, capsys):
    bug.main()
    lines = capsys.readouterr().out.splitlines()
    assert "tl.debug_barrier, wrong elements: 0" in lines
    if device == "cpu":
        assert "no barrier, wrong elements: 0" in lines
