# SPDX-License-Identifier: Apache-2.0
"""``<split-keys>``: what parts keep and give together is what the run stored, and everybody can watch it."""

import math

import pytest
from msgspec.structs import replace

from figures.split_keys import read, split_keys
from recorder import recording
from recorder.project import RecorderError, find
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import call, move_and_copy

RECORDED = recording.load(find("fusion/decoding_parts"), "cpu")
RUN = read(RECORDED)
RESULT = "10.1613"
SHOWN = "split_keys", split_keys(RECORDED)


def look(page) -> list[str]:
    return [text for text in page.locator(".split").inner_text().split() if text]


def choose(page, parts: int):
    page.locator(f"label:has(input[name=parts][value='{parts}'])").click()


@pytest.mark.parametrize("parts", RUN.parts)
def test_parts_keep_what_the_run_stored(page, parts):
    asked = [{"scores": RUN.scores, "parts": parts, "steps": 16}]
    (stored,) = call(page, "split_keys", "it.kept(a)", asked)
    for part, (maximum, total, accumulator) in zip(stored, RUN.parts[parts], strict=True):
        assert part["maximum"] == maximum and math.isclose(part["sum"], total, abs_tol=1e-4)
        assert math.isclose(part["accumulator"], accumulator, abs_tol=1e-4)
    (together,) = call(page, "split_keys", "it.combined(a)", [stored])
    assert math.isclose(together["sum"], RUN.together[parts][0], abs_tol=1e-4)
    assert math.isclose(together["accumulator"], RUN.together[parts][1], abs_tol=1e-4)


def test_begins_with_nearly_the_whole_gpu_at_work(page):
    assert page.locator(".split__busy").inner_text() == "128 of 132"
    assert page.locator(".machine .off").count() == 4
    assert page.locator(".split__says").inner_text() == "16 programs at once, 1 step instead of 16"


def test_however_many_parts_the_result_is_the_same(page):
    for parts in RUN.parts:
        choose(page, parts)
        assert page.locator(".split__together strong").inner_text() == RESULT
        assert page.locator(".split__part:visible").count() == parts
        assert page.locator(".split__busy").inner_text() == f"{8 * parts} of 132"
        assert page.locator(".split__product").inner_text() == f"{parts} × 8 = {8 * parts}"
        steps = {1: "16 steps", 2: "8 steps", 4: "4 steps", 8: "2 steps", 16: "1 step"}[parts]
        assert steps in page.locator(".split__says").inner_text()


def test_more_parts_take_fewer_steps(page):
    choose(page, 1)
    page.get_by_role("slider", name="Moment").fill("1")
    assert page.locator(".time-bar__text").inner_text() == "step 1 of 16"
    choose(page, 4)
    assert page.locator(".time-bar__text").inner_text() == "step 1 of 4"
    for _ in range(4):
        page.get_by_role("button", name="Step").click()
    assert page.locator(".time-bar__text").inner_text() == "combine"
    factors = page.locator(".split__part:visible .split__factor").all_inner_texts()
    assert factors == [f"{math.exp(part[0] - 6):.2f}" for part in RUN.parts[4]]
    assert page.locator(".split__together strong").inner_text() == "–"
    weights = page.locator(".split__part:visible .split__factor").evaluate_all(
        "all => all.map(it => Number(it.style.getPropertyValue('--w')))"
    )
    assert weights == pytest.approx([math.exp(part[0] - 6) for part in RUN.parts[4]], abs=1e-3), "as it counts"


def test_without_a_script_it_stands_as_it_does_with_one(open_page):
    bare, page = open_page(java_script_enabled=False), open_page()
    assert look(bare) == look(page) and RESULT in look(page)
    assert not bare.locator("split-keys :is(button, output, fieldset):visible").count()
    assert bare.locator(".split__says").inner_text() == page.locator(".split__says").inner_text()
    assert bare.locator(".machine .on").count() == page.locator(".machine .on").count() == 128


def test_the_name_of_a_row_stands_beside_its_numbers(open_page):
    page = open_page()
    middles = lambda where: page.locator(where).evaluate_all(
        "all => all.map(it => it.getBoundingClientRect()).map(it => it.top + it.height / 2)"
    )
    names = middles(".split__names span:visible")
    assert len(names) == 4
    assert middles(".split__part:first-child span") == pytest.approx(names, abs=1.5)
    page = open_page(viewport={"width": 390, "height": 740})
    names = middles(".split__names span")
    one, nine = (middles(f".split__part:nth-child({n}) span") for n in (1, 9))
    assert len(names) == 4
    assert [(a + b) / 2 for a, b in zip(one, nine, strict=True)] == pytest.approx(names, abs=1.5), "beside both"
    assert [b - a for a, b in zip(one, nine, strict=True)] == pytest.approx([18] * 4, abs=0.5)


def test_says_what_it_cannot_draw():
    for changed, fragment in [
        (RECORDED.output.replace("scores:", "score:"), "no line 'scores"),
        (RECORDED.output.replace("## 16 parts", "## 17 parts"), "must have as many parts"),
        (RECORDED.output.partition("## 16 parts")[0], "no section '16 parts'"),
    ]:
        with pytest.raises(RecorderError, match=fragment):
            split_keys(replace(RECORDED, output=changed))


def test_moving_or_copying_the_element_makes_no_second_one(page):
    move_and_copy(page, "#split")
    page.locator("#copy").get_by_role("button", name="Back").click()
    assert page.locator("#copy .time-bar__text").inner_text() == "combine"
    assert page.locator("#split .time-bar__text").inner_text() == "the result"


def test_address_keeps_the_state(open_page):
    page = open_page("?split.parts=1&split.moment=5")
    assert page.locator(".time-bar__text").inner_text() == "step 5 of 16"
    page.get_by_role("slider", name="Moment").focus()
    page.keyboard.press("ArrowRight")
    assert "split.moment=6" in page.evaluate("location.search")


@pytest.mark.parametrize("asked", ["?split.parts=8&split.moment=1", "?split.parts=8", "?split.parts=16"])
def test_no_axe_violation(open_page, asked):
    page = open_page(asked)
    page.locator("summary").click()
    assert_accessible(page)


@pytest.mark.parametrize("parts", [8, 16])
def test_fits_on_a_phone(open_page, parts):
    page = open_page(f"?split.parts={parts}", viewport={"width": 360, "height": 740}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    parts = page.locator(".split__part:visible span")
    assert parts.evaluate_all("all => all.every(it => it.scrollWidth <= it.clientWidth)")
