# SPDX-License-Identifier: Apache-2.0
"""Speeds and errors by precision: torch's setting is put back, and every benchmark runs."""

import pytest
import torch

from snippets.matmul import precision_measured as measured


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == ["speed", "errors", "sums"]


@pytest.mark.gpu
def test_speed_leaves_the_setting_of_torch():
    before = torch.get_float32_matmul_precision()
    assert all(value > 0 for side in measured.ALL_LINES for value in measured.speed.fn(1024, side))
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.gpu
def test_errors_run():
    for mark in (measured.errors, measured.sums):
        assert all(0 <= mark.fn(512, side, 256, 256) < 0.1 for side in mark.benchmarks.line_vals)
