# SPDX-License-Identifier: Apache-2.0
"""What a decorated function keeps: its text, and compiled versions that say what they depend on."""

import re

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from figures.versions import versions
from recorder import recording
from recorder.project import ROOT, RecorderError, find
from tests.accessibility import assert_accessible

RECORDED = recording.load(find("programs/vector_add"), "cpu")
SHOWN = "versions", versions(RECORDED, launch="add_kernel[1]")


@pytest.fixture(scope="module")
def drawn() -> BeautifulSoup:
    return BeautifulSoup(SHOWN[1], "html.parser")


def test_shows_the_kernel_s_own_code_without_comments(drawn):
    text = (ROOT / "snippets/programs/vector_add.py").read_text("utf-8")
    lines = drawn.select_one("pre").text.splitlines()
    assert lines[0] == "@triton.jit" and lines[1].startswith("def add_kernel(")
    assert all(line in text for line in lines) and not any("#" in line for line in lines)


def test_each_version_says_what_differs_and_how_wide_its_loads_are(drawn):
    rows = {row.th.text: row.select("td") for row in drawn.select("tbody tr, tfoot tr")}
    differs = {(name, i): cell.text for name in rows for i, cell in enumerate(rows[name]) if cell.get("class")}
    assert differs == {("n", 1): "not a multiple of 16", ("x_ptr", 2): "float32, 4-byte aligned"}
    columns = zip(drawn.select("thead th")[1:], rows["each thread loads"], strict=True)
    for number, (head, loads) in enumerate(columns, 1):
        assert head.text == f"n = {RECORDED.launch(f'add_kernel[{number}]').arguments['n']:,}"
        ptx = "\n".join(line.text for line in RECORDED.stage(f"add_kernel[{number}]", "sm_90", "ptx"))
        wide, narrow = ptx.count("ld.global.v4.b32"), ptx.count("ld.global.b32")
        said = {int(size): int(count) for count, size in re.findall(r"(\d+) × (\d+) bytes", loads.text)}
        assert (said.get(16, 0), said.get(4, 0)) == (wide, narrow)


def test_refuses_a_kernel_with_one_version():
    with pytest.raises(RecorderError, match="fewer than two compiled versions"):
        versions(replace(RECORDED, compiled=RECORDED.compiled[:2]), launch="add_kernel[1]")


def test_no_axe_violation(page):
    assert_accessible(page)


def test_fits_on_a_phone(open_page):
    page = open_page(viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
