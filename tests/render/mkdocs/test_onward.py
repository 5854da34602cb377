# SPDX-License-Identifier: Apache-2.0
"""What a lesson says of the next one becomes the card that leads there, and nothing of the page is lost."""

from types import SimpleNamespace

import jinja2
import pytest

from render.mkdocs import onward

BEFORE, AFTER = "<p>Read.</p>\n", "\n<p>Go deeper:</p>\n<script>1</script>"
HEADING = '<h2 id="next">Next<a href="#next">¶</a></h2>'
SAID = '\n<p><a href="../next/">The next</a>: what <a href="../x/">it</a> asks.</p>'


@pytest.fixture(autouse=True)
def theme():
    loader = jinja2.DictLoader({"partials/onward.html": "\n<nav>{{ said | replace(to_next, '<a id=card') }}</nav>\n"})
    env = jinja2.Environment(loader=loader)
    env.filters["url"] = lambda address: f"../{address}"
    onward.on_env(env)
    yield
    onward.templates = None


def changed(content: str, following="next/") -> str:
    page = SimpleNamespace(content=content, next_page=following and SimpleNamespace(url=following))
    onward.on_page_context({"page": page}, page=page)
    return page.content


def test_the_sentence_becomes_the_card():
    card = "\n<nav>" + SAID.replace('<a href="../next/"', "<a id=card") + "</nav>"
    assert changed(BEFORE + HEADING + SAID + AFTER) == BEFORE + HEADING + card + AFTER


@pytest.mark.parametrize("content, following", [
    (BEFORE + HEADING + SAID + AFTER, None),  # the last page
    (BEFORE + HEADING + SAID + AFTER, "another/"),  # it speaks of another page
    (BEFORE + SAID + AFTER, "next/"),  # a note, without such a part
])  # fmt: skip
def test_any_other_page_stays_as_it_is(content, following):
    assert changed(content, following) == content
