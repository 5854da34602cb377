# SPDX-License-Identifier: Apache-2.0
"""Finds terms of the glossary that a page first uses without a link, and terms out of order."""

import re

from bs4 import BeautifulSoup

GLOSSARY = "reference/glossary.md"
NO_PROSE = "h1, h2, h3, h4, pre, code, figure, details, svg"
NO_PROSE += ", .exercises__goal, .page-head, .page-origin, .recording, .table-scroll--words, .tabbed-labels"


def terms(html: str) -> list[str]:
    """Return the headings of the glossary."""
    return [heading.get_text().removesuffix("¶") for heading in BeautifulSoup(html, "html.parser").select("h2")]


def misplaced(known: list[str]) -> list[str]:
    """Return the terms that do not stand where the alphabet puts them."""
    ordered = sorted(known, key=str.lower)
    return [term for term, other in zip(known, ordered, strict=True) if term != other]


def prose_of(html: str) -> BeautifulSoup:
    """Return a page without its code, pictures and headings."""
    # Most of a page, which would be read for nothing.
    text = re.sub(r"<(svg|pre|style|script|template)\b.*?</\1>", "", html, flags=re.S)
    page = BeautifulSoup(text, "html.parser")
    for part in page.select(NO_PROSE):
        part.decompose()
    return page


def unlinked(page: BeautifulSoup, known: list[str]) -> dict[str, str]:
    """Return the terms that a page first uses without a link to the glossary, each with the words around it."""
    texts = [text for text in page.find_all(string=True) if text.find_parent(["p", "li", "td"])]
    strings = [(text, text.find_parent("a")) for text in texts]
    # The text of a link to another page is no use.
    strings = [(str(text), link) for text, link in strings if not link or "glossary" in link.get("href", "")]
    whole = "\n".join(text for text, _ in strings).lower()
    uses = {}
    for term in known:
        if term.lower() not in whole:
            continue
        longer = [other for other in known if term.lower() in other.lower() and other != term]
        other_terms = re.compile("|".join(map(re.escape, longer)) or "(?!)", re.I)  # "block" in "thread block"
        use = re.compile(rf"(?<![\w-]){re.escape(term)}s?(?![\w-])", re.I)
        for text, link in strings:
            if match := use.search(other_terms.sub("", text)):
                if not link:
                    uses[term] = " ".join(text[max(0, match.start() - 40) : match.end() + 40].split())
                break
    return uses
