# SPDX-License-Identifier: Apache-2.0
"""When each program ran: bars where the numbers say, nobody's place taken twice, and idle time counted."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.schedule import _step, read, schedule
from recorder.project import RecorderError
from recorder.recording import Reading
from tests.toy import LAUNCHES, SMS, made, schedules

NAMES = list(LAUNCHES)


def html(names=NAMES, recorded=None):
    return schedule(recorded or made("h200"), names=names)


def table(programs: dict[int, tuple]):
    """A benchmark of programs by number: SM, begin, end."""
    rows = [Reading(x=[n], y={"sm": [sm], "begin": [a], "end": [b]}) for n, (sm, a, b) in programs.items()]
    return msgspec.structs.replace(schedules()[0], rows=rows)


def test_bars_are_where_the_numbers_say():
    page = html()
    end = float(re.search(r'max="([\d.]+)"', page)[1])
    pitch = 4  # for two programs share an SM in one of them
    for name, programs in LAUNCHES.items():
        picture = page.split(f'data-name="{name.removeprefix("schedule_").replace("_", "-")}"')[1].split("</g>")[0]
        drawn = [[float(v) for v in bar] for bar in re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)", picture)]
        expected = [[1000 * begin / end, 1000 * (stop - begin) / end] for _, begin, stop in programs]
        assert sorted([x, width] for x, _, width in drawn) == [pytest.approx(e, abs=0.06) for e in sorted(expected)]
        assert sorted(int(y // pitch) for _, y, _ in drawn) == sorted(sm for sm, _, _ in programs)
        for x, y, width in drawn:
            beside = [other for other in drawn if other[0] < x + width - 0.1 and x < other[0] + other[2] - 0.1]
            assert [other[1] for other in beside].count(y) == 1, "nothing covers a bar"


def test_a_wave_has_a_color():
    picture = html().split('data-name="one-more"')[1].split("</g>")[0]
    first, second = re.findall(r'd="([^"]*)" stroke="var\(--pid-\d\)"', picture)
    assert (first.count("M"), second.count("M")) == (4, 1)
    fainter = "color-mix(in srgb, var(--pid-0) 60%, var(--paper))"
    assert re.findall(r'background: ([^"]+)"></i>(.*?)</span>', html()) == [
        ("var(--pid-0)", "first program in its place on an SM"), ("var(--pid-1)", "second"),
        (fainter, "fainter: another at the same time"), ("var(--untouched)", "nothing runs"),
    ]  # fmt: skip
    assert "first program on its SM<" in html(["schedule_one_more"]) and "fainter" not in html(["schedule_one_more"])
    shared = html().split('data-name="shared"')[1].split("</g>")[0]
    assert re.search(f'd="([^"]*)" stroke="{re.escape(fainter)}"', shared)[1].count("M") == 2


def test_only_the_first_is_displayed():
    parts = re.findall(r'<(g|text) data-name="([^"]*)"[^>]*display="none"', html())
    assert parts == [(part, name) for part in ("g", "text") for name in ("one-more", "shared")]
    assert html().count('data-name="few"') == 2


def test_says_in_words_what_it_shows():
    page = html()
    said = "2 programs on 2 of 4 SMs; the last ends after 100 µs. Over that time, the SMs were idle for 50%."
    assert f'aria-label="few: {said}"' in page
    assert [re.findall("<td>(.*?)</td>", row) for row in re.findall("<tr>(.*?)</tr>", page, re.S)[1:]] == [
        ["few", "2", "2", "1", "100.0", "50.2%"],
        ["one more", "5", "4", "1", "200.0", "37.9%"],
        ["shared", "5", "2", "2", "125.5", "64.8%"],
    ]
    assert "Made up: schedule_few." in page and "More of it" not in page


def test_lists_every_program():
    lists = [text.strip("\n").split("\n") for text in re.findall(r"<pre[^>]*>(.*?)</pre>", html(), re.S)]
    for (name, programs), (_, *lines) in zip(LAUNCHES.items(), lists, strict=True):
        read = [[float(v) for v in line.split()] for line in lines]
        assert [(sm, begin, end) for _, sm, _, begin, end in read] == programs, name
        assert [row[0] for row in read] == [*range(len(programs))]


def test_times_have_a_decimal():
    recorded = msgspec.structs.replace(made("h200"), benchmarks=[table({0: (0, 1.25, 2.5), 1: (3, 0.0, 400.75)})])
    _, *lines = html(["schedule_few"], recorded).split("<pre")[1].split(">")[1].split("<")[0].strip().split("\n")
    assert [line.split()[3:] for line in lines] == [["1.2", "2.5"], ["0.0", "400.8"]]


@pytest.mark.parametrize("end, anchor", [(10.0, "start"), (100.0, "middle"), (200.0, "end")])
def test_where_a_launch_ends_is_written_into_the_picture(end, anchor):
    short = msgspec.structs.replace(table({0: (0, 0.0, end)}), name="short")
    recorded = made("h200")
    recorded = msgspec.structs.replace(recorded, benchmarks=[*recorded.benchmarks, short])
    text = html(["short", "schedule_one_more"], recorded).split('<text data-name="short"')[1].split("</text>")[0]
    assert f'text-anchor="{anchor}"' in text and text.endswith(f">ends after {end:.0f} µs")


times = st.integers(0, 300).map(lambda tenths: tenths / 10)


@given(st.lists(st.tuples(st.integers(0, SMS - 1), times, times), min_size=1, max_size=20))
def test_no_place_is_taken_twice_and_idle_time_is_what_is_left(programs):
    programs = [(sm, min(a, b), max(a, b) + 0.1) for sm, a, b in programs]
    launch = read(table(dict(enumerate(programs))), "", SMS)
    for a in launch.programs:
        assert (a.sm, a.begin, a.end) == programs[a.number]
        for b in launch.programs[: a.number]:
            assert (a.sm, a.place) != (b.sm, b.place) or a.end <= b.begin or b.end <= a.begin
            assert (a.sm, a.place, a.turn) != (b.sm, b.place, b.turn)
    ticks = [t / 10 + 0.05 for t in range(round(10 * launch.end))]
    runs = lambda sm, t: any(sm == other and begin < t < end for other, begin, end in programs)
    busy = sum(runs(sm, t) for t in ticks for sm in range(SMS))
    assert launch.idle == pytest.approx(1 - busy / (SMS * len(ticks)), abs=1e-6)


def test_labels_may_be_given_and_are_escaped():
    page = html({"schedule_few": "Two <programs>"})
    assert "<span>Two &lt;programs&gt;</span>" in page and "Two <" not in page


@pytest.mark.parametrize("end, step", [(9.9, 2), (70, 10), (71, 20), (202, 50), (312, 50), (1400, 200), (1401, 500)])
def test_at_most_seven_steps(end, step):
    assert _step(end) == pytest.approx(step)


def test_refuses_what_is_no_schedule():
    with pytest.raises(RecorderError, match="'bandwidth' has no line 'sm'"):
        html(["bandwidth"])
    with pytest.raises(RecorderError, match="program 3 ends before it begins"):
        read(table({3: (0, 2.0, 1.0)}))


@pytest.mark.parametrize(
    "names, words",
    [(["schedule_fwe"], r"no benchmark 'schedule_fwe'.*schedule_few"), ("few", "must list"), ([], "must list")],
)
def test_refuses_names_that_are_not_there(names, words):
    with pytest.raises(RecorderError, match=words):
        html(names)
