# SPDX-License-Identifier: Apache-2.0
"""The recorded pdb sessions: the kernels copy, and the debugger shows what they hold."""

import pdb
import sys
from unittest import mock

import pytest
import torch
from guards import Guarded, check_each_once, check_same_bits, recorded_accesses
from triton import JITFunction

from snippets.tools import debugging_breakpoint
from snippets.tools.debugging_breakpoint import copy, copy_kernel, copy_one_kernel, copy_plain_kernel, main, typed

KERNELS = {"breakpoint": copy_kernel, "breakpoint_if": copy_one_kernel, "plain": copy_plain_kernel}


@pytest.fixture(autouse=True)
def plain_breakpoint(monkeypatch):
    """pytest puts a debugger of its own in the place of Python's."""
    monkeypatch.setattr(sys, "breakpointhook", lambda: pdb.Pdb().set_trace(sys._getframe(1)))


def stops(printed):
    """The line before which pdb stopped, each time."""
    return [line.removeprefix("-> ") for line in printed.splitlines() if line.startswith("-> ")]


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("n", [1, 4, 5, 10])
def test_copies(kernel, n):
    x = Guarded.around(torch.randn(n), before=16, after=9, fill=0xFF)
    out = Guarded((n,), torch.float32, "cpu", before=16, after=9, fill=0x5A)
    with typed(*["c"] * 9), recorded_accesses() as accesses:
        kernel[(-(-n // 4),)](x.tensor, out.tensor, n, BLOCK=4)
    x.check("x"), out.check("out")
    check_same_bits(out.tensor, x.tensor)
    check_each_once(accesses, "load", x=x.tensor)
    check_each_once(accesses, "store", out=out.tensor)


def test_breakpoint_stops_in_every_program(capsys):
    with typed("c", "c", "c"):
        copy(copy_kernel)
    assert stops(capsys.readouterr().out) == ["offsets = pid * BLOCK + tl.arange(0, BLOCK)"] * 3


def test_breakpoint_if_stops_in_one(capsys):
    with typed("p pid.handle.data.item()", "c"):
        copy(copy_one_kernel)
    printed = capsys.readouterr().out
    assert stops(printed) == ["tl.store(out_ptr + offsets, x, mask=mask)"] and "\n2\n" in printed


def test_what_no_program_copied_shows():
    assert copy(mock.MagicMock()).tolist() == [-1] * 10


def test_the_session_of_the_page(capsys):
    main()
    printed = capsys.readouterr().out
    every, one, none = printed.split("## ")[1:]
    assert "(Pdb) p offsets\narray([0, 1, 2, 3], dtype=int32)\n" in every
    assert "(Pdb) p mask\narray([ True,  True,  True,  True])\n" in every
    assert "(Pdb) p mask\narray([ True,  True, False, False])\n" in one
    assert "(Pdb) p x\narray([8., 9., 0., 0.], dtype=float32)\n" in one
    assert "<class 'triton.language.core.tensor'>" in one and "interpreter.TensorHandle" in one
    assert none == "no program\ncopied by both: True\n"


def test_standard_input_comes_back():
    before = sys.stdin
    with pytest.raises(ZeroDivisionError), typed("c"):
        1 / 0  # noqa: B018
    assert sys.stdin is before


def test_says_so_when_compiled(monkeypatch):
    monkeypatch.setattr(debugging_breakpoint, "copy_kernel", JITFunction(copy_kernel.fn))
    with pytest.raises(SystemExit, match="a compiled kernel has no debugger"):
        main()
