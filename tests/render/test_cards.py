# SPDX-License-Identifier: Apache-2.0
"""Tables that a phone shows as cards: each cell says of which column it is, and loses nothing."""

import markdown
import pytest
from bs4 import BeautifulSoup

from figures.templates import environment
from render.cards import Cards


class Extension(markdown.Extension):
    def extendMarkdown(self, md):
        md.treeprocessors.register(Cards(md), "cards", 5)


def cells(text):
    html = markdown.markdown(text, extensions=["tables", "pymdownx.inlinehilite", Extension()])
    return BeautifulSoup(html, "html.parser").select("td")


def test_each_cell_but_the_first_has_the_title_of_its_column():
    row = "| one | `a` and [b](c.md), d, to be of some length, which goes on and on and on for longer | |"
    first, second, third = cells(f"| step | what it *changes* | share |\n|---|---|---|\n{row}\n")
    assert first.text == "one" and not first.has_attr("data-title")
    assert second["data-title"] == "what it changes" and second.text.startswith("a and b, d, to be of some length")
    assert [child.name for child in second.children] == ["span"] and second.select_one("span code + a")
    assert third["data-title"] == "share" and third.text == ""


def test_a_title_keeps_its_code():
    row = f"| one | {'long ' * 15} | 3 |"
    _, second, third = cells(f"| step | its loads of `x` | `a < b` |\n|---|---|---|\n{row}\n")
    assert (second["data-title"], third["data-title"]) == ("its loads of x", "a < b")


@pytest.mark.parametrize("first, title", [("4", "rows"), ("**16 × 8**", "rows"), ("4 parts", None), ("naive", None)])
def test_a_number_that_heads_a_card_says_of_what_it_is(first, title):
    cell, *_ = cells(f"| rows | b | c |\n|---|---|---|\n| {first} | {'long ' * 15} | 3 |\n")
    assert cell.get("data-first") == title


@pytest.mark.parametrize("length, as_it_is", [(17, True), (35, True), (36, False)])
def test_a_table_of_short_columns_stays_as_it_is_and_its_longest_one_wraps(length, as_it_is):
    long = ("x " * length).strip()
    for row in (f"| {long} | a | `b` |", f"| a | a | `{long}` |"):
        found = cells(f"| a | {'b ' * 40} | c |\n|---|---|---|\n{row}\n")
        assert any(cell.has_attr("data-title") for cell in found) != as_it_is


def test_a_table_of_two_long_columns_or_of_many_becomes_cards():
    for row in ("| one | " + " | ".join(["long " * 5] * 2) + " |", f"| {'long ' * 9} | a | b | 3 |"):
        titles = "| a " * row.count(" | ") + "| b |"
        found = cells(f"{titles}\n{titles.replace('a', '---').replace('b', '---')}\n{row}\n")
        assert any(cell.has_attr("data-title") for cell in found)


def test_a_short_cell_stays_on_one_line():
    short, long = cells("| a | b |\n|---|---|\n| 12 · 12 = `144` | and more than a few words |\n")
    assert short["class"] == ["short"] and not long.has_attr("class")


@pytest.mark.parametrize("columns", [1, 2])
def test_a_table_that_fits_stays_as_it_is(columns):
    lines = ["| a " * columns + "|", "|---" * columns + "|", "| 1 " * columns + "|"]
    assert not any(cell.has_attr("data-title") for cell in cells("\n".join(lines)))


@pytest.mark.parametrize(
    "code, stacked", [("`python practice.py check row_sum`", True), ("`a short one`", False), ("words " * 9, False)]
)
def test_what_long_code_does_stands_below_it(code, stacked):
    first, second = cells(f"| command | what it does |\n|---|---|\n| {code} | it checks |\n")
    assert first.find_parent("tbody").has_attr("data-title") == stacked and not second.has_attr("data-title")


def test_a_card_leaves_out_a_cell_that_says_nothing():
    page = cells(f"| a | b | c | d | e |\n|---|---|---|---|---|\n| one | {'long ' * 8} | – | | 0 |\n")
    assert ["none" in cell.get("class", []) for cell in page] == [False, False, True, True, False]


@pytest.mark.parametrize(
    "row, kept", [("| 1 | ×2.5 | 3 µs |", True), ("| `a` | b | – |", False), ("| 1 | 2 | 3 of what is long |", False)]
)
def test_numbers_to_be_compared_stay_a_table(row, kept):
    page = cells(f"| what | {'a ' * 9} | {'b' * 30} | c |\n|---|---|---|---|\n| {'long ' * 9} {row}\n")
    assert page[0].find_parent("table").has_attr("data-numbers") == kept
    assert page[1].has_attr("data-title") != kept


def test_a_recorded_table_of_numbers_stays_a_table():
    macro = environment().from_string('{% from "macros.html" import table %}{{ table("all", titles, rows) }}')
    page = BeautifulSoup(macro.render(titles=["column"] * 9, rows=[range(9)]), "html.parser")
    assert [cell.text for cell in page.select("td:not([data-title])")] == [str(i) for i in range(9)]
