# SPDX-License-Identifier: Apache-2.0
"""The ladder of memory levels: bars as long as the logarithms say, a fixed hue for each level, all of it in words."""

import re

import pytest
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


def bars(svg):
    matches = re.findall(r'<rect x="([\d.]+)" y="(\d+)" width="([\d.]+)" height="\d+" fill="var\(--([\w-]+)\)"', svg)
    return [(float(x), int(y), float(width), fill) for x, y, width, fill in matches]


def test_bars_are_as_long_as_the_logarithms():
    drawn = bars(ladder.ladder(recorded()).partition("<details")[0])
    assert len(drawn) == 11, "the one that was not measured has no bar"
    columns = sorted({x for x, *_ in drawn})
    answers = {fill: width for x, _, width, fill in drawn if x == columns[1]}
    decade = answers["memory-shared"] - answers["memory-registers"]  # 20 ns and 2 ns
    assert answers["memory-hbm"] - answers["memory-shared"] == pytest.approx(decade * 1.398, abs=0.2)
    holds = [width for x, _, width, _ in drawn if x == columns[0]]
    assert holds[0] == holds[1] < holds[3] < holds[2]
    assert all(x + width <= ladder.WIDTH for x, _, width, _ in drawn)


def test_each_level_has_its_hue_and_the_host_is_gray():
    drawn = bars(ladder.ladder(recorded()))
    assert list(dict.fromkeys(fill for *_, fill in drawn)) == [
        "memory-registers",
        "memory-shared",
        "memory-hbm",
        "ink-muted",
    ]
    assert {f"memory-{hue}" for hue in ladder.HUES.values()} | {"ink", "ink-muted", "paper", "rule"} <= tokens()


def test_says_in_words_what_it_shows():
    html = ladder.ladder(recorded())
    assert 'aria-label="registers: holds 256 KiB, answers after 2 ns, delivers not measured; L1: holds 256 KiB' in html
    row = html.split('<th scope="row">HBM</th>')[1].split("</tr>")[0]
    assert re.findall("<td>(.*?)</td>", row) == ["140 GiB", "500 ns", "4.2 TB/s"]
    assert ">1.5 µs</text>" in html and ">50 GB/s</text>" in html and ">not measured</text>" in html


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


def test_an_axis_begins_below_the_least_value():
    assert ladder.scale([0, 20, 500]) == (1, 3)
    assert ladder.scale([10, 1000]) == (0, 3), "the least value has a bar too"


def test_refuses_what_is_no_ladder():
    with pytest.raises(RecorderError, match="no line 'answers'"):
        ladder.ladder(recorded("holds", "delivers"))
    with pytest.raises(RecorderError, match=r"no benchmark 'lader'.*ladder"):
        ladder.ladder(recorded(), name="lader")
