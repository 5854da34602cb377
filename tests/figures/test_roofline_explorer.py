# SPDX-License-Identifier: Apache-2.0
"""``<roofline-explorer>``: what was measured and what is only computed are kept apart, and everybody can use it."""

import math
import re
from math import log10

import pytest

from figures import roofline as drawn
from figures.data_sheets import data_sheets
from figures.roofline import roofline
from recorder import recording
from recorder.project import find
from tests.accessibility import assert_accessible, in_scheme
from tests.figures.explorer_support import call, move_and_copy, page_with
from tests.toy import CEILINGS, KERNELS, made

NAMES = [name for name, *_ in KERNELS]
SHEETS = data_sheets()
UNITS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


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


def summary(page, of="roofline-explorer") -> tuple[str, str]:
    """Return the sentence of what was measured, and that of what is computed."""
    return tuple(page.locator(f"{of} output").all_inner_texts())


def computed(page) -> dict[str, float]:
    """The numbers of the sentence about what was not measured."""
    words = {
        "FLOP": r"FLOP on",
        "bytes": "B are",
        "intensity": "FLOP per byte",
        "roof": r"TFLOP/s: at",
        "least": r"µs\.",
    }
    return {
        name: number(re.search(rf"([\d.,]+ ?[kMGT]?){after}|([\d.,]+) {after}", summary(page)[1]))
        for name, after in words.items()
    }


def number(results) -> float:
    digits, prefix = re.fullmatch(r"([\d.,]+) ?([kMGT]?)", results[1] or results[2]).groups()
    return float(digits.replace(",", "")) * UNITS[prefix]


def more(page):
    page.locator("#roofline .roofline__more").evaluate("it => it.open = true")


def choose(page, kernel: str, roof="measured"):
    more(page)
    page.locator("select[name=kernel]").select_option(kernel)
    page.locator("select[name=gpu]").select_option(roof)


def fill(page, **fields):
    more(page)
    for name, value in fields.items():
        page.locator(f"input[name={name}]").fill(value)


def middle(page, part) -> tuple[float, float]:
    """Return the middle of an element, in pixels from the upper left of the picture."""
    box, whole = (page.locator(f).bounding_box() for f in (part, "svg.roofline"))
    return box["x"] + box["width"] / 2 - whole["x"], box["y"] + box["height"] / 2 - whole["y"]


def handle(page) -> tuple[float, float]:
    return middle(page, ".roofline__handle")


def axes(page):
    view = page.locator("roofline-explorer")
    return [[float(end) for end in view.get_attribute(f"data-{axis}").split()] for axis in "xy"]


def place(page, intensity, rate) -> tuple[float, float]:
    (left, right), (low, high) = axes(page)
    whole = page.locator("svg.roofline").bounding_box()
    return (
        (log10(intensity) - left) / (right - left) * whole["width"],
        (high - log10(rate)) / (high - low) * whole["height"],
    )


def drag(page, start: tuple[float, float], *ends: tuple[float, float]):
    """Press the mouse in the picture, move it, release it."""
    whole = page.locator("svg.roofline").bounding_box()
    page.mouse.move(whole["x"] + start[0], whole["y"] + start[1])
    page.mouse.down()
    for x, y in ends:
        page.mouse.move(whole["x"] + x, whole["y"] + y, steps=3)
    page.mouse.up()


# What it computes


@pytest.mark.parametrize("of", ["recorded", "made up"])
def test_computes_what_was_recorded(page, of):
    recorded = recording.load(find("gpu/roofline"), "h200") if of == "recorded" else made("h200")
    rates = {name: row.rate for name, row in recorded.benchmark("ceilings", "rate").medians().items()}
    work = drawn.read(recorded.benchmark("roofline", "gflop", "gbyte", "ms"), rates)
    given = [
        [
            {"flop": k.gflop * 1e9, "bytes": k.gbyte * 1e9, "us": k.ms * 1e3},
            {"copy": rates["copy"], "peak": rates[k.unit]},
        ]
        for k in work
    ]
    for k, got in zip(work, call(page, "roofline", "it.limits(...a)", given), strict=True):
        roof = min(k.slope * k.intensity, k.peak)
        expected = [k.intensity, k.rate, k.share, roof, k.ms * 1e3 * k.share]
        assert [got[name] for name in ("intensity", "rate", "share", "roof", "least")] == pytest.approx(expected)
        assert got["byMemory"] == k.under_slope
    assert len(work) > 3


@pytest.mark.parametrize(
    "text, value",
    [("1e9", 1e9), ("137 G", 137e9), ("137g", 137e9), ("1,024k", 1_024_000), (" 2.5 T ", 2.5e12), ("7", 7)],
)  # fmt: skip
def test_reads_numbers_as_people_write_them(page, text, value):
    assert call(page, "roofline", "it.read(a)", [text]) == [pytest.approx(value)]


def test_reads_nothing_else(page):
    for text in ("", "G", "-1", "0", "1..2", "1 X", "1 G G", "1e999", "<b>"):
        assert math.isnan(call(page, "roofline", "it.read(a)", [text])[0]), text


def test_writes_numbers_that_it_reads(page):
    values = [1, 999, 1000, 4096, 1.61e9, 1.1e12, 5e16]
    again = call(page, "roofline", "it.read(it.written(a))", values)
    assert again == [pytest.approx(value, rel=0.005) for value in values]


# What it shows


@pytest.mark.parametrize("chosen", range(len(KERNELS)))
def test_a_kernel_as_it_ran(page, chosen):
    name, unit, gflop, gbyte, ms = KERNELS[chosen]
    choose(page, str(chosen + 1))
    assert summary(page)[0].startswith(f"{name}: ") and "FLOP per byte" in summary(page)[0]
    assert handle(page) == pytest.approx(place(page, gflop / gbyte, gflop / ms), abs=1)
    assert not page.locator(".roofline__marks > circle").is_visible(), "it is where it was measured"
    roof = min(CEILINGS["copy"] / 1000 * gflop / gbyte, CEILINGS[unit])
    least = re.match(r"At the roof it would take ([\d.,]+) µs\. Drag its dot", summary(page)[1])[1]
    assert float(least.replace(",", "")) == pytest.approx(1000 * gflop / roof, rel=0.006)
    shown = [page.locator(f"input[name={field}]").get_attribute("placeholder") for field in ("flop", "bytes", "us")]
    assert call(page, "roofline", "it.read(a)", shown) == pytest.approx([gflop * 1e9, gbyte * 1e9, ms * 1e3], rel=0.006)


@pytest.mark.parametrize("unit", ["fp32", "bf16"])
def test_a_kernel_of_your_own(page, unit):
    choose(page, f"own-{unit}")
    for flop, bytes_ in ((2e9, 4e9), (137e9, 100e6), (64e9, 1e9)):
        fill(page, flop=f"{flop:g}", bytes=f"{bytes_ / 1e6:g} M", us="")
        roof = min(CEILINGS["copy"] / 1000 * flop / bytes_, CEILINGS[unit])
        assert computed(page) == {
            "FLOP": pytest.approx(flop, rel=0.006), "bytes": pytest.approx(bytes_, rel=0.006),
            "intensity": pytest.approx(flop / bytes_, rel=0.006), "roof": pytest.approx(roof, rel=0.006),
            "least": pytest.approx(flop / roof / 1e6, rel=0.006),
        }  # fmt: skip
        assert summary(page)[1].startswith("Computed, not measured: ")
        assert ("There, memory of" in summary(page)[1]) == (roof < CEILINGS[unit])
        assert handle(page) == pytest.approx(place(page, flop / bytes_, roof), abs=1)
    assert "reaches" not in summary(page)[1]
    fill(page, us=f"{2 * flop / roof / 1e6:.0f}")
    assert summary(page)[1].endswith("it reaches 50% of that.")
    fill(page, us="1")
    assert summary(page)[1].endswith("is a number wrong, or the data still in a cache?")
    assert not page.locator(".roofline__marks > circle").is_visible(), "nothing of it was measured"


def test_what_is_no_number_is_marked_and_left_out(page):
    choose(page, "2")
    before = summary(page)
    fill(page, flop="many")
    assert page.locator("input[name=flop]").get_attribute("aria-invalid") == "true"
    assert summary(page) == before
    fill(page, flop="1 G")
    assert page.locator("input[name=flop]").get_attribute("aria-invalid") == "false"
    assert summary(page) != before


def test_the_roof_of_a_data_sheet_is_dashed_and_says_so(page):
    for name, row in SHEETS.items():
        for chosen, (_, unit, gflop, gbyte, _) in enumerate(KERNELS, 1):
            choose(page, str(chosen), name)
            roof = min(row["copy"] / 1000 * gflop / gbyte, row[unit])
            assert computed(page)["least"] == pytest.approx(1000 * gflop / roof, rel=0.006)
            assert f"by the {name}'s data sheet, not run," in summary(page)[1]
            assert handle(page) == pytest.approx(place(page, gflop / gbyte, roof), abs=1)
            marks = page.locator(".roofline__marks > g")
            assert marks.locator("text").text_content() == f"dashed, not run: {drawn.short(row[unit])} TFLOP/s"
            assert marks.get_attribute("stroke-dasharray") and marks.is_visible()
            ridge = place(page, 1000 * row[unit] / row["copy"], row[unit])
            slope, flat = (marks.locator("line").nth(i).bounding_box() for i in (0, 1))
            whole = page.locator("svg.roofline").bounding_box()
            assert slope["x"] + slope["width"] - whole["x"] == pytest.approx(ridge[0], abs=2)
            assert flat["y"] - whole["y"] == pytest.approx(ridge[1], abs=2)
    choose(page, "1", "measured")
    assert not page.locator(".roofline__marks > g").is_visible()
    assert all(row["source"].startswith("https://") for row in SHEETS.values())


def test_the_roof_of_a_gpu_of_your_own(page):
    fields = page.locator("input[name=gbs], input[name=tflops]")
    assert not fields.filter(visible=True).count()
    choose(page, "4", "own")
    assert fields.filter(visible=True).count() == 2
    fill(page, gbs="1000", tflops="165")
    gflop = KERNELS[3][2]
    assert computed(page)["least"] == pytest.approx(1000 * gflop / 165, rel=0.006)
    assert "bf16 arithmetic of your GPU allows 165 TFLOP/s" in summary(page)[1]
    choose(page, "2", "own")
    fill(page, gbs="100")
    assert "memory of your GPU allows" in summary(page)[1]
    assert computed(page)["least"] == pytest.approx(1.2 / 100 * 1e6, rel=0.006)


# To drag


def test_a_dot_is_dragged_from_where_it_stands(page):
    _, _, gflop, gbyte, ms = KERNELS[2]
    start = place(page, gflop / gbyte, gflop / ms)
    to = place(page, 4 * gflop / gbyte, gflop / ms / 2)
    drag(page, start, to)
    assert summary(page)[0].startswith(f"{NAMES[2]}: ")
    assert handle(page) == pytest.approx(to, abs=2)
    assert computed(page)["intensity"] == pytest.approx(4 * gflop / gbyte, rel=0.05)
    assert computed(page)["bytes"] == pytest.approx(1e9 * gbyte, rel=0.006), "the same bytes"
    assert summary(page)[1].endswith("% of that.")
    assert middle(page, ".roofline__marks > circle") == pytest.approx(start, abs=1), (
        "where it was measured stays marked"
    )
    drag(page, to, (to[0] - 40, to[1] + 30))
    assert handle(page) == pytest.approx((to[0] - 40, to[1] + 30), abs=2), "and on from there"
    drag(page, handle(page), middle(page, ".roofline__number:visible >> nth=0"))
    assert page.locator(".roofline__handle").evaluate("""it => {
        const { x, y, width, height } = it.getBoundingClientRect();
        return document.elementFromPoint(x + width / 2, y + height / 2) === it;
    }"""), "above the number where it is now"


def test_it_stops_at_the_roof_and_at_the_picture(page):
    _, unit, gflop, gbyte, ms = KERNELS[2]
    start = place(page, gflop / gbyte, gflop / ms)
    drag(page, start, (start[0] + 5, 2))
    intensity = computed(page)["intensity"]
    roof = min(CEILINGS["copy"] / 1000 * intensity, CEILINGS[unit])
    assert handle(page)[1] == pytest.approx(place(page, intensity, roof)[1], abs=1)
    assert "% of that" not in summary(page)[1]
    drag(page, handle(page), (5000, 5000))
    whole = page.locator("svg.roofline").bounding_box()
    assert handle(page) == pytest.approx((whole["width"], whole["height"]), abs=1)


def test_to_point_at_a_dot_chooses_it_as_it_ran(page):
    for chosen in (3, 1):
        page.locator(f".roofline__dot[data-kernel='{chosen}']").click()
        assert summary(page)[0].startswith(f"{NAMES[chosen - 1]}: ") and summary(page)[1].startswith("At the roof")
    fill(page, flop="5G")
    page.locator(".roofline__dot[data-kernel='3']").click()
    assert page.locator("input[name=flop]").input_value() == "", "what was typed was said of another"
    page.locator(".roofline__key li", has_text=NAMES[0]).first.click()
    assert summary(page)[0].startswith(f"{NAMES[0]}: ")
    assert page.locator(".roofline__key li[data-chosen]").get_attribute("data-kernel") == "1"


def test_the_handle_covers_no_number_and_no_number_is_lost_to_it(page):
    for chosen in range(1, len(KERNELS) + 1):
        choose(page, str(chosen))
        tops = page.locator("svg.roofline .roofline__number:visible").evaluate_all("""all => all.map(text => {
            const { x, y, width, height } = text.getBoundingClientRect();
            return document.elementFromPoint(x + width / 2, y + height / 2) === text;
        })""")
        assert tops == [True] * len(KERNELS)
    page.locator("svg.roofline .roofline__number:visible", has_text="3").click()
    assert summary(page)[0].startswith(f"{NAMES[2]}: "), "a number chooses its kernel"


def test_a_finger_drags_it_too(open_page):
    page = open_page(viewport={"width": 390, "height": 740}, has_touch=True, is_mobile=True)
    finger = page.context.new_cdp_session(page)
    box = page.locator(".roofline__dot[data-kernel='3']").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    touch = lambda kind, *points: finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": list(points)})
    touch("touchStart", {"x": x, "y": y})
    for i in range(1, 6):
        touch("touchMove", {"x": x + 8 * i, "y": y + 6 * i})
    touch("touchEnd")
    assert summary(page)[0].startswith("powers: ") and summary(page)[1].startswith("Computed, not measured")
    whole = page.locator("svg.roofline").bounding_box()
    assert handle(page) == pytest.approx((x + 40 - whole["x"], y + 30 - whole["y"]), abs=2)
    assert page.evaluate("scrollY") == 0


# Its state


def test_address_keeps_the_state(open_page):
    page = open_page("?q=1")
    assert query(page) == "?q=1"
    choose(page, "3", "own")
    fill(page, flop="30 G", gbs="900")
    assert query(page) == "?q=1&roofline.kernel=3&roofline.gpu=own&roofline.flop=30+G&roofline.gbs=900"
    assert summary(open_page(query(page))) == summary(page)
    choose(page, "1")
    assert query(page) == "?q=1", "the first state needs no parameter"


def query(page) -> str:
    return page.evaluate("location.search")


def test_address_may_hold_anything(open_page):
    page = open_page()
    first = summary(page)
    assert summary(open_page("?roofline.kernel=99&roofline.gpu=T5&roofline.flop=-4&roofline.x=1")) == first
    assert summary(open_page("?roofline.kernel=<b>&roofline.us=<i>")) == first
    for far in ("?roofline.flop=1e30", "?roofline.bytes=1e30&roofline.us=1e20"):
        assert summary(open_page(far))[1].startswith("Computed, not measured")


def test_moving_or_copying_the_element_keeps_it_working(page):
    move_and_copy(page, "roofline-explorer")
    page.locator("#copy select[name=kernel]").select_option("4")
    assert summary(page, "#copy")[0].startswith("product: ")
    assert summary(page, "#roofline")[0].startswith("add <small>: ")


# Who can use it


def test_keyboard_alone_suffices(page):
    page.keyboard.press("Tab")
    at = lambda name: page.evaluate(f"document.activeElement.{name}")
    assert at("getAttribute('role')") == "slider" and at("ariaLabel") == "FLOP per byte"
    _, _, gflop, gbyte, ms = KERNELS[0]
    page.keyboard.press("ArrowRight")
    assert computed(page)["intensity"] == pytest.approx(2 * gflop / gbyte, rel=0.006)
    assert f"In {ms * 1000:g} µs it reaches" in summary(page)[1], "twice the arithmetic in the same time"
    assert at("ariaValueText").startswith(f"{2 * gflop / gbyte:.3g} FLOP per byte, ")
    for key in ("ArrowUp", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    assert handle(page) == pytest.approx(place(page, gflop / gbyte, gflop / ms), abs=1), "there and back"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert summary(page)[0].startswith("add: ") and summary(page)[1].startswith("At the roof")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # More
    page.keyboard.press("Tab")
    page.keyboard.type("2 G")
    assert computed(page)["FLOP"] == 2e9


def test_the_handle_takes_the_keys_of_a_slider(open_page):
    page = open_page(viewport={"width": 800, "height": 400})
    slider = page.get_by_role("slider")
    slider.focus()
    page.evaluate("document.documentElement.scrollTop = 20")
    scrolled = page.evaluate("document.documentElement.scrollTop")
    value = lambda: float(slider.get_attribute("aria-valuenow"))
    (left, right), _ = axes(page)
    _, _, gflop, gbyte, _ = KERNELS[0]
    for key, intensity in (
        ("PageUp", 10 * gflop / gbyte), ("PageUp", 100 * gflop / gbyte), ("PageDown", 10 * gflop / gbyte),
        ("End", 10**right), ("Home", 10**left),
    ):  # fmt: skip
        slider.press(key)
        assert value() == pytest.approx(intensity, rel=0.01), key
        assert handle(page)[0] == pytest.approx(place(page, intensity, 1)[0], abs=2), key
        assert page.evaluate("document.documentElement.scrollTop") == scrolled, "the page stays"


@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_the_chosen_row_stays_legible_under_the_pointer(open_page, scheme):
    page = open_page(viewport={"width": 1000, "height": 800})
    in_scheme(page, scheme)
    colors = lambda row: row.evaluate("e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]")
    row = page.locator(".roofline__key li").nth(2)
    before = colors(row)
    row.hover()
    assert colors(row) != before, "a row to choose"
    row.click()
    under = colors(row)
    page.mouse.move(1, 1)
    assert colors(row) == under and under[0] != under[1] != before[1]


def test_more_arithmetic_is_free_until_the_corner(page):
    """By the arrow key, as an exercise of the lesson has it."""
    choose(page, "2")
    page.locator(".roofline__handle").focus()
    _, unit, gflop, gbyte, _ = KERNELS[1]
    least = lambda times: max(gbyte / CEILINGS["copy"] * 1e6, times * gflop / CEILINGS[unit] * 1e3)
    for doublings in range(1, 9):
        page.keyboard.press("ArrowRight")
        assert computed(page)["least"] == pytest.approx(least(2**doublings), rel=0.02)
        assert "% of that" not in summary(page)[1], "it stays at the roof"
    assert least(2**8) > 1.5 * least(1) == 1.5 * least(2**7)


def test_without_javascript_the_picture_and_its_table_stand(open_page):
    page = open_page(java_script_enabled=False)
    assert page.get_by_role("img", name="A roofline. Ceilings: memory 4,000 GB/s").is_visible()
    assert not page.locator("input, select, output, .roofline__handle").filter(visible=True).count()
    page.locator(".as-table summary").click()
    assert page.get_by_role("cell", name="product").is_visible()
    assert page.get_by_role("group", name="Roofs by data sheet").inner_text().startswith("by data sheet, not run")


@pytest.mark.parametrize("state", ["", "?roofline.kernel=3&roofline.gpu=own&roofline.flop=x"])
def test_no_axe_violation(open_page, state):
    page = open_page(state)
    page.locator(".as-table summary").click()
    assert_accessible(page)


@pytest.mark.parametrize("width", [360, 1280])
def test_labels_fit_the_picture(open_page, width):
    page = open_page(viewport={"width": width, "height": 700})
    page.locator(".as-table summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    texts = page.locator("svg.roofline svg[data-kernel] text:visible")
    assert texts.all_text_contents() == [str(i + 1) for i in range(len(KERNELS))]
    boxes = [text.bounding_box() for text in texts.all()]
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            apart = (
                a["x"] >= b["x"] + b["width"] or b["x"] >= a["x"] + a["width"]
                or a["y"] >= b["y"] + b["height"] - 2 or b["y"] >= a["y"] + a["height"] - 2
            )  # fmt: skip
            assert apart
    more(page)
    heights = page.locator("input, select, .roofline__handle").evaluate_all(
        "all => all.filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().height)"
    )
    assert len(heights) == 6 and min(heights) >= 36


@pytest.mark.parametrize("width, height", [(1280, 800), (390, 740)])
def test_picture_and_controls_fit_one_screen(open_site, site, width, height):
    page = open_site(f"{site.url}gpu/limits/", viewport={"width": width, "height": height})
    header, plot, fields = (
        page.locator(part).first.bounding_box() for part in (".md-header", "svg.roofline", ".roofline__fields")
    )
    assert fields["y"] + fields["height"] - plot["y"] <= height - header["height"]
    assert plot["y"] + (plot["height"] if width > 1000 else 100) < height, "on the first screen of its lesson"
