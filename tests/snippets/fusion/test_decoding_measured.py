# SPDX-License-Identifier: Apache-2.0
"""Every shape that the lesson tells of, bytes as they are counted. Without a GPU: that all sides compute the same, that
they are compared and timed alike, and the tables from made-up times."""

import functools

import pytest
import torch
import triton

from snippets.fusion import decoding_measured as measured
from snippets.fusion import long_softmax_measured
from snippets.fusion.decoding import decode_attention, in_torch
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [mark.benchmarks.plot_name for mark in MARKS] == ["times", "bandwidth", "errors"]


def test_every_shape():
    assert {(1, 65536), (16, 8192)} <= set(measured.NAMED.values()) and measured.NAMED["16 × 8192"] == (16, 8192)
    for mark in MARKS:
        assert mark.benchmarks.x_vals == list(measured.NAMED)


@pytest.fixture
def small(monkeypatch):
    """In the interpreter, in float32, with short rows; no time is measured."""
    for name, value in {"KV_HEADS": 2, "GROUP": 2, "HEAD_DIM": 16}.items():
        monkeypatch.setattr(measured, name, value)
    for name in ("randn", "randperm"):
        make = getattr(torch, name)
        fake = lambda *shape, make=make, device=None, dtype=None: make(*shape)
        monkeypatch.setattr(measured.torch, name, fake)
    monkeypatch.setattr(long_softmax_measured, "LARGEST_ERROR", 1e-5)


def test_bytes_are_those_of_k_and_v(small):
    q, k, v, cache_k, cache_v, table = measured.operands(3, 64)
    assert (q.shape, k.shape, table.shape) == ((3, 4, 1, 16), (3, 2, 64, 16), (3, 4)) and k.shape == v.shape
    assert cache_k.shape == cache_v.shape == (12, 16, 2, 16) and k.is_contiguous()
    assert sorted(table.flatten().tolist()) == list(range(12)), "each page once"
    assert measured.bytes_read(3, 64) == 2 * (k.numel() + v.numel())


def test_all_are_compared_and_timed_alike(small, monkeypatch):
    timed = []

    def compared(sides, make, rounds):
        timed.append((list(sides), [x.shape for x in make()], rounds))
        return dict.fromkeys(sides, Timing((1.0,)))

    monkeypatch.setattr(measured, "compare_in_rotation", compared)
    found = measured.measure.__wrapped__(2, 64)
    assert list(found) == ["ours", "pages", "unsplit", "torch", "empty"]
    shapes = [x.shape for x in measured.operands(2, 64)]
    assert timed == [(list(found), shapes, 3)]
    monkeypatch.setitem(measured.SIDES, "pages", lambda q, *given: 1.1 * measured.in_pages(q, *given))
    with pytest.raises(RuntimeError, match="pages differs from torch"):
        measured.measure.__wrapped__(2, 64)


def test_unsplit_is_not_split_and_pages_are_read(small, monkeypatch):
    asked = []
    monkeypatch.setattr(measured, "decode_attention", lambda *given, **options: asked.append((given, options)))
    given = measured.operands(2, 64)
    for name in ("ours", "pages", "unsplit"):
        measured.SIDES[name](*given)
    (ours, no_options), (pages, table), (unsplit, one) = asked
    assert no_options == {} and one == {"splits": 1} and list(table) == ["page_table"]
    assert table["page_table"] is given[5]
    for found, wanted in ((ours, given[:3]), (unsplit, given[:3]), (pages, [given[0], *given[3:5]])):
        assert all(a is b for a, b in zip(found, wanted, strict=True))


def test_errors(small):
    found = measured.measure_errors.__wrapped__(2, 64)
    assert list(found) == list(measured.SIDES) and all(0 < error < 1e-6 for error in found.values())


def test_tables(monkeypatch):
    """Ours takes 1 ms, in pages 1.25, unsplit 10, torch 2, a kernel that does nothing 0.1; the copy 0.8."""
    takes = {"ours": (1, 1.25, 0.5), "pages": (1.25,) * 3, "unsplit": (10,) * 3, "torch": (2,) * 3, "empty": (0.1,) * 3}
    takes = {name: Timing(rounds) for name, rounds in takes.items()}
    errors = {"ours": 0.002, "pages": 0.002, "unsplit": 0.002, "torch": 0.003}
    copied = []
    monkeypatch.setattr(measured, "measure", lambda *shape: takes)
    monkeypatch.setattr(measured, "measure_errors", lambda *shape: errors)
    monkeypatch.setattr(measured, "measure_copy", lambda moved: copied.append(moved) or Timing((0.8, 0.8, 0.8)))
    for shape, (batch, keys) in measured.NAMED.items():
        cells = {
            mark.benchmarks.plot_name: {line: mark.fn(shape, line) for line in mark.benchmarks.line_vals}
            for mark in MARKS
        }
        read = 2 * batch * keys * 8 * 128 * 2
        assert cells["times"]["ours"] == pytest.approx((1000, 500, 1250))
        assert cells["times"]["unsplit"] == (10000,) * 3 and cells["times"]["empty"][0] == pytest.approx(100)
        rates = cells["bandwidth"]
        assert rates["ours"] == pytest.approx((read / 1e6, read / 1.25e6, read / 0.5e6))
        assert rates["copy"][0] == pytest.approx(read / 0.8e6) and copied[-1] == read
        assert (rates["share"], rates["pages_share"], rates["torch_share"]) == pytest.approx((0.8, 0.64, 0.4))
        assert cells["errors"] == errors


@pytest.mark.gpu
def test_measures():
    found = measured.measure.__wrapped__(1, 8192)
    assert all(0 < timing.median < 1 for timing in found.values())
    assert found["empty"].median < min(timing.median for name, timing in found.items() if name != "empty")
    errors = measured.measure_errors.__wrapped__(1, 8192)
    assert all(0 < error < 0.01 for error in errors.values())


@pytest.mark.gpu
def test_sides_against_float64():
    given = measured.operands(2, 1024)
    exact = in_torch(*(x.double() for x in given[:3]))
    for run in (functools.partial(decode_attention, *given[:3]), lambda: measured.in_pages(*given)):
        assert ((run() - exact).norm() / exact.norm()).item() < 0.01
