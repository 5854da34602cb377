# SPDX-License-Identifier: Apache-2.0
"""Each gated activation to copy: all sides agree, and the rate is that of the bytes that it has to move."""

import pytest
import torch

from snippets.library import swiglu_measured as measured
from snippets.tools.benchmarking import Timing


def test_main_names_the_benchmark(capsys):
    measured.main()
    assert capsys.readouterr().out.startswith("both.run(print_data=True)")


@pytest.fixture
def small(monkeypatch):
    """Few rows and columns in float32, which the interpreter serves; nothing compiled, and each side run once."""
    make = torch.randn
    monkeypatch.setattr(measured, "DTYPE", torch.float32)
    monkeypatch.setattr(measured.torch, "randn", lambda *shape, **_: make(*shape))
    monkeypatch.setattr(measured.torch, "compile", lambda function, dynamic: function)
    monkeypatch.setattr(measured, "find_spec", lambda name: None)
    for name, case in measured.CASES.items():
        monkeypatch.setitem(measured.CASES, name, case._replace(shape=(6, 10)))

    def run_once(sides, given, rounds):
        for side in sides.values():
            side(*given())
        return {name: Timing([2.0 if name == "ours" else 4.0]) for name in sides}

    monkeypatch.setattr(measured, "compare_in_rotation", run_once)
    measured.measure.cache_clear()
    yield
    measured.measure.cache_clear()


@pytest.mark.parametrize("case", measured.CASES)
def test_the_sides_agree_and_the_rate_is_of_the_bytes_moved(small, case):
    mark = measured.both
    moved = 60 * 4 * (5 if case == "ReLU² alone" else 8)
    assert mark.fn(case, "ours")[0] == pytest.approx(moved / 2e-3 / 1e9)
    assert mark.fn(case, "torch")[0] == mark.fn(case, "compiled")[0] == pytest.approx(moved / 4e-3 / 1e9)
    lesson = mark.fn(case, "lesson")
    assert (lesson == lesson) == (measured.CASES[case].lessons is not None)


def test_a_wrong_side_is_refused(small, monkeypatch):
    wrong = measured.CASES["halves"]._replace(lessons=lambda x: x[:, :10])
    monkeypatch.setitem(measured.CASES, "halves", wrong)
    with pytest.raises(RuntimeError, match="lesson differs from torch"):
        measured.measure("halves")
