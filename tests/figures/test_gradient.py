# SPDX-License-Identifier: Apache-2.0
"""<there-and-back>: an element's recorded numbers, and how far the bar of time lets it come."""

import pytest
from msgspec.structs import replace

from figures.gradient import there_and_back
from recorder import recording
from recorder.project import RecorderError, Snippet
from tests.figures.explorer_support import page_with

OPTIONS = {"section": "six elements", "forward": "silu(x) · y", "backward": "two gradients"}


@pytest.fixture(scope="module")
def recorded() -> recording.Recording:
    return recording.load(Snippet("fusion/autograd"), "cpu")


def test_refuses_what_was_not_printed_so(recorded):
    with pytest.raises(RecorderError, match="no section 'six'"):
        there_and_back(recorded, **OPTIONS | {"section": "six"})
    with pytest.raises(RecorderError, match="has no line 'grad_y'"):
        there_and_back(replace(recorded, output=recorded.output.replace("grad_y  ", "grad_z  ")), **OPTIONS)


def test_an_element_goes_there_and_back(recorded, open_site, tmp_path):
    with page_with(tmp_path, "there_and_back", there_and_back(recorded, **OPTIONS)) as url:
        page = open_site(url, reduced_motion="reduce")
        number = lambda name: page.locator(f"b[data-of={name}]")
        numbers = lambda: [number(name).inner_text() for name in ("x", "out", "grad_x", "grad_y")]
        assert numbers() == ["2.0000", "5.2848", "3.2724", "1.7616"]
        assert page.locator(".there--later").count() == 0
        page.get_by_label("x = −2", exact=True).check()
        assert numbers() == ["−2.0000", "−0.7152", "−0.2724", "−0.2384"]
        page.locator("[name=step]").press("Home")
        seen = lambda name: number(name).evaluate("each => each.checkVisibility({ visibilityProperty: true })")
        assert seen("x") and not seen("out") and not seen("grad_x")
        page.get_by_label("Step", exact=True).click()
        assert seen("out") and not seen("grad_x")
        assert page.locator(".time-bar__text").inner_text() == "step 2 of 6"
        where = {name: page.locator(f".there__{name}").first.bounding_box() for name in ("saved", "kernel")}
        assert where["saved"]["y"] > where["kernel"]["y"] + where["kernel"]["height"] - 1
        back = page.locator(".there__kernel").last.bounding_box()
        assert back["y"] > where["saved"]["y"] and back["x"] == where["kernel"]["x"]
