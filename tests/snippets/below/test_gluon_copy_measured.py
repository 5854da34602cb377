# SPDX-License-Identifier: Apache-2.0
"""Copies are measured by layout: the right layouts, the right bytes, and results that are copies."""

import pytest
import torch
import triton

from snippets.below import gluon_copy_measured as measured
from snippets.below.gluon_copy_measured import BYTES, DTYPES, SIDE, WAYS, WIDTHS

MARKS = [value for value in vars(measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [mark.benchmarks.plot_name for mark in MARKS]


@pytest.fixture
def made_up(monkeypatch):
    """Each side's rate is what it was called with; copies are torch's."""
    calls = []

    def rates(sides, make, moved, *, unit, steady):
        assert unit == 1e9 and steady is False
        (x,) = make()
        found = {}
        for name, run in sides.items():
            assert torch.equal(run(x), x if not transposed(run) else x.t()) and moved == 2 * x.nbytes
            found[name] = (calls[-1] if name != "torch" else "torch", moved)
        return found

    transposed = lambda run: "t()" in (getattr(run, "__name__", "") or "")
    monkeypatch.setattr(measured, "rates", rates)
    monkeypatch.setattr(measured, "BYTES", 256), monkeypatch.setattr(measured, "SIDE", 16)
    monkeypatch.setattr(measured, "numbers", lambda *shape, dtype: torch.ones(shape).to(dtype))
    monkeypatch.setattr(measured, "copy", lambda x, **options: calls.append(options) or x.clone())
    monkeypatch.setattr(
        measured, "copy_tiles", lambda x, out, **options: calls.append(options | {"out": out.stride()}) or out.copy_(x)
    )
    for each in (measured.measure_width, measured.measure_tiles):
        each.cache_clear()
    yield
    for each in (measured.measure_width, measured.measure_tiles):
        each.cache_clear()


def test_tables(made_up):
    assert BYTES == 2**28 and SIDE == 8192
    for dtype in DTYPES:
        for each in WIDTHS:
            assert measured.width.fn(each, dtype) == ({"per_thread": each}, 512)
        assert measured.clone.fn(dtype, "torch") == ("torch", 512)
    for into, strides in (("rows", (16, 1)), ("columns", (1, 16))):
        for way, (load, store) in WAYS.items():
            rate = measured.tiles.fn(way, into)
            assert rate == ({"load": load, "store": store, "out": strides}, 2 * 16 * 16 * 4)
        assert measured.tiles.fn("torch", into)[0] == "torch"


@pytest.mark.gpu
def test_what_is_copied():
    for dtype in DTYPES.values():
        x = measured.numbers(3, 40, dtype=dtype)
        assert x.shape == (3, 40) and x.dtype == dtype and x.is_cuda
    x = measured.numbers(200, 300, dtype=torch.float32)
    for transposed in (False, True):
        out = measured.copied(x, load="rows", store="columns", transposed=transposed)
        assert out.shape == x.shape or transposed
