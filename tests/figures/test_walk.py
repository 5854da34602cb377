# SPDX-License-Identifier: Apache-2.0
"""``<walk-explorer>``: every tile, offset, lane and sum is what was recorded, and everybody can use it."""

import re
import xml.etree.ElementTree as ET

import pytest
from msgspec.structs import replace

from figures.tiles import read
from figures.walk import LINES, code, walk
from figures.walk.reading import Walk, partial_sums
from recorder import recording
from recorder.project import RecorderError, find
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import by_hand, move_and_copy, page_with

RECORDED = recording.load(find("matmul/naive"), "cpu")
NAME = "matmul_kernel[1]"  # of its launch that is drawn
LAUNCH = RECORDED.launch(NAME)
PROGRAMS = range(LAUNCH.grid[0])
GIVEN = LAUNCH.arguments


def accesses(program: int) -> tuple[list, list, list]:
    """The loads of ``a``, those of ``b``, and the stores of ``c``."""
    own = [access for access in LAUNCH.accesses if access.pid[0] == program]
    return tuple([access for access in own if access.tensor == name] for name in ("a_ptr", "b_ptr", "c_ptr"))


def words(program: int, part: str) -> list[str]:
    return [moment.words for moment in Walk(LAUNCH, program).moments() if moment.part == part]


def drawn(**options) -> str:
    return walk(RECORDED, **{"launch": NAME, "program": 1, "section": "steps", **options})


def changed(**fields):
    """The recording, its launch with other fields."""
    return replace(RECORDED, launches={**RECORDED.launches, NAME: replace(LAUNCH, **fields)})


# What it says and draws is what was recorded


@pytest.mark.parametrize("program", PROGRAMS)
def test_says_the_offsets_and_lanes_of_every_access(program):
    a, b, c = accesses(program)
    assert len(a) == len(b) == -(-GIVEN["K"] // GIVEN["BLOCK_K"]) == len(words(program, "move"))
    for load_a, load_b, moved, loaded in zip(a, b, words(program, "move"), words(program, "load"), strict=True):
        assert re.findall(r" = (\d+)", moved) == [str(load.offsets[0]) for load in (load_a, load_b)]
        products = [
            [int(x) * int(y) for x, y in re.findall(r"(\d+) · (\d+)", half)] for half in moved.split(", that of ")
        ]
        assert [sum(terms) for terms in products] == [load.offsets[0] for load in (load_a, load_b)]
        on, off = ([load.mask.count(state) for load in (load_a, load_b)] for state in (True, False))
        assert f"{on[0]} elements of a and {on[1]} of b are loaded" in loaded
        said = re.findall(r"(\d+) lanes of (a|b)", loaded)
        assert said == [(str(count), name) for name, count in zip("ab", off, strict=True) if count]
        assert ("masked off" in loaded) == any(off)
    (store,) = c
    (sentence,) = words(program, "store")
    assert f"{store.mask.count(True)} elements of c are stored" in sentence
    assert ("masked off" in sentence) == (not all(store.mask))


@pytest.mark.parametrize("program", PROGRAMS)
def test_draws_every_tile_where_it_was_loaded(program):
    svg = ET.fromstring(re.search(r"<svg viewBox.*?</svg>", drawn(program=program), re.S)[0])
    frames = [frame.attrib for frame in svg.findall(f"g[@data-program='{program}']//rect[@class='walk__frame']")]
    corners = [(int(frame["x"]), int(frame["y"])) for frame in frames]
    origin = {}  # of each matrix, from program 0's first tiles
    first = svg.findall("g[@data-program='0']//rect[@class='walk__frame']")
    origin["a"], origin["b"], origin["c"] = ((int(first[i].get("x")), int(first[i].get("y"))) for i in (0, 1, -1))
    a, b, c = accesses(program)
    loads = [(name, access) for pair in zip(a, b, strict=True) for name, access in zip("ab", pair, strict=True)]
    expected = []
    for name, access in [*loads, ("c", c[0])]:
        row, column = divmod(access.offsets[0], GIVEN[f"{name}_ptr"]["strides"][0])
        expected.append((origin[name][0] + column, origin[name][1] + row))
    assert corners == expected
    assert [(int(f["width"]), int(f["height"])) for f in frames[:2]] == [(16, 4), (4, 16)]


def test_the_sums_are_those_that_the_run_printed():
    results = re.findall(r"k from 0 to (\d+): c\[2, 5\] = (-?\d+)", RECORDED.output)
    printed = {int(k): int(value) for k, value in results}
    one = Walk(LAUNCH, 1, partial_sums(RECORDED, "steps"))
    after = [moment.sum.replace("−", "-") for moment in one.moments() if moment.part == "dot"]
    assert list(map(int, after)) == list(printed.values()) and [end - 1 for end in one.ends[1:]] == list(printed)
    total = 0
    for step, value in enumerate(printed.values()):
        old, sign, change, new = re.fullmatch(r"(\S+) (.) (\d+) = (\S+)", one.added(step).replace("−", "-")).groups()
        assert (int(old), int(new)) == (total, value) and int(old) + int(sign + change) == value
        total = value
    assert [cell == "known" for cell in one.cells()].index(True) == 2 * 4 + 1, "row 2, column 5 of a tile from 0, 4"


def test_without_a_section_no_sum_is_known():
    page = drawn(section=None)
    assert "walk__cell--known" not in page and page.count("16 of 40 products") == len(PROGRAMS)


def test_other_programs_count_products():
    others = [Walk(LAUNCH, program, partial_sums(RECORDED, "steps")) for program in PROGRAMS if program != 1]
    assert {tuple(map(other.added, range(3))) for other in others} == {
        ("16 of 40 products", "32 of 40 products", "40 of 40 products")
    }
    assert not any(moment.sum for other in others for moment in other.moments())


@pytest.mark.parametrize("program", PROGRAMS)
def test_squares_that_are_not_stored_are_off(program):
    (store,) = accesses(program)[2]
    assert [cell == "off" for cell in Walk(LAUNCH, program).cells()] == [not on for on in store.mask]


def test_shows_the_lines_of_the_kernel_in_their_order():
    lines = code(LAUNCH)
    assert [part for part, _ in lines] == ["begin"] * 2 + ["move"] * 3 + ["load"] * 2 + ["dot"] + ["store"] * 2
    assert lines[2][1] == "for k in range(0, K, BLOCK_K):" and all(line.startswith("\t") for _, line in lines[3:8])
    assert lines[3][1] == "\ta_ptrs, a_inside = place(a_ptr, m, k, …)"
    assert lines[7][1] == "\taccumulator = tl.dot(a, b, accumulator, …)"
    assert lines[9][1] == "tl.store(c_ptrs, accumulator, mask=c_inside)"


@pytest.mark.parametrize("width", [360, 390, 1280])
def test_no_line_of_the_kernel_is_cut(open_page, width):
    page = open_page("?walk.moment=2", viewport={"width": width, "height": 800})
    lines = page.locator("#walk .walk__code span")
    for part in LINES:  # those that run are bold, and wider
        lines.evaluate_all("(all, part) => all.forEach(it => it.ariaCurrent = it.dataset.part == part && 'step')", part)
        cut = lines.evaluate_all("all => all.filter(it => it.scrollWidth > it.clientWidth).map(it => it.textContent)")
        assert not cut


# What it refuses


def test_says_what_it_cannot_draw():
    elsewhere = [replace(access, offsets=[o + 1 for o in access.offsets]) for access in LAUNCH.accesses]
    short = [replace(access, mask=[False] * len(access.mask)) for access in LAUNCH.accesses]
    cases = [
        (RECORDED, {"program": 6}, "there is no program 6; its launch has 6"),
        (RECORDED, {"section": "step"}, "no section 'step'.*steps"),
        (RECORDED, {"section": "toy"}, "partial sums of one element"),
        (replace(RECORDED, output=RECORDED.output.replace("to 31", "to 30")), {}, r"no c\[2, 5\] for the first 32"),
        (changed(accesses=LAUNCH.accesses[2:]), {}, "does not walk along K"),
        (changed(accesses=elsewhere), {}, "does not walk along K"),
        (changed(accesses=short), {}, "touches what lies beyond"),
        (changed(kernel="check_span"), {}, "check_span of snippets/matmul/naive.py has no line that loads"),
    ]
    for made, options, fragment in cases:
        with pytest.raises(RecorderError, match=fragment):
            walk(made, **{"launch": NAME, "program": 1, "section": "steps", **options})


def test_a_kernel_that_leaves_its_matrices_is_refused():
    made = recording.load(find("matmul/naive_bug"), "cpu")
    assert read(made.launch(), 0)[0].squares[0, 4] == "stray"
    with pytest.raises(RecorderError, match="touches what lies beyond"):
        Walk(made.launch(), 0)


# What it shows


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with page_with(tmp_path_factory.mktemp("walk"), "walk", drawn(), drawn(program=5, id="other")) as url:
        yield url


@pytest.fixture
def open_page(open_site, url):
    return lambda query="", **options: open_site(url + query, **options)


@pytest.fixture
def page(open_page):
    """A page at the beginning of the walk."""
    page = open_page(reduced_motion="reduce")
    page.locator("#walk input[name=moment]").fill("0")
    return page


def sentence(page, of="walk") -> str:
    return page.locator(f"#{of} .explorer__summary").inner_text()


def button(page, name):
    return page.locator("#walk").get_by_role("button", name=name)


def query(page) -> str:
    return page.evaluate("location.search")


def running(page) -> list[str]:
    return page.locator("#walk [aria-current=step]").all_inner_texts()


def test_opens_at_the_end_as_it_stands_without_a_script(open_page):
    page = open_page(reduced_motion="reduce")
    assert sentence(page) == Walk(LAUNCH, 1).moments()[-1].words and query(page) == ""
    assert page.locator("#walk .time-bar__text").inner_text() == "10 of 10"
    assert page.locator("#walk .walk__cell--known").all_inner_texts() == ["−31"]


def test_the_beginning(page):
    assert sentence(page) == Walk(LAUNCH, 1).moments()[0].words
    assert running(page)[0].startswith("m, n = my_tile(") and len(running(page)) == 2
    assert button(page, "Back").is_disabled() and not page.locator("#walk .walk__moving:visible").count()
    assert page.locator("#walk .walk__cell--known").all_inner_texts() == ["0"]
    page.locator("#other input[name=moment]").fill("0")
    assert sentence(page, of="other").startswith(
        "Program 5 computes the tile of c that begins at row m = 4, column n = 8."
    )


def test_steps_through_all_moments_and_back(page):
    one = Walk(LAUNCH, 1, partial_sums(RECORDED, "steps"))
    for moment in one.moments()[1:]:
        button(page, "Step").click()
        assert sentence(page) == moment.words
        assert page.locator("#walk .walk__cell--known").inner_text() == moment.sum
        assert [part for part, line in code(LAUNCH) if line.strip() in map(str.strip, running(page))] == [
            part for part, _ in code(LAUNCH) if part == moment.part
        ]
        shown = page.locator("#walk .walk__sums:visible dd:visible").all_inner_texts()
        assert shown == [one.added(i) for i in range(3) if moment.step > i or (moment.step, moment.part) == (i, "dot")]
    assert button(page, "Step").is_disabled()
    button(page, "Back").click()
    assert sentence(page) == one.moments()[-2].words and query(page) == "?walk.moment=9"


def test_the_tiles_move_right_and_down(open_page):
    page = open_page("?walk.moment=0", reduced_motion="reduce")
    corners = []
    for _ in range(3):
        button(page, "Step").click()
        boxes = [frame.bounding_box() for frame in page.locator("#walk .walk__moving").all()]
        frames = page.locator("#walk g[data-program='1'] [data-state=move] .walk__frame").all()
        for box, frame in zip(boxes, (frame.bounding_box() for frame in frames), strict=True):
            assert [box[side] for side in ("x", "y")] == pytest.approx([frame[side] for side in ("x", "y")], abs=1)
        corners.append([(box["x"], box["y"]) for box in boxes])
        assert not page.locator("#walk [data-state=move] path:visible").count(), "nothing is loaded yet"
        button(page, "Step").click()
        assert page.locator("#walk g[data-program='1'] [data-state=load] path:visible").count() >= 2
        button(page, "Step").click()
    (a0, b0), (a1, b1), (a2, b2) = corners
    assert a0[0] < a1[0] < a2[0] and a0[1] == a1[1] == a2[1]
    assert b0[1] < b1[1] < b2[1] and b0[0] == b1[0] == b2[0]


def test_the_accumulator_fills(page):
    shares, picture = [], page.locator("#walk .walk__picture")
    for moment in (0, 3, 6, 9):
        page.locator("#walk").evaluate("(it, moment) => { it.form.moment.value = moment; it.update() }", moment)
        shares.append(float(picture.evaluate("it => it.style.getPropertyValue('--share')")))
    assert shares == [0, 16 / 40, 32 / 40, 1]


def test_plays_and_stops(open_page):
    page = open_page("?walk.moment=0&other.moment=0")
    elapse = by_hand(page)
    button(page, "Play").click()
    elapse(3000)
    assert page.locator("#walk output").get_attribute("aria-live") == "off"
    assert sentence(page) == Walk(LAUNCH, 1).moments()[2].words
    button(page, "Pause").click()
    elapse(3000)
    assert sentence(page) == Walk(LAUNCH, 1).moments()[2].words
    button(page, "Play").click()
    elapse(20_000)
    assert "are stored" in sentence(page) and button(page, "Play").is_visible()
    assert page.locator("#walk output").get_attribute("aria-live") == "polite"
    button(page, "Play").click()
    elapse(100)
    assert sentence(page) == Walk(LAUNCH, 1).moments()[0].words, "from the beginning again"


def test_no_motion_where_it_is_not_wanted(open_page):
    page = open_page(reduced_motion="reduce")
    assert button(page, "Play").is_hidden() and button(page, "Step").is_visible()
    assert page.locator("#walk .walk__moving").first.evaluate("it => getComputedStyle(it).transitionDuration") == "0s"


def test_a_program_by_its_number_or_by_its_tile(page):
    label = lambda number: page.locator(f"#walk .explorer__switch label:has(input[value='{number}'])")
    label(5).click()
    assert sentence(page).startswith("Program 5 ") and query(page) == "?walk.moment=0&walk.program=5"
    assert page.locator("#walk [data-program='5'] .walk__frame:visible").count() == 7
    assert page.locator("#walk [data-program='1']:visible").count() == 0
    page.locator("#walk [data-tile='3']").click()
    assert sentence(page).startswith("Program 3 ") and query(page) == "?walk.moment=0&walk.program=3"
    assert page.locator("#walk .walk__picture").get_attribute("class") == "walk__picture pid-3"


def test_keyboard_alone_reaches_and_works_everything(page):
    button(page, "Step").focus()
    page.keyboard.press("Enter")
    assert sentence(page).startswith("k is 0.")
    button(page, "Back").focus()
    page.keyboard.press(" ")
    assert sentence(page).startswith("Program 1 ")
    page.locator("#walk input[name=program]:checked").focus()
    page.keyboard.press("ArrowRight")
    assert sentence(page).startswith("Program 2 ")


def test_address_keeps_the_state_and_may_hold_anything(open_page):
    page = open_page("?q=1&walk.moment=8&walk.program=4")
    assert sentence(page) == words(4, "load")[2] and query(page) == "?q=1&walk.moment=8&walk.program=4"
    page = open_page("?walk.moment=<b>&walk.program=77")
    assert sentence(page) == Walk(LAUNCH, 1).moments()[-1].words
    assert sentence(open_page("?walk.moment=99")) == words(1, "store")[0]


def test_moving_or_copying_the_element_makes_no_second_one(page):
    move_and_copy(page, "#walk")
    page.locator("#copy").get_by_role("button", name="Step").click()
    assert sentence(page, of="copy").startswith("k is 0.") and sentence(page).startswith("Program 1 ")


# Who can use it


def test_without_javascript_the_whole_walk_stands(open_page):
    page = open_page(java_script_enabled=False)
    assert page.locator("#walk [data-program='1'] .walk__frame:visible").count() == 7
    assert page.locator("#walk [data-program='0'] .walk__frame:visible").count() == 0
    assert page.locator("#walk .walk__sums:visible dd:visible").count() == 3
    assert page.locator("#walk .walk__cell--known").inner_text() == "−31"
    assert not page.locator("#walk :is(button, output, fieldset, .walk__moving):visible").count()
    page.locator("#walk summary").click()
    assert page.locator("#walk ol:visible li").all_inner_texts() == [
        moment.words for moment in Walk(LAUNCH, 1, partial_sums(RECORDED, "steps")).moments()
    ]


def test_no_axe_violation(open_page):
    page = open_page("?walk.moment=9&other.moment=10", reduced_motion="reduce")
    page.locator("#walk summary").click()
    assert_accessible(page)


def test_fits_on_a_phone(open_page):
    page = open_page("?walk.moment=8", viewport={"width": 360, "height": 740}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("#walk form").bounding_box()["height"] <= 600
    side, gap = page.locator("#walk .walk__side").bounding_box(), page.locator("#walk svg.walk").bounding_box()
    assert side["y"] + side["height"] < gap["y"] + gap["height"] * 0.82, "it ends above the values of k"
    page.locator("#walk [data-tile='5']").tap()
    assert query(page) == "?walk.moment=8&walk.program=5"
    button(page, "Step").tap()
    assert sentence(page) == words(5, "dot")[2]
    heights = page.locator("#walk :is(button, label)").evaluate_all("all => all.map(e => e.offsetHeight)")
    assert min(heights) >= 40
