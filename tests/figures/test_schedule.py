# SPDX-License-Identifier: Apache-2.0
"""The view of when each program ran: bars where the numbers say, nobody's place taken twice, and idle time counted."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder import schedule
from recorder.project import RecorderError
from tests.made_up import LAUNCHES, SMS, recorded, schedules

TABLES = {table["name"]: table for table in schedules()}
NAMES = list(LAUNCHES)


def html(names=NAMES):
    return schedule.schedule(None, recorded(), names=names)


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
    parts = dict(re.findall(r'<(g|text) data-name="([^"]*)"[^>]*display=none', html()))
    assert parts == {"g": "shared", "text": "shared"}, "the last of each"
    assert html().count("display=none") == 2 * (len(NAMES) - 1)
    assert html().count('data-name="few"') == 2 and not re.search('data-name="few"[^>]*display=none', html())


def test_says_in_words_what_it_shows():
    page = html()
    said = "2 programs on 2 of 4 SMs; the last ends after 100 µs. Over that time, the SMs were idle for 50%."
    assert f'aria-label="few: {said}"' in page
    rows = re.findall(r"<tr><td>(.*?)</td></tr>", page)
    assert [row.split("</td><td>") for row in rows] == [
        ["few", "2", "2", "1", "100.0", "50.2%"],
        ["one more", "5", "4", "1", "200.0", "37.9%"],
        ["shared", "5", "2", "2", "125.5", "64.8%"],
    ]
    assert "Made up: schedule_few." in page and "More of it" not in page


def test_lists_every_program():
    lists = [text.split("\n") for text in re.findall(r"<pre[^>]*>(.*?)</pre>", html(), re.S)]
    for (name, programs), (_, *lines) in zip(LAUNCHES.items(), lists, strict=True):
        read = [[float(v) for v in line.split()] for line in lines]
        assert [(sm, begin, end) for _, sm, _, begin, end in read] == programs, name
        assert [row[0] for row in read] == [*range(len(programs))]


times = st.integers(0, 300).map(lambda tenths: tenths / 10)


@given(st.lists(st.tuples(st.integers(0, SMS - 1), times, times), min_size=1, max_size=20))
def test_no_place_is_taken_twice_and_idle_time_is_what_is_left(programs):
    programs = [(sm, min(a, b), max(a, b) + 0.1) for sm, a, b in programs]
    rows = [{"program": i, "sm": [sm], "begin": [a], "end": [b]} for i, (sm, a, b) in enumerate(programs)]
    launch = schedule.read(TABLES["schedule_few"] | {"rows": rows}, "", SMS)
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
    assert schedule._step(end) == pytest.approx(step)


def test_refuses_what_is_no_schedule():
    table = TABLES["schedule_few"]
    with pytest.raises(RecorderError, match="'schedule_few' is no schedule: it has no line 'end'"):
        schedule.read(table | {"lines": {"sm": "", "begin": ""}})
    backwards = [{"program": 3, "sm": [0], "begin": [2.0], "end": [1.0]}]
    with pytest.raises(RecorderError, match="program 3 ends before it begins"):
        schedule.read(table | {"rows": backwards})


@pytest.mark.parametrize(
    "names, words",
    [(["schedule_fwe"], r"no benchmark 'schedule_fwe'.*schedule_few"), ("few", "must list"), ([], "must list")],
)
def test_refuses_names_that_are_not_there(names, words):
    with pytest.raises(RecorderError, match=words):
        html(names)
