# SPDX-License-Identifier: Apache-2.0
"""``<attention-canvas>``: what it computes is what the run kept, and everybody can watch it."""

import math

import pytest
from msgspec.structs import replace

from figures import online
from figures.attention_canvas import attention_canvas, read
from recorder import recording
from recorder.project import RecorderError, find
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import call, move_and_copy

RECORDED = recording.load(find("fusion/attention_tiles"), "cpu")
RUN = read(RECORDED)
MASKS = {"all keys": False, "causal": True}
SHOWN = (
    "attention_canvas",
    attention_canvas(RECORDED),
    attention_canvas(RECORDED, causal=True, id="masked"),
)


def to(page, **fields):
    for name, value in fields.items():
        page.locator("#canvas").evaluate(
            "(it, [name, value]) => { it.form.elements[name].value = value; it.update() }", [name, value]
        )


def kept(page, query) -> list[str]:
    return page.locator(f"#canvas .canvas__row >> nth={query}").locator("em").all_inner_texts()


def look(page) -> list:
    """What stands in the canvas: numbers, which cells are what, and how dark they are."""
    return page.locator("#canvas .canvas__row > *, #masked .canvas__row > *").evaluate_all(
        "all => all.map(it => [it.textContent, it.localName === 'i' ? it.className.replace(' most', '') : '', "
        "Number(it.style.getPropertyValue('--w') || 0)])"
    )


@pytest.mark.parametrize("section", MASKS)
def test_after_each_tile_it_keeps_what_the_run_kept(page, section):
    for query, states in enumerate(RUN.kept[section]):
        scores = RUN.seen(query, MASKS[section])
        row = [score for score in RUN.scores[query]]
        asked = [{"row": row, "query": query, "moment": 4 * (n // RUN.tile)} for n, *_ in states]
        script = f"it.seen(a.row, a.query, {RUN.tile}, {str(MASKS[section]).lower()})"
        assert all(len(found) == len(scores) for found in call(page, "attention_canvas", script, asked))
        for n, maximum, total, accumulator in states:
            by_python = online.at(scores, RUN.values, RUN.tile, 4 * (n // RUN.tile))
            assert (by_python.part, by_python.maximum) == ("add", maximum)
            assert math.isclose(by_python.sum, total, abs_tol=1e-4)
            assert math.isclose(by_python.accumulator, accumulator, abs_tol=2e-4)
        last = online.at(scores, RUN.values, RUN.tile, 99)
        assert math.isclose(last.accumulator / last.sum, RUN.results[section][query], abs_tol=1e-4)


def test_the_script_computes_what_python_computes(page):
    for moment in range(18):
        to(page, moment=moment)
        for query in range(8):
            now = online.at(RUN.seen(query, False), RUN.values, RUN.tile, moment)
            assert kept(page, query)[1:3] == [f"{now.sum:.2f}", f"{now.accumulator:.2f}"]


def test_without_a_script_it_stands_as_it_does_with_one(open_page):
    bare = open_page(java_script_enabled=False)
    assert look(bare) == look(open_page())
    assert not bare.locator("#canvas :is(button, output, fieldset):visible").count()


def test_under_the_causal_mask_six_tiles_are_dark_and_the_first_program_ends_early(page):
    dark = page.locator("#masked .dark")
    assert dark.count() == 6 * RUN.tile**2
    to(page, mask="causal", moment=5)
    results = page.locator("#canvas .canvas__row em:last-child")
    assert results.evaluate_all("all => all.map(it => it.className)") == [""] * 2 + ["so-far"] * 6
    to(page, moment=17)
    assert [kept(page, query)[3] for query in range(8)] == [f"{x:.2f}" for x in RUN.results["causal"]]
    assert "10 of 16 tiles" in page.locator("#canvas output").inner_text()


def test_when_the_maximum_grows_sums_shrink_and_old_cells_fade(page):
    darkness = lambda: (
        page.locator("#canvas .canvas__row >> nth=0")
        .locator("i >> nth=0")
        .evaluate("it => Number(it.style.getPropertyValue('--w'))")
    )
    to(page, moment=9)
    to(page, moment=10)
    assert darkness() == 1 and kept(page, 0)[:2] == ["5", "1.55"]
    so_far = kept(page, 0)[3]
    page.locator("#canvas").get_by_role("button", name="Step").click()
    assert math.isclose(darkness(), math.exp(-2), abs_tol=1e-3) and kept(page, 0)[1] == "0.21"
    assert kept(page, 0)[3] == so_far == "1.66"  # both sums shrink alike
    assert "In 3 rows the largest score grew" in page.locator("#canvas output").inner_text()


def test_begins_with_the_scores_and_the_largest_and_brings_the_sums_with_the_first_step(page, open_page):
    def muted(page, id="canvas"):
        """Of the largest score, the two sums and the result, which stand back behind the first."""
        row = page.locator(f"#{id} .canvas__program").first.locator(".canvas__row").nth(1).locator("em")
        colors = row.evaluate_all("all => all.map(each => getComputedStyle(each).color)")
        return [color != colors[0] for color in colors]

    says = page.locator("#canvas output")
    assert muted(page) == [False, True, True, True] and "Step on to see" in says.inner_text()
    page.locator("#canvas").get_by_role("button", name="Step").click()
    assert not any(muted(page)[:3])
    page.locator("#canvas").get_by_role("button", name="Back").click()
    assert not any(muted(page)[:3]) and "Step on" not in says.inner_text(), "and they stay"
    assert not any(muted(page, "masked")[:3]), "a second picture has no more to introduce"
    bare = open_page(java_script_enabled=False)
    assert not any(muted(bare)[:3]), "without a step there is nothing to wait for"


def test_says_what_it_cannot_draw():
    with pytest.raises(RecorderError, match="no section values"):
        attention_canvas(replace(RECORDED, output=RECORDED.output.replace("## values", "## value")))
    with pytest.raises(RecorderError, match="as many values"):
        attention_canvas(replace(RECORDED, output=RECORDED.output.replace("1 2 3 4 5 6 7 8", "1 2 3")))


def test_by_keyboard_and_address(open_page):
    page = open_page("?canvas.mask=causal&canvas.moment=3")
    assert page.locator("#canvas input[value=causal]").is_checked()
    page.locator("#canvas").get_by_role("slider").focus()
    page.keyboard.press("ArrowRight")
    assert "canvas.moment=4" in page.evaluate("location.search")
    assert page.locator("#canvas .time-bar__text").inner_text() == "tile 1 of 4: add"


def test_moving_or_copying_the_element_makes_no_second_one(page):
    move_and_copy(page, "#canvas")
    page.locator("#copy").get_by_role("button", name="Back").click()
    assert page.locator("#copy .time-bar__text").inner_text() == "tile 3 of 4: scores"
    assert page.locator("#canvas .time-bar__text").inner_text() == "tile 3 of 4: maximum"


def test_no_axe_violation(open_page):
    page = open_page("?canvas.mask=causal")
    page.locator("#canvas summary").click()
    assert_accessible(page)


def test_fits_on_a_phone(open_page):
    page = open_page(viewport={"width": 360, "height": 740}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("#canvas .canvas__ours").evaluate("it => it.scrollWidth <= it.clientWidth")
    sizes = page.locator("#canvas .canvas__row i").evaluate_all("all => all.map(it => getComputedStyle(it).fontSize)")
    assert sizes and min(float(size.removesuffix("px")) for size in sizes) >= 12


def test_every_look_of_a_cell_is_in_the_key(page):
    named = lambda: set(page.locator("#canvas .canvas__key i:visible").evaluate_all("all => all.map(i => i.className)"))
    used = {"now": "canvas--tile", "most": "canvas--most", "gone": "canvas--gone", "later": "canvas--later"}
    causal = {"hidden": "canvas--hidden", "dark": "canvas--dark"}
    for mask, looks in (("all", used), ("causal", used | causal)):
        page.locator(f"#canvas label:has([value={mask}])").click()
        to(page, moment=6)
        cells = page.locator("#canvas .canvas__row i").evaluate_all("all => all.flatMap(i => i.className.split(' '))")
        assert set(cells) == set(looks) and {looks[cell] for cell in cells} <= named()
    to(page, mask="all")
    assert not named() & set(causal.values())


@pytest.mark.parametrize("width", [390, 1280])
def test_the_track_of_time_keeps_its_place_whatever_is_said(open_page, width):
    page = open_page(viewport={"width": width, "height": 800})
    places = []
    for moment in range(18):
        to(page, moment=moment)
        track, said = (page.locator(f"#canvas .time-bar {part}").bounding_box() for part in ("input", "span"))
        places.append((track["x"], track["width"]))
        assert said["x"] + said["width"] <= width
    assert len(set(places)) == 1 and places[0][1] > 180
