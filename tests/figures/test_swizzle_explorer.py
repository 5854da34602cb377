# SPDX-License-Identifier: Apache-2.0
"""``<swizzle-explorer>``: its order is the kernel's, its counts are the snippet's, and everybody can use it."""

import itertools
import re

import pytest

pytest.importorskip("torch", exc_type=ImportError)
pytest.importorskip("triton", exc_type=ImportError)

from figures import swizzle
from recorder import recording
from recorder.project import find
from snippets.matmul import grouped, grouped_two_axes
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import by_hand, call, move_and_copy, page_with

RECORDED = recording.load(find("matmul/grouped"), "cpu")
TWO_AXES = recording.load(find("matmul/grouped_two_axes"), "cpu")
EXPLORER = swizzle.swizzle(RECORDED, launches=["matmul_kernel[0]", "matmul_kernel[1]"])
ORDERS = [
    "Row-major. Now: 1 row of A, 9 columns of B. From memory: 180 of 324 reads so far, 810 of 1458 in the end.",
    "Groups of 3 rows. Now: 3 rows of A, 3 columns of B. From memory: 81 of 324 reads so far, 324 of 1458 in the end.",
]
BEGINS = " ".join(["Wave 2 of 9, step 9 of 9: programs 9 to 17, in 3 rows and 3 columns.", *ORDERS])


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with page_with(tmp_path_factory.mktemp("swizzle"), "swizzle", EXPLORER) as url:
        yield url


@pytest.fixture
def open_page(open_site, url):
    return lambda query="", **options: open_site(url + query, **options)


@pytest.fixture
def page(open_page):
    return open_page(reduced_motion="reduce")


def summary(page, of="swizzle-explorer") -> str:
    return page.locator(f"{of} .swizzle__moment").text_content()


def program_note(page) -> str:
    """Return the text about the program that is chosen."""
    return page.locator("swizzle-explorer .explorer__detail").text_content()


def slide(page, label, value):
    page.get_by_role("slider", name=label, exact=True).fill(str(value))


def more(page):
    page.locator("summary", has_text="Try other sizes").click()


def preset(page, name):
    if not page.get_by_role("group", name="Examples").is_visible():
        more(page)
    page.get_by_role("button", name=name, exact=True).click()


def query(page) -> str:
    return page.evaluate("location.search")


# What it computes


def test_order_is_that_of_the_kernel_and_of_swizzle2d_and_of_the_snippets_model(page):
    checked = [(1, 1, 1), (1, 7, 3), (7, 1, 3), (5, 4, 3), (5, 4, 8), (9, 9, 1), (9, 9, 3), (4, 9, 2), (12, 11, 5)]
    shapes = [*checked, *itertools.product(range(1, 7), range(1, 7), range(1, 8))]
    computed = call(page, "swizzle", "it.order(a)", [{"m": m, "n": n, "group": group} for m, n, group in shapes])
    for (m, n, group), tiles in zip(shapes, computed, strict=True):
        assert [tuple(tile) for tile in tiles] == grouped.tile_order(m, n, group), (m, n, group)
    for (m, n, group), tiles in zip(checked, computed, strict=False):
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


@pytest.mark.parametrize(("n", "group"), [(9, 1), (9, 3), (10, 1), (10, 3)])
def test_on_a_grid_of_two_axes_order_and_counts_are_those_that_were_recorded(page, n, group):
    """The recording shows where the first nine programs stand, what they read, and what all read through 60 tiles."""
    name = f"9 × {n}, two axes" + (", tl.swizzle2d" if group > 1 else "")
    lines = TWO_AXES.output.splitlines()
    printed = lines[lines.index(f"## {name}") + 1 :][:11]
    sizes = {"m": 9, "n": n, "k": 9, "group": group, "axes": 2, "sms": 9, "cache": 60}
    (tiles,) = call(page, "swizzle", "it.order(a).slice(0, 9)", [sizes])
    places = {tuple(tile): str(number) for number, tile in enumerate(tiles)}
    assert printed[:9] == [" ".join(places.get((i, j), "·") for j in range(n)) for i in range(9)]
    first, every = call(page, "swizzle", "it.run(a, a.steps).misses", [{**sizes, "cache": 240, "steps": 9}, sizes])
    assert printed[9:] == [f"{name}, the first nine read: {first}", f"{name}, all read: {every}"]


def test_on_a_grid_of_two_axes_order_is_what_the_kernel_stores(page):
    shapes = [(1, 1, 1), (4, 3, 2), (3, 4, 2), (5, 4, 3), (2, 7, 4), (7, 2, 1)]
    cases = [{"m": m, "n": n, "group": group, "axes": 2} for m, n, group in shapes]
    for (m, n, group), tiles in zip(shapes, call(page, "swizzle", "it.order(a)", cases), strict=True):
        stored = grouped_two_axes.in_order(grouped_two_axes.numbered(m, n, group))
        assert [tuple(tile) for tile in tiles] == stored, (m, n, group)


@pytest.mark.parametrize(("launch", "sms", "cache"), [(0, 9, 60), (1, 9, 60), (1, 7, 20), (0, 24, 120), (1, 1, 1)])
def test_hits_are_those_of_what_the_kernel_loaded(page, launch, sms, cache):
    """Send the loads of a recorded launch through a cache that drops what was used longest ago."""
    order = swizzle.read(RECORDED, f"matmul_kernel[{launch}]")
    kept, expected = [], [{"A": [], "B": []} for _ in order.tiles]
    for first in range(0, len(order.tiles), sms):
        for step in range(order.k):
            for pid in range(first, min(first + sms, len(order.tiles))):
                for tile in order.loads[pid][2 * step : 2 * step + 2]:
                    expected[pid][tile[0]].append(tile in kept)
                    kept = [*(other for other in kept if other != tile), tile][-cache:]
    sizes = {"m": order.m, "n": order.n, "k": order.k, "group": order.group, "sms": sms, "cache": cache}
    (computed,) = call(page, "swizzle", "it.run(a).hits", [sizes])
    assert computed == expected
    assert any(any(hits["A"] + hits["B"]) for hits in expected) == (cache > 1)


def test_the_curve_is_that_of_the_snippets_model(page):
    counts = "dots => dots.map(dot => Number(dot.dataset.misses))"
    for name, sizes in (
        ("As recorded", (9, 9, 9, 9, 60)), ("All fits", (9, 9, 9, 9, 200)), ("B fits", (9, 9, 9, 9, 120)),
        ("16 at once", (9, 9, 9, 16, 60)), ("Tall A", (12, 2, 4, 4, 20)),
    ):  # fmt: skip
        m, n, k, sms, cache = sizes
        preset(page, name)
        assert page.locator("swizzle-explorer [aria-pressed=true]").all_inner_texts() == [name]
        expected = [grouped.tile_reads(grouped.tile_order(m, n, group), k, resident=sms, cache=cache).misses
                    for group in range(1, m + 1)]  # fmt: skip
        assert page.locator(".swizzle__curve i").evaluate_all(counts) == expected
        ends = [int(text.split(" of ")[1]) for text in page.locator(".swizzle__race span:last-child").all_inner_texts()]
        assert ends == [expected[0], expected[2]]


def test_begins_as_what_was_recorded(open_page):
    """The picture that the recorder drew from the kernel's own loads and stores is the one that the script draws."""
    picture = "e => [e.ariaLabel, e.getAttribute('viewBox'), e.innerHTML]"
    race = "all => all.map(e => [...e.children].map(c => c.textContent))"
    bars = "all => all.map(e => ['--now', '--end'].map(name => Number(e.style.getPropertyValue(name))))"
    drawn, computed = (
        (page.locator(".swizzle__picture svg").evaluate(picture), page.locator(".swizzle__race p").evaluate_all(race),
         page.locator(".swizzle__race i").evaluate_all(bars))
        for page in (open_page(java_script_enabled=enabled, reduced_motion="reduce") for enabled in (False, True))
    )  # fmt: skip
    assert computed == drawn
    assert drawn[0][2].count("<text") == 81 + 2 and "pid-1 now" in drawn[0][2]
    assert drawn[1] == [["Row-major", "", "180 of 810"], ["Groups of 3 rows", "", "81 of 324"]]


# What it shows


def classes(page) -> dict[str, int]:
    """Count the tiles of each kind in the picture."""
    paths = page.locator(".swizzle__picture path")
    shown = paths.evaluate_all("all => all.map(p => [p.getAttribute('class'), p.getAttribute('d')])")
    return {kind: path.count("M") for kind, path in shown}


def test_says_both_orders_in_words(page):
    assert summary(page) == BEGINS
    assert page.locator("output").first.get_attribute("aria-live") == "polite"
    assert page.get_by_role("img").evaluate_all("all => all.map(e => e.ariaLabel)") == ORDERS[1:]


def test_tiles_that_run_are_read_and_are_kept(page):
    slide(page, "Step", 9)
    waves = {f"pid-{wave} later": 9 for wave in range(1, 8)}
    common = {"pid-0 now": 9, **waves, "pid-0 later": 9}
    assert classes(page) == {**common, "miss": 6, "kept": 48, "memory": 108}
    slide(page, "Rows in a group", 1)
    assert classes(page) == {**common, "miss": 10, "kept": 50, "memory": 102}
    slide(page, "Rows in a group", 3)
    slide(page, "Step", 19)
    assert summary(page).startswith("Wave 3 of 9, step 1 of 9: programs 18 to 26")
    assert classes(page)["hit"] == 3 and classes(page)["miss"] == 3, "of A it reads what the wave before read"
    assert classes(page)["pid-1 done"] == 9


def test_later_running_and_done_differ_in_more_than_hue(page):
    """One is hollow, one has a frame, one is filled."""
    slide(page, "Step", 19)
    look = "e => { const s = getComputedStyle(e); return [s.fill === getComputedStyle(document.body).backgroundColor, "
    look += "s.stroke !== 'none', parseFloat(s.strokeWidth)] }"
    shown = {kind: page.locator(f".swizzle__picture path.{kind}").first.evaluate(look) for kind in
             ("later", "now", "done")}  # fmt: skip
    assert shown["later"] == [True, True, 1]
    assert shown["now"] == [False, True, 2.5]
    assert shown["done"][:2] == [False, False]


def tile(page, row, column, sizes=(9, 9, 9), within=9):
    """A place within a tile of C, which is 18 wide and high: its middle, in pixels from the corner of the picture."""
    m, n, k = sizes
    box = page.locator(".swizzle__picture svg").bounding_box()
    scale = min(box["width"] / (10 * k + 20 * n + 8), box["height"] / (10 * k + 20 * m + 8))
    left, top = ((box[side] - scale * (10 * k + 20 * tiles + 8)) / 2 for side, tiles in (("width", n), ("height", m)))
    x, y = (scale * (10 * k + 8 + 20 * place + within) for place in (column, row))
    return {"x": left + x, "y": top + y}


def test_a_pointer_over_a_tile_shows_what_its_program_reads(page):
    """As long as it is there; a click keeps it. In the second wave, A is found again."""
    svg = page.locator(".swizzle__picture svg")
    assert program_note(page).startswith("Point at a tile")
    svg.hover(position=tile(page, 1, 3))
    assert program_note(page) == "Program 10, wave 2. Row 1 of A: 9 hits. Column 3 of B: 9 hits."
    for within in (17, 1):
        svg.hover(position=tile(page, 2, 2, within=within))
        assert program_note(page).startswith("Program 8, wave 1.")
    svg.hover(position=tile(page, 0, 3))
    assert program_note(page) == "Program 9, wave 2. Row 0 of A: 9 hits. Column 3 of B: 9 misses."
    assert (classes(page)["own hit"], classes(page)["own miss"], classes(page)["frame"]) == (9, 9, 2)
    assert page.locator(".swizzle__picture text.chosen").all_text_contents() == ["9"]
    svg.hover(position={"x": 3, "y": 3})
    assert program_note(page).startswith("Point at a tile") and "own hit" not in classes(page)
    svg.click(position=tile(page, 8, 8))
    page.get_by_role("heading", name="Explorer").hover()
    assert program_note(page).startswith("Program 80, wave 9.")
    assert query(page) == "?swizzle.program=80"
    svg.click(position=tile(page, 8, 8))
    page.get_by_role("heading", name="Explorer").hover()
    assert program_note(page).startswith("Point at a tile") and query(page) == ""
    preset(page, "Tall A")
    svg.click(position=tile(page, 11, 1, (12, 2, 4)))
    assert program_note(page).startswith("Program 23, wave 6. Row 11 of A:")


def test_a_program_is_chosen_by_its_number_too(page):
    page.get_by_role("spinbutton", name="Program").fill("4")
    assert program_note(page) == "Program 4, wave 1. Row 1 of A: 9 hits. Column 1 of B: 9 hits."
    page.get_by_role("spinbutton", name="Program").fill("81")
    assert program_note(page).startswith("Point at a tile")


def test_the_dot_can_be_dragged(page):
    dots = page.locator(".swizzle__curve i")
    place = lambda group: dots.nth(group - 1).evaluate(
        "e => { const r = e.getBoundingClientRect(); return [r.left, r.top] }"
    )
    page.mouse.move(*place(3))
    page.mouse.down()
    for group in (5, 9, 2):
        page.mouse.move(place(group)[0], place(3)[1] + 10, steps=3)
        assert page.locator(".swizzle__curve .swizzle__here").get_attribute("data-group") == str(group)
    page.mouse.up()
    assert page.locator(".swizzle__race span:first-child").all_inner_texts() == ["Row-major", "Groups of 2 rows"]
    slider = page.get_by_role("slider", name="Rows in a group")
    assert slider.get_attribute("aria-valuetext") == "2 rows: 486 tiles from memory"


def test_sizes(page):
    more(page)
    slide(page, "Tiles along M", 2)
    group = page.get_by_role("slider", name="Rows in a group")
    assert group.input_value() == "2", "no group has more rows than there are"
    titles = page.locator(".swizzle__race span:first-child")
    assert titles.all_inner_texts() == ["Row-major", "Column-major"]
    slide(page, "Rows in a group", 1)
    assert titles.all_inner_texts() == ["Row-major", "Row-major"]
    slide(page, "SMs", 24)
    assert summary(page).startswith("Wave 1 of 1, step 9 of 9: programs 0 to 17,")
    slide(page, "Tiles along N", 1)
    slide(page, "SMs", 1)
    slide(page, "Step", 18)
    assert summary(page).startswith("Wave 2 of 2, step 9 of 9: program 1, in 1 row and 1 column.")
    assert page.locator(".explorer__field b").all_inner_texts() == ["2", "1", "9", "1", "60", "1"]
    assert not page.locator("swizzle-explorer [aria-pressed=true]").count()


def test_a_grid_of_two_axes(page):
    """The picture and the race are of the same run, and row-major stays the rival on one axis."""
    preset(page, "2-D grid")
    assert query(page) == "?swizzle.n=10&swizzle.axes=2"
    titles, ends = (page.locator(f".swizzle__race span:{which}-child") for which in ("first", "last"))
    line = grouped.tile_reads(grouped.tile_order(9, 10, 1), 9, resident=9, cache=60).misses
    assert titles.all_inner_texts() == ["Row-major", "2-D, groups of 3"]
    assert [text.split(" of ")[1] for text in ends.all_inner_texts()] == [str(line), "1080"]
    slide(page, "Step", 9)
    assert summary(page).startswith("Wave 1 of 10, step 9 of 9: programs 0 to 8, in 9 rows and 3 columns. Row-major.")
    page.locator(".swizzle__picture svg").hover(position=tile(page, 4, 3, (9, 10, 9)))
    assert program_note(page).startswith("Program 4, wave 1. Row 4 of A: ")
    slide(page, "Rows in a group", 1)
    assert titles.all_inner_texts() == ["Row-major", "2-D, no groups"]
    assert [text.split(" of ")[1] for text in ends.all_inner_texts()] == [str(line), "900"]
    slide(page, "Grid axes", 1)
    assert titles.all_inner_texts() == ["Row-major", "Row-major"]
    assert len(set(ends.all_inner_texts())) == 1


def test_with_room_for_every_tile_each_is_read_once(page):
    preset(page, "All fits")
    slide(page, "Step", 81)
    assert summary(page).count("162 of 1458 reads so far, 162 of 1458 in the end") == 2


def test_plays(open_page):
    page = open_page("?swizzle.step=79")
    play, elapse = page.get_by_role("button", name="Play"), by_hand(page)
    play.click()
    assert page.locator("output").first.get_attribute("aria-live") == "off"
    page.get_by_role("button", name="Pause").click()
    stopped = summary(page)
    elapse(10_000)
    assert summary(page) == stopped
    play.click()
    elapse(10_000)
    assert "Wave 9 of 9, step 9 of 9" in summary(page) and play.is_visible(), "it has come to the end"
    play.click()
    elapse(200)
    assert summary(page).startswith("Wave 1 of 9")
    page.locator("swizzle-explorer").evaluate("e => e.remove()")


def test_nothing_plays_under_reduced_motion(page):
    assert not page.get_by_role("button", name="Play").is_visible()
    page.get_by_role("button", name="Step").click()
    assert summary(page).startswith("Wave 3 of 9, step 1 of 9")


# Its state


def test_address_keeps_the_state(open_page):
    page = open_page("?q=1", reduced_motion="reduce")
    assert query(page) == "?q=1"
    steps = page.evaluate("history.length")
    more(page)
    slide(page, "Cache, tiles", 30)
    slide(page, "Rows in a group", 2)
    slide(page, "Step", 40)
    page.get_by_role("spinbutton", name="Program").fill("7")
    wanted = {"swizzle.cache=30", "swizzle.group=2", "swizzle.step=40", "swizzle.program=7", "q=1"}
    assert set(query(page).removeprefix("?").split("&")) == wanted
    assert page.evaluate("history.length") == steps, "a change must add no step to go back"
    again = open_page(query(page))
    assert summary(again) == summary(page) != BEGINS and program_note(again) == program_note(page)
    preset(again, "As recorded")
    assert "cache" not in query(again), "the first state needs no parameter"


def test_address_may_hold_anything(open_page):
    asked = "?swizzle.m=<b>&swizzle.n=&swizzle.group=x&swizzle.step=none&swizzle.id=5&swizzle.program=x"
    page = open_page(asked, reduced_motion="reduce")
    assert summary(page) == BEGINS and program_note(page).startswith("Point at a tile")
    page = open_page("?swizzle.m=99&swizzle.n=-4&swizzle.sms=1e9&swizzle.cache=2.4&swizzle.step=1e9&swizzle.program=-1")
    assert summary(page).startswith("Wave 1 of 1, step 9 of 9: programs 0 to 11,")
    assert program_note(page).startswith("Point at a tile")


def test_moving_or_copying_the_element_keeps_it_working(page):
    move_and_copy(page, "swizzle-explorer")
    slide(page.locator("#copy"), "Step", 10)
    assert summary(page, "#copy").startswith("Wave 2 of 9")
    assert summary(page, "#swizzle") == BEGINS


# Who can use it


def test_keyboard_alone_suffices(open_page):
    page = open_page("?swizzle.step=18")
    by_hand(page)
    page.get_by_role("slider", name="Rows in a group").focus()
    page.keyboard.press("ArrowRight")
    assert "Groups of 4 rows." in summary(page)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Pause").wait_for()
    page.keyboard.press("Enter")
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Home")
    assert summary(page).startswith("Wave 1 of 9, step 1 of 9: programs 0 to 8")
    page.keyboard.press("Tab")
    page.keyboard.type("12")
    assert program_note(page).startswith("Program 12, wave 2.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press(" ")
    assert page.locator("swizzle-explorer [aria-pressed=true]").inner_text() == "B fits"
    for _ in range(4):
        page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert summary(page).startswith("Wave 1 of 12")


def test_without_javascript_the_first_state_stands(open_page):
    page = open_page(java_script_enabled=False)
    assert [image.is_visible() for image in page.get_by_role("img").all()] == [True]
    assert page.get_by_text("180 of 810").is_visible()
    assert not page.locator("button, input, output").filter(visible=True).count()
    page.locator("summary", has_text="The numbers").click()
    numbers = page.get_by_label("Groups of 3 rows: the program of each tile of C").inner_text()
    assert re.sub(" +", " ", numbers).strip().startswith("0 3 6 9 12")


def test_no_axe_violation(open_page):
    page = open_page("?swizzle.step=19&swizzle.program=20")
    for summary in page.locator("summary").all():
        summary.click()
    assert_accessible(page)


def test_fits_on_a_phone(open_page):
    """Picture, curve and race in one view; numbers large enough to read."""
    page = open_page(viewport={"width": 390, "height": 844}, has_touch=True, reduced_motion="reduce")
    top, bottom = (page.locator(part).bounding_box() for part in (".swizzle__picture", ".time-bar"))
    assert bottom["y"] + bottom["height"] - top["y"] < 620
    shown = "e => e.getBoundingClientRect().height"
    assert page.locator(".swizzle__picture text").first.evaluate(shown) >= 9
    page.locator(".swizzle__picture svg").tap(position=tile(page, 2, 2))
    assert program_note(page).startswith("Program 8, wave 1.")
    page = open_page("?swizzle.m=12&swizzle.n=12", viewport={"width": 360, "height": 700}, has_touch=True)
    for summary in page.locator("summary").all():
        summary.tap()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    heights = page.locator("button, input").evaluate_all("all => all.map(e => e.getBoundingClientRect().height)")
    assert min(heights) >= 30
    page.get_by_role("button", name="All fits").tap()
    assert page.locator("swizzle-explorer [aria-pressed=true]").inner_text() == "All fits"


def test_a_line_says_that_it_is_a_model(page):
    """For the picture at the top of the same page, which looks much like it, is a recording."""
    assert page.locator(".swizzle__about").inner_text().startswith("A small model:")
