# SPDX-License-Identifier: Apache-2.0
"""<outlier-bars>: what comes back of ten numbers is what torch printed, in Python and in the browser."""

import pytest
import torch
from msgspec.structs import replace

from figures.outlier import HIGH, REST, SCHEMES, bars, brief, e4m3, height, outlier, windows, with_outlier
from recorder import recording
from recorder.project import RecorderError, find
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import call, move_and_copy

RECORDED = recording.load(find("models/block_scales"), "cpu")
SHOWN = "outlier", outlier(RECORDED, section="Ten numbers", id="ten")
FIRST = [0.9, -0.35, 0.06, 0.5, 0.012, 0.7, 0.02, 1.0, -0.25, 0.004]
GROWS = 7


def test_rounds_as_torch_does():
    every = torch.arange(256).to(torch.uint8).view(torch.float8_e4m3fn).float()
    every = every[every.isfinite()].unique()
    between = torch.cat([every, (every[1:] + every[:-1]) / 2, torch.randn(500), torch.randn(500) / 100])
    assert [e4m3(x) for x in between.tolist()] == between.to(torch.float8_e4m3fn).float().tolist()


@pytest.mark.parametrize("scheme, size", [("one", 10), ("two", 5)])
def test_comes_back_as_in_torch(scheme, size):
    for power in range(HIGH + 1):
        groups = torch.tensor(with_outlier(FIRST, GROWS, power)).unflatten(0, (-1, size))
        scale = groups.abs().amax(1, keepdim=True) / 448
        expected = ((groups / scale).to(torch.float8_e4m3fn).float() * scale).flatten().tolist()
        assert [bar.back for bar in bars(FIRST, GROWS, power, scheme)] == expected


def test_a_window_tells_how_a_number_fares():
    for scheme in SCHEMES:
        for power in range(HIGH + 1):
            found = bars(FIRST, GROWS, power, scheme)
            for i, (_, normal, least) in enumerate(windows(FIRST, GROWS, power, scheme)):
                for bar in found[5 * i : 5 * i + (10 if scheme == "one" else 5)]:
                    at = height(bar.number)
                    assert {"kept": at > normal - 0.002, "coarse": least - 0.04 < at < normal + 0.002}.get(
                        bar.state, at < least
                    )


def test_refuses_what_was_not_printed_so():
    with pytest.raises(RecorderError, match="no section 'Ten'"):
        outlier(RECORDED, section="Ten")
    with pytest.raises(RecorderError, match="must have ten numbers"):
        outlier(replace(RECORDED, output=RECORDED.output.replace("2**1", "2^1")), section="Ten numbers")
    with pytest.raises(RecorderError, match="came back, not"):
        outlier(replace(RECORDED, output=RECORDED.output.replace("1.14", "1.24")), section="Ten numbers")


def test_the_browser_computes_the_same(page):
    asked = [[with_outlier(FIRST, GROWS, power), size] for power in range(HIGH + 1) for size in (10, 5)]
    found = call(page, "outlier", "it.bars(...a)", asked)
    for (numbers, size), each in zip(asked, found, strict=True):
        power = int(numbers[GROWS]).bit_length() - 1
        expected = bars(FIRST, GROWS, power, "one" if size == 10 else "two")
        assert each == [[bar.back, bar.state] for bar in expected]
    numbers = [0.9, -0.35, 0.0039, 131072.0, 1048576.0, 0.0, 100.0, 98.7, 0.000123]
    assert call(page, "outlier", "it.brief(a)", numbers) == [brief(number) for number in numbers]


def test_grows_and_is_given_a_scale_of_its_own(page):
    values = lambda: page.locator(".outlier__back b").all_inner_texts()
    lost = lambda: page.locator(".outlier__bar.outlier--lost").count()
    still = values(), lost()
    assert lost() == 5 and page.locator(".outlier__window:visible").count() == 1
    page.get_by_role("radio", name="a scale for each five").check()
    assert lost() == 3 and page.locator(".outlier__window:visible").count() == 2
    page.get_by_role("radio", name="one scale").check()
    assert (values(), lost()) == still
    page.get_by_role("slider").press("Home")
    assert lost() == 0 and "1" in values() and page.locator(".time-bar__text").inner_text() == "2⁰"
    page.get_by_role("button", name="Step").click()
    assert values()[GROWS] == "2" and "0 of 10" in page.locator("output").inner_text()


def test_drag_the_bar(page):
    chart, bar = (page.locator(f".outlier__{name}").bounding_box() for name in ("chart", "large"))
    x = bar["x"] + bar["width"] / 2
    page.mouse.move(x, bar["y"] + 3)
    page.mouse.down()
    page.mouse.move(x, chart["y"] + chart["height"] * (1 - 15 / 30), steps=3)
    page.mouse.up()
    assert page.locator(".time-bar__text").inner_text() == "2⁵"


def test_without_a_script_it_rests_on_what_is_lost(open_page):
    bare = open_page(java_script_enabled=False)
    assert bare.locator(".outlier--lost.outlier__bar:visible").count() == 5
    assert not bare.locator("outlier-bars :is(button, fieldset):visible").count()
    assert bare.locator(".outlier__row b").nth(GROWS).inner_text() == brief(2.0**REST)


def test_moving_or_copying_the_element_makes_no_second_one(page):
    move_and_copy(page, "#ten")
    page.locator("#copy").get_by_role("button", name="Back").click()
    assert page.locator("#copy .time-bar__text").inner_text() == "2¹⁶"
    assert page.locator("#ten .time-bar__text").inner_text() == "2¹⁷"


def test_no_axe_violation(page):
    assert_accessible(page)


def test_fits_on_a_phone(open_page):
    page = open_page("?ten.scheme=two", viewport={"width": 360, "height": 740}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
