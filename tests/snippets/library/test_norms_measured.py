# SPDX-License-Identifier: Apache-2.0
"""Each norm to copy at each shape: all sides agree, and the rate is that of the bytes that it has to move."""

import pytest
import torch

from snippets.library import norms_measured as measured
from snippets.tools.benchmarking import Timing


def test_main_names_the_benchmark(capsys):
    measured.main()
    assert capsys.readouterr().out.startswith("both.run(print_data=True)")


def few(shape):
    """Return the shape of a tensor with four rows instead of many; a weight's stays."""
    return (4, *shape[1:]) if len(shape) > 1 and shape != measured.HEADS[1:] else shape


@pytest.fixture
def small(monkeypatch):
    """Operands of few rows in float32, which the interpreter serves, and each side run once instead of timed."""
    make = torch.randn
    monkeypatch.setattr(measured.torch, "randn", lambda *shape, **_: make(*few(shape)))
    times = {"ours": 1.0, "torch": 2.0, "lesson": 4.0}

    def run_once(sides, given, rounds):
        for side in sides.values():
            side(*given())
        return {name: Timing([times[name]]) for name in sides}

    monkeypatch.setattr(measured, "compare_in_rotation", run_once)
    measured.measure.cache_clear()
    yield
    measured.measure.cache_clear()


@pytest.mark.parametrize("case", ["RMS norm, 16384 × 1024", "layer norm of a sum, 16384 × 1024"])
def test_the_sides_agree_and_the_rate_is_of_the_bytes_moved(small, case):
    moved = measured.CASES[case][5] * 16384 * 1024 * 2
    assert measured.both.fn(case, "ours") == Timing([1.0]).rate(moved)
    assert measured.both.fn(case, "torch")[0] == pytest.approx(moved / 2e-3 / 1e9)
    lesson = measured.both.fn(case, "lesson")
    assert lesson != lesson if "layer norm of a sum" in case else lesson[0] == pytest.approx(moved / 4e-3 / 1e9)


def test_a_wrong_side_is_refused(small, monkeypatch):
    case = "RMS norm, 16384 × 1024"
    wrong = (lambda x, w, eps: 2 * x * w, *measured.CASES[case][1:])
    monkeypatch.setitem(measured.CASES, case, wrong)
    with pytest.raises(RuntimeError, match="ours differs from torch"):
        measured.measure(case)
