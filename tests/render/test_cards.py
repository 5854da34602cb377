# SPDX-License-Identifier: Apache-2.0
"""Tables that a phone shows as cards: each cell says of which column it is, and loses nothing."""

import markdown
import pytest
from bs4 import BeautifulSoup

from render.cards import Cards


class Extension(markdown.Extension):
    def extendMarkdown(self, md):
        md.treeprocessors.register(Cards(md), "cards", 5)


def cells(text):
    html = markdown.markdown(text, extensions=["tables", Extension()])
    return BeautifulSoup(html, "html.parser").select("td")


def test_each_cell_but_the_first_has_the_title_of_its_column():
    first, second, third = cells(
        "| step | what it *changes* | share |\n|---|---|---|\n| one | `a` and [b](c.md), d | |\n"
    )
    assert first.text == "one" and not first.has_attr("data-title")
    assert second["data-title"] == "what it changes" and second.text == "a and b, d"
    assert [child.name for child in second.children] == ["span"] and second.select_one("span code + a")
    assert third["data-title"] == "share" and third.text == ""


@pytest.mark.parametrize("columns", [1, 2])
def test_a_table_that_fits_stays_as_it_is(columns):
    lines = ["| a " * columns + "|", "|---" * columns + "|", "| 1 " * columns + "|"]
    assert [cell.attrs for cell in cells("\n".join(lines))] == [{}] * columns
