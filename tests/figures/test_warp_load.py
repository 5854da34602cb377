# SPDX-License-Identifier: Apache-2.0
"""``<warp-load>``: it draws the sectors that the counters saw, for each step measured; everybody can use it."""

import pytest
from msgspec.structs import replace

pytest.importorskip("torch", exc_type=ImportError)
pytest.importorskip("triton", exc_type=ImportError)

from figures import warp_load
from recorder import recording
from recorder.project import RecorderError, find
from snippets.gpu import coalescing
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import call

RECORDED = recording.load(find("gpu/coalescing_measured"), "h200")
COUNTED = recording.load(find("gpu/coalescing_counted"), "h200").benchmark("steps").medians()
EXPLORER = warp_load.warp_load(RECORDED)
STEPS = [1, 2, 4, 8, 16, 32]
SHOWN = "warp_load", EXPLORER


def looks(page) -> dict[str, int]:
    """Count the sectors in the picture by what becomes of them."""
    all_ = page.locator("svg rect:not([class])").evaluate_all("all => all.map(it => it.dataset.look ?? '')")
    return {look: all_.count(look) for look in ("came", "with")}


def count(page, of) -> str:
    return page.locator(f"[data-of={of}]").text_content()


def choose(page, step):
    page.locator(f"[name=step][value='{step}']").evaluate("it => it.click()")


def test_sectors_are_those_of_the_snippet_and_of_the_counters(open_page):
    page = open_page()
    drawn = call(page, "warp_load", "it.sectors(a, false).wanted.size", STEPS)
    assert drawn == [coalescing.sectors(range(0, 32 * step, step), itemsize=4) for step in STEPS]
    assert drawn == [round(COUNTED[step].one) for step in STEPS]


def test_bytes_drawn_are_the_bytes_that_were_counted(open_page):
    page = open_page()
    for step in STEPS:
        choose(page, step)
        seen = looks(page)
        assert sum(seen.values()) == round(COUNTED[step].memory), "32 bytes of a sector, and 32 numbers of a warp"
        assert count(page, "sectors") == str(seen["came"])
        assert count(page, "memory") == f"{COUNTED[step].memory:.0f}"


def test_says_how_much_more_is_moved_than_at_step_1(open_page):
    """With what is stored, for that is most of the answer to why the copy takes so much longer."""
    page = open_page()
    for step in STEPS:
        choose(page, step)
        assert page.locator(".warp__counts dd").last.text_content() == f"{COUNTED[step].memory:.0f} + 4"
        times = (COUNTED[step].memory + 4) / (COUNTED[1].memory + 4)
        said = page.locator(".warp__note:visible").inner_text()
        moved = f"{COUNTED[step].memory:.0f} + 4 bytes move where step 1 moves 4 + 4: about {times:.1f} times as much."
        assert (moved in said) == (step > 1)
        assert page.locator("output").text_content().endswith(said)
    rates = {step: max(row.four, row.one) for step, row in RECORDED.benchmark("strides").medians().items()}
    assert rates[1] / rates[16] == pytest.approx((COUNTED[16].memory + 4) / (COUNTED[1].memory + 4), rel=0.15)


def test_rates_are_those_of_the_faster_kernel():
    rates = RECORDED.benchmark("strides").medians()
    for step in STEPS:
        assert f"<b>{max(rates[step].four, rates[step].one):,.0f}</b>" in EXPLORER


def test_begins_as_it_stands_without_a_script(open_page):
    drawn = []
    styles = "all => all.map(it => it.style.cssText)"
    for enabled in (False, True):
        page = open_page(java_script_enabled=enabled)
        words = page.locator("svg").get_attribute("aria-label"), page.locator(".warp__lines").get_attribute("d")
        drawn.append((looks(page), words, page.locator(".warp__number").evaluate_all(styles)))
    assert drawn[0] == drawn[1] and drawn[0][0] == {"came": 32, "with": 32}


def test_bars_are_buttons_for_keys(open_page):
    page = open_page()
    page.get_by_role("radio", name="518").focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator("output").text_content().startswith("32 numbers, 8 apart, touch 32 sectors.")
    assert "warp.step=8" in page.evaluate("location.search")
    assert page.get_by_role("img").get_attribute("aria-label").startswith("32 numbers, 8 apart,")


def test_the_last_number_is_dragged(open_page):
    page = open_page(viewport={"width": 1000, "height": 900})
    box = page.locator("svg").bounding_box()
    scale = box["width"] / 332
    page.mouse.move(box["x"] + 20, box["y"] + (warp_load.ABOVE + 40) * scale)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 5, box["y"] + (warp_load.ABOVE + 35) * scale)
    assert "4 apart" in page.locator("output").text_content()
    page.mouse.move(box["x"] + box["width"] - 5, box["y"] + (warp_load.ABOVE + 315) * scale)
    page.mouse.up()
    assert "32 apart" in page.locator("output").text_content()


def test_refuses_what_the_counters_did_not_see(monkeypatch):
    with pytest.raises(RecorderError, match="first must be one of the steps"):
        warp_load.warp_load(RECORDED, first=3)
    table = RECORDED.benchmark("strides")
    apart = [replace(row, x=[row.x[0] * 5]) for row in table.rows]
    with pytest.raises(RecorderError, match="has none of the steps"):
        warp_load.warp_load(replace(RECORDED, benchmarks=[replace(table, rows=apart)]))
    monkeypatch.setattr(warp_load, "touched", lambda step: {0})
    with pytest.raises(RecorderError, match="the picture has 1 sectors, the counters saw 4"):
        warp_load.warp_load(RECORDED)


def test_no_axe_violation(open_page):
    page = open_page()
    assert_accessible(page)


def test_fits_a_phone(open_page):
    page = open_page(viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
