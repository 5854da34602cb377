# SPDX-License-Identifier: Apache-2.0
"""``<roofline-explorer>``: what was measured and what is only computed are kept apart, and everybody can use it."""

import re
from math import log10

import pytest

from figures.roofline import roofline
from tests.figures.explorer_support import in_scheme, move_and_copy, page_with
from tests.toy import CEILINGS, KERNELS, made

NAMES = [name for name, *_ in KERNELS]
WHAT_IF = "What if it did more arithmetic with each byte?"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with page_with(tmp_path_factory.mktemp("roofline"), "roofline", roofline(made("h200"))) as url:
        yield url


@pytest.fixture
def open_page(open_site, url):
    return lambda query="", **options: open_site(url + query, **options)


@pytest.fixture
def page(open_page):
    return open_page()


def said(page, of="roofline-explorer") -> tuple[str, str]:
    """What was measured, and what is computed."""
    return tuple(page.locator(f"{of} output").all_inner_texts())


def choose(page, kernel: int, doublings=0):
    page.get_by_role("radio", name=f"{kernel + 1} {NAMES[kernel]}", exact=True).check(force=True)
    page.get_by_label(WHAT_IF).fill(str(doublings))


def middle(page, mark: int) -> tuple[float, float]:
    """Where the ring, or the dashed circle, stands, in pixels from the upper left of the picture."""
    box, whole = (page.locator(f).bounding_box() for f in (f".roofline__marks > :nth-child({mark})", "svg.roofline"))
    return box["x"] + box["width"] / 2 - whole["x"], box["y"] + box["height"] / 2 - whole["y"]


def place(page, intensity, rate) -> tuple[float, float]:
    view = page.locator("roofline-explorer")
    (left, right), (low, high) = (map(float, view.get_attribute(f"data-{axis}").split()) for axis in "xy")
    whole = page.locator("svg.roofline").bounding_box()
    return (
        (log10(intensity) - left) / (right - left) * whole["width"],
        (high - log10(rate)) / (high - low) * whole["height"],
    )


@pytest.mark.parametrize("number", range(len(KERNELS)))
def test_a_kernel_and_what_the_ceilings_say(page, number):
    name, unit, gflop, gbyte, ms = KERNELS[number]
    most = int(page.get_by_label(WHAT_IF).get_attribute("max"))
    for doublings in (0, 1, min(most, 5)):
        choose(page, number, doublings)
        doublings = int(page.get_by_label(WHAT_IF).input_value())  # there is no more room to the right of some
        measured, computed = said(page)
        assert measured.startswith(f"{name}: ") and "FLOP per byte" in measured
        assert middle(page, 1) == pytest.approx(place(page, gflop / gbyte, gflop / ms), abs=1)
        intensity = 2**doublings * gflop / gbyte
        roof = min(CEILINGS["copy"] / 1000 * intensity, CEILINGS[unit])
        assert middle(page, 2) == pytest.approx(place(page, intensity, roof), abs=1)
        least = max(gbyte / CEILINGS["copy"] * 1e6, 2**doublings * gflop / CEILINGS[unit] * 1e3)
        numbers = [float(n.replace(",", "")) for n in re.findall(r"[\d,]*\d(?:\.\d+)?(?= FLOP| TFLOP| µs)", computed)]
        assert numbers == pytest.approx([intensity, roof, least], rel=0.006)
        assert computed.startswith("Computed, not measured: ")
        assert (f"{2**doublings} times this" in computed) == (doublings > 0)
        assert ("ceiling of memory" in computed) == (roof < CEILINGS[unit])


def test_a_kernel_by_pointing_at_it(page):
    for number in (3, 1):
        page.locator(f"[data-kernel='{number}'] > :first-child").click()
        assert said(page)[0].startswith(f"{NAMES[number - 1]}: ")
    page.locator("[data-kernel='2'] text").filter(visible=True).click()
    assert said(page)[0].startswith("add: ")


def test_what_is_computed_is_dashed(page):
    marks = page.locator(".roofline__marks > *")
    ring, *computed = marks.evaluate_all("all => all.map(e => getComputedStyle(e).strokeDasharray)")
    assert ring == "none" and "none" not in computed


def test_the_dashed_point_stays_in_the_picture(page):
    for number in range(len(KERNELS)):
        choose(page, number, 99)
        x, _ = middle(page, 2)
        assert 0 < x <= page.locator("svg.roofline").bounding_box()["width"]


def test_address_keeps_the_state(open_page):
    page = open_page("?q=1")
    assert query(page) == "?q=1"
    choose(page, 2, 1)
    assert query(page) == "?q=1&roofline.kernel=3&roofline.doublings=1"
    assert said(open_page(query(page))) == said(page)
    choose(page, 0, 0)
    assert query(page) == "?q=1", "the first state needs no parameter"


def query(page) -> str:
    return page.evaluate("location.search")


def test_address_may_hold_anything(open_page):
    page = open_page()
    first, most = said(page), page.get_by_label(WHAT_IF).get_attribute("max")
    assert said(open_page("?roofline.kernel=99&roofline.doublings=-4&roofline.x=1")) == first
    assert said(open_page("?roofline.kernel=<b>"))[0] == first[0]
    assert said(open_page("?roofline.doublings=1e9")) == said(open_page(f"?roofline.doublings={most}"))


def test_moving_or_copying_the_element_keeps_it_working(page):
    move_and_copy(page, "roofline-explorer")
    page.locator("#copy input[value='4']").check(force=True)
    assert said(page, "#copy")[0].startswith("product: ")
    assert said(page, "#roofline")[0].startswith("add <small>: ")


def test_works_after_instant_navigation(open_site, site):
    page = open_site(site.url + "gpu/limits/")
    page.evaluate("window.stayed = true")
    for _ in range(2):
        before = said(page)
        page.locator("roofline-explorer [type=radio]").last.check(force=True)
        assert said(page) != before
        page.locator(".md-footer__link--next").click()
        page.locator("roofline-explorer").wait_for(state="detached")
        page.locator(".md-footer__link--prev").click()
        page.locator("roofline-explorer").wait_for()
        assert said(page) == before, "it begins anew"
    assert page.evaluate("window.stayed")


# Who can use it


def test_keyboard_alone_suffices(page):
    page.locator("input[type=radio]").first.focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    assert said(page)[0].startswith("powers: ")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert "2 times this arithmetic" in said(page)[1]
    assert page.evaluate("document.activeElement.getAttribute('aria-valuetext')") == "2 times"


def test_without_javascript_the_picture_and_its_table_stand(open_page):
    page = open_page(java_script_enabled=False)
    assert page.get_by_role("img", name="A roofline. Ceilings: memory 4,000 GB/s").is_visible()
    assert not page.locator("input, output").filter(visible=True).count()
    page.locator("summary").click()
    assert page.get_by_role("cell", name="product").is_visible()


@pytest.mark.parametrize("state", ["", "?roofline.kernel=3&roofline.doublings=1"])
@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_no_axe_violation(open_page, scheme, state):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = open_page(state)
    in_scheme(page, scheme)
    page.locator("summary").click()
    found = axe.run(page, options={"rules": {"target-size": {"enabled": True}}})
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("width", [360, 1280])
def test_labels_fit_the_picture(open_page, width):
    page = open_page(viewport={"width": width, "height": 700})
    page.locator("summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shown = "roofline__number" if width == 360 else "roofline__name"
    texts = page.locator("svg.roofline svg g text").filter(visible=True)
    assert texts.evaluate_all("all => all.map(t => t.parentNode.getAttribute('class'))") == [shown] * len(KERNELS)
    boxes = [text.bounding_box() for text in texts.all()]
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            apart = (
                a["x"] >= b["x"] + b["width"] or b["x"] >= a["x"] + a["width"]
                or a["y"] >= b["y"] + b["height"] - 2 or b["y"] >= a["y"] + a["height"] - 2
            )  # fmt: skip
            assert apart
    heights = page.locator("label > span, input[type=range]").evaluate_all(
        "all => all.map(e => e.getBoundingClientRect().height)"
    )
    assert min(heights) >= 36
