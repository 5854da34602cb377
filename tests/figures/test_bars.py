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
    assert [dd.text.strip() for dd in page.select("dd")] == ["10 GB/s", "5 GB/s"]
    assert [i["style"] for i in page.select("i")] == ["width: 100.00%", "width: 50.00%"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": {7: "Seven"}}, "there is no row 7; the nearest that exist: 1024"),
        ({"line": "tritan"}, "has no line 'tritan'; the nearest that exist: triton"),
        ({"name": "speed"}, "there is no benchmark 'speed'"),
    ],
)
def test_what_is_not_there(changed, message):
    with pytest.raises(RecorderError, match=message):
        bars(made("h200"), **{"name": "bandwidth", "line": "triton", "rows": {2**10: "A"}} | changed)
