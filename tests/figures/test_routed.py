# SPDX-License-Identifier: Apache-2.0
"""``<routed-tokens>``: squares stand in the rows that the run gave them, and tiles hold those that programs found."""

import pytest
from msgspec.structs import replace

from figures.routed import read, routed
from recorder import recording
from recorder.project import RecorderError, find
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import move_and_copy

RECORDED = recording.load(find("models/experts_steps"), "cpu")
RUN = read(RECORDED)
SHOWN = "routed", routed(RECORDED)
PLACES = """all => all.map(it => it.getBoundingClientRect())
    .map(it => [it.left + it.width / 2, it.top + it.height / 2, it.left, it.right])"""


def test_a_row_holds_its_pair():
    for routing in RUN.values():
        rows = [routing.offsets[pair["expert"]] + pair["at"] for pair in routing.pairs]
        assert rows == routing.rows and sorted(rows) == list(range(16))
        assert [sum(tile["rows"] for tile in lane["tiles"]) for lane in routing.lanes] == routing.counts
        assert len(routing.tiles) + routing.leave == 7


@pytest.mark.parametrize("name", RUN)
def test_each_square_lies_in_the_tile_of_its_program(open_page, name):
    page = open_page(f"?routed.routing={name}")
    assert page.locator(".routed:visible").get_attribute("data-routing") == name
    squares = page.locator(".routed:visible i").evaluate_all(PLACES)
    tiles = page.locator(".routed:visible .routed__tile").evaluate_all(PLACES)
    assert len(squares) == 16 and len(tiles) == len(RUN[name].tiles)
    held = [sum(left < x < right and abs(y - top) < 6 for x, y, *_ in squares) for _, top, left, right in tiles]
    assert held == [last - first + 1 for _, _, first, last in RUN[name].tiles]


def test_steps_from_tokens_to_rows_and_back(page):
    page.get_by_role("slider", name="Moment").fill("0")
    tops = lambda: {round(y) for _, y, *_ in page.locator(".routed:visible i").evaluate_all(PLACES)}
    assert len(tops()) == 2 and page.locator(".time-bar__text").inner_text() == "tokens"
    for word, lines in (("count", 2), ("place", 4), ("multiply", 4), ("combine", 2)):
        page.get_by_role("button", name="Step").click()
        assert page.locator(".time-bar__text").inner_text() == word and len(tops()) == lines
    assert "adds them up" in page.locator("output").inner_text()


def test_without_a_script_it_rests_on_the_tiles(open_page):
    bare = open_page(java_script_enabled=False)
    assert bare.locator(".routed:visible").count() == 1
    assert not bare.locator("routed-tokens :is(button, output, fieldset):visible").count()


def test_says_what_it_cannot_draw():
    for old, new, words in (("offsets:", "ends:", "no line 'offsets'"), ("## skewed", "## other", "no section")):
        with pytest.raises(RecorderError, match=words):
            routed(replace(RECORDED, output=RECORDED.output.replace(old, new)))


def test_moving_or_copying_the_element_makes_no_second_one(page):
    move_and_copy(page, "#routed")
    page.locator("#copy").get_by_role("button", name="Step").click()
    assert page.locator("#copy .time-bar__text").inner_text() == "combine"
    assert page.locator("#routed .time-bar__text").inner_text() == "multiply"


def test_no_axe_violation(page):
    page.locator("summary").click()
    assert_accessible(page)


def test_fits_on_a_phone(open_page):
    page = open_page("?routed.routing=two experts", viewport={"width": 360, "height": 740}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
