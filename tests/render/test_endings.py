# SPDX-License-Identifier: Apache-2.0
"""A lesson's sources, doubts and files are one fold right before *Next*; nothing of a page is lost or moved."""

import pytest
from bs4 import BeautifulSoup

from render.endings import with_fold

TRY = '<h2 id="try-it">Try it</h2>\n<p>Do.</p>\n<details class="tip"><summary>Answer</summary><p>7</p></details>\n'
DOUBTS = '<details class="info">\n<summary>How sure is this?</summary>\n<p>Very.</p>\n'
DOUBTS += "<details><summary>In</summary></details></details>\n"
SOURCES = '<h2 id="sources">Sources</h2>\n<ul><li>One</li></ul>\n'
FILES = '<h2 id="the-whole-files">Files</h2>\n'
FILES += '<div class="recording recording--file" id="file-a"><details></details></div>\n'
NEXT = '<h2 id="next">Next</h2>\n<p>On.</p>'


def folded(*parts):
    text = "".join(parts)
    return text, BeautifulSoup(with_fold(text), "html.parser").select_one("details.behind")


@pytest.mark.parametrize("parts, said", [
    ((DOUBTS, SOURCES, FILES), "Sources, how sure it is and the whole files"),
    ((SOURCES, DOUBTS, FILES), "Sources, how sure it is and the whole files"),
    ((SOURCES, FILES), "Sources and the whole files"),
    ((DOUBTS, FILES), "How sure it is and the whole files"),
    ((FILES,), "The whole files"),
])  # fmt: skip
def test_what_stands_before_next_is_one_fold(parts, said):
    fold = folded(TRY, *parts, NEXT)[1]
    assert fold.summary.text == said
    fold.summary.decompose()
    assert fold.decode_contents().strip() == str(BeautifulSoup("".join(parts), "html.parser")).strip()
    assert fold.find_next_sibling().get("id") == "next" and not fold.select("#next, .tip, #try-it")


@pytest.mark.parametrize("parts", [
    (TRY, SOURCES, FILES),  # a note, which has no part Next
    (TRY, NEXT),
    (SOURCES, TRY, NEXT),  # sources in the middle
])  # fmt: skip
def test_other_pages_stay_as_they_are(parts):
    text, fold = folded(*parts)
    assert fold is None and with_fold(text) == text
