# SPDX-License-Identifier: Apache-2.0
"""All layers of the decode step compute the same, and every part of a launch runs by itself."""

import pytest
import torch
import triton

from snippets.pytorch import launch_overhead_measured as measured


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(name for name, it in vars(measured).items() if isinstance(it, triton.testing.Mark))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["ours", "mixed"])
def test_the_layers_compute_the_same(name):
    layer = measured.Layer()
    x = torch.randn(1, measured.HIDDEN, device="cuda", dtype=torch.bfloat16)
    torch.testing.assert_close(getattr(layer, name)(x), layer.torchs(x), rtol=0.05, atol=0.05)


@pytest.mark.gpu
def test_every_function_of_a_layer_runs_in_each_way(monkeypatch):
    monkeypatch.setattr(measured, "by_host", lambda run: 1.0 if run() is not None else 2.0)
    measured.measure_functions.cache_clear()
    found = measured.measure_functions()
    measured.measure_functions.cache_clear()
    assert {name.split(", ")[0] for name in found} == set(measured.FUNCTIONS)
    assert {name.split(", ")[1] for name in found} == set(measured.SIDES)


@pytest.mark.gpu
def test_the_parts_are_those_of_a_launch():
    parts = measured.parts_of_a_launch()
    assert [*parts] == [*measured.PARTS, "the function"]
    for run in parts.values():
        run()
    torch.cuda.synchronize()
