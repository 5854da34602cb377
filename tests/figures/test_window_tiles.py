# SPDX-License-Identifier: Apache-2.0
"""``<window-tiles>``: tiles are as the kernel was told, weights are the kernel's, and everybody can move the window."""

import itertools

import pytest
from msgspec.structs import replace

from figures.window_tiles import read, window_tiles
from recorder import printed, recording
from recorder.project import RecorderError, find
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import call, move_and_copy

RECORDED = recording.load(find("models/window_attention_steps"), "cpu")
RUN = read(RECORDED)
SHOWN = "window_tiles", window_tiles(RECORDED)
WEIGHTS = {  # the sections, and what was run there
    "all keys": ("causal", 16, False),
    "window 5": ("causal", 5, False),
    "window 5, sink": ("causal", 5, True),
    "window 4, both sides": ("both sides", 4, False),
}


def kinds(page, element="#window") -> list[list[str]]:
    rows = page.locator(f"{element} .seen__row").all()
    return [row.locator("b:not(.seen__sink)").evaluate_all("all => all.map(it => it.className)") for row in rows]


def look(page) -> list:
    return page.locator("#window .seen__row :is(i, em)").evaluate_all(
        "all => all.map(it => [it.className, Number(it.style.getPropertyValue('--w') || 0), it.textContent])"
    )


def needed(section: str, window: int) -> list[list[str]]:
    """What each tile is, from who sees whom."""
    found = []
    for queries in itertools.pairwise(range(0, 17, 2)):
        row = []
        for first in range(0, 16, 2):
            seen = [RUN.sees(section, window, query, key) for query in range(*queries) for key in (first, first + 1)]
            row.append("whole" if all(seen) else "part" if any(seen) else "off")
        found.append(row)
    return found


@pytest.mark.parametrize("section", ["causal", "both sides"])
def test_tiles_are_visited_where_somebody_sees_and_masked_where_somebody_does_not(section):
    for window in range(1, 17):
        assert RUN.kinds(section, window) == needed(section, window), window


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_are_those_of_the_kernel(page, name):
    section, window, sink = WEIGHTS[name]
    lines = printed.sections(RECORDED.output)[f"weights, {name}"].splitlines()
    asked = [
        {"scores": scores, "query": query, "window": window, "causal": section == "causal"} | (
            {"sink": 4} if sink else {}
        )
        for query, scores in enumerate(RUN.scores)
    ]
    for query, (found, line) in enumerate(zip(call(page, "window_tiles", "it.weights(a)", asked), lines, strict=True)):
        by_python = RUN.weights(section, window, query, sink)
        assert found == pytest.approx(by_python) and sum(found) == pytest.approx(1)
        assert found[1:] == pytest.approx([float(number) for number in line.split()], abs=6e-4)
        assert (found[0] > 0) == sink


def test_the_slider_shows_what_each_program_was_told(page):
    slider = page.get_by_role("slider", name="Window")
    for way in ("causal", "both sides"):
        page.locator(f"label:has([value='{way}'])").click()
        for window in (1, 2, 7, 16):
            slider.fill(str(window))
            expected = RUN.kinds(way, window)
            assert kinds(page) == expected
            visited = sum(kind != "off" for row in expected for kind in row)
            assert page.locator(".seen__count").inner_text().startswith(f"{visited} of 64")
            edges = [f"{start} … {end}" for start, _, _, end in RUN.edges[way][window - 1]]
            assert page.locator(".seen__row em").all_inner_texts() == edges


def test_the_edge_of_the_window_can_be_dragged(page):
    box = page.locator("#window .seen__row >> nth=7").bounding_box()
    tile = lambda number: page.locator("#window .seen__row >> nth=7").locator(f"b >> nth={number + 1}").bounding_box()
    at = lambda number: (tile(number)["x"] + 6, box["y"] + box["height"] - 6)  # query 15, the first key of a tile
    page.mouse.move(*at(5))
    page.mouse.down()
    assert page.get_by_role("slider", name="Window").input_value() == "6"
    page.mouse.move(*at(1))
    assert page.get_by_role("slider", name="Window").input_value() == "14"
    page.mouse.move(tile(0)["x"] - 400, at(0)[1])
    assert page.get_by_role("slider", name="Window").input_value() == "16"
    page.mouse.up()
    page.mouse.move(*at(5))
    assert page.get_by_role("slider", name="Window").input_value() == "16"


def test_a_sink_takes_weight_and_changes_no_tile(page):
    before = kinds(page)
    weight = "all => Math.max(...all.map(it => Number(it.style.getPropertyValue('--w'))))"
    assert page.locator(".seen__sink i").evaluate_all(weight) == 0
    page.locator("label:has([value=sink])").click()
    assert kinds(page) == before and page.locator(".seen__sink i").evaluate_all(weight) > 0.3
    assert page.locator(".seen__sink >> nth=0").is_visible()
    assert "of all the weight" in page.locator("output").inner_text()


def test_without_a_script_it_stands_as_it_does_with_one(open_page):
    bare = open_page(java_script_enabled=False)
    assert [cell[0] for cell in look(bare)] == [cell[0] for cell in look(open_page())]
    assert [cell[1:] for cell in look(bare)] == [cell[1:] for cell in look(open_page())]
    assert not bare.locator("#window :is(button, output, fieldset, input):visible").count()
    assert kinds(bare) == RUN.kinds("causal", 5)


def test_by_keyboard_and_address(open_page):
    page = open_page("?window.sees=both sides&window.window=3")
    assert kinds(page) == RUN.kinds("both sides", 3)
    page.get_by_role("slider", name="Window").focus()
    page.keyboard.press("ArrowRight")
    assert "window.window=4" in page.evaluate("location.search") and kinds(page) == RUN.kinds("both sides", 4)
    assert page.get_by_role("slider", name="Window").evaluate("it => it.ariaValueText").startswith("4 keys")


def test_says_what_it_cannot_draw():
    with pytest.raises(RecorderError, match="no section edges, causal"):
        window_tiles(replace(RECORDED, output=RECORDED.output.replace("## edges, causal", "## other")))
    short = RECORDED.output.replace("\n16 | ", "\n\n## more\n16 | ", 1)
    with pytest.raises(RecorderError, match="a line for each window up to 16"):
        window_tiles(replace(RECORDED, output=short))


def test_moving_or_copying_the_element_makes_no_second_one(page):
    move_and_copy(page, "#window")
    page.locator("#copy").get_by_role("slider", name="Window").fill("2")
    assert kinds(page, "#copy") == RUN.kinds("causal", 2) and kinds(page) == RUN.kinds("causal", 5)


def test_no_axe_violation(open_page):
    page = open_page("?window.sink=sink")
    page.locator("summary").click()
    assert_accessible(page)


def test_fits_on_a_phone(open_page):
    page = open_page("?window.sink=sink&window.window=9", viewport={"width": 360, "height": 740}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator(".seen__row >> nth=0").evaluate("it => it.scrollWidth <= it.clientWidth + 1")
