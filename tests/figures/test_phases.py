# SPDX-License-Identifier: Apache-2.0
"""``<phases-explorer>``: its model waits as an mbarrier makes a program wait, and everybody can use it."""

from itertools import pairwise

import pytest

from figures.phases import BYTES, CASES, LOAD, STORE, TILES, Copy, phases
from figures.registry import figures
from recorder import recording
from recorder.project import find
from render.views.frame import origin
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import page_with

RECORDED = recording.load(find("below/gluon_copy_compiled"), "cpu")
RUNS = {name: Copy(**given).run() for name, (_, given) in CASES.items()}
RIGHT = [name for name, run in RUNS.items() if not run.wrong]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with page_with(tmp_path_factory.mktemp("phases"), "phases", phases(RECORDED)) as url:
        yield url


@pytest.fixture
def page(open_site, url):
    return open_site(url)


# The model


@pytest.mark.parametrize("name", RIGHT)
def test_every_tile_is_loaded_then_stored_and_no_buffer_is_loaded_too_early(name):
    run = RUNS[name]
    seen = []
    for pieces in run.tiles:
        busy = [piece for piece in pieces if piece.end > piece.begin]
        assert all(a.end <= b.begin for a, b in pairwise(busy)), "one thing after another"
        loads = [piece.text for piece in busy if piece.kind == "loads"]
        assert loads == [piece.text for piece in busy if piece.kind == "stores"]
        seen += loads
    assert sorted(map(int, seen)) == list(range(TILES))
    lasts = {"loads": LOAD, "stores": STORE}
    assert all(p.end - p.begin == lasts[p.kind] for pieces in run.tiles for p in pieces if p.kind in lasts)


@pytest.mark.parametrize("name", RIGHT)
def test_a_phase_is_over_when_a_load_is(name):
    run = RUNS[name]
    for slot, pieces in enumerate(run.tiles):
        ends = [piece.end for piece in pieces if piece.kind == "loads"]
        assert run.over[slot] == ends
        shown = run.phases(slot, 60)
        assert [piece.text for piece in shown] == [str(i & 1) for i in range(len(ends) + 1)]
        assert [piece.end for piece in shown] == [*ends, 60]


def test_more_buffers_are_faster():
    one, two, four = (RUNS[name].now for name in RIGHT)
    assert one == TILES * (LOAD + STORE) and one > 1.5 * two and two > four


def test_what_is_wrong():
    assert [name for name in RUNS if name not in RIGHT] == ["bytes", "first", "stays"]
    assert f"{BYTES:,} of {2 * BYTES:,} bytes ever come. So it hangs." in RUNS["bytes"].wrong
    assert RUNS["bytes"].program[-1].kind == "waits" and not RUNS["bytes"].over[0]
    assert "Tile 0".lower() in RUNS["first"].wrong and RUNS["first"].now < LOAD
    assert "tile 1" in RUNS["stays"].wrong and RUNS["stays"].over[0][0] == LOAD


@pytest.mark.parametrize("name", RUNS)
def test_there_is_a_sentence_for_each_tick(name):
    said = RUNS[name].sentences(60)
    assert len(said) == 61 and all(said)
    assert said[-1] == (RUNS[name].wrong or f"All {TILES} tiles are copied after {RUNS[name].now} ticks.")
    assert said[0].startswith(f"The program expects {RUNS[name].expected:,} bytes at mbarrier 0")


# What it shows


def test_says_that_it_is_a_model():
    assert origin(figures()["phases"], RECORDED) == "A model"


def test_begins_with_the_case_that_the_page_shows(open_site, url, page):
    for each in (page, open_site(url, java_script_enabled=False)):
        (shown,) = each.locator(".phases__picture:visible").all()
        assert shown.get_attribute("data-case") == "2"
        assert "All 6 tiles" in each.locator(".explorer__summary").inner_text()


def test_a_case_and_a_tick_are_shown_and_kept_in_the_address(page):
    page.locator("[name=case][value=bytes]").check()
    assert "it hangs" in page.locator(".explorer__summary").inner_text()
    page.get_by_label("Tick", exact=True).press("Home")
    assert page.locator(".explorer__summary").inner_text() == RUNS["bytes"].sentences(10)[0]
    assert page.evaluate("location.search") == "?phases.case=bytes&phases.tick=0"
    (shown,) = page.locator(".phases__picture:visible").all()
    assert shown.get_attribute("data-case") == "bytes"


@pytest.mark.parametrize("color_scheme", ["default", "slate"])
def test_accessible(page, color_scheme):
    page.evaluate("scheme => document.body.dataset.mdColorScheme = scheme", color_scheme)
    assert_accessible(page)
