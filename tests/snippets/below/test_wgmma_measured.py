# SPDX-License-Identifier: Apache-2.0
"""The ladder is measured beside cuBLAS, each step by its own kernel."""

import pytest
import torch

from snippets.below import wgmma_measured as measured
from snippets.below.wgmma import WAYS


def test_main_lists_the_benchmark(capsys):
    measured.main()
    assert capsys.readouterr().out.startswith("ladder.run(")


@pytest.fixture
def made_up(monkeypatch):
    def rates(sides, make, flops, *, rounds):
        assert rounds == 3
        return {name: (getattr(run, "keywords", run), flops) for name, run in sides.items()}

    monkeypatch.setattr(measured, "rates", rates)
    measured.measure.cache_clear()
    yield
    measured.measure.cache_clear()


def test_table(made_up):
    for side in measured.SIDES:
        for way in WAYS:
            assert measured.ladder.fn(side, way) == ({"way": way}, 2 * side**3)
        assert measured.ladder.fn(side, "cublas") == (torch.matmul, 2 * side**3)
