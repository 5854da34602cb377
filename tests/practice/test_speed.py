# SPDX-License-Identifier: Apache-2.0
"""The last check, with the CPU in a GPU's place and a time of our own. On a GPU: ``test_exercises``, ``-m gpu``."""

import dataclasses
import itertools
from types import SimpleNamespace

import pytest
import torch
from coach import speed
from coach.case import Case, make_inputs
from coach.exercise import exercises, find, load
from coach.finding import Fault
from coach.spec import Speed

SCALE = find("scale", exercises())
FILE = SCALE.folder / "solution.py"


@pytest.fixture
def on_cpu(monkeypatch):
    monkeypatch.setattr(speed, "to_gpu", lambda inputs: inputs)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)


@pytest.fixture
def measured(monkeypatch, on_cpu):
    """Check a function as if on a GPU, where it reaches a share of the copy's speed."""

    def check(function, share=0.9):
        monkeypatch.setattr(speed, "measure", lambda spec, function, file: [0.1, share, 2.0])
        return speed.check(SCALE.spec(), function, str(FILE))

    return check


@pytest.fixture(scope="module")
def scale():
    return load(FILE, "solution").scale


def test_fast_enough(measured, scale):
    assert measured(scale) == "On this GPU it runs at 90% of the speed of a copy of as many bytes."


def test_too_slow(measured, scale):
    with pytest.raises(Fault, match="runs at 20% of the speed of a copy of as many bytes; it should be") as error:
        measured(scale, share=0.2)
    assert error.value.finding.case == f"n = {2**25}"


def test_no_speed_is_asked_for(on_cpu, scale):
    spec = dataclasses.replace(SCALE.spec(), speed=None)
    assert speed.check(spec, scale, str(FILE)) == "The values are right on this GPU, too."


def test_wrong_on_a_gpu_only(measured, scale):
    with pytest.raises(Fault, match=r"On the GPU, element \[0\] is"):
        measured(lambda x, a: scale(x, a) + 1)


def test_right_at_the_first_call_only(measured, scale):
    """Each size is called twice: what depends on the order of programs may be right once."""
    calls = itertools.count()
    with pytest.raises(Fault, match="On the GPU, element"):
        measured(lambda x, a: scale(x, a) + next(calls) % 2)


def test_raises_on_a_gpu_only(measured, scale):
    with pytest.raises(Fault, match="On the GPU your code raised ValueError: x has the stride"):
        measured(lambda x, a: scale(x.new_zeros(9)[::2], a))


def test_a_property_is_checked_on_the_gpu(on_cpu, scale):
    large = lambda result, inputs, again: "no" if len(again()) > 9 else None
    spec = dataclasses.replace(SCALE.spec(), properties=(large,))
    with pytest.raises(Fault, match="no"):
        speed.check_values(spec, scale, str(FILE))


class Graph:
    """Replays calls by making them again. A call takes as many milliseconds as its function's ``ms`` says."""

    clock = 0.0

    def replay(self):
        for number, run, operands in self.calls:
            made = run(operands)
            Graph.clock += getattr(run, "ms", 1.0)
            if made is not None:
                self.results[number].copy_(made)


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = Graph.clock

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return end.at - self.at


@pytest.fixture
def timed(monkeypatch, on_cpu):
    """``speed.measure`` of exercise 1 at 1,000 elements, with a GPU of our own, whose L2 holds 8,000 bytes."""

    def record(self, run, sets, times):
        self.calls, self.graph = times * len(sets), Graph()
        self.graph.calls = [(n % len(sets), run, sets[n % len(sets)]) for n in range(self.calls)]
        self.results = self.graph.results = [run(operands) for operands in sets]
        rotations.append(self)

    rotations = []
    monkeypatch.setattr(speed.Rotation, "record", record)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(L2_cache_size=8000))
    monkeypatch.setattr(torch, "empty", lambda *args, device="cpu", empty=torch.empty, **more: empty(*args, **more))
    spec = dataclasses.replace(SCALE.spec(), speed=Speed(size={"n": 1000}, least=0.5))

    def measure(function, ms=1.0):
        monkeypatch.setattr(speed.Rotation, "__init__", with_times(ms))
        return speed.measure(spec, function, str(FILE))

    init = speed.Rotation.__init__

    def with_times(ms):
        def begin(self, run, sets, steady=0.0):
            def timed_run(operands):
                return run(operands)

            timed_run.ms = 1.0 if run is torch.clone else ms
            init(self, timed_run, sets, steady)

        return begin

    measure.rotations = rotations
    return measure


def test_the_share_is_that_of_the_times_in_turns(timed):
    assert timed(lambda x, a: x * a, ms=4.0) == [0.25] * speed.ROUNDS


def test_operands_leave_the_cache_before_their_turn_comes_again(timed):
    timed(lambda x, a: x * a)
    for rotation in timed.rotations:
        sets = {id(operands): operands for _, _, operands in rotation.graph.calls}.values()
        first = [operands[0] if isinstance(operands, list) else operands for operands in sets]
        assert len({x.data_ptr() for x in first}) == len(first) == 9  # 4 times 8,000 bytes in sets of 4,000, and one
        assert not [x for x in first if len(set(x.tolist())) < 100], "the data is not random"


def test_what_returns_an_earlier_result_in_the_graph_is_wrong(timed):
    """No kernel of it is in the graph, so a replay leaves what was put into its results to find out."""
    kept = {}

    def cached(x, a):
        if x.data_ptr() not in kept:
            kept[x.data_ptr()] = x * a
        return kept[x.data_ptr()]

    with pytest.raises(Fault, match=r"On the GPU, element \[0\] is nan and should be") as error:
        timed(cached)
    assert "It is right at smaller sizes." in error.value.finding.guess


def test_code_that_waits_for_the_gpu_is_told_so(timed, monkeypatch):
    message = "CUDA error: operation not permitted when stream is capturing"
    monkeypatch.setattr(speed.Rotation, "record", lambda *_: (_ for _ in ()).throw(RuntimeError(message)))
    with pytest.raises(Fault, match="recorded in a CUDA graph") as error:
        timed(lambda x, a: x * a)
    assert "Does it wait for the GPU" in error.value.finding.guess


def test_a_size_that_stays_in_the_cache_is_refused(timed):
    with pytest.raises(ValueError, match="too small: 4 bytes take 8001 sets"):
        speed.sets_needed(4)


def test_what_it_is_compared_with_has_a_name():
    spec = SCALE.spec()
    named = lambda other: speed.against(dataclasses.replace(spec, speed=Speed(size={}, least=1, against=other)))
    assert (named(torch.matmul), named(lambda x: x.sum(1)), named(torch.cumsum)) == ("cuBLAS", "torch", "`cumsum`")


def test_the_strides_go_to_the_gpu(monkeypatch):
    empty = torch.empty_strided
    monkeypatch.setattr(torch, "empty_strided", lambda *args, device, **more: empty(*args, **more))
    given = make_inputs(SCALE.spec(), Case({"n": 5}, "spread"))
    moved = speed.to_gpu(given)
    assert (moved["x"].stride(), moved["a"]) == ((2,), 2.5)
    assert torch.equal(moved["x"], given["x"])
