# SPDX-License-Identifier: Apache-2.0
"""No line parts a number from its unit: typed or claimed, in prose."""

import markdown
import pytest
from jinja2 import Environment
from markdown import Extension

from render.units import Units


class Joining(Extension):
    def extendMarkdown(self, md):
        md.treeprocessors.register(Units(md), "units", -5)


def converted(text):
    return markdown.markdown(text, extensions=["tables", Joining()])


@pytest.mark.parametrize(
    "text, shown",
    [
        ("It reads 8.6 GB in 2 ms.", "It reads 8.6&nbsp;GB in 2&nbsp;ms."),
        ("**4.4** GB/s", "<strong>4.4</strong>&nbsp;GB/s"),
        ("2²⁰\nbytes, 4\nKiB", "2²⁰&nbsp;bytes, 4&nbsp;KiB"),
        ("64 bits (8 bytes) or 3 % of it", "64&nbsp;bits (8&nbsp;bytes) or 3&nbsp;% of it"),
        ("132 multiprocessors, 4 sizes, in 2022 MBA", "132 multiprocessors, 4 sizes, in 2022 MBA"),
        ("`x = 4 GB` and `4` GB", "<code>x = 4 GB</code> and <code>4</code>&nbsp;GB"),
    ],
)
def test_a_number_keeps_its_unit(text, shown):
    assert converted(text) == f"<p>{shown}</p>"


def test_headings_and_tables_stay_as_they_are():
    html = converted("# 4 GB\n\n| 4 GB |\n|---|\n| 4 ms |\n")
    assert "<h1>4 GB</h1>" in html and "<td>4 ms</td>" in html


def test_a_card_of_the_next_page_keeps_it():
    card = Environment().from_string("{{ page | striptags }}").render(page=converted("Why **4.4** GB?"))
    assert card == "Why 4.4\xa0GB?"
