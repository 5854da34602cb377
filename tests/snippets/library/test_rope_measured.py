# SPDX-License-Identifier: Apache-2.0
"""Each case of the rotary embedding to copy: all sides agree, and the rate is that of the bytes that it has to move."""

import pytest
import torch

from snippets.library import rope_measured as measured
from snippets.tools.benchmarking import Timing

STEPS = [(case, "forward") for case in [*measured.CASES, measured.IN_PLACE]]
STEPS += [(case, "both") for case in measured.WITH_GRADIENTS]


def test_main_names_the_benchmarks(capsys):
    measured.main()
    assert [line.split(".")[0] for line in capsys.readouterr().out.splitlines()] == ["forward", "both"]


@pytest.fixture
def small(monkeypatch):
    """A few tokens in float32, which the interpreter serves; nothing compiled, and each side run once."""
    for name, value in {"DTYPE": torch.float32, "BATCH": 2, "TOKENS": 5, "Q_HEADS": 3, "K_HEADS": 1}.items():
        monkeypatch.setattr(measured, name, value)
    make, sides = torch.randn, measured.sides_of
    monkeypatch.setattr(measured.torch, "randn", lambda *shape, **_: make(*shape))
    monkeypatch.setattr(measured.torch, "compile", lambda function, dynamic: function)
    monkeypatch.setattr(measured, "sides_of", lambda case: sides(case, device="cpu"))
    monkeypatch.setattr(measured, "find_spec", lambda name: None)

    def run_once(sides, given, rounds):
        for side in sides.values():
            side(*given())
        return {name: Timing([2.0 if name == "ours" else 4.0]) for name in sides}

    monkeypatch.setattr(measured, "compare_in_rotation", run_once)
    measured.measure.cache_clear()
    yield
    measured.measure.cache_clear()


@pytest.mark.parametrize(("case", "step"), STEPS)
def test_the_sides_agree_and_the_rate_is_of_the_bytes_moved(small, case, step):
    mark = getattr(measured, step)
    moved = 2 * (2 * 5 * 4 * 128) * 4 * (1 if step == "forward" else 2)
    assert mark.fn(case, "ours")[0] == pytest.approx(moved / 2e-3 / 1e9)
    assert mark.fn(case, "torch")[0] == mark.fn(case, "compiled")[0] == pytest.approx(moved / 4e-3 / 1e9)
    lesson = mark.fn(case, "lesson")
    assert (lesson == lesson) == (case == "half-split")
    assert case in mark.benchmarks.x_vals


def test_a_wrong_side_is_refused(small, monkeypatch):
    monkeypatch.setattr(measured, "lessons_rope", lambda q, k, cos, sin: (q, k))
    with pytest.raises(RuntimeError, match="lesson differs from torch"):
        measured.measure("half-split", "forward")
