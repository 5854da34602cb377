# SPDX-License-Identifier: Apache-2.0
"""The search plugin reads pages without colored code, exercises and sources. What readers get stays."""

import json
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


def test_figures_are_left_out_where_they_say_so():
    lesson = page()
    shown = '<figure class="recording"><p>errors</p></figure>'
    lesson.content = f'<p>a</p><figure class="recording" data-search-exclude><p>b</p></figure>{shown}'
    search.on_page_context.methods[0]({}, page=lesson)
    assert lesson.content == f"<p>a</p>{shown}"


def test_every_page_fetches_only_the_settings_of_the_search(tmp_path):
    whole = {"config": {"lang": ["en"]}, "docs": [{"location": "", "text": "größer", "title": "A"}]}
    (tmp_path / "search").mkdir()
    index = tmp_path / "search/search_index.json"
    index.write_text(json.dumps(whole), "utf-8")
    search.on_post_build(SimpleNamespace(site_dir=str(tmp_path)))
    assert json.loads(index.read_text("utf-8")) == whole | {"docs": []}
    assert json.loads((tmp_path / "search/documents.json").read_text("utf-8")) == whole["docs"]


def test_a_site_without_a_search_can_be_built(tmp_path):
    search.on_post_build(SimpleNamespace(site_dir=str(tmp_path)))
    assert not list(tmp_path.iterdir())
