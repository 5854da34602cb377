# SPDX-License-Identifier: Apache-2.0
"""Top-k to copy at each shape: ours is compared with a stable sort, and the rate is that of the bytes to be moved."""

import pytest
import torch

from snippets.library import topk_measured as measured
from snippets.tools.benchmarking import Timing

CASE = "8 of 128, 16,384 rows"


def test_main_names_the_benchmark(capsys):
    measured.main()
    assert capsys.readouterr().out.startswith("forward.run(print_data=True)")


@pytest.fixture
def small(monkeypatch):
    """Operands of few rows in float32, which the interpreter serves, and each side run once instead of timed."""
    make = torch.randn
    monkeypatch.setattr(measured.torch, "randn", lambda rows, columns, **_: make(3, columns))
    times = {"ours": 1.0, "torch": 2.0, "lesson": 4.0, "copy": 0.5}

    def run_once(sides, given, rounds):
        for side in sides.values():
            side(*given())
        return {name: Timing([times[name]]) for name in sides}

    monkeypatch.setattr(measured, "compare_in_rotation", run_once)
    measured.measure.cache_clear()
    yield
    measured.measure.cache_clear()


def test_the_rate_is_of_the_bytes_moved(small):
    moved = 16384 * 128 * 2
    assert measured.forward.fn(CASE, "ours") == Timing([1.0]).rate(moved)
    assert measured.forward.fn(CASE, "copy") == Timing([0.5]).rate(2 * moved)
    assert measured.forward.fn(CASE, "lesson")[0] == pytest.approx(moved / 4e-3 / 1e9)


def test_a_wrong_side_is_refused(small, monkeypatch):
    monkeypatch.setattr(measured, "topk", lambda x, k: (x[:, :k], torch.zeros(3, k).long()))
    with pytest.raises(RuntimeError, match="ours differs from a stable sort"):
        measured.measure(CASE)
