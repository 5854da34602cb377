# SPDX-License-Identifier: Apache-2.0
"""The profiler names the parts and counts the operations; a part that waits comes first."""

import copy
import time

import pytest
import torch

from recorder.printed import numbers, sections
from snippets.start import profile_a_model as snippet

PARTS = {"linear, in", "recurrence", "norm", "linear, out"}


def small(device):
    torch.manual_seed(0)
    return snippet.Model(8).to(device), torch.randn(2, 5, 8, device=device)


def test_counts_each_operation_of_one_call(device):
    parts, operations = snippet.profiled(*small(device))
    assert {part.name for part in parts} == PARTS and {part.calls for part in parts} == {1}
    calls = {operation.name: operation.calls for operation in operations}
    assert calls["aten::addmm"] == 2 and calls["aten::sigmoid"] == 1  # two layers, one gate
    assert calls["aten::add"] >= 5 and calls["aten::mul"] >= 5  # a step each


def test_rows_of_the_gpu_are_no_parts(device, monkeypatch):
    """A GPU lists each name a second time, for its own stretch between the first kernel and the last."""
    averages = snippet.profile.key_averages

    def with_twins(profiler):
        rows = list(averages(profiler))
        twins = [copy.copy(row) for row in rows if row.key.startswith("part: ")]
        for twin in twins:
            twin.device_type = torch.autograd.DeviceType.CUDA
        return rows + twins

    monkeypatch.setattr(snippet.profile, "key_averages", with_twins)
    parts, _ = snippet.profiled(*small(device))
    assert sorted(part.name for part in parts) == sorted(PARTS)


@pytest.mark.gpu
def test_the_gpus_time_is_that_of_its_kernels(capsys):
    snippet.main()
    said = numbers(sections(capsys.readouterr().out)["numbers"])
    assert sum(said[f"{part}, share of the GPU's time"] for part in PARTS) == pytest.approx(1, abs=0.003)
    assert 0 < said["the GPU's time, of the host's"] < 2


@pytest.mark.parametrize("slow", ["norm", "out"])
def test_what_takes_longest_comes_first(device, slow, monkeypatch):
    model, x = small(device)
    layer = getattr(model, slow)
    waiting = lambda h: (time.sleep(0.5), type(layer).forward(layer, h))[1]
    monkeypatch.setattr(layer, "forward", waiting)
    parts, _ = snippet.profiled(model, x)
    assert parts[0].name == {"norm": "norm", "out": "linear, out"}[slow] and parts[0].ms >= 500
    assert [part.ms for part in parts] == sorted((part.ms for part in parts), reverse=True)


def test_the_model_is_what_its_parts_say(device):
    model, x = small(device)
    with torch.no_grad():
        a, b = model.into(x).chunk(2, dim=-1)
        h, steps = torch.zeros_like(b[:, 0]), []
        for t in range(5):
            steps.append(h := torch.sigmoid(a[:, t]) * h + b[:, t])
        torch.testing.assert_close(model(x), model.out(model.norm(torch.stack(steps, dim=1))))


@pytest.mark.parametrize("share, times", [(0, 1), (0.5, 2), (0.75, 4), (0.04, 1 / 0.96)])
def test_at_most(share, times):
    assert snippet.at_most(share) == pytest.approx(times)


def test_prints_shares_that_add_up(capsys, monkeypatch):
    monkeypatch.setattr(snippet, "CALLS", 2)
    snippet.main()
    printed = sections(capsys.readouterr().out)
    said = numbers(printed["numbers"])
    assert sum(said[f"{part}, share"] for part in PARTS) == pytest.approx(1, abs=0.003)
    assert said["aten::mul, calls"] == 514 and said["aten::add, calls"] == 512
    assert len(printed["operations"].splitlines()) == 7 and 0 < said["largest share of an operation"] < 1
