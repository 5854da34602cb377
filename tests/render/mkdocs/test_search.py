# SPDX-License-Identifier: Apache-2.0
"""The search plugin reads pages without code, exercises and sources, but with their names and error messages."""

import json
from types import SimpleNamespace

from render.mkdocs import search

CONTENT = (
    '<p>Words.</p><div class="highlight"><pre><span></span>x = 1\n</pre></div><pre class="stage stage--ptx">add</pre>'
    '<pre class="output" tabindex="0">an error</pre>'
)


def page(content=CONTENT, **meta):
    return SimpleNamespace(url="programs/a/", title="A lesson", meta=meta, content=content)


def read_by_the_plugin(content):
    lesson = page(content)
    search.on_page_context.methods[0]({}, page=lesson)
    return lesson.content


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


def test_names_in_code_can_be_searched():
    lines = "<b>tl</b>.load(x_ptr, mask=m)", "y = tl.load(BLOCK_SIZE)", "@triton.jit", "TensorDescriptor(x)"
    code = f"<pre>{chr(10).join(lines)}</pre>"
    assert read_by_the_plugin(code) == "<p>tl.load x_ptr BLOCK_SIZE @triton.jit TensorDescriptor</p>"


def test_errors_in_recordings_can_be_searched():
    lines = "sum: 3\n<span>ValueError: too <b>large</b></span>\nan error, 5 %\nValueError: too large"
    figure = f'<figure class="recording" data-search-exclude><pre class="output">{lines}</pre></figure>'
    assert read_by_the_plugin(figure) == "<p>ValueError: too large</p>"


def test_figures_are_left_out_where_they_say_so():
    lesson = page()
    shown = '<figure class="recording"><p>errors</p></figure>'
    lesson.content = f'<p>a</p><figure class="recording" data-search-exclude><p>b</p></figure>{shown}'
    search.on_page_context.methods[0]({}, page=lesson)
    assert lesson.content == f"<p>a</p>{shown}"


def test_every_page_fetches_only_the_settings_of_the_search(tmp_path):
    search.on_page_context.methods[0]({}, page=page(keywords="other words"))
    places = "programs/a/", "programs/a/#b", "notes/c/", ""
    parts = [{"location": at, "text": "größer", "title": "A"} for at in places]
    whole = {"config": {"lang": ["en"], "fields": {"title": {"boost": 1000.0}}}, "docs": parts}
    (tmp_path / "search").mkdir()
    index = tmp_path / "search/search_index.json"
    index.write_text(json.dumps(whole), "utf-8")
    search.on_post_build(SimpleNamespace(site_dir=str(tmp_path)))
    settings = json.loads(index.read_text("utf-8"))
    assert settings["docs"] == [] and settings["config"]["lang"] == ["en"]
    assert settings["config"]["fields"].keys() == {"title", "page", "text", "tags"}
    lesson, section, note, home = json.loads((tmp_path / "search/documents.json").read_text("utf-8"))
    assert lesson["page"] == section["page"] == "A lesson other words" and note["page"] == ""
    assert lesson["text"] == "größer" and lesson["boost"] > section["boost"] > home["boost"]
    assert lesson["boost"] > note["boost"]


def test_a_site_without_a_search_can_be_built(tmp_path):
    search.on_post_build(SimpleNamespace(site_dir=str(tmp_path)))
    assert not list(tmp_path.iterdir())
