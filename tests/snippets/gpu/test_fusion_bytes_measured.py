# SPDX-License-Identifier: Apache-2.0
"""Bytes and times of fusing: what is counted by hand, what is launched under ncu, what is timed."""

import pytest
import torch
from guards import check_same_bits

from snippets.gpu import fusion_bytes_measured as measured
from snippets.gpu.fusion_bytes_measured import METRICS, add_into, counted


def test_by_hand():
    assert counted.fn("K = 64: relu", "read_by_hand", 2**14, 2**14) == 2**29 / 1e9
    assert counted.fn("K = 64: product with relu", "written_by_hand", 2**14, 2**14) == 2**29 / 1e9
    assert counted.fn("K = 64: product", "read_by_hand", 2**14, 2**14) == 2**22 / 1e9


def test_counters_by_kernel(monkeypatch):
    seen = [{"kernel": name, METRICS["read"]: 1e9 * i, METRICS["written"]: 2e9 * i} for i, name in enumerate("abc", 1)]
    asked = []
    monkeypatch.setattr(measured, "counters", lambda *args: asked.append(args) or seen)
    measured.measure_counted.cache_clear()
    assert counted.fn("K = 64: product", "read", 2**14, 2**14) == 2
    assert counted.fn("K = 64: relu", "written", 2**14, 2**14) == 6
    assert asked == [(list(METRICS.values()), measured.__file__, "launch_both", "64")]
    seen.append(seen[0])
    measured.measure_counted.cache_clear()
    with pytest.raises(RuntimeError, match="expected"):
        counted.fn("K = 64: relu", "read", 2**14, 2**14)
    measured.measure_counted.cache_clear()


@pytest.mark.parametrize("allocate", [torch.empty_like, torch.zeros_like])
def test_an_add_into_either(device, allocate):
    x = torch.arange(2050.0, device=device)
    check_same_bits(add_into(allocate, x, 10 * x), 11 * x)


def test_main_lists_every_benchmark(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["fusion_bytes_measured.py"])
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == ["counted", "by_k", "share", "by_tool", "fill"]


@pytest.mark.gpu
@pytest.mark.parametrize("mark, x", [(measured.by_k, 32), (measured.fill, 2**12)])
def test_benchmarks_run(mark, x):
    benchmark = mark.benchmarks
    for line in benchmark.line_vals:
        result = mark.fn(**{benchmark.x_names[0]: x, benchmark.line_arg: line}, **benchmark.args)
        values = result if isinstance(result, tuple) else (result,)
        assert all(0 < value < 1e6 for value in values)
