# SPDX-License-Identifier: Apache-2.0
"""``<state-chunks>``: cells are as large as what the kernels found to be left, and appear when they are known."""

import pytest
from msgspec.structs import replace

from figures.state_chunks import read, state_chunks
from recorder import recording
from recorder.project import RecorderError, Snippet
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import call, move_and_copy

RECORDED = recording.load(Snippet("models/state_steps"), "cpu")
RUN = read(RECORDED)
SHOWN = "state_chunks", state_chunks(RECORDED)
CELLS = """all => all.map(it => ["--t", "--s", "--left"].map(name => Number(it.style.getPropertyValue(name)))
    .concat([it.classList.contains("met"), it.classList.contains("later")]))"""


def cells(page):
    return page.locator(".state__picture i").evaluate_all(CELLS)


def test_what_is_left_is_what_the_kernels_found(page):
    """Whatever the size of a chunk, on the page as in its script."""
    (computed,) = call(page, "state_chunks", "it.left(a)", [{"steps": RUN.steps, "decay": RUN.decay}])
    drawn = [left for t, _, left, *_ in cells(page) if t == RUN.steps - 1]
    assert set(RUN.left) == {1, 2, 4, 8, 16}
    for found in RUN.left.values():
        assert found == pytest.approx(computed, abs=1e-4) and found == pytest.approx(drawn, abs=1e-3)


@pytest.mark.parametrize("chunk", RUN.left)
def test_a_query_meets_the_keys_of_its_chunk(open_page, chunk):
    page = open_page(f"?chunked.chunk={chunk}")
    found = cells(page)
    assert len(found) == 136 and not any(later for *_, later in found)
    met = {(t, s) for t, s, _, met, _ in found if met}
    assert met == {(t, s) for t in range(16) for s in range(t + 1) if t // chunk == s // chunk}
    assert page.locator("[data-of=met]").inner_text() == str(len(met))
    assert page.locator(".state__picture b:visible").count() == 16 // chunk == int(
        page.locator("[data-of=chain]").inner_text()
    )


def test_the_chain_comes_first_then_all_triangles_at_once(page):
    page.get_by_role("slider", name="Moment").press("Home")
    assert all(later for *_, later in cells(page))
    for moment in range(1, 5):
        page.get_by_role("button", name="Step").click()
        assert page.locator(".state__picture b.there:visible").count() == moment
        assert page.locator(".time-bar__text").inner_text() == f"state {moment} of 4"
        known = {t // 4 for t, *_, met, later in cells(page) if not later and not met}
        assert known == set(range(1, moment)) and all(later for *_, met, later in cells(page) if met)
    page.get_by_role("button", name="Step").click()
    assert not any(later for *_, later in cells(page))
    assert page.locator(".time-bar__text").inner_text() == "all results"


def test_another_decay_and_another_chunk_stay_at_the_end(page):
    page.get_by_label("What is left after a step").fill("1")
    assert page.locator("[data-of=left]").inner_text() == "100 %"
    assert {left for _, _, left, *_ in cells(page)} == {1}
    page.get_by_role("radio", name="16", exact=True).check()
    assert page.locator(".time-bar__text").inner_text() == "all results"
    assert "is attention" in page.locator(".explorer__summary").inner_text()


def test_without_a_script_it_rests_on_all_results(open_page):
    bare = open_page(java_script_enabled=False)
    assert bare.locator(".state__picture b:visible").count() == 4 and not bare.locator("i.later").count()
    assert not bare.locator("state-chunks :is(button, fieldset, input):visible").count()


def test_says_what_it_cannot_draw():
    for old, new in (("chunks of 4", "chunks of 5"), ("decay: 0.8", "decay: a"), ("step 15: 0.0352", "step 15:")):
        with pytest.raises(RecorderError, match="section"):
            state_chunks(replace(RECORDED, output=RECORDED.output.replace(old, new)))


def test_moving_or_copying_the_element_makes_no_second_one(page):
    move_and_copy(page, "#chunked")
    page.locator("#copy").get_by_role("button", name="Back").click()
    assert page.locator("#copy .time-bar__text").inner_text() == "state 4 of 4"
    assert page.locator("#chunked .time-bar__text").inner_text() == "all results"


def test_no_axe_violation(page):
    page.locator("summary").click()
    assert_accessible(page)


def test_fits_on_a_phone(open_page):
    page = open_page(viewport={"width": 360, "height": 740}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
