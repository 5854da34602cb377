# SPDX-License-Identifier: Apache-2.0
"""``fragment``: its rule is Triton's for the accumulator of wgmma, and its picture says what the rule says."""

import re

import pytest
from bs4 import BeautifulSoup

from figures.fragment import COLUMNS, ROWS, fragment, holder
from recorder import recording
from recorder.project import RecorderError, find
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import page_with

RECORDED = recording.load(find("below/wgmma_compiled"), "cpu")


def test_every_element_is_where_triton_says():
    language = pytest.importorskip("triton.experimental.gluon.language")
    layout = language.NVMMADistributedLayout([3, 0], [8, 1], [16, 256, 16])
    found = re.findall(r"T(\d+):\s*(\d+)", layout.format_tensor_view([128, 256]))
    theirs = [(int(thread), int(register)) for thread, register in found]
    assert theirs == [holder(row, column) for row in range(128) for column in range(256)]


def drawn(row, column):
    return BeautifulSoup(fragment(RECORDED, row=row, column=column), "html.parser")


def test_draws_the_rule_and_frames_the_element():
    rows = [[tuple(map(int, cell.text.split(":"))) for cell in row.select("i")] for row in
            drawn(9, 5).select(".fragment__row")[1:]]  # fmt: skip
    assert rows == [[holder(row, column) for column in range(COLUMNS)] for row in range(ROWS)]
    assert [cell.text for cell in drawn(9, 5).select(".fragment__framed")] == ["6:3"]
    assert [cell.text for cell in drawn(9, 5).select(".fragment__own")] == ["6:0", "6:1", "6:2", "6:3"]
    assert [cell.text for cell in drawn(0, 0).select(".fragment__framed")] == ["0:0"]


def test_says_it_in_words():
    picture = drawn(2, 7).select_one("[role=img]")
    assert "Thread 11 has columns 6 and 7 of row 2, in registers 0 and 1, and of row 10" in picture["aria-label"]
    assert "11:1 means thread 11, register 1." in picture.text


def test_an_element_that_is_not_drawn_is_refused():
    with pytest.raises(RecorderError, match="row must be below 16 and column below 8; got 16 and 5"):
        drawn(16, 5)


@pytest.mark.parametrize("color_scheme", ["default", "slate"])
def test_fits_on_a_phone_and_is_accessible(open_site, tmp_path, color_scheme):
    with page_with(tmp_path, "fragment", fragment(RECORDED)) as url:
        page = open_site(url, viewport={"width": 360, "height": 740})
        page.evaluate("scheme => document.body.dataset.mdColorScheme = scheme", color_scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        clipped = "all => all.filter(it => it.scrollWidth > it.clientWidth + 1).map(it => it.textContent)"
        assert page.locator(".fragment__row > *").evaluate_all(clipped) == []
        assert_accessible(page)
