# SPDX-License-Identifier: Apache-2.0
"""Each chapter with lessons has an emblem of its own, which is drawn whole."""

import re
from collections import Counter

import pytest
from bs4 import BeautifulSoup

from recorder.project import RecorderError
from render.lessons import lessons
from render.views.emblem import CHAPTERS, EMBLEMS, emblem
from tests.figures.tokens import tokens


def drawn(name: str) -> BeautifulSoup:
    return BeautifulSoup(emblem(None, name), "html.parser").svg


def test_the_chapters_are_those_of_the_menu():
    folders = {}
    for lesson in lessons().values():
        folders.setdefault(lesson.section, Counter())[lesson.page.split("/")[0]] += 1
    assert tuple(count.most_common(1)[0][0] for count in folders.values()) == CHAPTERS


@pytest.mark.parametrize("name", EMBLEMS)
def test_stays_inside_its_frame_and_has_the_pages_colors(name):
    svg = drawn(name)
    _, _, wide, high = map(float, svg["viewbox"].split())
    for box in svg.select("rect"):
        x, y, width, height = (float(box[side]) for side in ("x", "y", "width", "height"))
        assert x >= 0 and y >= 0 and x + width < wide and y + height < high
    assert set(re.findall(r"var\(--([\w-]+)\)", str(svg))) <= tokens()
    assert svg["aria-hidden"] == "true"


def test_no_two_are_the_same():
    assert len({str(drawn(name)) for name in EMBLEMS}) == len(EMBLEMS)


def test_refuses_another_name():
    with pytest.raises(RecorderError, match="nearest that exist: matmul"):
        emblem(None, "matmull")
