# SPDX-License-Identifier: Apache-2.0
"""The benchmark of RMSNorm: listed, and on a GPU each side gives a rate."""

import pytest
import triton

from snippets.start import torch_compile_rms_norm, torch_compile_rms_norm_measured

MARKS = [value for value in vars(torch_compile_rms_norm_measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    torch_compile_rms_norm_measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)


@pytest.mark.gpu
@pytest.mark.long
def test_benchmark_runs(monkeypatch):
    monkeypatch.setattr(torch_compile_rms_norm, "ELEMENTS", 2**20)
    mark = torch_compile_rms_norm_measured.bandwidth
    for side in mark.benchmarks.line_vals:
        median, slowest, fastest = mark.fn(1000, side)
        assert 0 < slowest <= median <= fastest
