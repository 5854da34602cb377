# SPDX-License-Identifier: Apache-2.0
"""axe finds what is new on a page, though it is shown one of each look and of each kind of block."""

import pytest

from tests.accessibility import Seen, assert_accessible

PAGE = """<!doctype html><html lang="en"><title>Page</title><style>
body { color: #111; background: #fff } [data-md-color-scheme=slate] { color: #eee; background: #111 } %s
a { color: inherit }
</style><main><article><h1>Page</h1>%s</article></main>"""
SOUND = '<p>A <a href="#a">link</a>, a <button>button</button>.</p><p><img alt="one" src="data:,"></p>'


@pytest.fixture
def page(browser):
    with browser.new_context() as context:
        yield context.new_page()


@pytest.mark.parametrize(
    ("style", "article", "rule"),
    [
        ("", '<p><img src="data:,"></p>', "image-alt"),
        ("", '<p>A <a href="#a"></a>, a <button>button</button>.</p>', "link-name"),
        ("", "<h4>Below</h4>", "heading-order"),
        ("p { color: #bbb }", "", "color-contrast"),
        ("[data-md-color-scheme=slate] p { color: #333 }", "", "color-contrast"),
        ("button { width: 12px; height: 12px; padding: 0 }", 3 * "<button>b</button>", "target-size"),
    ],
)
def test_what_is_wrong_is_found_also_after_a_sound_page(page, style, article, rule):
    seen = Seen()
    for sound in (SOUND, SOUND.replace("link", "another")):
        page.set_content(PAGE % ("", sound))
        assert_accessible(page, seen)
    assert not page.locator("article p").count(), "what is like a block of the page before is left out"
    page.set_content(PAGE % (style, SOUND + article))
    with pytest.raises(AssertionError, match=rule):
        assert_accessible(page, seen)
