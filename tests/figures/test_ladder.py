# SPDX-License-Identifier: Apache-2.0
"""The ladder of memory levels: dots where the logarithms say, on labeled lines, a fixed hue for each, all in words."""

import re

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from figures import ladder
from recorder.project import RecorderError
from recorder.recording import Benchmark, Reading, Recording
from tests.figures.tokens import tokens
from tests.toy import made

LEVELS = {  # holds, answers after, delivers
    "registers": (2**18, 2, 0),
    "L1": (2**18, 20, 30_000),
    "HBM": (140 * 2**30, 500, 4_200),
    "host": (2**37, 1_500, 50),
}


def recorded(*lines: str) -> Recording:
    lines = lines or ("holds", "answers", "delivers")
    rows = [
        Reading(x=[name], y={line: [value] for line, value in zip(lines, values, strict=False)})
        for name, values in LEVELS.items()
    ]
    labels = {line: line for line in lines}
    table = Benchmark(name="ladder", x=["level"], xlabel="level", ylabel="", lines=labels, rows=rows)
    return replace(made("h200"), benchmarks=[table])


def panels() -> list[BeautifulSoup]:
    return BeautifulSoup(ladder.ladder(recorded()), "html.parser").select(".ladder__panel")


def left(dot) -> float:
    return float(re.search(r"left: ([\d.]+)%", dot["style"])[1])


def test_dots_stand_where_the_labeled_lines_say():
    holds, answers, _ = panels()
    lines = {line.text: left(line) for line in answers.select(".ladder__scale i")}
    assert [*lines] == ["1 ns", "10 ns", "100 ns", "1 µs", "10 µs"] and "each line is 10 times the last" in answers.text
    registers, l1, hbm, _ = map(left, answers.select("u"))
    assert lines["1 ns"] < registers < lines["10 ns"] < l1 < lines["100 ns"] < hbm < lines["1 µs"]
    decade = lines["10 ns"] - lines["1 ns"]
    assert l1 - registers == pytest.approx(decade, abs=0.2) and hbm - l1 == pytest.approx(decade * 1.398, abs=0.2)
    assert "each line is 1,024 times the last" in holds.text
    assert [line.text for line in holds.select(".ladder__scale i")] == ["1 KiB", "1 MiB", "1 GiB", "1 TiB"]
    assert all(0 <= left(dot) <= 100 for panel in panels() for dot in panel.select("u"))


def test_what_was_not_measured_has_no_dot():
    registers = panels()[2].select_one(".ladder__rung")
    assert not registers.select("u") and "not measured" in registers.text


def test_each_level_has_its_hue_and_the_host_is_gray():
    hues = [re.search(r"--([\w-]+)", rung["style"])[1] for rung in panels()[0].select(".ladder__rung")]
    assert hues == ["memory-registers", "memory-shared", "memory-hbm", "ink-muted"]
    assert {f"memory-{hue}" for hue in ladder.HUES.values()} | {"ink", "ink-muted", "paper", "rule"} <= tokens()


def test_says_in_words_what_it_shows():
    html = ladder.ladder(recorded())
    assert 'aria-label="registers: holds 256 KiB, answers after 2 ns, delivers not measured; L1: holds 256 KiB' in html
    row = html.split('<th scope="row">HBM</th>')[1].split("</tr>")[0]
    assert re.findall("<td>(.*?)</td>", row) == ["140 GiB", "500 ns", "4.2 TB/s"]
    values = [value.text for panel in panels() for value in panel.select(".ladder__rung i")]
    assert {"1.5 µs", "50 GB/s", "not measured"} <= {*values}


@pytest.mark.parametrize(
    "line, value, words",
    [
        ("holds", 1023, "1.02e+03 bytes"), ("holds", 50 * 2**20, "50 MiB"), ("holds", 2**60, "1.05e+06 TiB"),
        ("answers", 0.52, "0.52 ns"), ("answers", 999.4, "999 ns"), ("answers", 999.6, "1 µs"),
        ("delivers", 33.44, "33.4 GB/s"), ("delivers", 5_512, "5.51 TB/s"),
    ],
)  # fmt: skip
def test_units(line, value, words):
    assert ladder.say(line, value) == words


def test_lines_span_all_values_and_are_few():
    assert ladder.scale("answers", [0, 20, 500]) == [10, 100, 1000]
    assert ladder.scale("answers", [10, 10]) == [10, 100], "one value has two lines"
    many = ladder.scale("delivers", [1, 1e9])
    assert len(many) <= ladder.LINES and many[0] <= 1 and many[-1] >= 1e9


def test_refuses_what_is_no_ladder():
    with pytest.raises(RecorderError, match="no line 'answers'"):
        ladder.ladder(recorded("holds", "delivers"))
    with pytest.raises(RecorderError, match=r"no benchmark 'lader'.*ladder"):
        ladder.ladder(recorded(), name="lader")
