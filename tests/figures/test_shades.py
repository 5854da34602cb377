# SPDX-License-Identifier: Apache-2.0
"""Lines of characters as squares: each element is there once, as strong as its character says, under its program."""

import re

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from figures.shades import color, shades
from recorder.project import RecorderError
from tests.figures.tokens import tokens
from tests.toy import made

RAMP = " .#"
PRINTED = "drawn:\n ..#\n#  #\n....\n##\n"


def drawn(printed=PRINTED, **options) -> BeautifulSoup:
    options = {"ramp": RAMP, "label": "Dots", **options}
    return BeautifulSoup(shades(replace(made("cpu"), output=printed), **options), "html.parser")


def elements(page, tall=2) -> list[str]:
    """The lines of characters, read from the picture's paths and their colors."""
    found, levels = {}, {color(level / (len(RAMP) - 1)): character for level, character in enumerate(RAMP)}
    for path in page.select("svg path"):
        for at, middle, length in re.findall(r"M(\d+) ([\d.]+)h([\d.]+)", path["d"]):
            row = (float(middle) / tall) - 0.5
            for column in range(int(at), int(at) + round(float(length))):
                assert (row, column) not in found
                found[row, column] = levels[path["stroke"]]
    width = 1 + max(column for _, column in found)
    return ["".join(found[row, column] for column in range(width)) for row in sorted({row for row, _ in found})]


@pytest.mark.parametrize("tall", [1, 2])
def test_each_element_is_drawn_as_its_character_says(tall):
    assert elements(drawn(tall=tall), tall) == [" ..#", "#  #", "...."], "the short line is another thing"


def test_a_stronger_shade_is_further_from_the_ground():
    assert "0%" in color(0) and "paper" in color(0) and color(1).startswith("color-mix(in oklab, var(--ink) 100%")
    used = {name for level in range(11) for name in re.findall(r"var\(--([\w-]+)\)", color(level / 10))}
    assert used <= tokens()


def test_each_line_has_its_programs_number_and_color_to_point_at():
    programs = drawn("\n".join(["#"] * 9)).select("svg rect")
    assert [program.title.text for program in programs] == [f"program {number}" for number in range(9)]
    assert [program["y"] for program in programs] == [f"{2 * number}" for number in range(9)]
    colors = [re.search(r"--([\w-]+)", program["color"])[1] for program in programs]
    assert colors[:2] == ["pid-0", "pid-1"] and colors[8] == "pid-0" and {*colors} <= tokens()


def test_says_in_words_what_it_shows_and_has_what_was_printed():
    page = drawn()
    assert page.svg.desc.text == "Dots: 3 programs, one for each line of 4 elements"
    assert page.select_one("details pre").text == " ..#\n#  #\n...."


def test_refuses_an_output_without_such_lines():
    with pytest.raises(RecorderError, match="no line of the characters '@'"):
        drawn(ramp="@")
