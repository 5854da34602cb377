# SPDX-License-Identifier: Apache-2.0
"""Tokens choose by Zipf's law; every case is measured once, of the same FLOPs; what is wrong is not timed."""

import pytest
import torch
import triton

from snippets.models import experts_measured as module
from snippets.models.experts_measured import CASES, FEW, LARGE, MODELS, Case
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(module).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    module.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)


def test_flops():
    assert Case(16384, MODELS["2 of 8"]).flops == 2 * 32768 * 4096 * 14336
    assert Case(4096, MODELS["8 of 128"]).flops == 2 * 32768 * 2048 * 768


@pytest.mark.parametrize("skew", [0, 1])
def test_tokens_choose_by_zipf(monkeypatch, skew):
    monkeypatch.setattr(torch.Tensor, "cuda", lambda x: x)
    logits = module.logits_of(Case(40000, MODELS["8 of 128"]._replace(experts=4, top_k=1), skew))
    shares = torch.bincount(logits.argmax(1), minlength=4).sort(descending=True).values / 40000
    expected = torch.arange(1, 5.0) ** -skew
    assert torch.allclose(shares, expected / expected.sum(), atol=0.01)


@pytest.fixture
def made_up(monkeypatch):
    """Each side takes 1 ms longer than the one before: median, fastest and slowest round."""
    seen = []

    def measured(case):
        seen.append(case)
        return {name: Timing((i + 1, i + 1.5, i + 0.5)) for i, name in enumerate(module.sides_of_names)}

    module.sides_of_names = ["ours", "sorted", "grouped_mm", "loop", "dense"]
    monkeypatch.setattr(module, "measure", measured)
    yield seen
    del module.sides_of_names


def test_tables(made_up):
    for name, case in CASES.items():
        rate = module.rates.fn(name, "grouped_mm")
        assert rate == pytest.approx([case.flops / ms / 1e9 for ms in (3, 3.5, 2.5)])
    assert module.skews.fn(1, "loop") == pytest.approx((4000, 3500, 4500))
    for name in FEW:
        assert module.few.fn(name, "ours") == pytest.approx((1000, 500, 1500))
    assert set(made_up) == set(CASES.values()) | set(FEW.values())
    assert list(module.SKEWS) == module.skews.benchmarks.x_vals == [0, 0.5, 1, 1.5]


def test_refuses_to_time_what_is_wrong():
    given = [torch.ones(3)]
    sides = {"ours": lambda x: x, "dense": lambda x: 7 * x, "other": lambda x: x + 0.001}
    module.check_alike(sides, given)
    with pytest.raises(RuntimeError, match=r"other differs by 0\.5"):
        module.check_alike(sides | {"other": lambda x: x + 0.5}, given)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["2 of 8", "8 of 128"])
def test_measures(name):
    case = Case(64, MODELS[name], 1)
    found = module.measure(case)
    assert set(found) == {"ours", "sorted", "grouped_mm", "loop", "dense"}
    assert all(0 < timing.median < 10 for timing in found.values())
    assert set(module.measure_gradients(case)) == set(module.gradients.benchmarks.line_vals)
    assert set(module.measure_steps(case)) == set(module.steps.benchmarks.line_vals)
    assert LARGE.keys() | FEW.keys() == set(module.steps.benchmarks.x_vals)
