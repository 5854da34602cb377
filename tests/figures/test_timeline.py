# SPDX-License-Identifier: Apache-2.0
"""When host and GPU were busy: bars where the numbers say, on the right lane, and all of it in words."""

import re

import pytest
from msgspec.structs import replace

from figures import timeline
from recorder.project import RecorderError
from recorder.recording import Benchmark, Reading, Recording
from tests.figures.explorer_support import page_with
from tests.toy import made


def recorded(**lines) -> Recording:
    lines = lines or {"host_begin": [0, 10], "host_end": [5, 20], "kernel_begin": [50, 100.4], "kernel_end": [90, 200]}
    rows = [Reading(x=[i + 1], y={line: [values[i]] for line, values in lines.items()}) for i in range(2)]
    labels = {line: line.replace("_", " ") for line in lines}
    table = Benchmark(name="timeline", x=["call"], xlabel="call", ylabel="µs", lines=labels, rows=rows)
    return replace(made("h200"), benchmarks=[table])


def test_bars_are_where_the_numbers_say():
    svg = timeline.timeline(recorded()).partition("<details")[0]
    bars = [[float(v) for v in bar] for bar in re.findall(r'<rect x="([\d.]+)%" y="([\d.]+)" width="([\d.]+)%"', svg)]
    assert [bar[0] for bar in bars] == pytest.approx([begin / 2 for begin in (0, 50, 10, 100.4)], abs=0.01)
    assert [bar[2] for bar in bars] == pytest.approx([length / 2 for length in (5, 40, 10, 99.6)], abs=0.01)
    assert bars[0][1] == bars[2][1] < bars[1][1] == bars[3][1], "the host's lane is above the GPU's"


def test_a_number_stands_in_a_bar_that_has_room_for_it():
    """By the width of the page: a bar of 2.5 percent holds its number on a desktop, and not on a phone."""
    lines = {"host_begin": [0, 10], "host_end": [5, 11], "kernel_begin": [50, 120], "kernel_end": [90, 200]}
    svg = timeline.timeline(recorded(**lines))
    texts = re.findall(r"<text ([^>]*)>[12]</text>", svg.partition("<details")[0])
    assert len(texts) == 3 and ["timeline__wide" in text for text in texts] == [True, False, False]


def test_says_in_words_what_it_shows():
    html = timeline.timeline(recorded())
    assert "2: host begin 10, host end 20, kernel begin 100, kernel end 200" in html
    assert re.findall("<td>(.*?)</td>", html)[:5] == ["1", "0", "5", "50", "90"]
    assert re.findall(r">(\d+(?: µs)?)</text>", html)[-1] == "2"
    assert ">200 µs</text>" in html and ">50</text>" in html


def test_brackets_say_what_a_stopwatch_saw_and_should_have_seen():
    svg = timeline.timeline(recorded(), stopwatch=2).partition("<details")[0]
    assert ">your stopwatch says 10 µs</text>" in svg and ">the kernel takes 100 µs</text>" in svg
    spans = re.findall(r'<line x1="([\d.]+)%" x2="([\d.]+)%" [^>]*stroke="var\(--ink\)"', svg)
    across = [(float(x1), float(x2)) for x1, x2 in spans if x1 != x2]
    assert across == [(5, 10), (50.2, 100)], "as long as the host's bar and the kernel's"
    with pytest.raises(RecorderError, match="calls 1 to 2, not 3"):
        timeline.timeline(recorded(), stopwatch=3)


def test_each_kind_of_bar_is_in_the_key():
    lines = {"host_begin": [0, 10], "host_end": [5, 20], "flush_begin": [6, 21], "flush_end": [9, 30]}
    key = re.search(r'<p class="explorer__key">(.*?)</p>', timeline.timeline(recorded(**lines)), re.S)[1]
    assert re.findall(r"</i>(.*?)</span>", key) == ["host: inside a call", "GPU: empties its cache"]


@pytest.mark.parametrize(
    "lines, words", [({"host_begin": [0, 1]}, "no line 'host_end'"), ({"host": [0, 1]}, "no line '…_begin'")]
)
def test_refuses_what_is_no_timeline(lines, words):
    with pytest.raises(RecorderError, match=words):
        timeline.timeline(recorded(**lines))


def test_refuses_a_name_that_is_not_there():
    with pytest.raises(RecorderError, match=r"no benchmark 'tmieline'.*timeline"):
        timeline.timeline(recorded(), name="tmieline")


def test_a_hand_goes_through_the_time(open_site, tmp_path):
    with page_with(tmp_path, "timeline", timeline.timeline(recorded())) as url:
        page = open_site(url, reduced_motion="reduce")
        now, bar = page.locator(".timeline__now"), page.locator("time-line input")
        assert now.inner_text() == "The host is done; the GPU is done."
        bar.press("Home")
        assert now.inner_text() == "The host is busy with call 1; the GPU waits."
        page.get_by_label("Step").click()  # to the next end or beginning of a bar
        assert bar.input_value() == "5" and now.inner_text() == "The host waits; the GPU waits."
        hand, picture = page.locator(".timeline__hand"), page.locator(".timeline > svg")
        share = (hand.bounding_box()["x"] - picture.bounding_box()["x"]) / picture.bounding_box()["width"]
        assert share == pytest.approx(5 / 200, abs=0.01)
