# SPDX-License-Identifier: Apache-2.0
"""What the counters say is turned into hit rates and GB; programs write down when they ran; on a GPU, order matters."""

import shutil
import sys
from unittest import mock

import pytest
import torch
import triton.language as tl
from guards import Guarded, check_each_once, check_inside, recorded_accesses
from hardware import Hardware

from snippets.gpu.schedule import Schedule
from snippets.matmul import grouped_counted as counted
from snippets.matmul.grouped import TILE_BYTES, predict, tile_order

SMALL = {"SIZES": (256, 512), "GROUPS": (1, 2)}
GPU = {"resident": 3, "cache": 9}


@pytest.fixture
def measured(monkeypatch):
    """Measurements of two small sizes, counted by a made-up ncu: of 1,000 sectors 600 hit, 96 came from memory."""
    seen = {"ncu": 55.0, "asked": 1000.0, "answered": 600.0, "halves": 250.0, "memory": 3072.0}
    launches = [{"kernel": "matmul_kernel"} | {counted.METRICS[what]: n for what, n in seen.items()}] * 4
    for name, value in SMALL.items():
        monkeypatch.setattr(counted, name, value)
    monkeypatch.setattr(counted, "capacity", lambda: GPU)
    asked = mock.Mock(return_value=launches)
    monkeypatch.setattr(counted, "counters", asked)
    counted.measure.cache_clear()
    yield asked
    counted.measure.cache_clear()


def test_hits(measured):
    found = {what: counted.hits.fn(2, what, 512) for what in counted.HITS}
    whole, half = (predict(512, 2, resident=3, cache=cache) for cache in (9, 4))
    assert found["ncu"] == 55 and found["answered"] == 60 and found["spared"] == pytest.approx(90.4)
    assert found["whole"] == 100 * whole.hits / whole.reads and found["half"] == 100 * half.hits / half.reads
    assert measured.call_args.args == (list(counted.METRICS.values()), counted.__file__, "run", "256", "512")
    assert measured.call_args.kwargs == {"cache": "all"}


def test_memory(measured):
    found = {what: counted.memory.fn(1, what, 512) for what in counted.MEMORY}
    assert found["memory"] == 3072e-9 and found["least"] == 2 * 512 * 512 * 2e-9
    assert found["whole"] == predict(512, 1, **GPU).misses * TILE_BYTES / 1e9 <= found["half"]


def test_asked(measured):
    assert counted.asked.fn(256, "halves") == 0.25
    assert counted.asked.fn(256, "measured") == 32000 / (2 * 4 * 4 * TILE_BYTES)


def test_speed(monkeypatch):
    from snippets.tools.benchmarking import Timing

    monkeypatch.setattr(counted, "timings", lambda size: {8: Timing((2.0, 4.0))})
    assert counted.speed.fn(8, "size_1000")[0] == pytest.approx(2e9 / 3e-3 / 1e12)


def test_benchmarks():
    marks = counted.hits, counted.memory, counted.asked, counted.speed, counted.schedules
    each = [benchmark for mark in marks for benchmark in mark.benchmarks]
    names = [benchmark.plot_name for benchmark in each]
    assert len(set(names)) == len(names) == 2 * len(counted.SIZES) + 4
    assert next(b for b in each if b.plot_name == "speed").line_vals == [f"size_{size}" for size in counted.SIZES]
    assert next(b for b in each if b.plot_name == "schedule_row_major").x_vals == list(range(484))


def within(shape, row, column, values=float("nan")):
    """A matrix with strides of its own, amid NaN."""
    around = torch.full((shape[0] * row, shape[1] * column), float("nan"))
    return around[::row, ::column].copy_(torch.as_tensor(values).expand(shape))


def test_recorded_kernel():
    M, N, K, GROUP = 7, 20, 6, 3
    whole = torch.randint(-3, 4, (M, N + K), generator=torch.Generator().manual_seed(0)).float()
    a, b = within((M, K), 2, 3, whole[:, :K]), within((K, N), 3, 5, whole[:K, K:])
    c = within((M, N), 4, 2)
    sm, begin, end = (Guarded((12,), torch.int64, "cpu", before=16, after=16, fill=0x5A) for _ in range(3))
    with (
        mock.patch.object(tl, "inline_asm_elementwise", Hardware()),
        mock.patch.object(tl, "debug_barrier") as barrier,
        recorded_accesses() as accesses,
    ):
        counted.recorded_kernel[(12,)](
            sm.tensor, begin.tensor, end.tensor, a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(),
            BLOCK_M=2, BLOCK_N=8, BLOCK_K=4, GROUP_M=GROUP,
        )  # fmt: skip
    check_each_once(accesses, "store", sm=sm.tensor, begin=begin.tensor, end=end.tensor, c=c)
    check_inside(accesses, "load", a=a, b=b)
    for buffer in (sm, begin, end):
        buffer.check("a result")
    assert torch.equal(c, a @ b)
    assert [op for op, _ in accesses] == 12 * (2 * ["load", "load"] + 4 * ["store"]), "two steps along K"
    corners = [int(at[0] - c.data_ptr()) // 4 for op, at in accesses if op == "store"][::4]
    expected = [2 * m * c.stride(0) + 8 * n * c.stride(1) for m, n in tile_order(4, 3, GROUP)]
    assert corners == expected
    assert sm.tensor.tolist() == [7] * 12 and barrier.call_count == 12
    assert (end.tensor - begin.tensor).tolist() == [10] * 12 and begin.tensor[1] == end.tensor[0] + 10


def test_in_the_order_begun():
    schedule = Schedule(sm=(0, 1, 0, 1), begin=(1.0, 0.0, 3.0, 1.0), end=(2.0, 1.0, 4.0, 2.0))
    assert counted.in_the_order_begun([(0, 0), (1, 0), (0, 1), (1, 1)], schedule) == [(1, 0), (0, 0), (1, 1), (0, 1)]


def test_runs_the_sizes_that_it_is_told(monkeypatch):
    ran = mock.Mock()
    monkeypatch.setattr(counted, "run_all", ran)
    with mock.patch.object(sys, "argv", ["grouped_counted.py", "run", "256", "512"]):
        counted.main()
    ran.assert_called_once_with([256, 512])


def test_says_so_without_a_gpu():
    with mock.patch.object(sys, "argv", ["grouped_counted.py"]), pytest.raises(SystemExit, match="knows no PTX"):
        counted.main()


# On a GPU only


@pytest.mark.gpu
def test_one_program_fits():
    assert counted.capacity()["resident"] == counted.count_multiprocessors()


@pytest.mark.gpu
def test_counters_agree_with_the_model_where_it_must(monkeypatch):
    monkeypatch.setattr(counted, "SIZES", (8192,))
    if not shutil.which("ncu"):
        pytest.skip("ncu is not on the PATH; it comes with the CUDA toolkit")
    counted.measure.cache_clear()
    seen = counted.measure()
    counted.measure.cache_clear()
    assert 32 * seen[8192, 1]["asked"] == pytest.approx(seen[8192, 1]["whole"].reads * TILE_BYTES, rel=0.05)
    assert all(found["memory"] > 0.9 * 2 * 8192 * 8192 * 2 for found in seen.values())
    assert seen[8192, 1]["memory"] > 2 * seen[8192, 8]["memory"]


@pytest.mark.gpu
def test_recorded_on_a_gpu():
    for group in counted.RECORDED.values():
        seen = counted.recorded(group)
        assert len(seen.sm) == 484 and seen.most_at_once == 1 and max(seen.begin) > min(seen.end)
