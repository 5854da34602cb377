# SPDX-License-Identifier: Apache-2.0
"""Each scan to copy at each shape: ours agrees with the lesson's or torch's, and the rate is that of the bytes."""

import pytest
import torch

from snippets.library import scan_measured as measured
from snippets.tools.benchmarking import Timing

SIZE = "8192 × 4096"


def test_main_names_the_benchmark(capsys):
    measured.main()
    assert capsys.readouterr().out.startswith("both.run(print_data=True)")


@pytest.fixture
def small(monkeypatch):
    """Operands of few rows in float32, which the interpreter serves, and each side run once instead of timed."""
    make = torch.randn
    monkeypatch.setattr(measured.torch, "randn", lambda *_, **__: make(3, 20))
    monkeypatch.setattr(measured.torch, "compile", lambda function, **_: function)
    times = {"ours": 1.0, "torch": 2.0, "lesson": 4.0, "compiled": 8.0}

    def run_once(sides, given, rounds):
        for side in sides.values():
            side(*given())
        return {name: Timing([times[name]]) for name in sides}

    monkeypatch.setattr(measured, "compare_in_rotation", run_once)
    measured.measure.cache_clear()
    yield
    measured.measure.cache_clear()


@pytest.mark.parametrize("kind", ["recurrence", "cumsum", "cumprod", "cummax"])
def test_the_sides_agree_and_the_rate_is_of_the_bytes_moved(small, kind):
    """Each element is read and written once: in the recurrence, a, x, h and the gradient of h, and the other way."""
    moved = {"recurrence": 8, "cumsum": 4, "cumprod": 2, "cummax": 6}[kind] * 8192 * 4096 * 2
    rate = {side: measured.both.fn(f"{kind}, {SIZE}", side) for side in ["ours", "torch", "lesson", "compiled"]}
    assert rate["ours"] == Timing([1.0]).rate(moved)
    assert rate["torch"][0] == pytest.approx(moved / 2e-3 / 1e9)
    served = {side for side, value in rate.items() if value == value}
    others = {"recurrence": {"lesson"}, "cumsum": {"lesson", "compiled"}, "cumprod": {"compiled"}}
    assert served == {"ours", "torch"} | others.get(kind, set())


def test_a_wrong_side_is_refused(small, monkeypatch):
    case = f"cumsum, {SIZE}"
    monkeypatch.setitem(measured.CASES, case, (lambda x: 2 * x, *measured.CASES[case][1:]))
    with pytest.raises(RuntimeError, match="ours differs from exact"):
        measured.measure(case)
