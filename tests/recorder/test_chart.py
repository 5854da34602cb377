# SPDX-License-Identifier: Apache-2.0
"""Charts: text stays text, colors are the page's, and the same numbers make the same picture."""

import re
from xml.etree import ElementTree

import pytest

from tests.recorder.conftest import made

pytest.importorskip("matplotlib")
from recorder import chart

TABLES = {table["name"]: table for table in made("h200")["benchmarks"]}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def drawn() -> str:
    return chart.draw(TABLES["bandwidth"])


def test_it_is_one_well_formed_svg(drawn):
    root = ElementTree.fromstring(drawn)
    assert root.tag == f"{SVG}svg" and root.get("class") == "chart" and root.get("role") == "img"
    assert root.get("aria-label") == 'GB/s by elements: toy (Triton), a <copy> & "more"'
    assert root.get("width") is None and root.get("viewBox")


def test_text_stays_text(drawn):
    texts = {"".join(text.itertext()) for text in ElementTree.fromstring(drawn).iter(f"{SVG}text")}
    assert {"elements", "GB/s", "toy (Triton)", 'a <copy> & "more"'} <= texts


def test_every_color_is_a_property_of_the_page(drawn):
    colors = re.findall(r"(?:fill|stroke|color)\s*[:=]\s*[\"']?([^;\"']+)", drawn)
    used = {color.strip() for color in colors}
    assert {color for color in used if not color.startswith("var(--")} <= {"none"}
    assert re.findall(r"#[0-9a-f]{6}\b(?!\))", drawn) == []
    assert {"pid-0", "pid-1", "ink", "ink-muted", "rule"} <= set(re.findall(r"var\(--([\w-]+)", drawn))


def test_the_font_is_that_of_the_page(drawn):
    fonts = re.findall(r"font(?:-family)?: ([^;\"]+)", drawn)
    assert fonts and all("var(--sans" in font for font in fonts)


def test_the_same_numbers_make_the_same_picture(drawn):
    assert chart.draw(TABLES["bandwidth"]) == drawn
    assert not re.search(r"\d{4}-\d\d-\d\d|Matplotlib", drawn)


def test_other_numbers_make_another_picture(drawn):
    rows = [{**row, "triton": [2 * value for value in row["triton"]]} for row in TABLES["bandwidth"]["rows"]]
    assert chart.draw({**TABLES["bandwidth"], "rows": rows}) != drawn


def test_many_lines_have_their_legend_above_them():
    table = TABLES["bandwidth"]
    few, many = ({f"line {i}": f"line {i}" for i in range(count)} for count in (5, 6))
    height = {}
    for lines in (few, many):
        rows = [{name: row[name] for name in table["x"]} | {line: [1.0] for line in lines} for row in table["rows"]]
        root = ElementTree.fromstring(chart.draw({**table, "lines": lines, "rows": rows}))
        height[len(lines)] = float(root.get("viewBox").split()[3])
    assert height[6] > height[5]


def test_a_band_needs_three_values():
    assert "opacity: 0.15" in chart.draw(TABLES["bandwidth"])
    assert "opacity: 0.15" not in chart.draw(TABLES["square"])


def test_every_stand_in_has_a_property():
    assert set(chart.STAND_INS) <= set(chart.tokens())


def test_names_stand_beside_each_other():
    rows = [{"input": name, "toy": [2.0, 1.0, 3.0]} for name in ("whole", "transposed", "sliced")]
    table = TABLES["bandwidth"] | {"x": ["input"], "x_log": False, "rows": rows, "lines": {"toy": "toy (Triton)"}}
    texts = {"".join(text.itertext()) for text in ElementTree.fromstring(chart.draw(table)).iter(f"{SVG}text")}
    assert {"whole", "transposed", "sliced"} <= texts


def test_small_errors_are_powers_of_ten():
    rows = [{"n": n, "toy": [n * 1e-6, n * 1e-6, n * 1e-6]} for n in (1, 1000)]
    table = TABLES["bandwidth"] | {"x": ["n"], "y_log": True, "rows": rows, "lines": {"toy": "toy (Triton)"}}
    texts = {"".join(text.itertext()) for text in ElementTree.fromstring(chart.draw(table)).iter(f"{SVG}text")}
    assert {"10⁻⁶", "10⁻⁵", "10⁻⁴", "10⁻³"} <= texts


def test_less_than_a_power_of_ten_begins_at_zero():
    rows = [{"n": n, "toy": [value] * 3} for n, value in ((1, 17.0), (2, 23.0))]
    table = TABLES["bandwidth"] | {"x": ["n"], "y_log": True, "rows": rows, "lines": {"toy": "toy (Triton)"}}
    texts = {"".join(text.itertext()) for text in ElementTree.fromstring(chart.draw(table)).iter(f"{SVG}text")}
    assert {"0", "10", "20"} <= texts
