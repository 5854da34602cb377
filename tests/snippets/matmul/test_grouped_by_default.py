# SPDX-License-Identifier: Apache-2.0
"""grouped_by_default: which launch a count belongs to, and that all sides compute the same."""

import pytest
import torch

from snippets.matmul import grouped_by_default as by_default


@pytest.fixture(autouse=True)
def forget():
    by_default.measure_memory.cache_clear()
    yield
    by_default.measure_memory.cache_clear()


def test_a_count_belongs_to_its_case(monkeypatch):
    asked = []

    def made_up(metrics, *arguments, **options):
        asked.append((arguments[1:], options))
        return [{"kernel": "k", metrics[0]: 1e9 * i} for i in range(len(by_default.SIDES) * 3 * 3)]

    monkeypatch.setattr(by_default, "counters", made_up)
    assert by_default.memory.fn("naive", "size_4096") == (1.0, 0.0, 2.0)
    assert by_default.memory.fn("groups of 1", "size_4096") == (4.0, 3.0, 5.0)
    assert by_default.memory.fn("naive", "size_8192") == (22.0, 21.0, 23.0)
    assert asked == [(("run", "4096", "8192", "16384"), {"cache": "all"})], "once, from empty caches"


def test_a_launch_too_many_is_noticed(monkeypatch):
    monkeypatch.setattr(by_default, "counters", lambda metrics, *rest, **options: [{"kernel": "k", metrics[0]: 1.0}])
    with pytest.raises(RuntimeError, match="1 launches were counted, not 63"):
        by_default.measure_memory()


def test_main_lists_every_benchmark(capsys):
    by_default.main()
    assert [line.split(".")[0] for line in capsys.readouterr().out.splitlines()] == ["speed", "memory"]


def test_all_sides_compute_the_same(device):
    a, b = torch.randn(2, 70, 70, device=device)
    for name, run in by_default.SIDES.items():
        torch.testing.assert_close(run(a, b), a @ b, msg=name, rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
def test_rates():
    for median, low, high in by_default.measure_speed(256).values():
        assert 0 < low <= median <= high < 2000
