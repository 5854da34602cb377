# SPDX-License-Identifier: Apache-2.0
"""Charts: text stays text, colors are the page's, and the same numbers make the same picture."""

import re
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from recorder import chart
from recorder.recording import Reading
from tests.toy import charts, made

pytest.importorskip("matplotlib")
TABLE = made("h200").benchmark("bandwidth")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def drawn() -> str:
    return charts("h200")["bandwidth"]


def table(rows, **changes):
    """The toy's benchmark with one line, and other rows: x, median, least and most."""
    readings = [Reading(x=[x], y={"toy": list(y)}) for x, *y in rows]
    return replace(TABLE, rows=readings, lines={"toy": "toy (Triton)"}, **changes)


def texts(svg: str) -> set[str]:
    return {"".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")}


def test_it_is_one_well_formed_svg_whose_text_stays_text(drawn):
    root = ElementTree.fromstring(drawn)
    assert root.tag == f"{SVG}svg" and root.get("class") == "chart" and root.get("role") == "img"
    assert root.get("aria-label") == 'GB/s by elements: toy (Triton), a <copy> & "more"'
    assert root.get("width") is None and root.get("viewBox")
    assert {"elements", "GB/s", "toy (Triton)", 'a <copy> & "more"'} <= texts(drawn)


def test_colors_and_the_font_are_those_of_the_page(drawn):
    used = {color.strip() for color in re.findall(r"(?:fill|stroke|color)\s*[:=]\s*[\"']?([^;\"']+)", drawn)}
    assert {color for color in used if not color.startswith("var(--")} <= {"none"}
    assert re.findall(r"#[0-9a-f]{6}\b(?!\))", drawn) == []
    assert {"pid-0", "pid-1", "ink", "ink-muted", "rule"} <= set(re.findall(r"var\(--([\w-]+)", drawn))
    fonts = re.findall(r"font(?:-family)?: ([^;\"]+)", drawn)
    assert fonts and all("var(--sans" in font for font in fonts)
    assert set(chart.STAND_INS) <= set(chart.tokens())


def test_the_same_numbers_make_the_same_picture_and_others_another(drawn):
    assert chart.draw(TABLE) == drawn and not re.search(r"\d{4}-\d\d-\d\d|Matplotlib", drawn)
    doubled = [replace(row, y={line: [2 * value for value in y] for line, y in row.y.items()}) for row in TABLE.rows]
    assert chart.draw(replace(TABLE, rows=doubled)) != drawn


def test_many_lines_have_their_legend_above_them():
    heights = []
    for count in (5, 6):
        lines = {f"line {i}": f"line {i}" for i in range(count)}
        rows = [Reading(x=row.x, y={line: [1.0] for line in lines}) for row in TABLE.rows]
        root = ElementTree.fromstring(chart.draw(replace(TABLE, lines=lines, rows=rows)))
        heights.append(float(root.get("viewBox").split()[3]))
    assert heights[0] < heights[1]


def test_a_band_needs_three_values(drawn):
    assert "opacity: 0.15" in drawn
    assert "opacity: 0.15" not in chart.draw(table([(2, 7.0), (4, 8.0)]))


def test_names_stand_beside_each_other():
    rows = [(name, 2.0, 1.0, 3.0) for name in ("whole", "transposed", "sliced")]
    assert {"whole", "transposed", "sliced"} <= texts(chart.draw(table(rows, x_log=False)))


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ((1e-6, 1e-3), {"10⁻⁶", "10⁻⁵", "10⁻⁴", "10⁻³"}),  # errors
        ((17.0, 23.0), {"0", "10", "20"}),  # less than a power of ten has no room for ticks: it begins at zero
    ],
)
def test_ticks_of_a_logarithmic_axis(values, ticks):
    rows = [(2**n, y, y, y) for n, y in enumerate(values)]
    assert ticks <= texts(chart.draw(table(rows, y_log=True)))
