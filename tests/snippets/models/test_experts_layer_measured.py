# SPDX-License-Identifier: Apache-2.0
"""The layer of PyTorch's operators is the layer; what differs is not timed."""

import pytest
import torch
import triton

from snippets.models import experts_layer_measured as module
from snippets.models.experts import in_torch
from snippets.models.experts_measured import Case, Model
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(module).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    module.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)


def given(tokens=20, experts=4, hidden=16, inner=24):
    random = torch.Generator().manual_seed(0)
    new = lambda *shape: torch.randn(shape, generator=random).bfloat16()
    w_in, w_out = new(experts, hidden, 2 * inner) / 4, new(experts, inner, hidden) / 5
    return new(tokens, hidden), new(tokens, experts).float(), w_in, w_out


def test_by_torch():
    expected = in_torch(*(x.double() for x in given()), 2)
    found = module.by_torch(*given(), 2)
    assert (found.double() - expected).norm() < 0.01 * expected.norm()


def test_refuses_to_time_what_differs(monkeypatch):
    case = Case(20, Model(4, 2, 16, 24))
    monkeypatch.setattr(module, "SIDES", {"ours": module.by_torch, "torch": in_torch})
    module.check_alike(case, given())
    wrong = lambda x, logits, w_in, w_out, top_k: module.by_torch(x, logits, w_in, 2 * w_out, top_k)
    monkeypatch.setattr(module, "SIDES", {"ours": wrong, "torch": in_torch})
    with pytest.raises(RuntimeError, match=r"out of .* differs by 1"):
        module.check_alike(case, given())


def test_tables(monkeypatch):
    seen = []
    monkeypatch.setattr(module, "measure", lambda case, backward: seen.append((case, backward)) or made)
    made = {"ours": Timing((1, 1.5, 0.5)), "torch": Timing((2, 2, 2))}
    for name in module.CASES:
        assert module.forward.fn(name, "ours") == (1000, 500, 1500)
    for name in module.TRAINED:
        assert module.training.fn(name, "ours") == (1, 0.5, 1.5)
    cases = [(case, False) for case in module.CASES.values()] + [(case, True) for case in module.TRAINED.values()]
    assert seen == cases and {case.tokens for case, backward in seen if backward} == {16384, 4096}


@pytest.mark.gpu
def test_measures():
    case = Case(64, Model(8, 2, 128, 64))
    for backward in (False, True):
        assert all(0 < timing.median < 10 for timing in module.measure(case, backward).values())
