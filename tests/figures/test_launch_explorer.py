# SPDX-License-Identifier: Apache-2.0
"""``<launch-explorer>``: what it computes is what kernels do, and everybody can use it."""

import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)
triton = pytest.importorskip("triton", exc_type=ImportError)
import triton.language as tl  # noqa: E402

from figures.launch_explorer import explorer, form  # noqa: E402
from recorder import recording  # noqa: E402
from recorder.project import find  # noqa: E402
from tests.figures.explorer_support import call, in_scheme, move_and_copy, page_with  # noqa: E402

RECORDED = recording.load(find("programs/vector_add"), "cpu")
LAUNCH = RECORDED.launch(0)


@triton.jit
def places_kernel(offsets_ptr, mask_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    lane = tl.arange(0, BLOCK_SIZE)
    offsets = pid * BLOCK_SIZE + lane
    tl.store(offsets_ptr + pid * BLOCK_SIZE + lane, offsets)
    tl.store(mask_ptr + pid * BLOCK_SIZE + lane, (offsets < n).to(tl.int32))


@triton.jit
def places_2d_kernel(offsets_ptr, mask_ptr, rows, columns, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr):
    pid_0, pid_1 = tl.program_id(axis=0), tl.program_id(axis=1)
    r = pid_0 * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    c = pid_1 * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    lane = tl.arange(0, BLOCK_ROWS)[:, None] * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)[None, :]
    place = (pid_1 * tl.num_programs(axis=0) + pid_0) * BLOCK_ROWS * BLOCK_COLUMNS + lane
    tl.store(offsets_ptr + place, r[:, None] * columns + c[None, :])
    tl.store(mask_ptr + place, ((r[:, None] < rows) & (c[None, :] < columns)).to(tl.int32))


def ran(kernel, grid, lanes, *arguments):
    """What the programs of a kernel computed, in the form in which the explorer's module returns it."""
    programs = grid[0] * grid[1]
    offsets, mask = (torch.full((programs, lanes), -1, dtype=torch.int32) for _ in range(2))
    kernel[grid](offsets, mask, *arguments)
    return [
        {"pid": [i % grid[0], i // grid[0], 0], "offsets": o, "mask": [bool(on) for on in m]}
        for i, (o, m) in enumerate(zip(offsets.tolist(), mask.tolist(), strict=True))
    ]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """The address of a page with two explorers."""
    both = explorer(RECORDED, switch=True), form("", id="other", dimensions="2", rows=5, columns=7, blockRows=2)
    with page_with(tmp_path_factory.mktemp("launch"), "explorer", *both) as url:
        yield url


@pytest.fixture
def open_page(open_site, url):
    return lambda query="", **options: open_site(url + query, **options)


@pytest.fixture
def page(open_page):
    return open_page()


def computed(page, function: str, *sizes: dict) -> list:
    return call(page, "launch_explorer", f"it.{function}(a)", sizes)


def text(page, part, of="launch"):
    return page.locator(f"#{of} .explorer__{part}").inner_text()


def query(page):
    return page.evaluate("location.search")


# What it computes


def test_computes_what_was_recorded(page):
    (programs,) = computed(page, "launch", {"n": LAUNCH.arguments["n"], "block": LAUNCH.arguments["BLOCK_SIZE"]})
    assert len(programs) == LAUNCH.grid[0]
    for access in LAUNCH.accesses:
        seen = {"pid": list(access.pid), "offsets": access.offsets, "mask": access.mask}
        assert seen == programs[access.pid[0]]


@pytest.mark.parametrize("block", [1, 2, 4, 16, 32])
def test_computes_what_a_kernel_computes(page, block):
    for n in (1, 2, 3, 4, 7, 8, 10, 31, 32, 33, 63, 64):
        expected = ran(places_kernel, (triton.cdiv(n, block), 1), block, n, block)
        assert computed(page, "launch", {"n": n, "block": block}) == [expected], f"{n=}"


@pytest.mark.parametrize("blocks", [(1, 1), (1, 4), (4, 1), (2, 4), (4, 4), (8, 2)])
def test_computes_what_a_kernel_computes_in_two_dimensions(page, blocks):
    for rows, columns in ((1, 1), (1, 7), (5, 1), (4, 8), (6, 10), (12, 11)):
        grid = triton.cdiv(rows, blocks[0]), triton.cdiv(columns, blocks[1])
        expected = ran(places_2d_kernel, grid, blocks[0] * blocks[1], rows, columns, *blocks)
        sizes = {"rows": rows, "columns": columns, "blockRows": blocks[0], "blockColumns": blocks[1]}
        (programs,) = computed(page, "launch2d", sizes)
        for program in programs:
            del program["places"]
        assert programs == expected, f"{rows=} {columns=}"


# What it shows


def test_shows_every_lane_and_which_are_masked_off(page):
    shown = page.locator("#launch .program").evaluate_all(
        "programs => programs.map(p => [...p.querySelectorAll('.lane')].map(l => "
        "[Number(l.textContent), !l.classList.contains('lane--off')]))"
    )
    stores = [access for access in LAUNCH.accesses if access.op == "store"]
    assert shown == [[list(lane) for lane in zip(a.offsets, a.mask, strict=True)] for a in stores]
    assert page.get_by_role("option", name="element 10, masked off: program 2, lane 2").count() == 1
    hatched = page.locator("#launch .lane--off").first.evaluate("e => getComputedStyle(e).backgroundImage")
    assert "gradient" in hatched
    assert not page.locator("#launch svg").is_visible()


def test_says_the_launch_in_words(open_page):
    page = open_page("?launch.program=2")
    assert text(page, "summary") == (
        "n = 10, block 4: cdiv(10, 4) = 3 programs; program 2 has offsets 8 9 10 11; "
        "lanes 2 and 3 (offsets 10 and 11) are masked off."
    )
    assert page.locator("#launch .explorer__summary").get_attribute("aria-live") == "polite"
    assert "cdiv(5, 2) * cdiv(7, 4) = 6 programs" in text(page, "summary", of="other")


def test_pointer_chooses_a_lane_and_shows_its_formula(page):
    page.locator("#launch .lane", has_text="9").click()
    assert text(page, "detail") == (
        "Program 2, lane 1: pid * BLOCK_SIZE + lane = 2 * 4 + 1 = 9; "
        "offset < n is 9 < 10, true: it is loaded and stored."
    )
    page.locator("#launch .lane", has_text="10").click()
    assert "10 < 10, false: it is masked off" in text(page, "detail")
    assert page.locator("#launch [aria-selected=true]").all_inner_texts() == ["10"]
    page.locator("#other .lane").nth(3).click()
    assert "row = 0 * 2 + 0 = 0, column = 0 * 4 + 3 = 3, offset = 0 * 7 + 3 = 3" in text(page, "detail", of="other")


def test_arrow_keys_walk_through_the_lanes(page):
    focused = lambda: page.evaluate("document.activeElement.textContent")
    assert page.locator("#launch .lane[tabindex='0']").count() == 1
    page.locator("#launch .lane[tabindex='0']").focus()
    for key, offset in (
        ("ArrowRight", "1"), ("ArrowDown", "5"), ("ArrowLeft", "4"), ("ArrowLeft", "3"), ("End", "11"),
        ("ArrowRight", "11"), ("ArrowUp", "7"), ("Home", "0"), ("ArrowLeft", "0"),
    ):  # fmt: skip
        page.keyboard.press(key)
        assert focused() == offset, key
        assert page.locator("#launch .lane[tabindex='0']").all_inner_texts() == [offset]
    page.locator("#other .lane[tabindex='0']").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert "lane 5: row = 0 * 2 + 1 = 1" in text(page, "detail", of="other")


def test_keyboard_alone_reaches_and_works_everything(page):
    page.get_by_label("n", exact=True).first.focus()
    page.keyboard.press("ArrowRight")
    assert text(page, "summary").startswith("n = 11,")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert text(page, "summary").startswith("n = 11, block 8: cdiv(11, 8) = 2 programs")
    assert page.evaluate("document.activeElement.getAttribute('aria-valuetext')") == "8"
    for _ in range(2):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "lane"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # Next program: Previous program cannot be reached, for it has nowhere to lead
    assert "program 1 has" in text(page, "summary")


@pytest.mark.parametrize(
    ("label", "typed", "taken"),
    [("n", "64", 64), ("n", "900", 64), ("n", "-3", 1), ("n", "", 10), ("BLOCK_SIZE", "16", 16),
     ("BLOCK_SIZE", "5", 8), ("BLOCK_SIZE", "3", 2), ("BLOCK_SIZE", "99", 32)],
)  # fmt: skip
def test_numbers_are_taken_or_corrected(page, label, typed, taken):
    field = page.locator("#launch").get_by_label(f"{label}, as a number", exact=True)
    field.fill(typed)
    field.press("Enter")
    assert field.input_value() == str(taken)
    assert f"{'n =' if label == 'n' else 'block'} {taken}" in text(page, "summary")


def test_switch_leads_to_two_dimensions_and_back(page):
    page.get_by_label("2-D").click()
    assert "6 × 10, block 4 × 4" in text(page, "summary")
    assert page.locator("#launch").get_by_label("BLOCK_ROWS", exact=True).is_visible()
    assert not page.locator("#launch").get_by_label("n", exact=True).is_visible()
    page.get_by_label("1-D").click()
    assert text(page, "summary").startswith("n = 10, block 4")


def test_steps_and_plays_through_the_programs(page):
    launch = page.locator("#launch")
    launch.get_by_role("button", name="Next program").click()
    assert "program 1 has" in text(page, "summary")
    assert launch.locator(".program--current .program__name").inner_text() == "pid 1"
    launch.get_by_role("button", name="Play").click()
    launch.get_by_role("button", name="Stop").click()
    before = text(page, "summary")
    page.wait_for_timeout(900)  # longer than a step takes
    assert text(page, "summary") == before
    launch.get_by_role("button", name="Play").click()
    page.wait_for_function("document.querySelector('#launch .explorer__summary').textContent.includes('program 2 has')")
    launch.get_by_role("button", name="Play").wait_for()
    assert launch.get_by_role("button", name="Next program").is_disabled()


def test_nothing_plays_under_reduced_motion(open_page):
    page = open_page(reduced_motion="reduce")
    assert not page.locator("#launch").get_by_text("Play").is_visible()
    page.locator("#launch").get_by_role("button", name="Next program").click()
    assert "program 1 has" in text(page, "summary")


# Its state


def test_address_keeps_the_state(open_page):
    page = open_page("?q=1")
    page.locator("#launch").get_by_label("n, as a number").fill("12")
    page.keyboard.press("Enter")
    page.locator("#launch").get_by_role("button", name="Next program").click()
    page.locator("#other").get_by_label("rows, as a number", exact=True).fill("3")
    page.keyboard.press("Enter")
    assert query(page) == "?q=1&launch.n=12&launch.program=1&other.rows=3"
    before = text(page, "summary"), text(page, "summary", of="other")
    again = open_page(query(page))
    assert (text(again, "summary"), text(again, "summary", of="other")) == before
    assert page.evaluate("history.length") == again.evaluate("history.length"), "a change must add no step to go back"
    again.locator("#launch").get_by_label("n, as a number").fill("10")
    again.keyboard.press("Enter")
    assert "launch.n" not in query(again), "the first state needs no parameter"


def test_address_may_hold_anything(open_page):
    page = open_page("?launch.n=<b>&launch.block=7&launch.program=99&launch.dimensions=3&other.rows=1e9")
    assert text(page, "summary").startswith("n = 10, block 8: cdiv(10, 8) = 2 programs; program 1 has")
    assert "12 × 7" in text(page, "summary", of="other")


def test_moving_or_copying_the_element_makes_no_second_one(page):
    move_and_copy(page, "#launch")
    assert page.locator("#launch > .explorer").count() == 1
    assert page.locator("#copy > .explorer").count() == 1
    page.locator("#copy .lane", has_text="9").click()
    assert "= 9;" in text(page, "detail", of="copy")
    page.locator("#launch").get_by_role("button", name="Next program").click()
    assert "program 1 has" in text(page, "summary")


# Who can use it


def test_without_javascript_the_picture_stands(open_page):
    page = open_page(java_script_enabled=False)
    assert page.locator("#launch svg").is_visible()
    assert page.get_by_role("img", name="The memory accesses of add_kernel").count() == 1


@pytest.mark.parametrize("state", ["", "?launch.dimensions=2&launch.program=5"])
@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_no_axe_violation(open_page, scheme, state):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = open_page(state)
    in_scheme(page, scheme)
    page.locator("#launch .lane--off").first.click()
    found = axe.run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize(
    "state",
    ["", "?launch.n=64&launch.block=32", "?launch.n=64&launch.block=1",
     "?launch.dimensions=2&launch.rows=12&launch.columns=12&launch.blockRows=8&launch.blockColumns=8"],
)  # fmt: skip
def test_fits_on_a_phone(open_page, state):
    page = open_page(state, viewport={"width": 360, "height": 700}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    sides = page.locator("#launch .lane").evaluate_all("lanes => lanes.map(l => l.getBoundingClientRect().width)")
    assert min(sides) + 2 >= 24, "a target of 24 px, with the space around it"
    heights = page.locator("#launch button, #launch input:visible").evaluate_all(
        "all => all.map(e => e.getBoundingClientRect().height)"
    )
    assert min(heights) >= 40
    page.locator("#launch .lane").last.tap()
    assert f"lane {len(page.locator('#launch .program').last.locator('.lane').all()) - 1}:" in text(page, "detail")
