# SPDX-License-Identifier: Apache-2.0
"""``<turn-explorer>``: its moments are operations of the compiled code, and everybody can step through them."""

import pytest
from msgspec.structs import replace

from figures.turn import CASES, MOMENTS, panel, turn
from recorder import recording
from recorder.project import RecorderError, find
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import page_with

RECORDED = recording.load(find("below/blackwell"), "cpu")


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with page_with(tmp_path_factory.mktemp("turn"), "turn", turn(RECORDED)) as url:
        yield url


@pytest.fixture
def page(open_site, url):
    return open_site(url)


def test_panels_are_what_was_printed():
    hopper, blackwell, special = (panel(RECORDED, name) for name in CASES)
    assert (hopper.instruction, hopper.columns, [*hopper.warps]) == ("wgmma", 0, ["warps 0–3"])
    assert (blackwell.instruction, blackwell.columns) == ("tcgen05.mma", 128) and blackwell.buffers == 3
    assert [*special.warps.values()] == ["warps", "issuer", "loader"]
    assert all(len(each.moments) == len(MOMENTS) for each in (hopper, blackwell, special))


def test_a_moment_without_its_operation_is_refused():
    other = replace(RECORDED, output=RECORDED.output.replace("warp_group_dot_wait pendings = 1", "something else"))
    with pytest.raises(RecorderError, match="outline of H200 has no line 'warp_group_dot_wait pendings = 1'"):
        turn(other)


def shown(page):
    parts = "all => all.map(part => [part.dataset.part, part.className.split(' ').filter(Boolean).sort().join(' ')])"
    said = page.locator(".turn__said li:visible").all_inner_texts()
    return page.locator("[data-part]").evaluate_all(parts), said, page.locator(".turn__name:visible").all_inner_texts()


def test_the_page_is_what_the_script_draws_at_first(open_site, url, page):
    assert shown(open_site(url, java_script_enabled=False)) == shown(page)
    _, said, names = shown(page)
    assert names == ["H200", "B200"] and said == [CASES[name][2].said for name in names]


def at_work(page, state="on"):
    return page.locator(f".turn__panel:visible .turn--{state}").evaluate_all("all => all.map(it => it.dataset.part)")


def test_steps_through_the_moments(page):
    track = page.get_by_role("slider", name="Moment of an iteration of the loop")
    track.press("Home")
    for moment in range(len(MOMENTS)):
        told = [CASES[name][moment] for name in ("H200", "B200")]
        assert sorted(at_work(page)) == sorted(" ".join(each.works for each in told).split())
        assert at_work(page, "waits") == " ".join(each.waits for each in told).split()
        assert page.locator(".turn__said li:visible").all_inner_texts() == [each.said for each in told]
        assert track.get_attribute("aria-valuetext") == MOMENTS[moment]
        track.press("ArrowRight")


def test_a_switch_shows_the_partitions(page):
    page.get_by_role("radio", name="on", exact=True).check()
    assert page.locator(".turn__warp:visible").all_inner_texts()[1:] == [
        "warps 0–3", "one multiplies", "two load",
    ]  # fmt: skip
    assert "specialize=yes" in page.evaluate("location.search")
    assert page.locator(".turn__said li:visible").last.inner_text() == CASES["B200, warp_specialize"][2].said


@pytest.mark.parametrize("color_scheme", ["default", "slate"])
def test_accessible(page, color_scheme):
    page.evaluate("scheme => document.body.dataset.mdColorScheme = scheme", color_scheme)
    assert_accessible(page)


def test_fits_on_a_phone(open_site, url):
    page = open_site(f"{url}?turn.specialize=yes", viewport={"width": 360, "height": 740}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    clipped = "all => all.filter(it => it.scrollWidth > it.clientWidth + 1).map(it => it.textContent)"
    assert page.locator(".turn__box:visible, .turn__warp:visible").evaluate_all(clipped) == []
