# SPDX-License-Identifier: Apache-2.0
"""The search plugin reads pages without colored code, exercises and sources. What readers get stays."""

from types import SimpleNamespace

from render import search

CONTENT = (
    '<p>Words.</p><div class="highlight"><pre><span></span>x = 1\n</pre></div><pre class="stage stage--ptx">add</pre>'
    '<pre class="output" tabindex="0">an error</pre>'
)


def page():
    return SimpleNamespace(url="a/", content=CONTENT)


def test_code_is_left_out_while_the_plugin_reads_and_comes_back():
    lesson = page()
    before, after = search.on_page_context.methods
    before({}, page=lesson)
    assert lesson.content == (
        '<p>Words.</p><div class="highlight"></div><pre class="output" tabindex="0">an error</pre>'
    )
    after({}, page=lesson)
    assert lesson.content == CONTENT


def test_exercises_and_sources_are_left_out_and_what_follows_them_stays():
    lesson = page()
    asides = "".join(f'<h2 id="{name}">N</h2><p>n</p>' for name in ("try-it", "next", "sources", "the-whole-files"))
    lesson.content = whole = f'<h2 id="measured">M</h2><p>m</p>{asides}<h2 id="more">O</h2><p>o</p>'
    before, after = search.on_page_context.methods
    before({}, page=lesson)
    assert lesson.content == '<h2 id="measured">M</h2><p>m</p><h2 id="more">O</h2><p>o</p>'
    after({}, page=lesson)
    assert lesson.content == whole
