# SPDX-License-Identifier: Apache-2.0
"""Copies by TMA are measured by tiles and buffers, beside others of the same bytes."""

import pytest
import torch
import triton

from snippets.below import tma_measured as measured
from snippets.below.tma_measured import BUFFERS, PEERS, SHAPE, TILES

MARKS = [value for value in vars(measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [mark.benchmarks.plot_name for mark in MARKS]


def test_tiles_are_as_large_as_they_say():
    for said, (rows, columns) in TILES.items():
        assert said == f"{rows * columns * 2 // 1024} KiB"
        assert max(BUFFERS) * rows * columns * 2 <= 200 * 1024


@pytest.fixture
def made_up(monkeypatch):
    def rates(sides, make, moved, *, unit, steady):
        assert unit == 1e9 and steady is False and moved == 2 * 2 * SHAPE[0] * SHAPE[1] == 2**29
        return {name: getattr(run, "keywords", run) for name, run in sides.items()}

    monkeypatch.setattr(measured, "rates", rates)
    measured.measure.cache_clear()
    yield
    measured.measure.cache_clear()


def test_tables(made_up):
    for tile, shape in TILES.items():
        for buffers in BUFFERS:
            assert measured.buffers.fn(buffers, tile) == {"tile": shape, "buffers": buffers}
    assert measured.peers.fn("torch", "rate") is torch.clone
    assert measured.peers.fn("registers", "rate") == {"per_thread": 8}
    assert list(PEERS) == measured.peers.benchmarks.x_vals


@pytest.mark.gpu
def test_all_of_them_copy():
    x = torch.randn(300, 512, device="cuda", dtype=torch.bfloat16)
    for run in PEERS.values():
        assert torch.equal(run(x), x)
