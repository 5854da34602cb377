# SPDX-License-Identifier: Apache-2.0
"""Wrapping a launch costs many calls of Python where nothing traces, and few where an operator or a question is."""

import contextlib
from pathlib import Path

import pytest
import torch
from guards import Guarded, check_each_once, environment, recorded_accesses

from snippets.pytorch import wrapped_calls as snippet
from tests.processes import run_python


def test_the_order_of_the_ways():
    printed = run_python(Path(snippet.__file__), env=environment("gpu")).stdout
    calls = {way: int(count.split()[0]) for way, count in (line.split(": ") for line in printed.splitlines())}
    assert list(calls) == list(snippet.WAYS)
    plain, wrapped, within, by_need = calls.values()
    assert plain < by_need < plain + 5 < within < wrapped / 4


def test_calls_are_counted():
    assert snippet.calls_of(lambda: (lambda: None)()) == 2


def test_each_way_adds_one(device):
    x = torch.linspace(-1, 1, 21, device=device)
    for function in snippet.WAYS.values():
        torch.testing.assert_close(function(x), x + 1)


@pytest.mark.parametrize("n", [1, 8, 21])
def test_each_element_is_read_and_written_once(device, n):
    x = Guarded.around(torch.randn(n, device=device), before=64, after=64, fill=0xFF)
    out = Guarded((n,), torch.float32, device, before=64, after=64, fill=0xFF)
    with recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses:
        snippet.add_one_kernel[(-(-n // 8),)](x.tensor, out.tensor, n, BLOCK=8)
    if accesses:
        check_each_once(accesses, "load", x=x.tensor)
        check_each_once(accesses, "store", out=out.tensor)
    out.check("out")
    assert torch.equal(out.tensor, x.tensor + 1)
