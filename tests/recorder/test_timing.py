# SPDX-License-Identifier: Apache-2.0
"""Compare numbers that were measured again, and judge from which difference on they are wrong."""

from itertools import pairwise

import pytest
from msgspec.structs import replace

from recorder import timing
from recorder.recording import Benchmark, Reading
from recorder.timing import Number, numbers, report, sample
from tests.toy import made

H200 = made("h200")


def measured(medians, *, x=None, processes=None, **provenance):
    """Return a recording of one benchmark, with a row for each median."""
    rows = [
        Reading(x=[n], y={"triton": [median, 0.0, 9.0], "count": [1.0]}, process=process)
        for n, median, process in zip(
            x or range(len(medians)), medians, processes or [None] * len(medians), strict=True
        )
    ]
    table = Benchmark(name="speed", x=["n"], xlabel="n", ylabel="TFLOP/s", lines={"triton": "Triton"}, rows=rows)
    return replace(H200, benchmarks=[table], provenance=replace(H200.provenance, **provenance))


# Which numbers


def test_what_was_measured_several_times_is_compared():
    pairs = numbers(H200, H200)
    assert [(number.name, number.before) for number in pairs] == [
        ("programs/toy: bandwidth[1024].triton, in GB/s", 5.0),
        ("programs/toy: bandwidth[1024].copy, in GB/s", 10.0),
        ("programs/toy: bandwidth[1048576].triton, in GB/s", 10.0),
        ("programs/toy: bandwidth[1048576].copy, in GB/s", 20.0),
    ]


def test_of_several_processes_the_median_is_compared():
    old = measured([1.0, 2.0, 4.0], x=[7, 7, 7], processes=[0, 1, 2])
    new = measured([30.0, 10.0, 20.0], x=[7, 7, 7], processes=[0, 1, 2])
    assert numbers(old, new) == [("programs/toy: speed[7].triton, in TFLOP/s", 2.0, 20.0)]


def test_benchmarks_are_compared_with_their_like():
    tables = [replace(measured([n]).benchmarks[0], name=f"speed {n}") for n in (1.0, 2.0)]
    old, new = replace(H200, benchmarks=tables), replace(H200, benchmarks=tables[::-1])
    assert [(number.before, number.now) for number in numbers(old, new)] == [(1.0, 1.0), (2.0, 2.0)]


def test_what_only_one_recording_has_is_left_out():
    assert numbers(H200, measured([1.0])) == numbers(measured([1.0]), H200) == []
    assert len(numbers(measured([1.0, 2.0]), measured([1.0]))) == 1


@pytest.mark.parametrize(
    ("before", "now", "close", "apart"),
    [
        (100.0, 104.9, True, 1.049), (100.0, 95.1, True, 1.0515), (100.0, 105.1, False, 1.051),
        (100.0, 50.0, False, 2.0), (0.0, 0.0, True, float("inf")), (0.0, 1.0, False, float("inf")),
    ],
)  # fmt: skip
def test_how_far_apart_two_numbers_are(before, now, close, apart):
    number = Number("", before, now)
    assert number.close is close and number.apart == pytest.approx(apart, rel=1e-3)


# Which snippets


def recordings(*seconds):
    return [replace(measured([1.0], seconds=each), snippet=f"a/{n}") for n, each in enumerate(seconds)]


def test_the_sample_is_the_seeds_own():
    many = recordings(*[10] * 12)
    samples = [sample(many, 30, seed) for seed in range(60)]
    assert samples[0] == sample(many, 30, 0) and all(len(chosen) == 3 for chosen in samples)
    assert any(a != b for a, b in pairwise(samples)) and set.union(*samples) == {each.snippet for each in many}


def test_the_sample_fits_into_its_time():
    assert sample(recordings(10, 10, 10), 25, 0) < {"a/0", "a/1", "a/2"}
    assert sample(recordings(10, 10, 10), 30, 0) == {"a/0", "a/1", "a/2"}
    assert sample(recordings(10, 10, 10), 0, 0) == set()
    assert sample(recordings(None, None), 2 * timing.UNKNOWN - 1, 0) < {"a/0", "a/1"}  # it does not say how long


def test_what_takes_longer_than_that_comes_up_too():
    long = recordings(10, 500)
    assert any(sample(long, 100, seed) == {"a/1"} for seed in range(20))


def test_what_measured_nothing_several_times_is_not_in_it():
    assert sample([made("cpu"), measured([])], 100, 0) == set()


# The report, and what is wrong


def report_on(off, of, now=2.0, **provenance):
    """Return the report on a number of medians, some of which are off."""
    old = measured([1.0] * of)
    return report([(old, measured([now] * off + [1.0] * (of - off), **provenance))])


@pytest.mark.parametrize(
    ("off", "changes", "wrong"),
    [
        (20, {}, False), (21, {}, True),
        (21, {"processor": "Another"}, False), (50, {"triton": "3.9.0"}, False), (51, {"torch": "2.11.0"}, True),
        (21, {"gpu": "GPU-another"}, True),  # those of one kind agree
    ],
)  # fmt: skip
def test_the_bounds(off, changes, wrong):
    lines, problems = report_on(off, 100, **changes)
    bound = "50%" if set(changes) & set(timing.SURROUNDINGS) else "80%"
    assert f"{100 - off}.0% are within 5%" in lines[0] and f"(at least {bound} must be)" in lines[0]
    assert ["of 100 numbers measured again with" in line for line in problems] == [True] * wrong


def test_few_numbers_decide_nothing():
    lines, problems = report_on(timing.FEW - 1, timing.FEW - 1)
    assert problems == [] and "too few to judge" in lines[0]
    assert report_on(timing.FEW, timing.FEW)[1] != []


def test_the_report_names_what_else_changed():
    lines, _ = report_on(0, 1, processor="New", gpu="GPU-2")
    assert "  now processor: New, was not recorded" in lines and "  now gpu: GPU-2, was not recorded" in lines
    assert not any("torch:" in line or "apart" in line for line in lines)


def test_the_worst_are_named_first():
    new = measured([1.04, 3.0, 0.5, *[1.1] * 20])
    lines = [line for line in report([(measured([1.0] * 23), new)])[0] if line.startswith("  ")]
    assert len(lines) == timing.WORST and not any("speed[0]" in line for line in lines)
    assert lines[0] == "  programs/toy: speed[1].triton, in TFLOP/s: 3, was 1: 3.00 times apart"
    assert lines[1] == "  programs/toy: speed[2].triton, in TFLOP/s: 0.5, was 1: 2.00 times apart"


def test_recordings_of_both_kinds_are_judged_apart():
    old = measured([1.0] * 20)
    lines, problems = report([(old, old), (old, measured([2.0] * 20, torch="2.11.0"))])
    assert len([line for line in lines if line.startswith("of 20 numbers")]) == 2
    assert len(problems) == 1 and "another processor, torch or Triton, 0.0% are within 5%" in problems[0]


def test_nothing_measured_gives_an_empty_report():
    assert report([]) == ([], [])
