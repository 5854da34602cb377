# SPDX-License-Identifier: Apache-2.0
"""``<climb-figure>``: shares, tiles and lines are those of recordings and snippets, and move together."""

import re

import pytest

from figures import climb as room
from figures.climb import check, climb, read
from recorder import recording
from recorder.project import RecorderError, Snippet, find
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import move_and_copy

RECORDED = recording.load(find("matmul/cublas"), "h200")
STEPS = read(RECORDED)
SHOWN = "climb", climb(RECORDED)


def shown(page) -> list[str]:
    """The share, and the lines of the kernel."""
    return [
        page.locator("[aria-current=step] b").inner_text(),
        *page.locator(".climb__code li:visible").all_text_contents(),
    ]


def test_shares_are_those_of_the_recordings():
    tiles = recording.load(find("matmul/untiled_measured"), "h200").benchmark("tiles").medians()
    ladder = RECORDED.benchmark("ladder").medians()
    assert [step.share for step in STEPS] == [
        *(tiles[side].share / 100 for side in (1, 16, 32, 64, 128)),
        *(ladder[name].share for name in ("naive", "grouped", "autotuned", "persistent")),
    ]
    assert [step.percent for step in STEPS][:2] == ["0.05%", "8%"] and STEPS[-1].percent == "101%"
    assert [step.size for step in STEPS] == [2048] * 5 + [8192] * 4


def test_counted_bytes_are_those_of_the_tile():
    """So that where bytes were not counted, at 8,192, the tile may stand for them."""
    for step in STEPS[1:5]:
        m, n = step.tile
        assert step.intensity == pytest.approx(m * n / (m + n))


def test_the_tuned_tile_is_the_fastest_that_was_measured():
    by_config = recording.load(find("matmul/autotuned_measured"), "h200").benchmark("by_config").medians()
    fastest = max(by_config, key=lambda name: by_config[name].huge)
    assert fastest.startswith("x".join(map(str, STEPS[7].tile)))


def test_lines_that_no_snippet_has_are_refused():
    with pytest.raises(RecorderError, match="no such line"):
        check(Snippet("matmul/naive"), ["c = a @ b"])
    lines = ["tl.store(c_ptrs, accumulator, mask=c_inside)", "a = tl.load(a_ptrs, mask=a_inside, other=0)"]
    with pytest.raises(RecorderError, match="not in this order"):
        check(Snippet("matmul/naive"), lines)
    check(Snippet("matmul/naive"), lines[::-1])
    check(Snippet("matmul/naive"), ["a = tl.load(…, mask=…)"])
    with pytest.raises(RecorderError, match="no such line"):
        check(Snippet("matmul/naive"), ["a = tl.load(…, eviction_policy=…)"])


def test_a_step_that_is_not_in_the_table_is_refused(tmp_path, monkeypatch):
    other = tmp_path / "steps.toml"
    other.write_text(room.STEPS.read_text("utf-8").replace('"grouped"', '"ungrouped"'), "utf-8")
    monkeypatch.setattr(room, "STEPS", other)
    with pytest.raises(RecorderError, match="no row 'ungrouped'"):
        climb(RECORDED)


def test_rests_at_the_last_step_with_and_without_a_script(open_page):
    bare, page = open_page(java_script_enabled=False), open_page()
    assert shown(bare) == shown(page) and shown(page)[0] == "101%"
    assert not bare.locator("climb-figure :is(button:enabled, output):visible").count()


def test_a_step_moves_tile_dot_and_lines_together(page):
    page.get_by_text("under the roofline").click()
    dot = page.locator(".climb__here")
    tile = page.locator(".climb__c i")
    page.get_by_role("slider", name="Step").fill("1")
    small, low = tile.bounding_box(), dot.bounding_box()
    assert shown(page)[0] == "8%" and any("tl.dot" in line for line in shown(page))
    assert page.locator(".climb__code li.new:visible").count() == 4
    page.get_by_role("button", name="Step").click()
    large, high = tile.bounding_box(), dot.bounding_box()
    assert large["width"] == pytest.approx(2 * small["width"], rel=0.05)
    assert high["x"] > low["x"] and high["y"] < low["y"]
    assert not page.locator(".climb__code li.new:visible").count() and shown(page)[0] == "23%"


@pytest.mark.parametrize("width", [390, 800, 1280])  # where some titles take two lines, and where none does
def test_nothing_moves_away_from_the_pointer_from_step_to_step(open_page, width):
    page = open_page(viewport={"width": width, "height": 800})
    bar, tops = page.get_by_role("slider", name="Step"), set()
    for step in range(len(STEPS)):
        bar.fill(str(step))
        tops.add(round(bar.bounding_box()["y"] - page.locator(".climb").bounding_box()["y"]))
    assert len(tops) == 1, tops


def test_a_line_at_100_percent_is_where_the_bar_of_cublas_would_end(page):
    box = lambda it: it.evaluate("it => [it.getBoundingClientRect().left, it.getBoundingClientRect().right]")
    line, _ = box(page.locator(".climb__whole"))
    for step, bar in zip(STEPS, page.locator(".climb__bar i").all(), strict=True):
        left, right = box(bar)
        assert (right - left) / (line - left) == pytest.approx(step.share, abs=0.015), step.name


@pytest.mark.parametrize("width", [360, 390, 600, 680, 1280])
def test_a_name_and_its_share_have_room_beside_the_bar(open_page, width):
    page = open_page(viewport={"width": width, "height": 800})
    begins = set()
    for row in page.locator(".climb__steps button").all():
        row.click()  # in bold
        name, share, bar = row.evaluate("""it => [...it.children].map((part) => {
            const range = document.createRange();
            range.selectNodeContents(part.firstElementChild ? part : part.firstChild);
            const { left, right } = range.getBoundingClientRect();
            return [left, right];
        })""")
        assert name[1] + 3 < share[0] and share[1] + 3 < bar[0], row.inner_text()
        begins.add(bar[0])
    assert len(begins) == 1, "no bar moves when a name is in bold"


def test_a_bar_is_a_button_that_leads_to_its_step(page):
    bars = page.get_by_role("toolbar", name=re.compile("Share")).get_by_role("button")
    assert bars.count() == len(STEPS)
    bars.nth(4).click()
    assert shown(page)[0] == "83%" and "climb.step=4" in page.evaluate("location.search")
    bars.nth(6).focus()
    page.keyboard.press("Enter")
    assert shown(page)[0] == "90%"
    assert page.get_by_role("button", name="a better order 90%").get_attribute("aria-current") == "step"
    assert page.locator(".climb__what").inner_text().startswith("A better order")


def test_bars_are_one_stop_for_tab_and_arrows_move_along_them(page):
    page.get_by_role("toolbar").get_by_role("button").last.focus()
    page.keyboard.press("ArrowUp")
    assert shown(page)[0] == "99%" and "99%" in page.evaluate("document.activeElement.innerText")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowDown")
    assert shown(page)[0] == "99%"
    page.keyboard.press("Home")
    assert shown(page)[0] == "0.05%"
    page.keyboard.press("ArrowLeft")  # there is nothing before it
    assert shown(page)[0] == "0.05%"
    page.keyboard.press("Tab")
    assert not page.evaluate("document.activeElement.closest('.climb__steps')")


def test_the_key_speaks_of_numbers_only_where_there_are_some(page):
    order = page.locator(".climb__order")
    assert order.is_visible()
    page.get_by_role("slider", name="Step").fill("4")
    assert not order.is_visible()


def test_the_change_of_size_is_marked(page):
    groups = page.locator(".climb__size")
    assert [group.locator("button").count() for group in groups.all()] == [5, 4]
    said = groups.locator("p span:first-child").all_inner_texts()
    assert said == ["matrices of 2,048 × 2,048", "matrices of 8,192 × 8,192"]


def test_figure_and_bar_fit_one_screen(open_page):
    page = open_page(viewport={"width": 900, "height": 800})
    height = page.locator(".climb").bounding_box()["height"] + page.locator(".time-bar").bounding_box()["height"]
    assert height < 430, "of the 450 px that are left below a lesson's title and question"


def test_the_sentence_says_what_the_picture_shows(page):
    page.locator(".climb__steps button").first.click()
    said = page.locator("output").inner_text()
    assert re.search(r"one element per program: 0\.32 TFLOP/s, 0\.05% of cuBLAS", said)


def test_moving_or_copying_the_element_makes_no_second_one(page):
    move_and_copy(page, "#climb")
    page.locator("#copy").get_by_role("button", name="Back").click()
    assert page.locator("#copy [aria-current=step] b").inner_text() == "99%"
    assert page.locator("#climb [aria-current=step] b").inner_text() == "101%"


def test_no_axe_violation(open_page):
    page = open_page("?climb.step=6")
    for fold in page.locator("summary").all():
        fold.click()
    assert_accessible(page)


def test_on_a_phone_the_steps_and_the_tile_stand_on_the_first_screen(open_page):
    page = open_page(viewport={"width": 390, "height": 844}, has_touch=True)
    top = page.locator(".climb").bounding_box()["y"]
    tile = page.locator(".climb__tile").bounding_box()
    assert tile["y"] + tile["height"] - top < 460, "below a title and a question of 330 px, above the bar of time"


def test_fits_on_a_phone(open_page):
    page = open_page(viewport={"width": 360, "height": 740}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
