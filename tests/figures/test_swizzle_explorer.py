# SPDX-License-Identifier: Apache-2.0
"""``<swizzle-explorer>``: its order is the kernel's, its counts are the snippet's, and everybody can use it."""

import itertools
import re

import pytest

pytest.importorskip("torch", exc_type=ImportError)
pytest.importorskip("triton", exc_type=ImportError)

from figures.swizzle import swizzle
from recorder import recording
from recorder.project import find
from snippets.matmul import grouped
from tests.figures.explorer_support import call, in_scheme, move_and_copy, page_with

EXPLORER = swizzle(recording.load(find("matmul/grouped"), "cpu"), launches=[0, 1])
ORDERS = [
    "Row-major. Now: 1 row of A, 9 columns of B. From memory: 90 of 162 reads so far, 810 of 1458 in the end.",
    "Groups of 3 rows. Now: 3 rows of A, 3 columns of B. From memory: 54 of 162 reads so far, 324 of 1458 in the end.",
]
BEGINS = " ".join(["Wave 1 of 9: programs 0 to 8, step 9 of 9 along K.", *ORDERS])


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with page_with(tmp_path_factory.mktemp("swizzle"), "swizzle", EXPLORER) as url:
        yield url


@pytest.fixture
def open_page(open_site, url):
    return lambda query="", **options: open_site(url + query, **options)


@pytest.fixture
def page(open_page):
    return open_page()


def said(page, of="swizzle-explorer") -> str:
    return page.locator(f"{of} output").text_content()


def slide(page, label, value):
    page.get_by_role("slider", name=label).fill(str(value))


def query(page) -> str:
    return page.evaluate("location.search")


# What it computes


def test_order_is_that_of_the_kernel_and_of_swizzle2d_and_of_the_snippets_model(page):
    ran = [(1, 1, 1), (1, 7, 3), (7, 1, 3), (5, 4, 3), (5, 4, 8), (9, 9, 1), (9, 9, 3), (4, 9, 2), (12, 11, 5)]
    shapes = [*ran, *itertools.product(range(1, 7), range(1, 7), range(1, 8))]
    computed = call(page, "swizzle", "it.order(a)", [{"m": m, "n": n, "group": group} for m, n, group in shapes])
    for (m, n, group), tiles in zip(shapes, computed, strict=True):
        assert [tuple(tile) for tile in tiles] == grouped.tile_order(m, n, group), (m, n, group)
    for (m, n, group), tiles in zip(ran, computed, strict=False):
        for swizzle2d in (False, True):
            stored = grouped.order(m, n, group, swizzle2d=swizzle2d)
            assert [stored[i, j].item() for i, j in tiles] == list(range(m * n)), (m, n, group, swizzle2d)


def test_counts_are_those_of_the_snippets_model(page):
    cases = [
        {"m": m, "n": n, "k": k, "group": group, "sms": sms, "cache": cache}
        for m, n, k in ((1, 1, 1), (5, 4, 3), (9, 9, 9), (7, 10, 2))
        for group in (1, 2, 3, 8)
        for sms in (1, 4, 9, 24)
        for cache in (1, 2, 7, 20, 54, 60, 90, 240)
    ]
    counts = set()
    for case, run in zip(cases, call(page, "swizzle", "[it.run(a).reads, it.run(a).misses]", cases), strict=True):
        order = grouped.tile_order(case["m"], case["n"], case["group"])
        expected = grouped.tile_reads(order, case["k"], resident=case["sms"], cache=case["cache"])
        assert run == [expected.reads, expected.misses], case
        counts.add(expected.misses)
    assert len(counts) > 80


def test_begins_as_what_was_recorded(open_page):
    """The picture that the recorder drew from the kernel's own loads and stores is the one that the script draws."""
    parts = "parts => parts.map(p => [p.children[0].textContent, p.children[1].innerHTML, p.children[3].textContent])"
    drawn, computed = (
        open_page(java_script_enabled=enabled).locator(".swizzle__order").evaluate_all(parts)
        for enabled in (False, True)
    )
    assert computed == drawn
    assert drawn[1][1].count("<text") == 81 + 2 and "pid-0 now" in drawn[1][1]


# What it shows


def classes(page, order) -> dict[str, int]:
    """How many tiles there are of each kind in the picture of an order."""
    paths = page.locator(".swizzle__order").nth(order).locator("path")
    shown = paths.evaluate_all("all => all.map(p => [p.getAttribute('class'), p.getAttribute('d')])")
    return {kind: path.count("M") for kind, path in shown}


def test_says_both_orders_in_words(page):
    assert said(page) == BEGINS
    assert page.locator("output").get_attribute("aria-live") == "polite"
    images = page.get_by_role("img").evaluate_all("all => all.map(e => e.ariaLabel)")
    assert images == ORDERS


def test_tiles_that_run_are_read_and_are_kept(page):
    waves = {f"pid-{wave} later": 9 for wave in range(1, 8)}
    common = {"pid-0 now": 9, **waves, "pid-0 later": 9}
    assert classes(page, 0) == {**common, "miss": 10, "kept": 50, "memory": 102}
    assert classes(page, 1) == {**common, "miss": 6, "kept": 48, "memory": 108}
    slide(page, "Step", 19)
    assert "Wave 3 of 9: programs 18 to 26, step 1 of 9" in said(page)
    assert classes(page, 1)["hit"] == 3 and classes(page, 1)["miss"] == 3, "of A it reads what the wave before read"
    assert classes(page, 1)["pid-1 done"] == 9


def test_sizes(page):
    slide(page, "Tiles along M", 2)
    assert page.get_by_role("slider", name="Group").input_value() == "2", "no group has more rows than there are"
    titles = page.locator(".swizzle__order strong")
    assert titles.all_inner_texts() == ["Row-major", "Column-major"]
    slide(page, "Group", 1)
    assert titles.all_inner_texts() == ["Row-major", "Row-major"]
    slide(page, "SMs", 24)
    assert said(page).startswith("Wave 1 of 1: programs 0 to 17, step 9 of 9")
    slide(page, "Tiles along N", 1)
    slide(page, "SMs", 1)
    slide(page, "Step", 18)
    assert said(page).startswith("Wave 2 of 2: program 1, step 9 of 9")
    numbers = page.locator(".explorer__field b").all_inner_texts()
    assert numbers == ["2", "1", "9", "1", "1", "60"]


def test_with_room_for_every_tile_each_is_read_once(page):
    slide(page, "Cache", 200)
    slide(page, "Step", 81)
    assert said(page).count("162 of 1458 reads so far, 162 of 1458 in the end") == 2


def test_steps_and_plays(page):
    button = lambda name: page.get_by_role("button", name=name, exact=True)
    button("Step").click()
    assert said(page).startswith("Wave 2 of 9: programs 9 to 17, step 1 of 9")
    button("Back").click()
    assert said(page) == BEGINS
    slide(page, "Step", 1)
    assert button("Back").is_disabled()
    slide(page, "Step", 79)
    button("Play").click()
    assert page.locator("output").get_attribute("aria-live") == "off"
    button("Stop").click()
    stopped = said(page)
    page.wait_for_timeout(300)  # longer than a step takes
    assert said(page) == stopped
    button("Play").click()
    button("Play").wait_for()  # it has come to the end
    assert button("Step").is_disabled() and "step 9 of 9" in said(page)
    button("Play").click()
    page.wait_for_function("document.querySelector('output').textContent.startsWith('Wave 1 of 9')")
    page.locator("swizzle-explorer").evaluate("e => e.remove()")


def test_nothing_plays_under_reduced_motion(open_page):
    page = open_page(reduced_motion="reduce")
    assert not page.get_by_text("Play").is_visible()
    page.get_by_role("button", name="Step").click()
    assert said(page).startswith("Wave 2 of 9")


# Its state


def test_address_keeps_the_state(open_page):
    page = open_page("?q=1")
    assert query(page) == "?q=1"
    steps = page.evaluate("history.length")
    slide(page, "Cache", 30)
    slide(page, "Group", 2)
    slide(page, "Step", 40)
    assert query(page) == "?q=1&swizzle.cache=30&swizzle.group=2&swizzle.step=40"
    assert page.evaluate("history.length") == steps, "a change must add no step to go back"
    again = open_page(query(page))
    assert said(again) == said(page) != BEGINS
    slide(again, "Cache", 60)
    assert "cache" not in query(again), "the first state needs no parameter"


def test_address_may_hold_anything(open_page):
    page = open_page("?swizzle.m=<b>&swizzle.n=&swizzle.group=x&swizzle.step=none&swizzle.id=5")
    assert said(page) == BEGINS
    page = open_page("?swizzle.m=99&swizzle.n=-4&swizzle.sms=1e9&swizzle.cache=2.4&swizzle.step=1e9")
    assert said(page).startswith("Wave 1 of 1: programs 0 to 11, step 9 of 9")


def test_moving_or_copying_the_element_keeps_it_working(page):
    move_and_copy(page, "swizzle-explorer")
    slide(page.locator("#copy"), "Step", 10)
    assert said(page, "#copy").startswith("Wave 2 of 9")
    assert said(page, "#swizzle") == BEGINS


def test_works_after_instant_navigation(open_site, site):
    page = open_site(site.url + "matmul/grouped/")
    page.evaluate("window.stayed = true")
    for _ in range(2):
        assert said(page) == BEGINS
        slide(page, "Step", 10)
        assert said(page).startswith("Wave 2 of 9")
        page.locator(".md-footer__link--next").click()
        page.locator("swizzle-explorer").wait_for(state="detached")
        page.locator(".md-footer__link--prev").click()
        page.locator("swizzle-explorer").wait_for()
    assert page.evaluate("window.stayed")


# Who can use it


def test_keyboard_alone_suffices(page):
    page.get_by_role("slider", name="Tiles along M").focus()
    page.keyboard.press("End")
    assert said(page).startswith("Wave 1 of 12:")
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert "Groups of 4 rows." in said(page)
    for _ in range(4):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert "Wave 2 of 12: programs 9 to 17, step 1 of 9" in said(page)
    page.keyboard.press("Shift+Tab")
    page.keyboard.press(" ")
    assert "Wave 1 of 12: programs 0 to 8, step 9 of 9" in said(page)
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Stop").wait_for()
    page.keyboard.press("Enter")
    assert page.get_by_role("button", name="Play").is_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    assert "Wave 1 of 12: programs 0 to 8, step 1 of 9" in said(page)


def test_without_javascript_the_first_state_stands(open_page):
    page = open_page(java_script_enabled=False)
    assert [image.is_visible() for image in page.get_by_role("img").all()] == [True, True]
    assert page.get_by_text("90 of 162 reads so far").is_visible()
    assert not page.locator("button, input, output").filter(visible=True).count()
    page.locator("summary").click()
    numbers = page.get_by_label("Groups of 3 rows: the program of each tile of C").inner_text()
    assert re.sub(" +", " ", numbers).strip().startswith("0 3 6 9 12")


def test_no_axe_violation(open_page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = open_page("?swizzle.step=19")
    page.locator("summary").click()
    for scheme in ("default", "slate"):
        in_scheme(page, scheme)
        found = axe.run(page, options={"rules": {"target-size": {"enabled": True}}})
        assert found.violations_count == 0, found.generate_report()


def test_fits_on_a_phone(open_page):
    page = open_page("?swizzle.m=12&swizzle.n=12", viewport={"width": 360, "height": 700}, has_touch=True)
    page.locator("summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    heights = page.locator("button, input").evaluate_all("all => all.map(e => e.getBoundingClientRect().height)")
    assert min(heights) >= 40
    page.get_by_role("button", name="Step", exact=True).tap()
    assert said(page).startswith("Wave 2 of 16")
