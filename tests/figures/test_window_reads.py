# SPDX-License-Identifier: Apache-2.0
"""``<window-reads>``: loads and counts are those of the recorded launch, by script and without, for every tile."""

import pytest
from msgspec.structs import replace

from figures.window_reads import LEVELS, SIZES, read, walked, window_reads
from recorder import recording
from recorder.project import RecorderError, find
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import by_hand, call, move_and_copy

RECORDED = recording.load(find("models/stencil"), "cpu")
LAUNCH = RECORDED.launches["blur_kernel[0]"]
RUN = read(LAUNCH)
SHOWN = "window_reads", window_reads(RECORDED)
LAST = 4 * 10  # of the moments: four programs load nine times and store


def shown(page, element="#reads") -> tuple[list[str], dict[str, int]]:
    """What stands in the picture's cells, and the counts."""
    texts = page.locator(f"{element} .reads__x i").all_inner_texts()
    count = lambda name: int(page.locator(f"{element} [data-of={name}]").inner_text())
    return texts, {name: count(name) for name in ("all", *LEVELS)}


def at(run, loads):
    """The run, as far as so many loads."""
    each = run.window**2
    whole, rest = divmod(loads, each)
    return replace_loads(run, [*run.loads[:whole], *([run.loads[whole][:rest]] if rest else [])])


def replace_loads(run, loads):
    return type(run)(run.side, run.tile, run.window, loads)


def test_the_run_is_the_launch_that_was_recorded():
    loads = [access for access in LAUNCH.accesses if access.op == "load"]
    assert (RUN.side, RUN.tile, RUN.window) == (8, 4, 3) and len(loads) == 4 * 9
    assert sum(RUN.found().values()) == sum(sum(access.mask) for access in loads)
    assert RUN.found()["memory"] == 64 and max(RUN.times().values()) == 9


def test_a_tile_as_large_as_the_picture_leaves_nothing_to_others():
    found = {tile: walked(8, tile, 3).found() for tile in SIZES}
    assert {sum(each.values()) for each in found.values()} == {sum(RUN.found().values())}
    assert {each["memory"] for each in found.values()} == {64}
    assert [found[tile]["l2"] for tile in SIZES] == sorted((each["l2"] for each in found.values()), reverse=True)
    assert found[8]["l2"] == 0 and found[1]["l1"] == 0


@pytest.mark.parametrize("tile", SIZES)
def test_the_script_walks_as_python_does(page, tile):
    run = walked(8, tile, 3)
    moments = [*range(0, len(run.loads) * 9, 7), len(run.loads) * 9]
    asked = [{"side": 8, "tile": tile, "window": 3, "done": done} for done in moments]
    say = "(({found, times, programs}) => ({found, times, programs}))(it.walk(a))"
    for done, found in zip(moments, call(page, "window_reads", say, asked), strict=True):
        expected = at(run, done)
        assert found["found"] == {level: expected.found()[level] for level in LEVELS}
        assert found["times"] == [expected.times()[offset] for offset in range(64)]
        assert found["programs"] == [expected.programs()[offset] for offset in range(64)]


def test_step_by_step(page):
    page.get_by_role("button", name="Step").click(force=True)
    assert page.locator(".time-bar__text").inner_text() == "program 3 stores", "it rests at the end"
    track = page.get_by_role("slider", name="Moment")
    track.fill("1")
    assert shown(page)[1]["memory"] == shown(page)[1]["all"] == 9
    assert page.locator(".reads--off").count() == 7, "lanes in the ring above and left of the picture"
    assert "9 elements, 9 of them for the first time; 7 masked off" in page.locator("output").inner_text()
    track.fill("10")
    assert "stores its results" in page.locator("output").inner_text() and not page.locator(".now").count()
    assert page.locator(".reads__out .later").count() == 48


def test_other_tiles(page):
    for tile in SIZES:
        page.locator(f"label:has([value='{tile}'])").click()
        texts, counts = shown(page)
        expected = walked(8, tile, 3)
        assert counts == {"all": 484, **{level: expected.found()[level] for level in LEVELS}}
        assert [text for text in texts if text] == [str(expected.times()[offset]) for offset in range(64)]
        assert not page.locator(".reads__out .later").count()


def test_a_result_shows_its_window(page):
    page.locator(".reads__out i >> nth=9").hover()
    assert page.locator(".reads__x .reads--seen").count() == 9
    page.locator(".reads__out i >> nth=0").hover()
    assert page.locator(".reads__x .reads--seen.ring").count() == 5
    page.locator(".reads__count").hover()
    assert not page.locator(".reads--seen").count()


def test_it_plays(open_page):
    page = open_page(reduced_motion="no-preference")
    run_for = by_hand(page)
    assert shown(page)[1]["all"] == 484, "at rest until a reader plays it"
    page.get_by_role("button", name="Play").click()
    run_for(3000)
    assert 0 < shown(page)[1]["all"] < 484
    run_for(30000)
    assert shown(page)[1]["all"] == 484


def test_without_a_script_it_stands_as_it_does_with_one(open_page):
    bare, page = open_page(java_script_enabled=False), open_page()
    assert shown(bare) == shown(page)
    classes = lambda it: it.locator(".reads__x i, .reads__out i").evaluate_all("all => all.map(it => it.className)")
    assert classes(bare) == classes(page)
    assert not bare.locator("#reads :is(button, output, fieldset, input):visible").count()


def test_by_keyboard_and_address(open_page):
    page = open_page("?reads.moment=12")
    assert page.locator(".time-bar__text").inner_text() == "program 1, load 2"
    page.get_by_role("slider", name="Moment").focus()
    page.keyboard.press("ArrowRight")
    assert "reads.moment=13" in page.evaluate("location.search")


def test_says_what_it_cannot_draw():
    other = LAUNCH.accesses[1]
    wrong = replace(LAUNCH, accesses=[replace(other, offsets=other.offsets[::-1]), *LAUNCH.accesses[1:]])
    with pytest.raises(RecorderError, match="blur_kernel is no stencil"):
        read(wrong)


def test_moving_or_copying_the_element_makes_no_second_one(page):
    move_and_copy(page, "#reads")
    page.locator("#copy").get_by_role("slider", name="Moment").fill("0")
    assert shown(page, "#copy")[1]["all"] == 0 and shown(page)[1]["all"] == 484


def test_no_axe_violation(open_page):
    page = open_page("?reads.moment=17")
    page.locator("summary").click()
    assert_accessible(page)


def test_fits_on_a_phone(open_page):
    page = open_page("?reads.moment=17", viewport={"width": 360, "height": 740}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator(".reads__pictures").evaluate("it => it.scrollWidth <= it.clientWidth + 1")
