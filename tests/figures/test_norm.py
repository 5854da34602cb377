# SPDX-License-Identifier: Apache-2.0
"""<norm-row>: quotients and gradients as printed, and a row that can be scaled and dragged."""

import pytest
from msgspec.structs import replace

from figures.norm import gradient, norm_row, quotients, rms
from recorder import recording
from recorder.project import RecorderError, Snippet
from tests.figures.explorer_support import call, page_with

OPTIONS = {"section": "RMS norm", "backward": "its backward", "weights": [1, 1, 1, 2, 0.5]}
ROW = [1.0, 2.0, 2.0, 4.0, 10.0]


@pytest.fixture(scope="module")
def recorded() -> recording.Recording:
    return recording.load(Snippet("fusion/norms"), "cpu")


def test_the_browser_computes_what_python_does_and_what_was_recorded(recorded, open_site, tmp_path):
    with page_with(tmp_path, "norm_row", norm_row(recorded, **OPTIONS)) as url:
        page = open_site(url, reduced_motion="reduce")
        rows = [ROW, [3.0, 0.0, 0.0, 0.0, 0.5], [10 * each for each in ROW]]
        found = call(page, "norm", "it.norm(a)", rows)
        for row, each in zip(rows, found, strict=True):
            assert each["rms"] == pytest.approx(rms(row))
            assert each["hat"] == pytest.approx(quotients(row))
            assert each["slope"] == pytest.approx(gradient(row))

        numbers = lambda kind: page.locator(f".norm__row--{kind} b").all_inner_texts()
        quotient, slope = numbers("hat"), numbers("slope")
        assert quotient == ["0.20", "0.40", "0.40", "0.80", "2.00"]
        page.locator("[name=scale]").press("Home")  # half as large
        assert numbers("x")[-1] == "5.0" and numbers("hat") == quotient and numbers("slope") != slope
        page.locator("[name=scale]").fill("1")
        page.get_by_label("Element 5").press("Home")
        assert numbers("x")[-1] == "0.0" and float(numbers("hat")[0]) > float(quotient[0])
        page.get_by_label("Element 4").press("ArrowUp")
        assert numbers("x")[3] == "4.5"
        heights = page.locator(".norm__row--x i").evaluate_all("all => all.map(each => each.offsetHeight)")
        assert heights[3] == pytest.approx(4.5 * heights[0], rel=0.1) and heights[4] <= 2


def test_a_bar_is_dragged_by_a_pointer(recorded, open_site, tmp_path):
    with page_with(tmp_path, "norm_row", norm_row(recorded, **OPTIONS)) as url:
        page = open_site(url, reduced_motion="reduce")
        bar = page.get_by_label("Element 1")
        box = bar.bounding_box()
        x, bottom = box["x"] + box["width"] / 2, box["y"] + box["height"]
        page.mouse.move(x, bottom - 0.1 * box["height"])
        page.mouse.down()
        page.mouse.move(x, bottom - 0.9 * box["height"], steps=5)
        page.mouse.up()
        assert float(page.locator(".norm__row--x b").first.inner_text()) > 8


def test_it_stops_playing_for_who_drags_a_bar(recorded, open_site, tmp_path):
    with page_with(tmp_path, "norm_row", norm_row(recorded, **OPTIONS)) as url:
        page = open_site(url, reduced_motion="no-preference")
        play = page.get_by_role("button", name="Play")
        play.hover()
        colors = """button => {
            button.firstElementChild.style.color = 'var(--ink-muted)';
            return [getComputedStyle(button).backgroundColor, getComputedStyle(button.firstElementChild).color];
        }"""
        ground, muted = play.evaluate(colors)
        assert ground == muted, "dark, so that the light triangle is seen, also under the pointer"
        play.click()
        page.get_by_label("Element 1").press("ArrowUp")
        assert page.get_by_role("button", name="Play").count(), "not Pause"


def test_refuses_what_was_not_printed_so(recorded):
    with pytest.raises(RecorderError, match="its quotients times the weights"):
        norm_row(recorded, **OPTIONS | {"weights": [1, 1, 1, 1, 0.5]})
    other = replace(recorded, output=recorded.output.replace("-0.0320   0.0200", "-0.0320   0.1000"))
    with pytest.raises(RecorderError, match="row 0 has the gradient"):
        norm_row(other, **OPTIONS)
    with pytest.raises(RecorderError, match="not that of its last result alone"):
        norm_row(recorded, **OPTIONS, row=2)
    with pytest.raises(RecorderError, match="no section 'RMS'"):
        norm_row(recorded, **OPTIONS | {"section": "RMS"})
