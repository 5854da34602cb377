# SPDX-License-Identifier: Apache-2.0
"""Benchmarking: what is done with readings is right on made-up clocks, and on a GPU the timers agree with do_bench."""

import ast
import inspect
import statistics
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
import triton
from hypothesis import given
from hypothesis import strategies as st
from triton.backends.nvidia.compiler import CUDAOptions

from snippets.tools import benchmarking
from snippets.tools.benchmarking import Timing, compare

SOURCE = Path(benchmarking.__file__)


def clock(*readings):
    """A timer that reads these milliseconds, one after the other, and keeps what it was given to time."""
    left = iter(readings)

    def timer(run):
        timer.timed.append(run)
        return next(left)

    timer.timed = []
    return timer


def old(): ...


def new(): ...


# compare


def test_keeps_every_reading_by_side_and_round():
    timings = compare({"old": old, "new": new}, rounds=3, timer=clock(1, 10, 20, 2, 3, 30))
    assert timings == {"old": Timing((1.0, 2.0, 3.0)), "new": Timing((10.0, 20.0, 30.0))}
    assert list(timings) == ["old", "new"]


def test_sides_take_turns_and_every_other_round_goes_backwards():
    timer = clock(*[1] * 8)
    compare({"old": old, "new": new}, rounds=4, timer=timer)
    assert timer.timed == [old, new, new, old, old, new, new, old]


@given(rounds=st.integers(1, 8).map(lambda half: 2 * half), names=st.integers(2, 5), drift=st.floats(-0.001, 0.1))
def test_even_drift_does_not_tell_sides_apart(rounds, names, drift):
    readings = [1 + drift * i for i in range(rounds * names)]
    timings = compare(dict.fromkeys(map(str, range(names)), old), rounds=rounds, timer=clock(*readings))
    medians = [timing.median for timing in timings.values()]
    assert max(medians) == pytest.approx(min(medians), rel=1e-12)
    # One side after the other would have put the whole drift between them.
    one_by_one = [statistics.median(readings[i * rounds : (i + 1) * rounds]) for i in range(names)]
    assert one_by_one[-1] - one_by_one[0] == pytest.approx(drift * rounds * (names - 1))


def test_ten_rounds_by_default():
    assert len(compare({"old": old}, timer=lambda run: 1)["old"].rounds) == 10


@pytest.mark.parametrize(
    "sides, options, words",
    [
        ({}, {}, "sides must be functions by name"),
        ([old], {}, "sides must be functions by name"),
        (old, {}, "lambda: add"),
        ({"old": 3.0}, {}, "'old' must be a function; got 3.0: put `lambda:` before the call"),
        ({"old": old}, {"rounds": 0}, "rounds must be a whole number from 1; got 0"),
        ({"old": old}, {"rounds": 2.5}, "got 2.5"),
        ({"old": old}, {"timer": lambda run: 0}, "for 'old' it was 0.0"),
        ({"old": old}, {"timer": lambda run: float("nan")}, "for 'old' it was nan"),
        ({"old": old}, {"timer": lambda run: float("inf")}, "for 'old' it was inf"),
        ({"old": old}, {"timer": lambda run: -1}, "for 'old' it was -1.0"),
    ],
)
def test_refuses(sides, options, words):
    with pytest.raises(ValueError) as error:
        compare(sides, **{"timer": lambda run: 1, **options})
    assert words in str(error.value)


def test_refuses_to_time_the_interpreter(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(ValueError, match="these would be times of the interpreter"):
        compare({"old": old})


def test_refuses_without_a_gpu(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="no GPU found"):
        benchmarking.milliseconds(old)


@pytest.mark.parametrize("runs, warmups", [(0, 1), (-1, 1), (1, -1)])
def test_time_runs_refuses(runs, warmups):
    with pytest.raises(ValueError, match=f"got {runs} and {warmups}"):
        benchmarking.time_runs(old, runs=runs, warmups=warmups)


def test_there_is_no_other_flush():
    with pytest.raises(ValueError, match="flush must be one of 'clean', 'zeros', 'none'; got True"):
        benchmarking.time_runs(old, flush=True)


class Stream:
    """In place of a GPU: what is queued, in order. A call lasts 1 ms, a flush 0.1."""

    def __init__(self, monkeypatch):
        self.queue, self.now = [], 0.0
        stream = self

        class Event:
            def __init__(self, enable_timing): ...

            def record(self):
                self.at = stream.now

            def elapsed_time(self, end):
                return end.at - self.at

        buffers = [mock.Mock(zero_=lambda: self.run("written", 0.1)), mock.Mock(sum=lambda: self.run("read", 0.1))]
        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch, "zeros", lambda *_, **__: buffers)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        monkeypatch.setattr(benchmarking, "check_gpu", lambda: None)

    def run(self, name="call", lasts=1.0):
        self.queue.append(name)
        self.now += lasts


@pytest.mark.parametrize("flush, before", [("clean", ["written", "read"]), ("zeros", ["written"]), ("none", [])])
def test_the_flush_comes_before_the_clock(monkeypatch, flush, before):
    stream = Stream(monkeypatch)
    assert benchmarking.time_runs(stream.run, runs=2, warmups=1, flush=flush) == pytest.approx([1.0, 1.0])
    assert stream.queue == ["call", *before, "call", *before, "call"]


def test_a_reading_is_of_calls_from_a_clean_cache(monkeypatch):
    stream = Stream(monkeypatch)
    assert benchmarking.milliseconds(stream.run) == pytest.approx(1.0)
    assert stream.queue.count("written") == stream.queue.count("read") == 3 + 40 and stream.queue.count("call") == 54


@pytest.mark.parametrize("lasts, calls", [(0.001, 200), (5000.0, 3)])
def test_neither_too_many_calls_nor_too_few(monkeypatch, lasts, calls):
    stream = Stream(monkeypatch)
    assert benchmarking.milliseconds(lambda: stream.run(lasts=lasts)) == pytest.approx(lasts)
    assert stream.queue.count("read") == 3 + calls


# What is made of readings


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=20), st.integers(1, 10**12))
def test_rate(rounds, amount):
    timing = Timing(tuple(rounds))
    middle, low, high = timing.rate(amount, 1e12)
    assert middle == pytest.approx(amount / (statistics.median(rounds) / 1000) / 1e12)
    assert low == pytest.approx(amount / max(rounds) / 1e9) and high == pytest.approx(amount / min(rounds) / 1e9)
    assert low <= middle <= high


def test_rate_in_gigabytes_by_default():
    assert Timing((1.0,)).rate(4.8e9) == (4800.0,) * 3


def test_spread():
    assert Timing((5.0, 4.0, 6.0)).spread == pytest.approx(0.4)
    assert Timing((5.0,)).spread == 0


# What the page says about the installed do_bench


def test_do_bench_is_as_the_page_says():
    source = inspect.getsource(triton.testing.do_bench)
    defaults = {name: p.default for name, p in inspect.signature(triton.testing.do_bench).parameters.items()}
    assert (defaults["warmup"], defaults["rep"], defaults["return_mode"]) == (25, 100, "mean")
    # The estimate that decides on the number of runs includes emptying the cache, and warming up does not empty it.
    estimate, rest = source.split("# compute number of warmup and repeat")
    warm_up, measured = rest.split("# Benchmark")
    assert "clear_cache" in estimate and "clear_cache" not in warm_up and "clear_cache" in measured
    assert "clear_cache" not in inspect.getsource(triton.testing.do_bench_cudagraph)
    assert torch.get_float32_matmul_precision() == "highest"
    assert CUDAOptions().default_dot_input_precision == "tf32"


def test_imports_nothing_but_torch_and_triton():
    tree = ast.parse(SOURCE.read_text("utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} - sys.stdlib_module_names == {"torch", "triton"}


# On a GPU only


@pytest.mark.gpu
def test_time_runs_agrees_with_do_bench():
    source = torch.rand(2**26, device="cuda")
    target = torch.empty_like(source)
    run = lambda: target.copy_(source)
    ours, theirs = (
        compare({"copy": run}, rounds=4, timer=timer)["copy"].median
        for timer in (
            lambda run: statistics.median(benchmarking.time_runs(run, flush="zeros")),
            lambda run: triton.testing.do_bench(run, return_mode="median"),
        )
    )
    assert ours == pytest.approx(theirs, rel=0.05)


@pytest.mark.gpu
@pytest.mark.alone
def test_an_emptied_cache_is_slower():
    """Four megabytes come from the L2 cache unless it is emptied; a graph keeps Python out of the comparison."""
    source = torch.rand(2**20, device="cuda")
    target = torch.empty_like(source)
    run = lambda: target.copy_(source)
    emptied = statistics.median(benchmarking.time_runs(run))
    assert emptied > 1.2 * triton.testing.do_bench_cudagraph(run)


@pytest.mark.gpu
def test_a_clean_cache_costs_a_call_nothing():
    """After `zero_()` alone a call waits for zeros to be written; after a read pass it waits for nothing."""
    x = torch.rand(2**22, device="cuda")
    modified = triton.testing.do_bench(lambda: torch.sum(x), return_mode="median")
    assert benchmarking.milliseconds(lambda: torch.sum(x)) < modified


@pytest.mark.gpu
def test_one_function_is_as_fast_as_itself():
    source = torch.rand(2**26, device="cuda")
    target = torch.empty_like(source)
    run = lambda: target.copy_(source)
    timings = compare({"one": run, "other": run})
    assert timings["one"].median == pytest.approx(timings["other"].median, rel=0.02)
