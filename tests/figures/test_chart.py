# SPDX-License-Identifier: Apache-2.0
"""Charts: what was measured stands where the axes say, in the page's colors and in words."""

import importlib
import re
from itertools import pairwise
from math import log2
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from figures.chart import HEIGHT, axes, chart, labels, ranked
from figures.chart.series import MARKERS, numbers
from figures.svg import unique
from recorder import recording
from recorder.project import RecorderError, find
from recorder.recording import Median, Reading
from tests.figures.explorer_support import page_with
from tests.figures.tokens import tokens
from tests.toy import made

ranking_module = importlib.import_module("figures.chart.ranked")  # the package has its function by that name
TOY = made("h200").benchmark("bandwidth")


def drawn(**changes) -> ElementTree.Element:
    """The chart of the toy's benchmark with some parts changed, without its table."""
    recorded = replace(made("h200"), benchmarks=[replace(TOY, **changes)])
    return ElementTree.fromstring(chart(recorded, name="bandwidth").partition("<details")[0])


def rows(*readings) -> dict:
    """A benchmark's one line and its rows: x, then the median, or the median, the least and the most."""
    return {"lines": {"toy": "toy"}, "rows": [Reading(x=[x], y={"toy": [*map(float, y)]}) for x, *y in readings]}


def marks(picture: ElementTree.Element) -> list[tuple[float, float]]:
    """Where markers stand in the plot: percent of the width, pixels from the top."""
    return [(float(use.get("x")[:-1]), float(use.get("y"))) for use in picture.iter("use") if "%" in use.get("x")]


def texts(picture: ElementTree.Element) -> list[str]:
    return [text.text for text in picture.iter("text")]


def test_markers_stand_where_the_axes_say():
    found = marks(drawn(**rows((2**10, 25), (2**12, 100), (2**20, 0)), x_log=True))
    (a, low), (b, top), (c, zero) = found
    assert (b - a) / (c - a) == pytest.approx(log2(4) / log2(2**10), abs=1e-3)
    assert (zero, top, low) == (HEIGHT, 0, 0.75 * HEIGHT), "the axis runs from 0 to 100"
    (a, low), (b, middle), (c, high) = marks(drawn(**rows((1, 1), (2, 10), (5, 100)), x_log=False, y_log=True))
    assert (b - a) / (c - a) == pytest.approx(1 / 4, abs=1e-3), "x is linear"
    assert low - middle == pytest.approx(middle - high, abs=0.02) and 0 < high < low < HEIGHT


@pytest.mark.parametrize("x_log", [False, True])
@pytest.mark.parametrize("y_log", [False, True])
@pytest.mark.parametrize(
    "values", [(1, 1, 1), (0, 0, 0), (-3, 4, 2), (1e-7, 0.04, 1e-3), (17, 23, 20), (0.95, 750, 3), (3e7, 2e9, 4e8)]
)
def test_everything_is_inside_and_every_axis_has_labels(x_log, y_log, values):
    for xs in ((1, 2, 4), (0, 10, 320), (2**12, 2**20, 2**36), (1.5, 1.6, 1.7)):
        plot = drawn(**rows(*zip(xs, values, strict=True)), x_log=x_log, y_log=y_log)
        assert all(-0.01 <= x <= 100.01 and -0.01 <= y <= HEIGHT + 0.01 for x, y in marks(plot))
    texts_of_y = axes.of_values(values, y_log).ticks.values()
    assert 2 <= len(texts_of_y) == len(set(texts_of_y)) <= axes.LINES + 1
    assert len(marks(drawn(**rows((5, 1)), x_log=x_log, y_log=y_log))) == 1, "a single reading"


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ((1e-6, 1e-3), ["1 in 1 million", "1 in 100,000", "1 in 10,000", "1 in 1,000"]),
        ((0.01, 50), ["0.01", "0.1", "1", "10"]),
        ((4, 44), ["5", "10", "20", "40"]),
        ((2, 3e14), ["10", "1,000", "100,000", "10 million", "1 billion", "100 billion", "10 trillion"]),
    ],
)
def test_a_logarithmic_axis_says_so_and_grows_by_one_factor(values, ticks):
    axis = axes.of_values(values, log=True)
    assert [*axis.ticks.values()][: len(ticks)] == ticks and len(axis.ticks) <= axes.LINES + 1
    assert axis.note == "log scale"
    places = [axis.at(value) for value in axis.ticks]
    steps = [b - a for a, b in pairwise(places)]
    assert steps == pytest.approx([steps[0]] * len(steps)), "by one factor: all lines are equally far apart"
    picture = drawn(**rows((1, values[0]), (2, values[1])), y_log=True)
    assert axis.note in "".join(picture.itertext())


def test_an_axis_begins_at_zero_unless_all_are_close_together():
    """Twice as high must look twice as much; a share has its line at 100% to go by."""
    assert axes.of_values((640, 1180), False).low == 0
    assert axes.of_values((0.64, 1.18), False, share=True).broken


def test_an_axis_that_does_not_begin_at_zero_says_so():
    for values, log in (((18, 23), True), ((940, 1180), False)):
        axis = axes.of_values(values, log)
        first = next(iter(axis.ticks.values()))
        assert first != "0" and axis.broken and axis.low <= min(values)
    assert not axes.of_values((10, 23), log=False).broken and axes.of_values((10, 23), log=False).low == 0
    broken, whole = ("".join(drawn(**rows((1, low), (2, 23))).itertext()) for low in (18, 3))
    assert "the axis begins at" in broken and "the axis begins" not in whole


def test_labels_of_sizes_fit():
    for sizes in ([2**n for n in range(12, 37)], [32 << 2 * n for n in range(7)], [3**n for n in range(20)]):
        for unit in ("n", "bytes read"):
            axis = axes.of_sizes(sizes, log=True, unit=unit)
            assert {*axis.ticks} <= {*sizes} and axis.narrow <= {*axis.ticks} and min(sizes) in axis.narrow
            for shown, wide in ((axis.ticks, True), (axis.narrow, False)):
                assert sum(axes.LETTER * (len(axis.ticks[x]) + 1) for x in shown) <= axes.ROOM[wide]
                assert len(shown) >= 2


def test_shares_of_a_line_are_drawn_beside_its_level():
    lines = {"a": "A", "b": "B"}
    readings = [Reading(x=[2], y={"a": [9.0], "b": [10.0]}), Reading(x=[4], y={"a": [24.0], "b": [20.0]})]
    recorded = replace(made("h200"), benchmarks=[replace(TOY, lines=lines, rows=readings)])
    html = chart(recorded, name="bandwidth", share_of="b")
    picture = ElementTree.fromstring(html.partition("<details")[0])
    axis = axes.of_values([0.9, 1.2], log=False, share=True)
    assert [y for _, y in marks(picture)] == pytest.approx([HEIGHT * (1 - axis.at(v)) for v in (0.9, 1.2)], abs=0.01)
    assert "GB/s, as a share of B" in html and "100%" in texts(picture) and "120%" in readings_of(picture)[1]
    assert "share of B" in html.partition("<details")[2], "the numbers have the table's options"


def test_some_lines_and_a_title():
    html = chart(made("h200"), name="bandwidth", lines=["copy"], title="A <copy> wins")
    picture = ElementTree.fromstring(html.partition("<details")[0])
    assert len(picture.findall(".//defs/path")) == 1 and "A &lt;copy&gt; wins" in html
    with pytest.raises(RecorderError, match="no line 'copi'; the nearest"):
        chart(made("h200"), name="bandwidth", lines=["copi"])


def readings_of(picture: ElementTree.Element) -> list[str]:
    """What is said at each size, to who points there."""
    return [" ".join("".join(label.itertext()).split()) for label in picture.iter("label")]


def test_each_size_can_be_read():
    picture = drawn(**rows((1024, 7, 6, 8), (4096, 12345)), x_log=True)
    assert readings_of(picture) == ["1,024, toy: 7.00", "4,096, toy: 12,345"]
    buttons = [label.find("input") for label in picture.iter("label")]
    assert {button.get("type") for button in buttons} == {"radio"} and len({b.get("name") for b in buttons}) == 1
    strips = [re.findall(r"[-\d.]+(?=%)", label.get("style")) for label in picture.iter("label")]
    (left, width), (next_left, _) = [[float(v) for v in strip] for strip in strips]
    assert left + width == pytest.approx(next_left, abs=0.02), "no gap between two sizes"


def test_names_at_the_ends_do_not_overlap():
    places = labels.spread([100, 101, 102, 40, 290], [18, 33, 18, 18, 48], -12, 300)
    found = sorted(zip(places, [18, 33, 18, 18, 48], strict=True))
    assert all(a + h / 2 <= b - k / 2 + 1e-9 for (a, h), (b, k) in pairwise(found))
    assert found[-1][0] + found[-1][1] / 2 <= 300 and places[3] == 40, "what has room stays"


def test_a_kernel_keeps_its_color_through_all_charts():
    a, b = numbers(["torch", "two", "fused"]), numbers(["naive", "fused", "torch"])
    assert a["torch"] == b["torch"] and a["fused"] == b["fused"]
    assert sorted(numbers("abcdefgh").values()) == list(range(8)) and len({*b.values()}) == 3


def test_a_band_needs_several_readings():
    one, several = (drawn(**rows(*each)) for each in ([(2, 3), (4, 8)], [(2, 3, 3, 3), (4, 8, 6, 9)]))
    bands = [[path for path in picture.iter("path") if path.get("fill-opacity")] for picture in (one, several)]
    assert list(map(len, bands)) == [0, 1]
    points = re.findall(r"([\d.]+) ([\d.]+)", bands[1][0].get("d"))
    top, bottom = (HEIGHT * (1 - value / 10) for value in (9, 6))
    assert [float(y) for _, y in points] == pytest.approx([0.7 * HEIGHT, bottom, top, 0.7 * HEIGHT], abs=0.06)


def test_above_each_name_a_bar_spans_the_least_and_the_most():
    picture = drawn(**rows(("a", 3, 3, 3), ("b", 8, 6, 9)), x_log=False)
    (band,) = (path.get("d") for path in picture.iter("path") if path.get("fill-opacity"))
    at = [
        (float(x) + 0.6, float(low), float(high))
        for x, low, high in re.findall(r"M([\d.]+) ([\d.]+)h1.2V([\d.]+)", band)
    ]
    assert [x for x, *_ in at] == pytest.approx([x for x, _ in marks(picture)], abs=0.01)
    assert [ends for _, *ends in at] == [
        pytest.approx([HEIGHT * (1 - value / 10) for value in ends], abs=0.06) for ends in ((3, 3), (6, 9))
    ]


def test_a_band_that_is_seen_has_a_key():
    key = "shaded: from the least to the most of all readings"
    once, seen, hidden = [(2, 8), (4, 2)], [(2, 8, 6, 9), (4, 2)], [(2, 8, 7.9, 8), (4, 2)]
    for readings, there in ((once, False), (seen, True), (hidden, False)):
        assert (key in "".join(drawn(**rows(*readings)).itertext())) is there


def test_says_which_way_is_faster_unless_a_page_says_that_it_is_beside_the_point():
    ways = {
        "GB/s": "higher is faster", "share of a copy's speed": "higher is faster",
        "µs": "lower is faster", "share of torch's time": "lower is faster",
        "error": "lower is closer", "GB": None,
    }  # fmt: skip
    for unit, said in ways.items():
        words = "".join(drawn(ylabel=unit).itertext())
        assert re.findall("(?:higher|lower) is (?:faster|closer)", words) == [said] * bool(said), unit
    assert "is faster" not in chart(made("h200"), name="bandwidth", better=False)


def test_ours_is_drawn_heavier_than_what_it_is_compared_with():
    def heavier(*keys) -> list[str]:
        lines = {key: key for key in keys}
        found = drawn(lines=lines, rows=[Reading(x=[x], y={key: [1.0] for key in lines}) for x in (2, 4)])
        paths = [path for path in found.iter("path") if path.get("vector-effect")]
        widths = {path.get("stroke"): float(path.get("stroke-width")) for path in paths}
        return [color for color, width in widths.items() if width > min(widths.values())]

    assert heavier("torch", "triton") == heavier("torch", "two", "fused") == ["var(--series-1)"]
    assert heavier("copy", "read") == heavier("torch", "a", "b") == []


def test_names_stand_beside_each_other():
    picture = drawn(**rows(("whole", 2), ("transposed", 3), ("sliced", 4)), x_log=False)
    assert [x for x, _ in marks(picture)] == pytest.approx([100 / 6, 50, 500 / 6], abs=0.01)
    assert {"whole", "transposed", "sliced"} <= {*texts(picture)}


def test_lines_differ_in_color_and_marker_and_have_names():
    lines = {f"line {i}": f"<{i}>" for i in range(len(MARKERS))}
    readings = [Reading(x=[x], y={line: [1.0 + i] for i, line in enumerate(lines)}) for x in (2, 4)]
    picture = drawn(lines=lines, rows=readings)
    for width in ("wide", "narrow"):
        (names,) = picture.findall(f".//g[@class='chart-plot__{width}']")
        assert {"".join(text.itertext()) for text in names.iter("text")} == {*lines.values()}
        assert len({text.get("fill") for text in names.iter("text")}) == len(lines)
    assert len({path.get("d") for path in picture.iter("path") if path.get("id")}) == len(lines)
    with pytest.raises(RecorderError, match=r"8 colors, and this one 9 lines; show a table"):
        drawn(lines=lines | {"more": "more"}, rows=readings)


def test_in_words_and_in_the_colors_of_the_page():
    html = chart(made("h200"), name="bandwidth")
    assert 'aria-label="GB/s by elements: toy (Triton), a &lt;copy&gt; &amp; &#34;more&#34;"' in html
    colors = set(re.findall(r'(?:fill|stroke)="([^"]+)"', html)) - {"none"}
    assert colors <= {f"var(--{name})" for name in tokens()} and "var(--series-1)" in colors


def test_ids_are_of_one_chart():
    pictures = [drawn(), drawn()]
    ids = [each.get("id") for picture in pictures for each in picture.iter() if each.get("id")]
    used = [use.get("href") for picture in pictures for use in picture.iter("use")]
    assert len(ids) == len(set(ids)) == 4 and {f"#{id}" for id in ids} == {*used}
    assert unique("marker") not in ids


def ranking(*cases) -> BeautifulSoup:
    """Cases from the worst to the best: each a name and the readings of both sides."""
    lines = {"ours": "ours", "theirs": "them"}
    readings = [Reading(x=[name], y={"ours": ours, "theirs": theirs}) for name, ours, theirs in cases]
    recorded = replace(made("h200"), benchmarks=[replace(TOY, x=["shape"], xlabel="shape", lines=lines, rows=readings)])
    html = ranked(recorded, name="bandwidth", ours="ours", theirs="theirs")
    return BeautifulSoup(html.partition("<details")[0], "html.parser")


def test_cases_stand_from_the_worst_to_the_best_and_are_counted():
    page = ranking(
        ("even", [10.0, 9.0, 11.0], [10.2, 9.5, 12.0]),
        ("lost", [20.0, 19.0, 21.0], [16.0, 15.0, 17.0]),
        ("won <b>", [10.0, 9.0, 11.0], [12.0, 11.5, 13.0]),
        ("far", [1.0, 1.0, 1.0], [6.0, 6.0, 6.0]),
    )
    assert [strong.text for strong in page.select("label strong")] == [
        "lost: 80%", "even: 102%", "won <b>: 120%", "far: 600%",
    ]  # fmt: skip
    counts = {span.text.split(maxsplit=1)[1]: int(span.strong.text) for span in page.select(".chart-plot__counts span")}
    keys = [span["style"].partition("--dot: ")[2] for span in page.select(".chart-plot__counts span")]
    dots = {circle["fill"] for circle in page.select("circle")}
    assert dots <= {*keys} and keys[1] == "var(--paper)", "each count has the dot that it counts"
    assert counts == {"them clearly faster": 1, "no clear difference": 1, "ours clearly faster": 2}
    heights = [float(svg["y"]) for svg in page.select("svg svg:not(:has(text, title))")]
    assert heights == sorted(heights, reverse=True) and heights[-1] == 0, "what is far away stands at the edge"
    names = sorted(text.text for text in page.select("svg svg text"))
    assert names == ["far: 6.0 times", "lost", "them"], "the worst, the best and the line at 100%"
    assert "6.0 times" in page.text and "the axis begins at" in page.text
    level = next(float(line["y1"]) for line in page.select("svg > line[x2='100%'][stroke*='ink-muted']"))
    stems = page.select("svg > line[x1]")
    assert [float(line["y2"]) for line in stems] == heights and {float(line["y1"]) for line in stems} == {level}
    lengths = [abs(height - level) for height in heights]
    assert lengths[0] == pytest.approx(10 * lengths[1], rel=0.01), "a stem is as long as the difference from 100%"


def test_the_name_of_the_worst_stands_beside_it_where_no_other_dot_is():
    alone = [("lost", [20.0], [14.0]), ("next", [10.0], [9.0]), ("won", [10.0], [12.0])]
    for cases, beside in ((alone, True), ([("as bad", [20.0], [14.1]), *alone], False)):
        (name,) = (text for text in ranking(*cases).select("svg svg text") if text.text == "lost")
        assert (float(name["y"]) < 10) == beside


def names_of(shares: list[float], named: set[str], width: int) -> tuple[list, list]:
    """Where dots stand in a ranking, and the boxes of names: left, top, right, bottom."""
    cases = [
        ranking_module.Case(f"{i:03} × 5000 × 5000", Median([1.0]), Median([share]))
        for i, share in enumerate(sorted(shares))
    ]
    named = {cases[i].name for i in named}
    y = lambda share: HEIGHT * (1.2 - min(share, 1.2)) / 0.6
    boxes = []
    for name in ranking_module._names(cases, named, y, "cuBLAS"):
        begin, wide = name.x * width + name.dx, axes.LETTER * len(name.words)
        left = begin - wide if name.left else begin
        boxes.append((left, name.y - 7, left + wide, name.y + 7))
    return [((i + 0.5) / len(cases) * width, y(case.share)) for i, case in enumerate(cases)], boxes


@pytest.mark.parametrize("width", ranking_module.WIDTHS)
@pytest.mark.parametrize(
    "shares",
    [
        [0.657, 0.734, 0.737, *(0.8 + i / 200 for i in range(40)), 1.1],  # an H100's
        [0.9 + i / 400 for i in range(47)],
        [0.62 + i / 130 for i in range(40)],  # nearly all lose
        [0.995 + i / 300 for i in range(47)],  # nearly all win
    ],
)
def test_no_name_lies_on_a_dot_or_on_another_name(shares, width):
    for at in (0, 1, 7, 20, 31, len(shares) - 2):
        dots, boxes = names_of(shares, {0, at, len(shares) - 1}, width)
        for i, (left, top, right, bottom) in enumerate(boxes):
            assert left >= -1 and right <= width + 10
            assert not any(left < x + 3 and x - 3 < right and top < y + 3 and y - 3 < bottom for x, y in dots), at
            assert not any(left < c and a < right and top < d and b < bottom for a, b, c, d in boxes[:i]), at


def test_a_reading_stands_below_the_plot_where_no_name_is(open_site, tmp_path):
    html = ranked(recording.load(find("matmul/matmul_measured"), "h200"), name="shapes", ours="ours", theirs="cublas")
    with page_with(tmp_path, "ranked", html) as url:
        for width in (1280, 390):
            page = open_site(url, viewport={"width": width, "height": 800})
            page.locator(".chart-plot__readings input").last.check(force=True)
            said = page.locator(".chart-plot__reading > span").last
            assert said.inner_text().split("\n")[0].startswith("1024 × 50257 × 768: 590%")
            (plot, words), counts = (
                [page.locator(".chart-plot__area > svg").bounding_box(), said.bounding_box()],
                page.locator(".chart-plot__counts").bounding_box(),
            )
            assert plot["y"] + plot["height"] < words["y"] and words["y"] + words["height"] <= counts["y"]
            assert not page.locator(".chart-plot__now").is_visible(), "what it says without a reading"


def test_bands_lie_over_no_other_but_those_of_ours_and_what_it_is_compared_with():
    def shaded(*lines: tuple[str, float]) -> list[str]:
        rows = [Reading(x=[x], y={key: [at, at - 1, at + 1] for key, at in lines}) for x in (2, 4)]
        found = drawn(lines={key: key for key, _ in lines}, rows=rows)
        said = "".join(found.find(".//p[@class='chart-plot__band']").itertext())
        bands = [path for path in found.iter("path") if path.get("fill-opacity")]
        names = re.findall("shaded, for (.*): from", said)
        assert not names or len(re.split(", | and ", names[0])) == len(bands)
        return [path.get("fill")[-2] for path in bands]

    assert shaded(("torch", 10), ("triton", 10.5)) == ["0", "1"]
    assert shaded(("torch", 10), ("a", 10.5), ("triton", 10.5), ("b", 5)) == ["0", "1", "3"]
    assert shaded(("a", 5), ("b", 5.5), ("c", 9)) == ["1", "3"]
