# SPDX-License-Identifier: Apache-2.0
"""``<launch-explorer>``: what it computes is what kernels do, and everybody can use it."""

import pytest
from bs4 import BeautifulSoup

torch = pytest.importorskip("torch", exc_type=ImportError)
triton = pytest.importorskip("triton", exc_type=ImportError)
import triton.language as tl  # noqa: E402

from figures.launch_explorer import explorer  # noqa: E402
from recorder import recording  # noqa: E402
from recorder.project import find  # noqa: E402
from tests.accessibility import assert_accessible  # noqa: E402
from tests.figures.explorer_support import call, move_and_copy, page_with  # noqa: E402

RECORDED = recording.load(find("start/first_kernel"), "cpu")
LAUNCH = RECORDED.launch("add_kernel[0]")
NO_MASK = recording.load(find("programs/vector_add_bug"), "cpu").launch()
SIZES = [(1, 1), (1, 16), (8, 4), (8, 8), (9, 8), (12, 4), (13, 4), (14, 4), (15, 1), (15, 2), (15, 16)]


@triton.jit
def places_kernel(offsets_ptr, mask_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    lane = tl.arange(0, BLOCK_SIZE)
    offsets = pid * BLOCK_SIZE + lane
    tl.store(offsets_ptr + pid * BLOCK_SIZE + lane, offsets)
    tl.store(mask_ptr + pid * BLOCK_SIZE + lane, (offsets < n).to(tl.int32))


def run_programs(n, block):
    """Run a kernel and return what its programs computed, in the form in which the explorer's module returns it."""
    programs = triton.cdiv(n, block)
    offsets, mask = (torch.full((programs, block), -1, dtype=torch.int32) for _ in range(2))
    places_kernel[(programs,)](offsets, mask, n, block)
    return [
        {"pid": pid, "offsets": o, "mask": [bool(on) for on in m]}
        for pid, (o, m) in enumerate(zip(offsets.tolist(), mask.tolist(), strict=True))
    ]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """The address of a page with two explorers."""
    both = explorer(RECORDED), explorer(RECORDED, id="other")
    with page_with(tmp_path_factory.mktemp("launch"), "explorer", *both) as url:
        yield url


@pytest.fixture
def open_page(open_site, url):
    return lambda query="", **options: open_site(url + query, **options)


@pytest.fixture
def page(open_page):
    return open_page(reduced_motion="reduce")


def text(page, part, of="launch"):
    return page.locator(f"#{of} .explorer__{part}").inner_text()


def query(page):
    return page.evaluate("location.search")


def lane(page, offset, of="launch"):
    return page.locator(f"#{of} [aria-label^='element {offset}:'], #{of} [aria-label^='element {offset},']")


def fates(page) -> list[str]:
    """Return for each lane whether it is on, off or out."""
    lanes = page.locator("#launch .lane").evaluate_all("lanes => lanes.map(lane => lane.classList[1])")
    return [name.removeprefix("lane--") for name in lanes]


def squares(page) -> list[str]:
    return page.locator("#launch .lane var").all_inner_texts()


def values(page, of="launch") -> list[str]:
    """Return the text beside the lines."""
    return page.locator(f"#{of} .launch__lines var").all_inner_texts()


def line(page, code, of="launch"):
    return page.locator(f"#{of} .launch__lines label", has_text=code)


# What it computes


@pytest.mark.shown
def test_computes_what_was_recorded(page):
    sizes = {"n": LAUNCH.arguments["n"], "block": LAUNCH.arguments["BLOCK_SIZE"]}
    (programs,) = call(page, "launch_explorer", "it.launch(a)", [sizes])
    assert len(programs) == LAUNCH.grid[0]
    for access in LAUNCH.accesses:
        seen = {"pid": access.pid[0], "offsets": access.offsets, "mask": access.mask}
        assert seen == programs[access.pid[0]]


@pytest.mark.parametrize("block", [1, 2, 4, 8, 16])
def test_computes_what_a_kernel_computes(page, block):
    lengths = (1, 2, 3, 4, 7, 8, 10, 15, 16, 17, 31)
    computed = call(page, "launch_explorer", "it.launch(a)", [{"n": n, "block": block} for n in lengths])
    assert computed == [run_programs(n, block) for n in lengths]


def test_says_of_each_lane_what_its_program_touched(page):
    """Line by line, as it was recorded."""
    touched = {(a.op, a.tensor, o): on for a in LAUNCH.accesses for o, on in zip(a.offsets, a.mask, strict=True)}
    for offset in range(12):
        lane(page, offset).click()
        lines = zip(values(page)[3:], (("load", "x"), ("load", "y"), ("store", "out")), strict=True)
        for summary, (op, tensor) in lines:
            assert summary == (f"{tensor}[{offset}]" if touched[op, f"{tensor}_ptr", offset] else "off")


def test_without_the_mask_it_touches_what_the_kernel_without_one_touched(page):
    page.locator("#launch").get_by_role("button", name="Remove the mask").click()
    beyond = {offset for access in NO_MASK.accesses for offset in access.offsets if offset >= NO_MASK.arguments["n"]}
    assert all(all(access.mask) for access in NO_MASK.accesses) and NO_MASK.arguments["n"] == 10
    assert {offset for offset, fate in enumerate(fates(page)) if fate == "out"} == beyond == {10, 11}


def test_says_what_the_first_lane_out_of_bounds_touches(page):
    page.locator("#launch [name=n]").fill("7")
    page.locator("#launch").get_by_role("button", name="Remove the mask").click()
    assert text(page, "detail").endswith("Program 1, lane 3 loads x[7] and y[7], stores out[7]: out of bounds.")
    lane(page, 2).click()
    assert text(page, "detail").endswith("Program 0, lane 2 loads x[2] and y[2], stores out[2].")


# Other lengths


def test_other_lengths_stand_below_it_and_can_be_chosen(open_site, tmp_path):
    """Three sums or a million: the same lines, and another number of programs."""
    with page_with(tmp_path, "explorer", explorer(RECORDED, lengths=[3, 10, 1_000_000])) as url:
        page = open_site(url, reduced_motion="reduce")
        rows = page.locator(".launch__length")
        said = [row.rsplit("\n", 1)[-1] for row in rows.all_inner_texts()]
        assert [count.split(",")[0] for count in said[:2]] == ["1 program", "3 programs"]
        assert said[2].endswith("250,000 programs, no lane off")
        few, ten = page.get_by_role("button", name="n = 3 1 program"), page.get_by_role("button", name="n = 10")
        assert [each.get_attribute("aria-pressed") for each in (few, ten)] == ["false", "true"]
        page.get_by_role("radio", name="2", exact=True).check()  # the rows are in the blocks that were recorded
        assert ten.get_attribute("aria-pressed") == "false"
        few.focus()
        page.keyboard.press("Enter")
        assert text(page, "summary") == "1 program, 1 lane off" and squares(page) == ["0", "1", "2", "3"]
        assert few.get_attribute("aria-pressed") == "true"
        assert page.get_by_role("button", name="n = 1,000,000").count() == 0  # it would not fit


def test_draws_the_programs_of_other_lengths():
    """Those that there is room for, as many lanes each as its block has; those past the end are off."""
    rows = BeautifulSoup(explorer(RECORDED, lengths=[3, 10, 1_000_000]), "html.parser").select(".launch__few")
    lanes = [[len(program.select("i")) for program in row.select("[class^=pid]")] for row in rows]
    assert lanes == [[4], [4] * 3, [4] * 5] and rows[2].em
    assert [len(row.select(".launch__idle")) for row in rows] == [1, 2, 0]


# What it shows


def test_shows_every_lane_and_which_are_off(page):
    stores = [access for access in LAUNCH.accesses if access.op == "store"]
    every = [(o, on) for access in stores for o, on in zip(access.offsets, access.mask, strict=True)]
    assert squares(page) == [str(offset) for offset, _ in every]
    assert fates(page) == ["on" if on else "off" for _, on in every]
    assert page.get_by_role("option", name="element 10, masked off: program 2, lane 2").count() == 2
    hatched = page.locator("#launch .lane--off var").first.evaluate("e => getComputedStyle(e).backgroundImage")
    assert "gradient" in hatched
    assert not page.locator("#launch svg").is_visible()
    assert text(page, "summary") == "3 programs, 2 lanes off"


def test_a_lane_fills_in_the_lines(page):
    assert values(page) == ["1", "1 * 4 + 2 = 6", "6 < 10 is True", "x[6]", "y[6]", "out[6]"]
    lane(page, 9).click()
    assert values(page) == ["2", "2 * 4 + 1 = 9", "9 < 10 is True", "x[9]", "y[9]", "out[9]"]
    assert text(page, "detail") == "Squares show offsets. Program 2, lane 1 loads x[9] and y[9], stores out[9]."
    lane(page, 10).click()
    assert values(page) == ["2", "2 * 4 + 2 = 10", "10 < 10 is False", "off", "off", "off"]
    assert text(page, "detail").endswith("Program 2, lane 2 is masked off: it touches nothing.")
    assert page.locator("#launch [aria-selected=true] var").all_inner_texts() == ["10"]


def test_a_pointer_over_a_lane_fills_them_in_for_as_long(page):
    lane(page, 3).hover()
    assert values(page)[1] == "0 * 4 + 3 = 3"
    assert page.locator("#launch .explorer__detail").get_attribute("aria-live") == "off"
    page.get_by_role("heading", name="Explorer").hover()
    assert values(page)[1] == "1 * 4 + 2 = 6" and query(page) == ""


@pytest.mark.parametrize(
    ("code", "shown", "summary"),
    [("pid =", "000011112222", "Squares show pid."),
     ("mask =", "TTTTTTTTTTFF", "Squares show the mask, true or false."),
     ("x = tl.load", "01234567891011", "Outlined: loaded from x."),
     ("tl.store", "01234567891011", "Filled: stored to out.")],
)  # fmt: skip
def test_a_line_fills_in_the_squares(page, code, shown, summary):
    line(page, code).click()
    assert "".join(squares(page)) == shown
    assert text(page, "detail").startswith(summary)


def test_loaded_is_outlined_and_stored_is_filled(page):
    background = lambda: lane(page, 4).locator("var").evaluate("e => getComputedStyle(e).backgroundColor")
    line(page, "x = tl.load").click()
    outlined, paper = background(), page.evaluate("getComputedStyle(document.body).backgroundColor")
    line(page, "tl.store").click()
    assert outlined == paper != background()


def test_without_the_mask_what_lies_past_the_end_is_red(page):
    page.locator("#launch").get_by_role("button", name="Remove the mask").click()
    border = lane(page, 11).locator("var").evaluate("e => getComputedStyle(e).borderColor")
    assert border == page.evaluate(
        "() => { const e = document.body.appendChild(document.createElement('i')); e.style.color = "
        "'var(--out-of-bounds)'; return getComputedStyle(e).color }"
    )
    assert page.get_by_role("option", name="element 11, out of bounds: program 2, lane 3").count() == 1
    assert text(page, "summary") == "3 programs, 2 out of bounds"
    lane(page, 11).click()
    assert text(page, "detail").endswith("Program 2, lane 3 loads x[11] and y[11], stores out[11]: out of bounds.")
    struck = page.locator("#launch s").evaluate_all("all => all.map(e => getComputedStyle(e).textDecorationLine)")
    assert struck[3:] == ["line-through"] * 3
    assert values(page)[2] == ""  # the mask that is gone says nothing
    page.locator("#launch").get_by_role("button", name="Restore the mask").click()
    assert fates(page)[10:] == ["off", "off"]


def drag(page, steps):
    """Take the end by its knob, and lead it to elements one after the other: to where each begins."""
    box = page.locator("#launch .launch__end").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 8)
    page.mouse.down()
    for offset in steps:
        before = page.locator("#launch .launch__strip span").nth(offset - 1).bounding_box()
        page.mouse.move(before["x"] + before["width"] - 3, before["y"] + 30, steps=3)
    page.mouse.up()


def test_the_end_of_the_tensors_can_be_dragged(page):
    drag(page, [12])
    assert text(page, "summary") == "3 programs, no lane off" and query(page) == "?launch.n=12"
    drag(page, [13])
    assert text(page, "summary") == "4 programs, 3 lanes off"
    drag(page, [15, 14, 3])
    assert text(page, "summary") == "1 program, 1 lane off"
    assert values(page)[1] == "0 * 4 + 3 = 3", "the element that was chosen is no longer there; the last one is"
    drag(page, [15])
    page.set_viewport_size({"width": 390, "height": 844})
    drag(page, [5, 8, 12])
    assert text(page, "summary") == "3 programs, no lane off", "squares in two rows"
    drag(page, [13, 15])
    assert query(page).startswith("?launch.n=15")
    lane(page, 5).click()
    assert query(page).startswith("?launch.n=15"), "nothing is held any more"


def test_arrow_keys_walk_through_the_lanes(page):
    focused = lambda: page.evaluate("document.activeElement.textContent")
    assert page.locator("#launch .lane[tabindex='0']").count() == 1
    page.locator("#launch .lane[tabindex='0']").focus()
    for key, offset in (
        ("ArrowRight", "7"), ("ArrowDown", "11"), ("ArrowLeft", "10"), ("ArrowUp", "6"), ("End", "11"),
        ("ArrowRight", "11"), ("Home", "0"), ("ArrowLeft", "0"), ("ArrowUp", "0"),
    ):  # fmt: skip
        page.keyboard.press(key)
        assert focused() == offset, key
        assert page.locator("#launch .lane[tabindex='0'] var").all_inner_texts() == [offset]


def test_keyboard_alone_reaches_and_works_everything(page):
    page.locator("#launch [name=block]:checked").focus()
    page.keyboard.press("ArrowRight")
    assert text(page, "summary") == "2 programs, 6 lanes off"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert text(page, "summary") == "2 programs, 6 out of bounds"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert text(page, "summary") == "2 programs, 5 out of bounds"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "11", "the first that lies out of bounds"
    page.keyboard.press("ArrowUp")
    assert values(page)[1] == "0 * 8 + 3 = 3"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowUp")
    assert text(page, "detail").startswith("Squares show pid.")


# Its state


def test_address_keeps_the_state(open_page):
    page = open_page("?q=1")
    page.locator("#launch").get_by_role("slider").fill("12")
    lane(page, 9).click()
    line(page, "mask =").click()
    page.locator("#other").get_by_role("button", name="Remove the mask").click()
    assert query(page) == "?q=1&launch.n=12&launch.element=9&launch.line=3&other.mask=off&other.element=10"
    before = squares(page), values(page), text(page, "summary", of="other")
    again = open_page(query(page))
    assert (squares(again), values(again), text(again, "summary", of="other")) == before
    assert page.evaluate("history.length") == again.evaluate("history.length"), "a change must add no step to go back"
    again.locator("#launch").get_by_role("slider").fill("10")
    assert "launch.n" not in query(again), "the first state needs no parameter"


def test_address_may_hold_anything(open_page):
    page = open_page("?launch.n=<b>&launch.block=7&launch.element=x&launch.mask=none&launch.line=9&other.n=1e9")
    assert text(page, "summary") == "3 programs, 2 lanes off"
    assert values(page)[1] == "0 * 4 + 0 = 0"
    assert text(page, "summary", of="other") == "4 programs, 1 lane off"
    page = open_page("?launch.element=99&launch.n=-3")
    assert values(page)[1] == "0 * 4 + 3 = 3"


@pytest.mark.parametrize(("n", "block"), SIZES)
def test_past_the_end_there_is_always_a_square(open_page, n, block):
    page = open_page(f"?launch.n={n}&launch.block={block}")
    assert len(fates(page)) == triton.cdiv(n, block) * block
    numbers = page.locator("#launch .launch__strip span var").all_inner_texts()
    assert [int(number) for number in numbers] == list(range(len(numbers)))
    assert len(numbers) == 16 > n
    held = page.locator("#launch .launch__end").evaluate("e => e.parentElement.firstChild.textContent")
    assert held == str(n)


def test_moving_or_copying_the_element_makes_no_second_one(page):
    move_and_copy(page, "#launch")
    assert page.locator("#launch > .explorer").count() == 1
    assert page.locator("#copy > .explorer").count() == 1
    lane(page, 9, of="copy").click()
    assert values(page, of="copy")[1] == "2 * 4 + 1 = 9" and values(page)[1] == "1 * 4 + 2 = 6"
    page.locator("#launch").get_by_role("button", name="Remove the mask").click()
    assert "out of bounds" in text(page, "summary") and "off" in text(page, "summary", of="copy")


# Who can use it


def test_without_javascript_the_picture_stands(open_page):
    page = open_page(java_script_enabled=False)
    assert page.locator("#launch svg").is_visible()
    assert page.get_by_role("img", name="The memory accesses of add_kernel").count() == 2


@pytest.mark.parametrize("state", ["", "?launch.mask=off&launch.line=6&launch.n=15&launch.block=2"])
def test_no_axe_violation(open_page, state):
    page = open_page(state)
    lane(page, 2).click()
    assert_accessible(page)


@pytest.mark.parametrize(("n", "block"), [(10, 4), (15, 16), (15, 1)])
def test_fits_on_a_phone(open_page, n, block):
    state = f"?launch.n={n}&launch.block={block}"
    page = open_page(state, viewport={"width": 360, "height": 700}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    size = lambda what, side: min(page.locator(f"#launch {what}").evaluate_all(
        f"all => all.map(e => e.getBoundingClientRect().{side})"))  # fmt: skip
    assert size(".lane", "width") >= 24 and size(".launch__end", "width") >= 24
    assert min(size("button", "height"), size(".explorer__switch span", "height")) >= 34
    assert min(size(".launch__lines label", "height"), size(".explorer__switch span", "width")) >= 22
    last = page.locator("#launch .lane").last
    last.tap()
    offset = last.locator("var").inner_text()
    assert values(page)[1].endswith(f" = {offset}")
    line(page, "mask =").tap()
    assert squares(page)[-1] == ("T" if int(offset) < n else "F")


def test_a_finger_drags_the_end(open_page):
    """Its touches go on although the square that it began on is drawn anew, and do not scroll the page."""
    page = open_page(viewport={"width": 390, "height": 500}, has_touch=True, is_mobile=True)
    page.evaluate("document.body.style.minHeight = '3000px'")
    send = page.context.new_cdp_session(page).send
    box = page.locator("#launch .launch__end").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + 30
    send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for step in range(1, 11):
        at = {"x": x + 18 * step, "y": y + step}
        send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [at]})
    send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_function("document.querySelector('#launch .explorer__summary').textContent.startsWith('4 programs')")
    assert page.evaluate("scrollY") == 0
