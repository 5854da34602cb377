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
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.gpu.schedule import Schedule
from snippets.matmul import grouped_counted as counted
from snippets.matmul.grouped import TILE_BYTES, predict, tile_order, tile_reads
from snippets.matmul.grouped_counted import timed_reads

SMALL = {"SIZES": (256, 512), "GROUPS": (1, 2)}
GPU = {"resident": 3, "cache": 9}


@pytest.fixture
def measured(monkeypatch):
    """Measurements of two small sizes, counted by a made-up ncu: of 1,000 sectors 600 hit, 96 came from memory."""
    seen = {"ncu": 55.0, "received": 1500.0, "asked": 1000.0, "answered": 600.0, "halves": 250.0, "memory": 3072.0}
    seen |= {"coalescer_out": 1400.0, "coalescer_in": 1100.0}
    launch = {"kernel": "matmul_kernel"} | {counted.METRICS[what]: n for what, n in seen.items()}
    launches = [launch] * 4 * counted.LAUNCHES
    launches[0] = launch | {counted.METRICS["memory"]: 9600.0}  # of (256, 1); the median of three is as the others
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
    assert found["ncu"] == 3 * (55,) and found["answered"] == 3 * (60,)
    assert found["spared"] == pytest.approx(3 * (90.4,))
    assert found["whole"] == 100 * whole.hits / whole.reads and found["half"] == 100 * half.hits / half.reads
    assert measured.call_args.args == (list(counted.METRICS.values()), counted.__file__, "run", "256", "512")
    assert measured.call_args.kwargs == {"cache": "all"}


def test_memory(measured):
    found = {what: counted.memory.fn(1, what, 512) for what in counted.MEMORY}
    assert found["memory"] == pytest.approx(3 * (3072e-9,)) and found["least"] == 2 * 512 * 512 * 2e-9
    assert found["whole"] == predict(512, 1, **GPU).misses * TILE_BYTES / 1e9 <= found["half"]
    assert counted.memory.fn(1, "memory", 256) == pytest.approx((3072e-9, 3072e-9, 9600e-9))


def test_shares(measured):
    sectors = 2 * 4 * 4 * TILE_BYTES / 32  # two tiles of 128 along each side, four steps
    assert counted.shares.fn(2, "size_256", "halves") == 3 * (25,)
    assert counted.shares.fn(2, "size_256", "received") == pytest.approx(3 * (100 * 1500 / sectors,))
    assert counted.shares.fn(2, "size_256", "asked") == pytest.approx(3 * (100 * 1000 / sectors,))
    assert counted.shares.fn(2, "size_256", "coalescer_in") == pytest.approx(3 * (100 * 1100 / sectors,))


def test_sides(measured):
    found = {what: counted.sides.fn(2, what, 512) for what in counted.SIDES}
    expected = counted.two_halves(tile_order(4, 4, 2), 8, **GPU)
    assert found["memory"] == counted.memory.fn(2, "memory", 512)
    assert found["crossed"] == pytest.approx(3 * (250 * 32e-9,))
    assert found["half"] == counted.memory.fn(2, "half", 512)
    assert found["sides"] == expected.memory * TILE_BYTES / 1e9
    assert found["crossing"] == expected.crossed * TILE_BYTES / 1e9


def test_speed(monkeypatch):
    seen = []

    def rates(sides, make, flops):
        a, b = make()
        seen.append((list(sides), *a.shape, *b.shape, flops, {run.keywords["group"] for run in sides.values()}))
        return dict.fromkeys(sides, (1.0, 0.5, 2.0))

    monkeypatch.setattr(counted, "rates", rates)
    monkeypatch.setattr(counted, "matrices", lambda size: torch.zeros(2, size, size))
    counted.timings.cache_clear()
    assert counted.speed.fn(8, "size_100") == counted.speed.fn(1, "size_100") == (1.0, 0.5, 2.0)
    counted.timings.cache_clear()
    assert seen == [(list(counted.GROUPS), 100, 100, 100, 100, 2 * 100**3, set(counted.GROUPS))]


def test_benchmarks():
    marks = ["hits", "memory", "shares", "sides", "speed", "schedules", "drift", "spread"]
    each = [benchmark for mark in marks for benchmark in getattr(counted, mark).benchmarks]
    names = [benchmark.plot_name for benchmark in each]
    assert len(set(names)) == len(names) == 2 * len(counted.SIZES) + 13
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


@settings(max_examples=25)
@given(*map(st.integers, [1] * 4, [6, 6, 4, 4]), st.integers(1, 9), st.integers(1, 30), st.integers(0, 3))
def test_two_halves(tiles_m, tiles_n, tiles_k, group, resident, cache, seed):
    taken = tile_order(tiles_m, tiles_n, group)
    seen = counted.two_halves(taken, tiles_k, resident=resident, cache=cache, seed=seed)
    tiles = (tiles_m + tiles_n) * tiles_k
    assert seen.reads == 2 * len(taken) * tiles_k and tiles <= seen.memory <= seen.reads
    assert seen.crossed <= seen.reads / 2, "only what belongs to the other half"
    endless = counted.two_halves(taken, tiles_k, resident=resident, cache=999, seed=seed)
    assert endless.memory == tiles >= endless.crossed, "each half asks the other for a part of each tile, at most once"


def test_two_halves_by_hand():
    """One program after the other, both near to one half, which holds two half tiles of four a step."""
    alone = counted.two_halves([(0, 0), (0, 0)], 1, resident=1, cache=2)
    assert alone == (4, 2, 3), "of the second round only the far half still has its part of A and B"


def waves(programs, resident, length=5.0):
    """All programs of a wave begin together, and last as long."""
    begin = tuple(pid // resident * length for pid in range(programs))
    return Schedule(tuple(pid % resident for pid in range(programs)), begin, tuple(at + length for at in begin))


@settings(max_examples=25)
@given(*map(st.integers, [1] * 6, [6, 6, 4, 4, 9, 30]))
def test_timed_in_step_is_the_model(tiles_m, tiles_n, tiles_k, group, resident, cache):
    taken = tile_order(tiles_m, tiles_n, group)
    seen = timed_reads(taken, waves(len(taken), resident), tiles_k, cache=cache)
    assert seen == tile_reads(taken, tiles_k, resident=resident, cache=cache)


def test_timed_out_of_step():
    """One reads A0 A1 A2 A3, the other more than two steps later: 5 others lie between for A0 and A3, else 7."""
    late = Schedule(sm=(0, 1), begin=(0.0, 2.1), end=(4.0, 6.1))
    hits = [timed_reads([(0, 0), (0, 1)], late, 4, cache=cache).hits for cache in (1, 5, 6, 7, 8, 12)]
    assert hits == [0, 0, 2, 2, 4, 4]


def test_apart():
    assert counted.apart(waves(12, 4), 4) == 0
    slow = Schedule(sm=(0, 1) * 3, begin=(0, 1, 8, 12, 20, 30), end=(8, 12, 20, 30, 30, 38))
    lengths = (8, 11, 12, 18, 10, 8)
    assert counted.apart(slow, 2) == pytest.approx(4 / (sum(lengths) / 6)), "of 1, 4 and 10 the median"


@pytest.fixture
def launched(monkeypatch, tmp_path):
    """A made-up ncu, whose launches ran two programs at a time in step, and each read 512 bytes more than the last."""

    def count(metrics, script, *arguments, **options):
        assert (metrics, script, options) == (["dram__bytes_read.sum"], counted.__file__, {"cache": "all"})
        run, folder, *sizes = arguments
        assert run == "timed" and sizes == ["256", "512"]
        cases = [(int(size), group) for size in sizes for group in counted.GROUPS]
        cases = [(*case, i) for case in cases for i in range(3 if case == (512, 2) else 1)]
        for size, group, i in cases:
            times = torch.tensor(waves((size // 128) ** 2, 2))  # as nanoseconds
            torch.save(times.long(), f"{folder}/{size}_{group}_{i}")
        return [{"dram__bytes_read.sum": 512.0 * (1 + i)} for i in range(len(cases))]

    monkeypatch.setattr(counted, "counters", count)
    monkeypatch.setattr(counted, "GROUPS", (1, 2, 4))
    monkeypatch.setattr(counted, "TIMED", {"size_256": "256", "size_512": "512"})
    monkeypatch.setattr(counted, "DRIFTING", {(512, 2)})
    monkeypatch.setattr(counted, "capacity", lambda: {"resident": 2, "cache": 9})
    cached = counted.paired, counted.drifted
    forget = lambda: [function.cache_clear() for function in cached]
    forget()
    yield
    forget()


def test_drift(launched, monkeypatch):
    monkeypatch.setattr(counted.memory, "fn", lambda group, what, size: (group, what, size))
    assert counted.drift.fn(4, "half", 512) == (4, "half", 512)
    assert counted.drift.fn(1, "memory", 256) == 3 * (512 / 1e9,), "one launch"
    assert counted.drift.fn(4, "memory", 512) == 3 * (8 * 512 / 1e9,)
    assert counted.drift.fn(2, "memory", 512) == (6 * 512 / 1e9, 5 * 512 / 1e9, 7 * 512 / 1e9), "three launches"
    for group in (2, 4):
        half = predict(512, group, resident=2, cache=4).misses * TILE_BYTES / 1e9
        assert counted.drift.fn(group, "timed", 512) == 3 * (half,)


def test_spread(launched, monkeypatch):
    assert counted.spread.fn(4, "size_512") == (0, 0, 0)
    later = Schedule(sm=(0, 1), begin=(0.0, 1.0), end=(4.0, 5.0))
    latest = Schedule(sm=(0, 1), begin=(0.0, 2.0), end=(4.0, 6.0))
    monkeypatch.setattr(counted, "paired", lambda: {(512, 4): [(1.0, later)], (512, 2): [(1.0, later), (1.0, latest)]})
    assert counted.spread.fn(4, "size_512") == (25, 25, 25) and counted.spread.fn(2, "size_512") == (37.5, 25, 50)


def test_runs_the_sizes_that_it_is_told(monkeypatch):
    ran = mock.Mock()
    monkeypatch.setattr(counted, "run_all", ran)
    with mock.patch.object(sys, "argv", ["grouped_counted.py", "run", "256", "512"]):
        counted.main()
    ran.assert_called_once_with([256, 512])


def test_run_timed(monkeypatch, tmp_path):
    """The launches after the first of each are those that count, and whose times are kept."""
    launched = []

    def recorder(group, side, depth):
        written = torch.zeros(3, 4, dtype=torch.int64)
        return lambda: launched.append((group, side, depth)) or written.add_(group), written

    monkeypatch.setattr(counted, "recorder", recorder)
    monkeypatch.setattr(counted, "GROUPS", (1, 8))
    monkeypatch.setattr(counted, "DRIFTING", {(256, 8)})
    with mock.patch.object(torch.cuda, "synchronize"), mock.patch.object(torch.cuda.profiler, "profile") as profile:
        profile.return_value = mock.MagicMock()
        counted.run_timed(tmp_path, [256])
    assert launched == [(1, 256, 256)] * 2 + [(8, 256, 256)] * 4 and profile.call_count == 4
    assert torch.load(tmp_path / "256_1_0").eq(2).all()
    assert all(torch.load(tmp_path / f"256_8_{i}").eq(16 + 8 * i).all() for i in range(3))


def test_writes_times_where_it_is_told(monkeypatch):
    ran = mock.Mock()
    monkeypatch.setattr(counted, "run_timed", ran)
    with mock.patch.object(sys, "argv", ["grouped_counted.py", "timed", "here", "256"]):
        counted.main()
    ran.assert_called_once_with("here", [256])


def test_says_so_without_a_gpu():
    with mock.patch.object(sys, "argv", ["grouped_counted.py"]), pytest.raises(SystemExit, match="knows no PTX"):
        counted.main()


# On a GPU only


@pytest.mark.gpu
def test_one_program_fits():
    assert counted.capacity()["resident"] == counted.count_multiprocessors()


@pytest.fixture(scope="module")
def counters():
    if not shutil.which("ncu"):
        pytest.skip("ncu is not on the PATH; it comes with the CUDA toolkit")
    with mock.patch.object(counted, "SIZES", (4096, 8192)):
        counted.measure.cache_clear()
        yield counted.measure()
        counted.measure.cache_clear()


@pytest.mark.gpu
@pytest.mark.alone
def test_multiprocessors_receive_what_the_model_says(counters):
    """And L2 is asked for less: the coalescer before it merges requests for one sector."""
    for (size, _), found in counters.items():
        sectors = found["whole"].reads * TILE_BYTES / 32
        for seen in found["launches"]:
            assert seen["received"] == pytest.approx(sectors, rel=0.01)
            assert seen["coalescer_out"] == pytest.approx(sectors, rel=0.01)
            assert seen["coalescer_in"] == pytest.approx(seen["asked"], rel=0.15)
            assert 0.4 * sectors < seen["asked"] < (0.9 if size == 8192 else 0.8) * sectors


@pytest.mark.gpu
@pytest.mark.alone
def test_memory_is_read_as_if_half_of_the_cache_were_there(counters):
    for (size, group), found in counters.items():
        for seen in found["launches"]:
            assert 0.99 * 2 * size * size * 2 < seen["memory"] < 32 * seen["asked"]
            rel = 0.25 if 4096 in (size, size * group // 2) else 0.15  # group 1 at 8192: one H200 read 16 % more
            assert seen["memory"] == pytest.approx(found["half"].misses * TILE_BYTES, rel=rel), (size, group)
    memory = {case: found["launches"][0]["memory"] for case, found in counters.items()}
    for case in ((4096, 1), (4096, 8), (8192, 16)):
        assert memory[case] > 1.5 * counters[case]["whole"].misses * TILE_BYTES
    assert memory[8192, 1] > 2 * memory[8192, 8]


@pytest.mark.gpu
@pytest.mark.alone
def test_halves_ask_each_other_as_the_model_of_two_says(counters):
    """Roughly: the model deals sides out by chance, and at 8192 in groups of 4 the GPU crosses less often."""
    for case, found in counters.items():
        reads = counted.sided(*case).crossed * TILE_BYTES
        writes = case[0] ** 2 * 2 / 2  # half of C belongs to the half that its program is far from
        for seen in found["launches"]:
            assert 32 * seen["halves"] == pytest.approx(reads + writes, rel=0.4), case


@pytest.mark.gpu
@pytest.mark.alone
def test_recorded_times_say_what_programs_in_step_cannot():
    """In some launches programs drift, in others they run in step: either way their times say what was read."""
    if not shutil.which("ncu"):
        pytest.skip("ncu is not on the PATH; it comes with the CUDA toolkit")
    half = counted.capacity() | {"cache": counted.capacity()["cache"] // 2}
    for size in (8192, 16384):
        for group in (8, 16, 32):
            in_step = predict(size, group, **half).misses * TILE_BYTES / 1e9
            for read, timed in counted.drifted(size, group):
                found = size, group, read, timed, in_step
                assert timed == pytest.approx(read, rel=0.15), found
                if abs(timed - in_step) > 0.2 * in_step:
                    assert abs(read - timed) < abs(read - in_step), found


@pytest.mark.gpu
@pytest.mark.alone
def test_recorded_on_a_gpu():
    for group in counted.RECORDED.values():
        seen = counted.recorded(group)
        assert len(seen.sm) == 484 and seen.most_at_once == 1 and max(seen.begin) > min(seen.end)


def test_what_the_model_asks_of_a_gpu(monkeypatch):
    a, b, kernel = torch.zeros(128, 128), torch.zeros(128, 128).t(), mock.MagicMock()
    properties = mock.Mock(return_value=mock.Mock(L2_cache_size=7 * counted.TILE_BYTES + 1))
    monkeypatch.setattr(counted, "check_gpu", asked := mock.Mock())
    monkeypatch.setattr(counted, "matrices", matrices := mock.Mock(return_value=(a, b)))
    monkeypatch.setattr(counted, "matmul_kernel", kernel)
    monkeypatch.setattr(counted, "programs_at_once", at_once := mock.Mock(return_value=2))
    monkeypatch.setattr(counted, "count_multiprocessors", lambda: 5)
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    assert counted.capacity.__wrapped__() == {"resident": 10, "cache": 7}
    assert asked.called and matrices.call_args == mock.call(128) and properties.call_args == mock.call(0)
    assert kernel.__getitem__.call_args == mock.call((1,))
    launched = kernel.__getitem__.return_value
    assert at_once.call_args == mock.call(launched.return_value)
    (first, second, c, *numbers), options = launched.call_args
    assert first is a and second is b and (c.shape, c.dtype, c.stride()) == (a.shape, a.dtype, a.stride())
    assert c is not a and numbers == [128, 128, 128, 128, 1, 1, 128, 128, 1]
    blocks = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), counted.TILE, strict=True))
    assert options == {**blocks, "GROUP_M": 1, **counted.OPTIONS}
