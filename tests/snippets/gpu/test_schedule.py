# SPDX-License-Identifier: Apache-2.0
"""Schedules: what is computed from one is right, kernels store what the hardware says, and on a GPU cases hold."""

from pathlib import Path
from unittest import mock

import pytest
import torch
import triton.language as tl
from guards import Guarded, check_each_once, environment, recorded_accesses
from hardware import Hardware
from hypothesis import given
from hypothesis import strategies as st

from snippets.gpu import schedule
from snippets.gpu.schedule import Schedule
from tests.processes import run_script

SOURCE = Path(schedule.__file__)


@pytest.fixture
def hardware():
    simulated = Hardware()
    with mock.patch.object(tl, "inline_asm_elementwise", simulated):
        yield simulated


# What is computed from a schedule

programs = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 9)), max_size=25)


@given(programs)
def test_most_at_once(drawn):
    made = Schedule(*zip(*((sm, begin, begin + length) for sm, begin, length in drawn), strict=True)) if drawn else None
    made = made or Schedule((), (), ())
    halves = [time + 0.5 for time in range(31)]  # between the times at which anything changes
    running = lambda sm, now: sum(s == sm and b < now < e for s, b, e in zip(*made, strict=True))
    assert made.most_at_once == max((running(sm, now) for sm in range(3) for now in halves), default=0)


@given(st.lists(st.integers(0, 9), max_size=20))
def test_overtakers(begins):
    made = Schedule((0,) * len(begins), tuple(begins), tuple(begins))
    assert made.overtakers == sum(any(b < earlier for earlier in begins[:i]) for i, b in enumerate(begins))


def test_of_tensors():
    begin, end = (torch.tensor([2**62 + first, 2**62 + second]) for first, second in ((500, 0), (900, 32)))
    made = Schedule.of(torch.tensor([3, 1]), begin, end)
    assert made == Schedule(sm=(3, 1), begin=(0.5, 0.0), end=(0.9, 0.032)) and made.span == 0.9
    empty = Schedule.of(*torch.empty(3, 0, dtype=torch.int64))
    assert empty == Schedule((), (), ()) and empty.span == 0 and empty.most_at_once == 0 and empty.overtakers == 0


# The kernels, on made-up hardware


def test_busy_kernel(hardware):
    sm, begin, end = (Guarded((3,), torch.int64, torch.device("cpu"), before=8, after=8, fill=0x5A) for _ in range(3))
    x = torch.arange(1.0, 9.0)
    sums, lengths = torch.zeros(3), torch.tensor([0, 501, 2000])
    with recorded_accesses() as accesses, mock.patch.object(tl, "debug_barrier") as barrier:
        schedule.busy_kernel[(3,)](sm.tensor, begin.tensor, end.tensor, lengths, x, sums, HELD=8)
    for name, buffer in (("sm", sm), ("begin", begin), ("end", end)):
        buffer.check(name)
    assert sm.tensor.tolist() == [7, 7, 7] and sums.tolist() == [36.0] * 3
    busy = (end.tensor - begin.tensor).tolist()
    assert busy == [10, 520, 2010], "the clock, in steps of 10, is looked at once more for the end"
    assert barrier.call_count == 3
    assert begin.tensor[0] == 100_010 and begin.tensor[1] == end.tensor[0] + 10
    check_each_once(accesses, "store", sm=sm.tensor, begin=begin.tensor, end=end.tensor, sums=sums)


def test_ticks_kernel(hardware):
    times = Guarded((5,), torch.int64, torch.device("cpu"), before=8, after=8, fill=0x5A)
    schedule.ticks_kernel[(1,)](times.tensor, 5)
    times.check("times")
    assert times.tensor.tolist() == [100_010, 100_020, 100_030, 100_040, 100_050]


# The host's side


def test_needs_a_gpu(monkeypatch):
    for call in (lambda: schedule.keep_busy([1]), schedule.tick, schedule.count_multiprocessors):
        with pytest.raises(ValueError, match="unset TRITON_INTERPRET"):
            call()


@pytest.mark.parametrize(
    "times, options, message",
    [
        ([], {}, "one number or more"),
        ([-1], {}, "between 0 and a million"),
        ([10**7], {}, "between 0 and a million"),
        ([1], {"held": 3}, "held must be a power of two, at most 65536; got 3"),
        ([1], {"held": 2**17}, "held must be"),
        ([1], {"num_warps": 64}, "num_warps must be a power of two, at most 32; got 64"),
    ],
)
def test_refuses(monkeypatch, times, options, message):
    monkeypatch.setattr(schedule, "check_gpu", lambda: None)
    with pytest.raises(ValueError, match=message):
        schedule.keep_busy(times, **options)


@pytest.mark.parametrize("sms", [16, 108, 132, 148])
def test_cases(sms):
    times = {case: make(sms) for case, (make, _) in schedule.CASES.items()}
    assert len(times["few"]) < sms == len(times["one_wave"]) < len(times["wave_and_a_bit"]) < 2 * sms
    assert max(times["uneven"]) <= 200 and sorted(times["uneven"]) == times["uneven"]
    assert times["longest_first"] == pytest.approx([220 - time for time in times["uneven"]])
    assert all(len(made) <= 600 for made in times.values())


def test_benchmarks_have_a_row_for_each_program(monkeypatch):
    made = Schedule(sm=(5, 6), begin=(0.0, 0.5), end=(2.0, 2.5))
    monkeypatch.setattr(schedule, "recorded", lambda case: made)
    names = [benchmark.plot_name for benchmark in schedule.schedules.benchmarks]
    assert names == [f"schedule_{case}" for case in schedule.CASES]
    for benchmark in schedule.schedules.benchmarks:
        rows = [
            [schedule.schedules.fn(program, what, **benchmark.args) for what in benchmark.line_vals]
            for program in benchmark.x_vals
        ]
        assert rows == [[5, 0.0, 2.0], [6, 0.5, 2.5]]


def test_says_so_without_a_gpu():
    root = SOURCE.parents[2]
    for more, words in (({"TRITON_INTERPRET": "1"}, "knows no PTX"), ({"CUDA_VISIBLE_DEVICES": ""}, "no NVIDIA GPU")):
        given = environment("cuda", PYTHONPATH=str(root), HIP_VISIBLE_DEVICES="", **more)
        done = run_script(SOURCE, env=given, cwd=root)
        assert done.returncode == 1 and words in done.stderr.splitlines()[-1]


# On a GPU only


@pytest.mark.gpu
def test_the_clock_is_fine_enough():
    assert 1 <= schedule.tick() <= 2000


@pytest.mark.gpu
def test_programs_are_as_busy_as_told():
    told = [50, 100, 200]
    made, _ = schedule.keep_busy(told)
    tick = schedule.tick() / 1000
    for length, begin, end in zip(told, made.begin, made.end, strict=True):
        assert length - 0.001 <= end - begin <= length + 20 + tick


@pytest.mark.gpu
def test_cases_on_a_gpu():
    sms = schedule.count_multiprocessors()
    seen = {case: schedule.recorded(case) for case in schedule.CASES}
    assert len(set(seen["few"].sm)) == sms // 2 and len(set(seen["one_wave"].sm)) == sms
    for case, made in seen.items():
        assert made.most_at_once == (2 if case == "two_per_sm" else 1)
    assert seen["wave_and_a_bit"].span == pytest.approx(2 * seen["one_wave"].span, rel=0.1)
    assert seen["longest_first"].span < 0.85 * seen["uneven"].span
