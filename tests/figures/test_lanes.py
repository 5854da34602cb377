# SPDX-License-Identifier: Apache-2.0
"""<lane-rows>: lanes with the numbers that they hold, what a reduction makes of them, and a softmax step by step."""

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from figures.lanes import reduction, row_softmax
from recorder import recording
from recorder.project import RecorderError, Snippet
from tests.figures.explorer_support import page_with

ROWS = [[-1, -2, -3, -4, -5], [-10, -20, -30, -40, -50]]
MAXIMA = {"launch": "row_max_zero_bug[0]", "rows": ROWS, "section": "a wrong other"}
SOFTMAX = {"launch": "softmax_kernel[0]", "section": "steps"}


@pytest.fixture(scope="module")
def maxima() -> recording.Recording:
    return recording.load(Snippet("programs/masks_bug"), "cpu")


@pytest.fixture(scope="module")
def softmax() -> recording.Recording:
    return recording.load(Snippet("programs/softmax"), "cpu")


def test_it_rests_on_the_zeros_that_win(maxima):
    page = BeautifulSoup(reduction(maxima, **MAXIMA), "html.parser")
    shown = page.select(".lanes:not(.lanes--away)")
    assert [each["data-for"] for each in shown] == ["maximum 0"]
    for row, numbers in zip(shown[0].select(".lanes__row"), ROWS, strict=True):
        cells = row.select(".lanes__cells i")
        assert [cell.text for cell in cells] == [*(f"−{-number}" for number in numbers), "0", "0", "0"]
        assert [("lanes--off" in c["class"], "lanes--wins" in c["class"]) for c in cells] == [(False, False)] * 5 + [
            (True, True)
        ] * 3
        assert row.select_one(".lanes--wrong").text == f"0should be −{-max(numbers)}"
    assert "program 0 holds −1, −2, −3, −4, −5, 0, 0, 0, and finds 0, wrong" in shown[0]["aria-label"]


def test_refuses_what_was_not_printed_or_loaded_so(maxima, softmax):
    with pytest.raises(RecorderError, match=r"other maxima than those of \[\[-2"):
        reduction(maxima, **MAXIMA | {"rows": [[-2, -2, -3, -4, -5], ROWS[1]]})
    with pytest.raises(RecorderError, match=r"has \[5, 5\] lanes that are on"):
        reduction(maxima, **MAXIMA | {"rows": [[-1], ROWS[1]]})
    with pytest.raises(RecorderError, match="no section 'a wrong othre'; the nearest"):
        reduction(maxima, **MAXIMA | {"section": "a wrong othre"})
    with pytest.raises(RecorderError, match="has no line: maxima, other 0"):
        reduction(maxima, **MAXIMA | {"section": "no other"})
    with pytest.raises(RecorderError, match="section 'softmax' has no line 'x'"):
        row_softmax(softmax, **SOFTMAX | {"section": "softmax"})
    short = replace(softmax, output=softmax.output.replace("x           0.000", "x        "))
    with pytest.raises(RecorderError, match="loads 5 numbers a row, and section 'steps' has 4"):
        row_softmax(short, **SOFTMAX)


def test_a_reader_finds_the_value_that_changes_nothing(maxima, open_site, tmp_path):
    with page_with(tmp_path, "reduction", reduction(maxima, **MAXIMA)) as url:
        page = open_site(url, reduced_motion="reduce")

        def results() -> list[str]:
            return [text.replace("\n", " ") for text in page.locator(".lanes__result:visible").all_inner_texts()]

        assert results() == ["0 should be −1", "0 should be −10"]
        page.get_by_role("radio", name="−∞").check()
        assert results() == ["−1 right", "−10 right"]
        page.get_by_role("radio", name="sum").check()
        assert results() == ["−∞ should be −15", "−∞ should be −150"]
        page.get_by_role("radio", name="0").check()
        assert results() == ["−15 right", "−150 right"]
        assert page.locator("output").inner_text().startswith("With other = 0, the sum: program 0 holds −1")


def test_a_softmax_appears_step_by_step_as_it_was_printed(softmax, open_site, tmp_path):
    with page_with(tmp_path, "row_softmax", row_softmax(softmax, **SOFTMAX)) as url:
        page = open_site(url, reduced_motion="reduce")
        cells = page.locator(".lanes__cells--share i")
        assert cells.all_inner_texts() == [".012", ".032", ".086", ".234", ".636", "0", "0", "0"]
        rows, said = page.locator(".lanes__stage"), page.locator("output")
        filled = lambda: rows.evaluate_all(
            "all => all.map(each => [...each.querySelectorAll('i > *')]"
            ".every(it => it.checkVisibility({ visibilityProperty: true })))"
        )
        height = lambda: page.locator(".lanes--softmax").evaluate("each => each.offsetHeight")
        whole = height()
        assert filled() == [True] * 5 and "add up to 1" in said.inner_text()
        widths = page.locator(".lanes__whole i").evaluate_all("all => all.map(each => each.offsetWidth)")
        assert widths[4] / widths[3] == pytest.approx(0.636 / 0.234, rel=0.02)
        page.get_by_label("Back").click()
        assert filled() == [True, True, True, False, False]
        assert page.locator(".time-bar__text").inner_text() == "sum"
        page.locator("[name=step]").press("Home")
        assert filled() == [True, False, False, False, False]
        outlines = page.locator(".lanes--later i").evaluate_all(
            "all => all.map(each => getComputedStyle(each).boxShadow)"
        )
        assert len(outlines) == 29 and "none" not in outlines and height() == whole, "what is to come keeps its place"
        assert not page.get_by_text("maximum 4", exact=True).is_visible()
