# SPDX-License-Identifier: Apache-2.0
"""Cold and clean: how many sets it takes, that all sides get the same ones, and on a GPU that nothing is left in L2."""

from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from snippets.tools import benchmarking_cold as cold
from snippets.tools.benchmarking_cold import TIMES_L2, Rotation, compare_in_rotation, rates, sets_needed


@given(size=st.integers(1, 2**31), l2=st.integers(2**20, 2**28))
def test_the_other_sets_fill_the_cache_several_times(size, l2):
    try:
        sets = sets_needed(size, l2)
    except ValueError:
        assert size * cold.MOST_SETS <= TIMES_L2 * l2 + size
        return
    assert (sets - 1) * size >= TIMES_L2 * l2  # what is read before a set's turn comes again
    assert (sets - 2) * size < TIMES_L2 * l2  # and no set more than that takes


def test_at_least_two_sets():
    assert sets_needed(2**40, 2**20) == 2  # with one, each call would follow itself


def test_operands_that_would_stay_in_the_cache_are_refused():
    with pytest.raises(ValueError, match=r"operands of 1,024 bytes are too small .* benchmarking.milliseconds"):
        sets_needed(1024, 50 * 2**20)


class Gpu:
    """In place of a GPU, with 1 MiB of L2."""

    L2_cache_size = 2**20

    def __init__(self, monkeypatch):
        monkeypatch.setattr(cold, "check_gpu", lambda: None)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: self)


class Noted:
    """In place of a rotation: a clock that reads what its function returns."""

    def __init__(self, run, sets, steady):
        self.run, self.sets, self.steady = run, sets, steady

    def __call__(self): ...

    def milliseconds(self):
        return self.run(*self.sets[0])


def test_all_sides_get_the_same_sets_in_turns(monkeypatch):
    Gpu(monkeypatch)
    made = []
    monkeypatch.setattr(cold, "Rotation", lambda *given, **options: made.append(Noted(*given, **options)) or made[-1])
    numbers = iter(range(100))
    make = lambda: (torch.full((2**16,), next(numbers)), torch.zeros(2**15))  # 768 KiB, in 64 and 32 bits
    order = []
    side = lambda name, time: lambda a, b: order.append(name) or time + a[0].item()
    timings = compare_in_rotation({"ours": side("ours", 2), "theirs": side("theirs", 3)}, make, rounds=2)
    ours, theirs = made
    assert ours.sets is theirs.sets
    assert len(ours.sets) == sets_needed(2**16 * 8 + 2**15 * 4, 2**20) == 8
    assert [operands[0][0].item() for operands in ours.sets] == list(range(8))  # each made anew
    assert order == ["ours", "theirs", "theirs", "ours"]
    assert timings["ours"].rounds == (2.0, 2.0) and timings["theirs"].rounds == (3.0, 3.0)


@pytest.mark.parametrize("flops, given, expected", [
    (2e9, {}, False), (2e11, {}, True), (2e9, {"steady": True}, True), (2e11, {"steady": False}, False),
])  # fmt: skip
def test_rates_are_steady_where_the_clock_falls(monkeypatch, flops, given, expected):
    Gpu(monkeypatch)
    made = []
    monkeypatch.setattr(cold, "Rotation", lambda *given, **options: made.append(Noted(*given, **options)) or made[-1])
    found = rates({"one": lambda x: 2.0}, lambda: (torch.zeros(2**18),), flops, rounds=3, **given)
    assert found == {"one": pytest.approx((flops / 2e9,) * 3)} and [side.steady for side in made] == [expected]
    found = rates({"one": lambda x: 2.0}, lambda: (torch.zeros(2**18),), 2e9, unit=1e9)
    assert found == {"one": pytest.approx((1000.0,) * 3)}


class Events:
    """In place of CUDA's graphs and events: each call that a graph recorded lasts as long as it says."""

    def __init__(self, monkeypatch):
        self.now, self.recording, self.replays = 0.0, None, 0
        events = self

        class Graph:
            def replay(self):
                events.now += sum(self.lasts)
                events.replays += 1

        class Event:
            def __init__(self, enable_timing): ...

            def record(self):
                self.at = events.now

            def synchronize(self): ...

            def elapsed_time(self, end):
                return end.at - self.at

        class Recording:
            def __init__(self, graph):
                graph.lasts = events.recording = []

            def __enter__(self): ...

            def __exit__(self, *_):
                events.recording = None

        monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "graph", Recording)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)

    def run(self, lasts):
        if self.recording is not None:
            self.recording.append(lasts)


def test_a_rotation_reads_the_mean_of_all_sets(monkeypatch):
    """Of a graph that is long against what passes between two, and so often that an event's time is good enough."""
    events = Events(monkeypatch)
    short = Rotation(events.run, [(0.01,), (0.03,)])
    assert short.calls == 50 and short.milliseconds() == pytest.approx(0.02)
    assert short.calls * 0.02 >= cold.LEAST and short.before == 1
    assert short.replays * short.calls * 0.02 == pytest.approx(cold.READING)
    long = Rotation(events.run, [(30.0,), (50.0,)])
    assert (long.calls, long.replays, long.before) == (2, 1, 1) and long.milliseconds() == pytest.approx(40)


def test_a_steady_side_runs_by_itself_before_each_reading(monkeypatch):
    events = Events(monkeypatch)
    steady = Rotation(events.run, [(2.0,), (2.0,)], steady=True)
    events.now, events.replays = 0.0, 0
    assert steady.milliseconds() == pytest.approx(2.0)
    assert events.replays == steady.before + steady.replays and steady.before * 4.0 >= cold.STEADY
    assert steady.replays * 4.0 == cold.READING


def test_tensors_of_one_storage_are_counted_once(monkeypatch):
    Gpu(monkeypatch)
    both = lambda: torch.zeros(2, 2**17).unbind()  # 1 MiB together
    assert len(cold.operands_in_rotation(both)) == sets_needed(2**20, 2**20)


def test_a_view_counts_as_what_it_lies_in(monkeypatch):
    Gpu(monkeypatch)
    whole = lambda: (torch.zeros(2**18)[:1],)  # 1 MiB, of which four bytes are used
    assert len(cold.operands_in_rotation(whole)) == sets_needed(2**20, 2**20)


def test_empty_launches_one_program_whatever_the_operands():
    with mock.patch.object(cold, "empty_kernel", mock.MagicMock()) as kernel:
        cold.empty(torch.zeros(3), torch.zeros(4))
    assert kernel.mock_calls == [mock.call.__getitem__((1,)), mock.call.__getitem__()()]


def test_without_a_gpu_it_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match="no GPU found"):
        compare_in_rotation({}, list)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(ValueError, match="TRITON_INTERPRET=1 is set"):
        compare_in_rotation({}, list)


@pytest.mark.gpu
@pytest.mark.alone
def test_in_rotation_a_sum_is_no_faster_than_memory():
    """Of 16 MiB, which L2 holds: one array again and again is read from there, several are not."""
    make = lambda: (torch.rand(2**22, device="cuda"),)
    large = torch.rand(2**28, device="cuda")  # 1 GiB
    rate = lambda timing, bytes: timing.rate(bytes)[0]
    rotated = rate(compare_in_rotation({"sum": torch.sum}, make)["sum"], 2**24)
    memory = rate(compare_in_rotation({"sum": torch.sum}, lambda: (large.clone(),))["sum"], 2**30)
    again = 2**24 / (cold.Rotation(torch.sum, [make()] * 16).milliseconds() * 1e-3) / 1e9
    assert rotated < 1.05 * memory and again > 1.2 * rotated


@pytest.mark.gpu
def test_nothing_is_shorter_than_an_empty_kernel():
    make = lambda: (torch.rand(2**20, device="cuda"),)
    found = compare_in_rotation({"sum": torch.sum, "empty": cold.empty}, make)
    assert 0 < found["empty"].median < found["sum"].median
