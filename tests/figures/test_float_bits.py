# SPDX-License-Identifier: Apache-2.0
"""<float-bits>: what is left of a number without its last bits, as it was printed, in Python and in the browser."""

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from figures.float_bits import FRACTION, cut_off, float_bits
from recorder import recording
from recorder.project import RecorderError, Snippet
from tests.figures.explorer_support import call, page_with

BITS = "0" + "10000000" + "1001001000" + "0111111011011"  # of pi


@pytest.fixture(scope="module")
def recorded() -> recording.Recording:
    return recording.load(Snippet("matmul/precision"), "cpu")


def test_it_rests_on_what_a_matrix_unit_sees(recorded):
    page = BeautifulSoup(float_bits(recorded, section="on paper"), "html.parser")
    assert page.select_one("[role=img]")["aria-label"] == (
        "10 of 23 bits of the fraction are kept, as in TF32: 3.1406250."
    )
    cells = page.select(".bits i")
    assert "".join(cell.text for cell in cells) == BITS
    assert [bool(cell.get("class")) for cell in cells] == [False] * 19 + [True] * 13


def test_refuses_what_was_not_printed_so(recorded):
    other = replace(recorded, output=recorded.output.replace("3.1406250000", "3.1416015625"))
    with pytest.raises(RecorderError, match=r"the number is 3[.]140625, not 3[.]1416015625"):
        float_bits(other, section="on paper")
    with pytest.raises(RecorderError, match=r"no section 'on papre'; the nearest"):
        float_bits(recorded, section="on papre")
    with pytest.raises(RecorderError, match=r"has no line 'halved'"):
        float_bits(recorded, section="on paper", cut="halved")


def test_the_bar_cuts_as_python_does(recorded, open_site, tmp_path):
    with page_with(tmp_path, "float_bits", float_bits(recorded, section="on paper")) as url:
        page = open_site(url, reduced_motion="reduce")
        cuts = [cut_off(BITS, lost) for lost in range(FRACTION + 1)]
        asked = [[BITS, lost] for lost in range(FRACTION + 1)]
        assert call(page, "float_bits", "it.cutOff(...a)", asked) == [[c.bits, c.right, c.wrong] for c in cuts]
        page.get_by_label("Step").click()
        assert page.locator(".time-bar__text").inner_text() == "9 bits" and page.locator(".bits__cut").count() == 14
        page.locator("[name=lost]").press("Home")
        assert page.locator(".bits__value").inner_text().split() == ["3.1415927", "float32"]
