# SPDX-License-Identifier: Apache-2.0
"""<strides-explorer>: the offsets that were loaded, and the way to each of them."""

import pytest
from bs4 import BeautifulSoup

from figures.strides import strides
from recorder import recording
from recorder.project import RecorderError, Snippet
from tests.figures.explorer_support import page_with

VIEWS = {
    "x": {"launch": "copy_matrix_kernel[0]", "places": 15},
    "x.t()": {"launch": "copy_matrix_kernel[1]", "places": 15},
    "wide": {"launch": "copy_matrix_kernel[2]", "places": 24, "before": 1},
}


@pytest.fixture(scope="module")
def recorded() -> recording.Recording:
    return recording.load(Snippet("programs/offsets_plain"), "cpu")


def test_it_rests_on_the_element_that_was_asked_for(recorded):
    page = BeautifulSoup(strides(recorded, views=VIEWS), "html.parser")
    assert page.select_one(".strides__terms").text == "2 · 5 + 3 · 1 = 13"
    squares = [label.text for label in page.select(".strides__matrix label:not(.strides--away)")]
    assert squares == [str(offset) for offset in range(15)]
    assert page.select_one(".strides--here").text == "13"
    assert [path["class"][0] for path in page.select("svg path")] == ["strides--row"] * 2 + ["strides--column"] * 3


def test_refuses_what_was_not_loaded_so(recorded):
    with pytest.raises(RecorderError, match="beyond the 10 places"):
        strides(recorded, views={"x": VIEWS["x"] | {"places": 10}})
    with pytest.raises(RecorderError, match="has no row 2 and column 5"):
        strides(recorded, views=VIEWS, column=5)
    with pytest.raises(RecorderError, match="copy_matrix_kernel"):
        strides(recorded, views={"x": VIEWS["x"] | {"launch": "copy_matrix_kernel[9]"}})


def test_a_reader_walks_to_each_element_of_each_view(recorded, open_site, tmp_path):
    with page_with(tmp_path, "strides", strides(recorded, views=VIEWS)) as url:
        page = open_site(url, reduced_motion="reduce")
        terms, here = page.locator(".strides__terms"), page.locator(".strides__line .strides--here")
        page.get_by_role("radio", name="x.t()").check()  # the same element, which lies where it lay
        assert (terms.inner_text(), here.inner_text()) == ("3 · 1 + 2 · 5 = 13", "13")
        page.get_by_role("radio", name="wide").check()
        page.get_by_role("radio", name="row 1, column 2").check()
        assert (terms.inner_text(), here.inner_text()) == ("1 · 8 + 2 · 2 = 12", "12")
        line = page.locator(".strides__line i").evaluate_all("all => all.map(i => i.classList.contains('strides--in'))")
        printed = [9 - 8 + 8 * r + 2 * c for r in range(3) for c in range(3)]  # wide[r, 1 + 2c] is 8r + 1 + 2c
        assert [place for place, inside in enumerate(line) if inside] == printed
        page.locator(".strides__line i").nth(1 + 16).click()  # wide[2, 1]: in memory, one place is before the slice
        assert (terms.inner_text(), here.inner_text()) == ("2 · 8 + 0 · 2 = 16", "16")
        page.locator(".strides__line i").nth(1 + 15).click()  # which the slice leaves out
        assert here.inner_text() == "16"
        page.get_by_role("radio", name="x", exact=True).check()
        page.get_by_role("radio", name="row 0, column 0").check()
        assert terms.inner_text() == "0 · 5 + 0 · 1 = 0" and page.locator("svg path").count() == 0


def test_on_a_phone_the_places_where_the_way_lands_have_their_numbers(recorded, open_site, tmp_path):
    with page_with(tmp_path, "strides", strides(recorded, views=VIEWS)) as url:
        for scripts in (True, False):
            page = open_site(url, viewport={"width": 390, "height": 800}, java_script_enabled=scripts)
            numbers = page.locator(".strides__line i:visible span:visible")
            assert numbers.all_inner_texts() == ["0", "5", "10", "11", "12", "13"]
            assert page.locator(".strides__line").evaluate("it => it.scrollWidth <= it.clientWidth")


def test_arrows_move_by_row_and_column(recorded, open_site, tmp_path):
    with page_with(tmp_path, "strides", strides(recorded, views=VIEWS)) as url:
        page = open_site(url, reduced_motion="reduce")
        what = page.locator(".strides__what")
        page.get_by_role("radio", name="row 1, column 4").check()
        for key, wanted in [
            ("ArrowDown", "row 2, column 4"),
            ("ArrowDown", "row 2, column 4"),  # there is no row below it
            ("ArrowLeft", "row 2, column 3"),
            ("ArrowUp", "row 1, column 3"),
            ("Home", "row 1, column 0"),
            ("ArrowLeft", "row 1, column 0"),
            ("End", "row 1, column 4"),
            ("ArrowRight", "row 1, column 4"),
        ]:
            page.keyboard.press(key)
            assert what.inner_text() == wanted
            assert page.evaluate("document.activeElement.ariaLabel") == wanted
        page.get_by_role("radio", name="x.t()").check()  # five rows of three
        page.get_by_role("radio", name="row 3, column 1").check()
        page.keyboard.press("End")
        assert what.inner_text() == "row 3, column 2"
        page.keyboard.press("ArrowDown")
        assert what.inner_text() == "row 4, column 2"
