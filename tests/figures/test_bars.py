# SPDX-License-Identifier: Apache-2.0
"""Bars: their lengths are the medians, the longest is whole, and a row that is not there is named."""

import pytest
from bs4 import BeautifulSoup

from figures.bars import bars
from recorder.project import RecorderError
from tests.toy import made


def test_lengths_and_values():
    drawn = bars(made("h200"), name="bandwidth", line="triton", rows={2**20: "Large", 2**10: "A <small> one"})
    page = BeautifulSoup(drawn, "html.parser")
    assert [dt.text for dt in page.select("dt")] == ["Large", "A <small> one"]
    assert [dd.text.strip() for dd in page.select("dd")] == ["10.0 GB/s", "5.0 GB/s"]
    assert not page.select(".bars__title, .bars__best")
    assert [i["style"] for i in page.select("i")] == ["width: 100.00%", "width: 50.00%"]


def test_a_title_and_the_row_that_stands_out():
    options = {"rows": {2**20: "Large", 2**10: "Small"}, "title": "Two <sizes>", "best": 2**10}
    page = BeautifulSoup(bars(made("h200"), name="bandwidth", line="triton", **options), "html.parser")
    assert page.select_one(".bars__title").text == "Two <sizes>"
    titled = lambda title: bars(made("h200"), name="bandwidth", line="triton", **options | {"title": title})
    assert "Small: 5.0 GB/s</p>" in titled("Small: {1024}"), "a row's value in its title"
    with pytest.raises(RecorderError, match="a title has no '1025'; the nearest that exist: 1024"):
        titled("{1025}")
    assert [dd.text.strip() for dd in page.select(".bars__best")] == ["5.0 GB/s"]


def test_sorted_beside_a_level_with_a_long_one_broken():
    rows = {2**20: "Large", 2**10: "Small"}
    options = {"rows": rows, "sort": True, "level": 2**10, "broken": 2**20}
    page = BeautifulSoup(bars(made("h200"), name="bandwidth", line="triton", **options), "html.parser")
    assert [dt.text for dt in page.select("dt")] == ["Small", "Large"], "the shortest first"
    assert [i["style"] for i in page.select("i")] == ["width: 80.00%", "width: 100.00%"]
    assert page.dl["style"] == "--level: 0.8000", "the line is where its bar ends"
    assert [dd.text.strip() for dd in page.select(".bars__broken")] == ["10.0 GB/s"], "its number stays"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": {7: "Seven"}}, "there is no row 7; the nearest that exist: 1024"),
        ({"best": 7}, "there is no row 7; the nearest that exist: 1024"),
        ({"level": 7}, "there is no row 7; the nearest that exist: 1024"),
        ({"broken": 7}, "there is no row 7; the nearest that exist: 1024"),
        ({"line": "tritan"}, "has no line 'tritan'; the nearest that exist: triton"),
        ({"name": "speed"}, "there is no benchmark 'speed'"),
    ],
)
def test_what_is_not_there(changed, message):
    with pytest.raises(RecorderError, match=message):
        bars(made("h200"), **{"name": "bandwidth", "line": "triton", "rows": {2**10: "A"}} | changed)
