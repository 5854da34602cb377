# SPDX-License-Identifier: Apache-2.0
"""``<memory-trip>``: depths are the recorded waits, to scale; a load sinks and comes back; everybody can use it."""

import re

import pytest
from msgspec.structs import replace

from figures import memory_trip
from figures.registry import figures
from recorder import recording
from recorder.project import RecorderError, find
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import call
from tests.figures.tokens import tokens

RECORDED = recording.load(find("gpu/memory"), "h200")
EXPLORER = memory_trip.memory_trip(RECORDED)
SEA = memory_trip.Sea(RECORDED)
SHOWN = "memory_trip", EXPLORER


def below(page) -> list[float]:
    """Return how far each dot is below the surface, in pixels; the last is the reader's."""
    return page.evaluate("""() => {
        const surface = document.querySelector(".trip__sea").getBoundingClientRect().top + 1;
        return [...document.querySelectorAll(".trip__dot")].map((dot) => {
            const { top, height } = dot.getBoundingClientRect();
            return top + height / 2 - surface;
        });
    }""")


def said(page) -> str:
    return page.locator("output").text_content()


# What is drawn


def test_depth_is_the_wait_to_scale():
    ladder = RECORDED.benchmark("ladder").medians()
    depths = {shelf.name: SEA.y(shelf.ns) for shelf in SEA.shelves}
    assert list(depths) == ["L1", "L2", "HBM", "host"]
    for name, depth in depths.items():
        assert depth / depths["host"] == pytest.approx(ladder[name].answers / ladder["host"].answers)


def test_the_axis_of_waits_is_to_the_same_scale(open_page):
    page = open_page()
    surface = page.locator(".trip__sea").bounding_box()["y"] + 1
    waits = page.locator(".trip__wait")
    assert waits.all_inner_texts() == ["a load waits 500 ns", "1,000 ns"]
    for wait, ns in zip(waits.all(), SEA.ticks, strict=True):
        box = wait.bounding_box()
        assert box["y"] + box["height"] - surface == pytest.approx(SEA.y(ns), abs=1)
    ends = page.locator(".trip__path").evaluate_all("all => all.map(path => path.getBoundingClientRect().height)")
    assert ends == pytest.approx([SEA.y(shelf.ns) for shelf in SEA.shelves], abs=1), "a load's path ends on the ground"


def test_the_ground_is_what_was_measured_and_ends_where_caches_do():
    l1, l2, hbm, _ = SEA.shelves
    assert (SEA.l1, SEA.l2) == (216 * 1024, 60 * 2**20)
    assert l1.end == SEA.x(SEA.l1) and l2.end == SEA.x(SEA.l2)
    cycles = {size: row.all for size, row in RECORDED.benchmark("latency").medians().items()}
    rate = cycles[2**36] / hbm.points[-1][1]
    for shelf, size in ((l1, 2**15), (l2, 2**22), (hbm, 2**30)):
        assert dict(shelf.points)[SEA.x(size)] == pytest.approx(cycles[size] / rate)


def test_says_where_a_number_is_found():
    where = {stop.label: stop.where for stop in SEA.stops}
    assert where["128 KiB"] == "L1" and where["1 MiB"] == "L2" and where["64 MiB"] == "HBM"
    assert where["256 KiB"] == "L2 (and partly still in L1)" and where["32 MiB"] == "L2 (partly in its far half)"


def test_colors_are_those_of_the_page():
    used = set(re.findall(r"var\(--(memory-[\w-]*)\)", figures()["memory_trip"].styles[-1]))
    assert len(used) == 3 and used <= tokens()


def test_refuses_what_it_cannot_draw():
    ladder = RECORDED.benchmark("ladder")
    others = [table for table in RECORDED.benchmarks if table is not ladder]
    without = replace(RECORDED, benchmarks=[*others, replace(ladder, rows=ladder.rows[:-1])])
    with pytest.raises(RecorderError, match="no row 'host'"):
        memory_trip.memory_trip(without)
    unknown = replace(RECORDED, provenance=replace(RECORDED.provenance, l2_bytes=None))
    with pytest.raises(RecorderError, match="how large L2 is"):
        memory_trip.memory_trip(unknown)


# What moves


def test_a_load_is_deepest_at_half_its_time_and_back_at_the_end(open_page):
    page = open_page()
    times = [0, 50, 100, 150, 200, 999]
    assert call(page, "memory_trip", "it.depthAt(a, 200)", times) == [0, 100, 200, 100, 0, 0]


def test_the_dots_are_where_the_time_says(open_page):
    page = open_page("?trip.time=22")
    l1, l2, hbm, host, _ = below(page)
    assert l1 == pytest.approx(0, abs=0.6), "L1 has answered"
    assert l2 == pytest.approx(hbm, abs=0.3) and hbm == pytest.approx(host, abs=0.3), "the others sink alike"
    assert l2 == pytest.approx(SEA.y(44), abs=0.6)


def test_rests_when_all_have_answered_and_the_same_stands_without_a_script(open_page):
    for page in (open_page(), open_page(java_script_enabled=False)):
        assert below(page)[:4] == pytest.approx([0] * 4, abs=0.6)
        assert "1,195 ns" in page.locator(".trip__sea").inner_text()
    assert not page.get_by_role("slider").count()


def test_the_size_is_a_slider_along_the_ground(open_page):
    page = open_page("?trip.time=74")
    size = page.get_by_role("slider", name="How much memory is read over and over")
    assert said(page).startswith("16 MiB, read over and over: found in L2. Each load waits 148 ns.")
    assert "148 ns" in page.locator(".trip__level").nth(1).inner_text(), "one number for one wait"
    assert below(page)[-1] == pytest.approx(SEA.y(147), abs=1)
    size.focus()
    for _ in range(2):
        size.press("ArrowRight")
    assert size.get_attribute("aria-valuetext") == "64 MiB" and "found in HBM" in said(page)
    assert "trip.size=14" in page.evaluate("location.search")
    line = page.locator(".trip__line").bounding_box()["height"]
    assert line == pytest.approx(SEA.y(SEA.stops[14].ns), abs=1), "it hangs down to the ground"


def test_a_click_on_the_ground_sends_a_load_there(open_page):
    page = open_page(reduced_motion="reduce")
    for level, found in ((2, "HBM"), (0, "L1")):
        label = page.locator(".trip__level").nth(level).bounding_box()
        page.mouse.click(label["x"] + label["width"] / 2, label["y"] + label["height"] / 2)
        assert f"found in {found}." in said(page)
        thumb = page.locator(".trip__line").bounding_box()["x"]
        assert thumb == pytest.approx(label["x"] + label["width"] / 2, abs=16), "half a step of the slider, at most"
    label = page.locator(".trip__level").nth(3).bounding_box()
    page.mouse.click(label["x"] + label["width"] / 2, label["y"] + label["height"] / 2)
    assert "found in L1." in said(page), "the host has no size"


def test_the_thumb_stands_above_its_size(open_page):
    page = open_page("?trip.size=0")
    for size in (0, 12, 24):
        page.locator("memory-trip").evaluate("(it, size) => { it.form.size.value = size; it.update() }", size)
        box, line = page.locator("[name=size]").bounding_box(), page.locator(".trip__line").bounding_box()
        thumb = box["x"] + 11 + (box["width"] - 22) * size / 24
        assert thumb == pytest.approx(line["x"], abs=1.5)


def test_no_axe_violation(open_page):
    page = open_page("?trip.time=300")
    assert_accessible(page)


def test_fits_a_phone(open_page):
    page = open_page(viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
