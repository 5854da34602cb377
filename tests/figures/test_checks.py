# SPDX-License-Identifier: Apache-2.0
"""The checks figure: a cell for each slip and check, as they were printed."""

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from figures.checks import checks
from recorder import recording
from recorder.project import RecorderError, Snippet
from tests.figures.explorer_support import page_with


@pytest.fixture(scope="module")
def recorded() -> recording.Recording:
    return recording.load(Snippet("tools/testing_bug"), "cpu")


def test_each_cell_says_what_was_printed_and_the_first_that_catches_stands_out(recorded):
    page = BeautifulSoup(checks(recorded, kernel="scale_kernel"), "html.parser")
    printed = [line for line in recorded.output.splitlines() if "CAUGHT" in line or " - " in line]
    rows = page.select("tbody tr")
    assert len(rows) == len(printed) == 7
    for row, line in zip(rows, printed, strict=True):
        assert line.startswith(row.th.text)
        words = line.removeprefix(row.th.text).split()
        assert [cell.text for cell in row.select("td")] == [{"CAUGHT": "caught", "-": "passed"}[w] for w in words]
        first = [cell["class"] == ["checks--first"] for cell in row.select("td")]
        assert first == [word == "CAUGHT" and "CAUGHT" not in words[:i] for i, word in enumerate(words)]
    explained = [name.text for name in page.select(".checks__key strong")]
    assert explained == [head.text for head in page.select("thead th")[1:]]
    assert [cell.text for cell in page.select("tfoot td")] == ["1", "2", "1", "3", "4", "5"]
    assert page.select_one("thead th").text == "version of the kernel"
    other = BeautifulSoup(checks(recorded, kernel="scale_kernel", row="the bug"), "html.parser")
    assert other.select_one("thead th").text == "the bug"


def test_refuses_what_is_no_table_of_verdicts(recorded):
    with pytest.raises(RecorderError, match="no line of titles that begins with 'scale_kernle'"):
        checks(recorded, kernel="scale_kernle")
    with pytest.raises(RecorderError, match=r"no line below 'sum_kernel' says CAUGHT or - for each of"):
        checks(recorded, kernel="sum_kernel")
    empty = replace(recorded, output="scale_kernel  round\n")
    with pytest.raises(RecorderError, match="no line below 'scale_kernel'"):
        checks(empty, kernel="scale_kernel")


def test_all_checks_fit_a_phone(recorded, open_site, tmp_path):
    with page_with(tmp_path, "checks", checks(recorded, kernel="scale_kernel")) as url:
        page = open_site(url, viewport={"width": 390, "height": 800})
        boxes = [cell.bounding_box() for cell in page.locator("tbody tr").first.locator("td").all()]
        assert len({box["y"] for box in boxes}) == 1 and boxes[-1]["x"] + boxes[-1]["width"] <= 390
        fits = "all => all.every(cell => cell.scrollWidth <= cell.clientWidth)"
        assert page.locator(".checks :is(td, th)").evaluate_all(fits)
