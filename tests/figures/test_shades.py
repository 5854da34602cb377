# SPDX-License-Identifier: Apache-2.0
"""Lines of characters as squares: each element is there once, in its program's color, as full as its character says."""

import re

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from figures.shades import FAINT, shades
from recorder.project import RecorderError
from tests.figures.tokens import tokens
from tests.toy import made

RAMP = " .#"
PRINTED = "drawn:\n ..#\n#  #\n....\n##\n"


def drawn(printed=PRINTED, **options) -> BeautifulSoup:
    options = {"ramp": RAMP, "label": "Dots", **options}
    return BeautifulSoup(shades(replace(made("cpu"), output=printed), **options), "html.parser")


def elements(row) -> list[str]:
    """The characters of a row, read from its dashes."""
    found = {}
    for path in row.select("path"):
        level = round((float(path["opacity"]) - FAINT) / (1 - FAINT) * (len(RAMP) - 1))
        for at, length in re.findall(r"M(\d+) [\d.]+h([\d.]+)", path["d"]):
            found |= {int(at) + i: RAMP[level] for i in range(round(float(length) + 0.14))}
    return [found[at] for at in sorted(found)]


def test_each_element_is_drawn_as_its_character_says():
    rows = drawn().select("svg g")
    assert ["".join(elements(row)) for row in rows] == [" ..#", "#  #", "...."], "the short line is another thing"


def test_each_line_has_its_programs_color():
    colors = [re.search(r"--([\w-]+)", row["stroke"])[1] for row in drawn("\n".join(["#"] * 9)).select("svg g")]
    assert colors[:2] == ["pid-0", "pid-1"] and colors[8] == "pid-0" and {*colors} <= tokens()


def test_says_in_words_what_it_shows_and_has_what_was_printed():
    page = drawn()
    assert page.svg.desc.text == "Dots: 3 programs, one for each line of 4 elements"
    assert page.select_one("details pre").text == " ..#\n#  #\n...."


def test_refuses_an_output_without_such_lines():
    with pytest.raises(RecorderError, match="no line of the characters '@'"):
        drawn(ramp="@")
