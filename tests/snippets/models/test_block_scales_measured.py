# SPDX-License-Identifier: Apache-2.0
"""All sides multiply the same numbers; the tables say how long, how far off, and as a share of what."""

import pytest
import torch
import triton

from snippets.models import block_scales_measured as module
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(module).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    module.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)


def test_tables(monkeypatch):
    """Median, fastest, slowest round; shares are of the time with one scale, and of a copy's bytes in a second."""
    seen, takes = [], {"ours": (2, 2.5, 1), "gluon": (1, 1, 1), "one": (3, 3, 3), "split": (4, 4, 4)}
    takes |= {"fused": (3.03125, 4, 2), "copy": (8, 8, 8)}
    timing = lambda side: Timing(takes.get(side, (5, 5, 5)))
    monkeypatch.setattr(module, "measure", lambda *shape: seen.append(shape) or {s: timing(s) for s in module.NAMES})
    monkeypatch.setattr(module, "measure_few", lambda *shape: {s: timing(s) for s in module.FEW_SIDES})
    monkeypatch.setattr(module, "measure_norms", lambda M, K: {side: timing(side) for side in ("fused", "two", "copy")})
    assert module.times.fn("16 × 7168 × 2048", "ours") == pytest.approx((2000, 1000, 2500))
    assert module.times.fn("16 × 7168 × 2048", "share") == 1.5
    assert module.times.fn("128 × 4096 × 14336", "gluon_share") == 3
    assert seen == [(16, 7168, 2048)] * 2 + [(128, 4096, 14336)]
    assert module.few.fn("4 × 7168 × 2048", "split") == (4000, 4000, 4000)
    assert module.few.fn("4 × 7168 × 2048", "share") == 0.75
    assert module.few.fn("4 × 7168 × 2048", "bandwidth") == pytest.approx(7168 * 2048 / 4e-3 / 1e9)
    assert module.norms.fn("16 × 7168", "two") == (5000, 5000, 5000)
    assert module.norms.fn("16 × 7168", "share") == pytest.approx(2)


def test_promoting_adds_up_every_product():
    x = torch.randint(-3, 4, (64, 512)).float().to(module.E4M3)
    w = torch.randint(-3, 4, (128, 512)).float().to(module.E4M3)
    for every in (128, 256, 512):
        assert torch.equal(module.promoted(x, w, every), x.float() @ w.float().t())


@pytest.mark.gpu
def test_all_sides_are_right():
    given = module.operands(256, 512, 1024)
    exact = given[5].double() @ given[6].double().t()
    for side, run in module.SIDES.items():
        error = ((run(*given).double() - exact).norm() / exact.norm()).item()
        assert error < 0.06 or side.startswith("one"), side  # whose one scale is another number
    few = module.FEW_SIDES["split"](given[0][:64], given[1][:64], *given[2:])
    assert ((few.double() - exact[:64]).norm() / exact[:64].norm()).item() < 0.06


@pytest.mark.gpu
def test_measures_errors():
    sums = module.measure_promoting(2048, False)
    assert sums["128"] < sums["256"] < sums["512"] < sums["1024"] < sums["never"]
    found = module.measure_formats(10_000)
    assert found["block"] < found["tensor"] and found["mxfp8"] < found["nvfp4"] < found["mxfp4"]
