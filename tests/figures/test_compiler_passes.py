# SPDX-License-Identifier: Apache-2.0
"""``<compiler-passes>``: the strip has every pass that ran, and shows what those that matter wrote."""

import re

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from figures.compiler_passes import compiler_passes, read
from recorder import printed, recording
from recorder.project import RecorderError, find
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import page_with

RECORDED = recording.load(find("compiler/passes"), "cpu")
MARKS = {
    "tritongpu-coalesce": {"brings": "16 bytes", "only": "blocked6 ="},
    "tritongpu-accelerate-matmul": {"brings": "the matrix units", "only": "tt.dot|warp_group_dot"},
    "tritongpu-remove-layout-conversions": {"brings": "the sum stays"},
}
REST = "tritongpu-accelerate-matmul"


@pytest.fixture(scope="module")
def figure() -> str:
    return compiler_passes(RECORDED, marks=MARKS, rest=REST)


@pytest.fixture(scope="module")
def url(figure, tmp_path_factory):
    with page_with(tmp_path_factory.mktemp("passes"), "compiler_passes", figure) as url:
        yield url


@pytest.fixture
def open_page(open_site, url):
    return lambda query="", **options: open_site(url + query, **{"reduced_motion": "reduce"} | options)


def written(page) -> str:
    return page.locator(".cpass__wrote:visible").inner_text()


def test_has_every_pass_and_is_high_where_lines_changed(figure):
    counts = printed.numbers(RECORDED.output)
    page = BeautifulSoup(figure, "html.parser")
    for stage, strip in zip(("ttir", "ttgir", "llir"), page.select(".cpass__bars"), strict=True):
        bars = strip.find_all("i", recursive=False)
        heights = [float(re.search(r"--high: ([\d.]+)%", bar["style"])[1]) for bar in bars]
        assert len(bars) == counts[f"{stage}, passes"]
        assert sum(height > 0 for height in heights) == counts[f"{stage}, passes that change something"]
        assert max(heights) <= 100
    most = max((each for all in read(RECORDED.output).values() for each in all), key=lambda each: float(each.height))
    assert most.name == "convert-triton-gpu-to-llvm"


def test_a_pass_that_runs_three_times_is_marked_where_it_last_changed_something(figure):
    bars = BeautifulSoup(figure, "html.parser").select(".cpass__bars > i[title='tritongpu-remove-layout-conversions']")
    assert [bar.get("data-mark") for bar in bars] == [None, None, "2", None]


def test_shows_the_lines_that_were_recorded(open_page):
    page = open_page()
    assert "warp_group_dot" in written(page) and "local_alloc" not in written(page)
    page.get_by_label("Step").click()
    assert "convert_layout" in written(page) and "passes.pass=2" in page.evaluate("location.search")
    page.get_by_role("radio", name="16 bytes").check()
    assert "sizePerThread = [1, 8]" in written(page)
    assert page.locator(".time-bar__text").inner_text() == "1 of 3"
    assert page.locator("[data-here]").get_attribute("title") == "tritongpu-coalesce"


def test_a_number_of_the_strip_chooses_its_pass(open_page):
    page = open_page()
    page.locator("[data-mark='2'] label").click()
    assert "tritongpu-remove-layout-conversions" in written(page)
    assert page.locator("[data-here]").get_attribute("title") == "tritongpu-remove-layout-conversions"


def test_without_a_script_the_list_works_all_the_same(open_page):
    page = open_page(java_script_enabled=False)
    assert "warp_group_dot" in written(page) and not page.locator(".time-bar").is_visible()
    page.get_by_role("radio", name="the sum stays").check()
    assert "convert_layout" in written(page)


def test_says_what_it_cannot_draw():
    with pytest.raises(RecorderError, match="no lines of a pass 'tritongpu-coales' were recorded"):
        compiler_passes(RECORDED, marks={"tritongpu-coales": {"brings": ""}}, rest=REST)
    with pytest.raises(RecorderError, match="no pass 'other' is marked"):
        compiler_passes(RECORDED, marks=MARKS, rest="other")
    with pytest.raises(RecorderError, match="no section 'passes'"):
        compiler_passes(replace(RECORDED, output="## counts\n"), marks=MARKS, rest=REST)


def test_no_axe_violation(open_page):
    page = open_page()
    assert_accessible(page)


def test_fits_on_a_phone(open_page):
    page = open_page(viewport={"width": 360, "height": 740}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
