# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of persistent matmul: listed, and on a GPU their sides compute the same."""

import pytest
import torch
import triton

from snippets.matmul import persistent_measured

MARKS = [value for value in vars(persistent_measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    persistent_measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)


@pytest.mark.gpu
def test_a_graph_repeats_the_calls():
    x = torch.zeros(3, device="cuda")
    replay = persistent_measured.captured(lambda: x.add_(1), calls=5)
    x.zero_()
    replay()
    replay()
    assert x.tolist() == [10.0] * 3


@pytest.mark.gpu
def test_benchmarks_run():
    for name in ("steps", "early", "data"):
        measure = getattr(persistent_measured, f"measure_{name}")
        for median, low, high in measure(256).values():
            assert 0 < low <= median <= high < 2000
    found = persistent_measured.measure_stages(256)
    assert set(found) == {1, 2, 3, 4} and all(rate[0] > 0 for rate in found.values())
