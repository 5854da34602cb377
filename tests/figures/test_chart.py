# SPDX-License-Identifier: Apache-2.0
"""Charts: what was measured stands where the axes say, in the page's colors and in words."""

import re
from math import log2
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from figures.chart import HEIGHT, MARKERS, axes, chart
from figures.svg import unique
from recorder.project import RecorderError
from recorder.recording import Reading
from tests.figures.tokens import tokens
from tests.toy import made

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
        assert all(0 < x < 100 and -0.01 <= y <= HEIGHT + 0.01 for x, y in marks(plot))
    labels = axes.of_values(values, y_log).ticks.values()
    assert 2 <= len(labels) == len(set(labels)) <= 8
    assert len(marks(drawn(**rows((5, 1)), x_log=x_log, y_log=y_log))) == 1, "a single reading"


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ((1e-6, 1e-3), ["10⁻⁶", "10⁻⁵", "10⁻⁴", "10⁻³"]),
        ((0.01, 50), ["0.01", "0.1", "1", "10"]),
        ((4, 44), ["5", "10", "20", "50"]),
        ((17, 23), ["0", "5", "10", "15", "20", "25"]),  # less than a power of ten: it begins at zero
    ],
)
def test_labels_of_a_logarithmic_axis(values, labels):
    assert list(axes.of_values(values, log=True).ticks.values()) == labels


def test_labels_of_sizes_fit_on_a_phone():
    for sizes in ([2**n for n in range(12, 37)], [32 << 2 * n for n in range(7)], [3**n for n in range(20)]):
        ticks = axes.of_sizes(sizes, log=True).ticks
        assert {*ticks} <= {*sizes} and sum(axes.LETTER * (len(text) + 1) for text in ticks.values()) <= axes.ROOM
        assert min(sizes) in ticks and len(ticks) >= 2


def test_a_band_needs_several_readings():
    one, several = (drawn(**rows(*each)) for each in ([(2, 7), (4, 8)], [(2, 7, 7, 7), (4, 8, 6, 9)]))
    bands = [[path for path in picture.iter("path") if path.get("fill-opacity")] for picture in (one, several)]
    assert list(map(len, bands)) == [0, 1]
    points = re.findall(r"([\d.]+) ([\d.]+)", bands[1][0].get("d"))
    top, bottom = (HEIGHT * (1 - value / 10) for value in (9, 6))
    assert [float(y) for _, y in points] == pytest.approx([0.3 * HEIGHT, bottom, top, 0.3 * HEIGHT], abs=0.06)


def test_names_stand_beside_each_other():
    picture = drawn(**rows(("whole", 2), ("transposed", 3), ("sliced", 4)), x_log=False)
    assert [x for x, _ in marks(picture)] == pytest.approx([100 / 6, 50, 500 / 6], abs=0.01)
    assert {"whole", "transposed", "sliced"} <= {*texts(picture)}


def test_lines_differ_in_color_and_marker_and_have_names():
    lines = {f"line {i}": f"<{i}>" for i in range(len(MARKERS))}
    readings = [Reading(x=[x], y={line: [1.0] for line in lines}) for x in (2, 4)]
    picture = drawn(lines=lines, rows=readings)
    samples = picture.findall("p/span")
    assert [span.find("svg").tail for span in samples] == list(lines.values())
    assert len({use.get("fill") for span in samples for use in span.iter("use")}) == len(lines)
    assert len({path.get("d") for path in picture.iter("path") if path.get("id")}) == len(lines)
    with pytest.raises(RecorderError, match=r"8 colors, and 'bandwidth' has 9 lines; show a table"):
        drawn(lines=lines | {"more": "more"}, rows=readings)


def test_in_words_and_in_the_colors_of_the_page():
    html = chart(made("h200"), name="bandwidth", share_of="copy")
    assert 'aria-label="GB/s by elements: toy (Triton), a &lt;copy&gt; &amp; &#34;more&#34;"' in html
    assert "share of a &lt;copy&gt;" in html.partition("<details")[2], "the numbers have the table's options"
    colors = set(re.findall(r'(?:fill|stroke)="([^"]+)"', html)) - {"none"}
    assert colors <= {f"var(--{name})" for name in tokens()} and "var(--pid-1)" in colors


def test_ids_are_of_one_chart():
    pictures = [drawn(), drawn()]
    ids = [each.get("id") for picture in pictures for each in picture.iter() if each.get("id")]
    used = [use.get("href") for picture in pictures for use in picture.iter("use")]
    assert len(ids) == len(set(ids)) == 4 and {f"#{id}" for id in ids} == {*used}
    assert unique("marker") not in ids
