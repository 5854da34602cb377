# SPDX-License-Identifier: Apache-2.0
"""When each program ran: bars where the numbers say, nobody's place taken twice, and idle time counted."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.machine import multiprocessors
from figures.schedule import PITCH, TAIL, _step, read, schedule
from recorder.project import RecorderError
from recorder.recording import Reading
from tests.toy import LAUNCHES, SMS, made, schedules

NAMES = list(LAUNCHES)


def html(names=NAMES, recorded=None):
    return schedule(recorded or made("h200"), names=names)


def drawing(page: str, launch: str) -> str:
    """Return the parts of the picture that show a launch."""
    return page.split('class="time-bar"')[0].split(f'data-name="{launch}"')[1].split("data-name")[0]


def key(page: str) -> list[tuple[str, str]]:
    """Return the colors in the key, and what it says of them."""
    return re.findall(r'background: ([^"]+)"></i>(.*?)</span>', page)


def table(programs: dict[int, tuple]):
    """A benchmark of programs by number: SM, begin, end."""
    rows = [Reading(x=[n], y={"sm": [sm], "begin": [a], "end": [b]}) for n, (sm, a, b) in programs.items()]
    return msgspec.structs.replace(schedules()[0], rows=rows)


def test_bars_are_where_the_numbers_say():
    page = html()
    end = float(re.search(r'data-end="([\d.]+)"', page)[1])
    for name, programs in LAUNCHES.items():
        picture = drawing(page, name.removeprefix("schedule_").replace("_", "-"))
        drawn = [[float(v) for v in bar] for bar in re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)", picture)]
        expected = [[1000 * begin / end, 1000 * (stop - begin) / end] for _, begin, stop in programs]
        assert sorted([x, width] for x, _, width in drawn) == [pytest.approx(e, abs=0.06) for e in sorted(expected)]
        assert sorted(int(y // PITCH) for _, y, _ in drawn) == sorted(sm for sm, _, _ in programs)
        for path in re.findall(r' d="(M[^"]*h[^"]*)"', picture):
            bars = [[float(v) for v in bar] for bar in re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)", path)]
            for x, y, width in bars:
                beside = [other for other in bars if other[0] < x + width - 0.1 and x < other[0] + other[2] - 0.1]
                assert [other[1] for other in beside].count(y) == 1, "what overlaps shines through, so is another path"


def test_a_wave_has_a_color():
    picture = drawing(html(), "one-more")
    first, second = re.findall(r'd="([^"]*)" stroke="var\(--pid-\d\)"', picture)
    assert (first.count("M"), second.count("M")) == (4, 1)
    one, two = (f"color-mix(in srgb, var(--pid-0) {share}%, var(--untouched))" for share in (50, 75))
    assert key(html()) == [
        ("var(--pid-0)", "ran first"), ("var(--pid-1)", "second"), (TAIL, "idle"),
        (f"linear-gradient(90deg, {one} 50%, {two} 50%)", "one, two at once"),
    ]  # fmt: skip
    alone = html(["schedule_one_more"])
    assert "first program on its SM<" in alone and 'beside" style="visibility: hidden"' in alone
    shared = drawing(html(), "shared")
    paths = re.findall(r'd="([^"]*)" stroke="var\(--pid-0\)" stroke-opacity="0.5"', shared)
    assert [path.count("M") for path in paths] == [2, 2] and "stroke-opacity" not in picture


def test_gray_is_in_the_key_where_one_sees_it():
    gap = table({0: (0, 0.0, 10.0), 1: (0, 50.0, 100.0)})
    assert read(gap).gaps and not read(table({0: (0, 0.0, 50.0), 1: (0, 50.5, 100.0)})).gaps
    recorded = msgspec.structs.replace(made("h200"), benchmarks=[gap])
    assert ("var(--untouched)", "between two programs") in key(schedule(recorded, names=[gap.name]))


def test_only_the_first_is_displayed():
    assert re.findall(r'<g data-name="([^"]*)"[^>]*display="none"', html()) == ["one-more", "shared"]
    assert html().count('data-name="few"') == 1


def test_begins_with_the_first_of_launches_by_their_number_of_programs():
    page = html(["schedule_one_more", "schedule_few"])
    assert re.findall(r'value="(\d)"( checked)?><span><strong>(\d+)</strong>(.*?)</span>', page) == [
        ("0", "", "2", "few"), ("1", " checked", "5", "one more"),
    ]  # fmt: skip
    assert re.findall(r'<g data-name="([^"]*)"[^>]*display="none"', page) == ["few"]
    assert 'aria-label="one more: 5 programs on 4 SMs;' in page
    assert '<p class="schedule__about" aria-live="polite">5 programs on 4 SMs;' in page


def test_says_in_words_what_it_shows():
    page = html()
    summary = (
        "2 programs on 2 of 4 SMs; the last ends after 100 µs. The SMs were idle for 50% of that time. "
        "At the end, 2 SMs had nothing left to run, for 100 µs on average."
    )
    assert f'aria-label="few: {summary}"' in page
    assert [re.findall("<td[^>]*>(.*?)</td>", row) for row in re.findall("<tr>(.*?)</tr>", page, re.S)[1:]] == [
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
    text = drawing(html(["short", "schedule_one_more"], recorded), "short").split("</text>")[0].split("<text")[1]
    assert f'text-anchor="{anchor}"' in text and text.endswith(f">ends after {end:.0f} µs")


def test_what_has_nothing_left_to_run_is_hatched_and_called_idle():
    page = html(["schedule_one_more"])
    whole = f'width="100.000%" height="{SMS * PITCH - 1}"'  # the launch is the longest
    assert f'<rect {whole} fill="url(#' in drawing(page, "one-more")
    hatch = re.search(r'fill="url\(#([^)]*)\)"', page)[1]
    assert f'<pattern id="{hatch}"' in page
    # On top, without hatches, each SM until its last program ended: 0 and 1 at 100 of 200 µs, 2 at the end, 3 at 101.
    steps = f"M0 0{''.join(f'H{at}v{PITCH}' for at in ('500.0', '500.0', '1000.0', '505.0'))}H0z"
    assert f'd="{steps}" fill="var(--untouched)"' in drawing(page, "one-more")
    x, word = re.findall(r'<text x="([\d.]+)%"[^>]*>([^<]*)</text>', drawing(page, "one-more"))[-1]
    assert word == "3 SMs idle" and float(x) == pytest.approx(72, abs=0.2), "in the tail, before the line at rest"
    assert "At the end, 3 SMs had nothing left to run, for 100 µs on average." in page


def test_rests_late_in_the_tail_with_the_machine_as_it_is_then():
    page = html(["schedule_one_more"])
    assert re.search(r'name="time"[^>]* value="(\d+)"', page)[1] == "188", "of 200 µs, with 3 SMs idle for the last 100"
    assert "<strong>1</strong> of 4 multiprocessors at work" in page
    cells = re.search(r'<div class="cells machine"[^>]*>(.*?)</div>', page)[1]
    assert re.findall(r'class="([^"]*)"(?: style="--at:([\d.]+)")?', cells) == [
        ("off", ""), ("off", ""), ("pid-1 on", "0.9"), ("off", ""),
    ]  # fmt: skip


def test_two_programs_at_once_share_a_square():
    rows = {0: (0, 0.0, 100.0), 1: (0, 0.0, 50.0), 2: (1, 0.0, 80.0)}
    cells = multiprocessors(read(table(rows), "", SMS).programs, SMS, 40.0)
    assert cells == [("pid-0 on two", 0.4, 0.8), ("pid-0 on", 0.5), ("off",), ("off",)]


def test_a_launch_without_a_tail_names_none():
    even = {0: (0, 0.0, 100.0), 1: (1, 0.0, 99.5), 2: (2, 0.0, 100.0), 3: (3, 0.0, 100.0)}
    recorded = msgspec.structs.replace(made("h200"), benchmarks=[table(even)])
    page = html(["schedule_few"], recorded)
    assert "idle</text>" not in page and "nothing left" not in page and TAIL not in page
    one = read(table(even | {1: (1, 0.0, 40.0)}), "", SMS)
    assert one.tails == [60.0] and one.sentence.endswith("At the end, 1 SM had nothing left to run, for 60 µs.")


def test_a_narrow_tail_has_room_for_one_word_and_a_sliver_for_none():
    for end, words in ((110.0, []), (140.0, ["idle"]), (200.0, ["3 SMs idle"])):
        rows = {n: (n, 0.0, 100.0 if n else end) for n in range(SMS)}
        recorded = msgspec.structs.replace(made("h200"), benchmarks=[table(rows)])
        assert re.findall(r">([^<]*idle)</text>", html(["schedule_few"], recorded)) == words


def test_the_word_stands_where_the_tail_is_widest():
    recorded = made("h200")
    rows = {n: (n, 0.0, 100.0 if 40 <= n < 50 else 200.0) for n in range(132)}
    recorded = msgspec.structs.replace(
        recorded,
        benchmarks=[table(rows)],
        provenance=msgspec.structs.replace(recorded.provenance, multiprocessors=132),
    )
    page = html(["schedule_few"], recorded)
    x, y, word = re.findall(r'<text x="([\d.]+)%" y="([\d.]+)"[^>]*>([^<]*)</text>', page)[-1]
    assert word == "10 SMs idle" and float(x) == pytest.approx(72, abs=0.2)
    assert 40 * PITCH <= float(y) - 9 < float(y) <= 50 * PITCH, "between the rows of those that still run"


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
    assert "<strong>2</strong>Two &lt;programs&gt;</span>" in page and "Two <" not in page


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
