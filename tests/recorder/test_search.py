# SPDX-License-Identifier: Apache-2.0
"""The search plugin reads pages without colored code; what readers get, and what can be searched, stays."""

from types import SimpleNamespace

from recorder import search

CONTENT = (
    '<p>Words.</p><div class="highlight"><pre><span></span>x = 1\n</pre></div><pre class="stage stage--ptx">add</pre>'
    '<pre class="output" tabindex="0">an error</pre>'
)


def page(source):
    return SimpleNamespace(url="a/", content=CONTENT, file=SimpleNamespace(src_uri=source))


def test_code_is_left_out_while_the_plugin_reads_and_comes_back():
    lesson = page("programs/a.md")
    before, after = search.on_page_context.methods
    before({}, page=lesson)
    assert lesson.content == (
        '<p>Words.</p><div class="highlight"></div><pre class="output" tabindex="0">an error</pre>'
    )
    after({}, page=lesson)
    assert lesson.content == CONTENT


def test_code_of_labs_stays():
    lab = page("programs/a.ipynb")
    before, after = search.on_page_context.methods
    before({}, page=lab)
    assert lab.content == CONTENT
    after({}, page=lab)
    assert lab.content == CONTENT
