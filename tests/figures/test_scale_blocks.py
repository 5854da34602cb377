# SPDX-License-Identifier: Apache-2.0
"""<scale-blocks>: the chosen elements lie in the blocks that share their scales, whose places are marked."""

import pytest
from msgspec.structs import replace

from figures.scale_blocks import SCHEMES, scale_blocks
from recorder import recording
from recorder.project import RecorderError, find
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import move_and_copy

RECORDED = recording.load(find("models/block_scales"), "cpu")
SHOWN = "scale_blocks", scale_blocks(RECORDED, section="How many scales")
BOX = "it => ['r', 'c', 'h', 'w'].map(name => Number(it.style.getPropertyValue('--' + name)))"


def boxes(page, of):
    """The region and element of a matrix, and its scale: row, column, height, width of each."""
    find = lambda grid, name: page.locator(f".scales__grid[data-of={grid}] .scales__{name}").evaluate(BOX)
    return find(of, "region"), find(of, "element"), find(f"{of}-scales", "scale")


def choose(page, scheme):
    page.get_by_role("radio", name=SCHEMES[scheme], exact=True).check()


@pytest.mark.parametrize(
    "scheme, x, w",
    [
        ("tensor", ([0, 0, 8, 16], [0, 0]), ([0, 0, 16, 16], [0, 0])),
        ("row", ([3, 0, 1, 16], [3, 0]), ([10, 0, 1, 16], [10, 0])),
        ("block", ([3, 0, 1, 8], [3, 0]), ([8, 0, 8, 8], [1, 0])),
        ("group", ([3, 4, 1, 2], [3, 2]), ([10, 4, 1, 2], [10, 2])),
    ],
)
def test_what_shares_a_scale(page, scheme, x, w):
    choose(page, scheme)
    for name, (region, scale) in (("x", x), ("w", w)):
        assert boxes(page, name)[0] == region and boxes(page, name)[2][:2] == scale
    assert boxes(page, "x")[1] == [3, 5, 1, 1] and boxes(page, "w")[1] == [10, 5, 1, 1]


def test_tapping_an_element(page):
    choose(page, "block")
    grid = page.locator(".scales__grid[data-of=x]").bounding_box()
    page.mouse.click(grid["x"] + grid["width"] * 9.5 / 16, grid["y"] + grid["height"] * 6.5 / 8)
    assert boxes(page, "x") == ([6, 8, 1, 8], [6, 9, 1, 1], [6, 1, 1, 1])
    assert boxes(page, "w") == ([8, 8, 8, 8], [10, 9, 1, 1], [1, 1, 1, 1]), "at the same place along K"
    assert page.locator("output").inner_text() == "x[6, 9] has x_scales[6, 1], w[10, 9] has w_scales[1, 1]."


def test_by_keyboard(page):
    page.get_by_role("slider", name="row of w").press("Home")
    page.get_by_role("slider", name="along K").press("End")
    assert boxes(page, "w")[1] == [0, 15, 1, 1] and boxes(page, "x")[1] == [3, 15, 1, 1]


def test_as_without_a_script(page, open_page):
    bare = open_page(java_script_enabled=False)
    for name in ("x", "w"):
        assert boxes(page, name) == boxes(bare, name)
    assert page.locator(".scales__said").inner_text() == bare.locator(".scales__said").inner_text()
    assert not bare.locator("scale-blocks :is(button, fieldset, input):visible").count()


def test_refuses_what_was_not_printed_so():
    with pytest.raises(RecorderError, match="no section 'Scales'"):
        scale_blocks(RECORDED, section="Scales")
    for old, new, words in (
        ("block:", "blocks:", "a line for each of"),
        ("16 x 56", "17 x 56", r"a scale for each block gives \(4096, 56, 16, 56\), not \(4096, 56, 17, 56\)"),
        ("x: 4096", "y: 4096", "must have the sizes"),
    ):
        with pytest.raises(RecorderError, match=words):
            scale_blocks(replace(RECORDED, output=RECORDED.output.replace(old, new)), section="How many scales")


def test_moving_or_copying_the_element_makes_no_second_one(page):
    move_and_copy(page, "#scales")
    page.locator("#copy").get_by_role("slider", name="row of x").press("Home")
    first = lambda id: page.locator(f"#{id} .scales__grid[data-of=x] .scales__element").evaluate(BOX)
    assert first("copy") == [0, 5, 1, 1] and first("scales") == [3, 5, 1, 1]


def test_no_axe_violation(page):
    assert_accessible(page)


def test_fits_on_a_phone(open_page):
    page = open_page("?scales.scheme=group", viewport={"width": 360, "height": 740}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
