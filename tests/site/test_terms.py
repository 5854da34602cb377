# SPDX-License-Identifier: Apache-2.0
"""A term of the glossary is a link to it where a page first uses it, and the glossary is in order."""

import re

import pytest
from bs4 import BeautifulSoup, SoupStrainer

from tests.site.test_site import SOURCES

GLOSSARY = "reference/glossary/"
NO_PROSE = "h1, h2, h3, h4, pre, code, figure, details, .recording, .table-scroll--words, svg, .tabbed-labels"


def article(site, address):
    text = re.sub("<(svg|pre).*?</\\1>", "", site.text(address), flags=re.S)  # most of a page, and no prose
    return BeautifulSoup(text, "html.parser", parse_only=SoupStrainer("article"))


@pytest.fixture(scope="module")
def terms(site) -> list[str]:
    return [heading.get_text().removesuffix("¶") for heading in article(site, GLOSSARY).select("h2")]


def unlinked(page, known: list[str]) -> dict[str, str]:
    """The terms that a page first uses without a link to the glossary, each with the words around it."""
    for part in page.select(NO_PROSE):
        part.decompose()
    prose = [text for text in page.find_all(string=True) if text.find_parent(["p", "li", "td"])]
    found = {}
    for term in known:
        longer = [other for other in known if term.lower() in other.lower() and other != term]
        other_terms = re.compile("|".join(map(re.escape, longer)) or "(?!)", re.I)  # "block" in "thread block"
        use = re.compile(rf"(?<![\w-]){re.escape(term)}s?(?![\w-])", re.I)
        for text in prose:
            link = text.find_parent("a")
            if link and "glossary/#" not in link["href"]:
                continue  # the text of a link to another page
            if match := use.search(other_terms.sub("", text)):
                if not link:
                    found[term] = text[max(0, match.start() - 40) : match.end() + 40]
                break
    return found


@pytest.mark.parametrize("address", sorted(set(SOURCES) - {GLOSSARY}))
def test_a_term_is_linked_where_it_first_appears(site, terms, address):
    assert unlinked(article(site, address), terms) == {}


def test_the_glossary_is_in_order(terms):
    assert terms == sorted(terms, key=str.lower)


def test_a_term_without_a_link_is_found():
    known = ["Block", "Thread block"]
    page = '<p>A <a href="x">block</a> is a block and <a href="../glossary/#block">blocks</a>; one thread block.</p>'
    assert unlinked(BeautifulSoup(page, "html.parser"), known).keys() == {"Block", "Thread block"}
    page = '<p>A <a href="../glossary/#thread-block">thread block</a>.</p><h2>Block</h2><pre>block</pre>'
    assert unlinked(BeautifulSoup(page, "html.parser"), known) == {}
