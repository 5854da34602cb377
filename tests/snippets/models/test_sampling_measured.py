# SPDX-License-Identifier: Apache-2.0
"""Each side draws from the same tokens, and the times are microseconds."""

import pytest
import torch

from snippets.models import sampling_measured as measured
from snippets.tools.benchmarking import Timing

CASE = "16 × top-k 50, top-p 0.9"


def test_main_names_the_benchmark(capsys):
    measured.main()
    assert capsys.readouterr().out.startswith("times.run(print_data=True)")


@pytest.mark.parametrize(("top_k", "top_p", "left"), [(0, 1.0, 6), (2, 1.0, 2), (0, 0.7, 3), (3, 0.7, 2), (0, 0.0, 1)])
def test_torch_cuts_what_the_lesson_says(top_k, top_p, left):
    logits = torch.tensor([[2.0, 1.5, 1.0, 0.5, 0.0, -1.0]])
    kept = measured.cut(logits, top_k, top_p) > -torch.inf
    assert kept.tolist() == [[i < left for i in range(6)]]
    tokens = [measured.in_torch(logits, top_k, top_p).item() for _ in range(30)]
    assert max(tokens) < left


@pytest.fixture
def small(monkeypatch):
    """Few tokens in float32, which the interpreter serves, and each side run once instead of timed."""
    make, arange = torch.randn, torch.arange
    monkeypatch.setattr(measured.torch, "randn", lambda rows, columns, **_: make(rows, 200))
    monkeypatch.setattr(measured.torch, "arange", lambda rows, **_: arange(rows))
    times = {"ours": (1.0, 3.0, 2.0), "torch": (2.0,), "copy": (0.5,)}

    def run_once(sides, given, rounds):
        for side in sides.values():
            side(*given())
        return {name: Timing(times[name]) for name in sides}

    monkeypatch.setattr(measured, "compare_in_rotation", run_once)
    measured.measure.cache_clear()
    yield
    measured.measure.cache_clear()


def test_times_are_microseconds(small):
    assert measured.times.fn(CASE, "ours") == (2000.0, 1000.0, 3000.0)


def test_a_wrong_side_is_refused(small, monkeypatch):
    monkeypatch.setattr(measured, "sample", lambda logits, *_, **__: logits.argmin(-1))
    with pytest.raises(RuntimeError, match="ours draws tokens that PyTorch leaves out"):
        measured.measure(CASE)
