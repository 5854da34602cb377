# SPDX-License-Identifier: Apache-2.0
"""Transposes are measured by layout and by phases: the right layouts, the right bytes, and results that are right."""

import pytest
import torch
import triton

from snippets.below import shared_memory_measured as measured
from snippets.below.shared_memory import LAYOUTS, swizzled
from snippets.below.shared_memory_measured import PHASES, SIDE

MARKS = [value for value in vars(measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [mark.benchmarks.plot_name for mark in MARKS]


@pytest.fixture
def made_up(monkeypatch):
    """Each side's rate is the layout that it was called with; transposes are torch's."""

    def rates(sides, make, moved, *, unit, steady):
        assert unit == 1e9 and steady is False
        (x,) = make()
        found = {}
        for name, run in sides.items():
            assert torch.equal(run(x), x if name == "copy" else x.t()) and moved == 2 * x.nbytes
            found[name] = calls.pop() if calls else name
        return found

    calls = []
    monkeypatch.setattr(measured, "rates", rates)
    monkeypatch.setattr(measured, "SIDE", 16)
    monkeypatch.setattr(measured, "numbers", lambda *shape, dtype: torch.arange(256.0).view(shape).to(dtype))
    monkeypatch.setattr(measured, "transpose", lambda x, shared: calls.append(shared) or x.t().contiguous())
    monkeypatch.setattr(measured, "copied", lambda x, **options: calls.append(options) or x.t().contiguous())
    measured.measure.cache_clear()
    yield
    measured.measure.cache_clear()


def test_tables(made_up):
    assert SIDE == 8192
    for name, layout in LAYOUTS.items():
        assert measured.layouts.fn(name, "rate") == layout
    converted = {"load": "rows", "store": "columns", "transposed": True}
    assert measured.layouts.fn("convert_layout", "rate") == converted
    assert measured.layouts.fn("torch", "rate") == "torch" and measured.layouts.fn("copy", "rate") == "copy"
    for each in PHASES:
        assert measured.phases.fn(each, "transpose") == swizzled(1, 1, each)
        assert measured.phases.fn(each, "copy") == "copy"
