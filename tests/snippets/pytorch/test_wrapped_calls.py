# SPDX-License-Identifier: Apache-2.0
"""Wrapping a launch costs many calls of Python where nothing traces, and few where an operator or a question is."""

from pathlib import Path

import torch
from guards import environment

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
    for function in (snippet.launch_plainly, snippet.launch_by_need):
        torch.testing.assert_close(function(x), x + 1)
