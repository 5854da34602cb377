# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs: what the search plugin need not read of a page.

- Code, of which it leaves out most anyway: reading all those colored spans took a quarter of the time of a build.
- Recordings that it is told to leave out: it reads their tables and pictures nonetheless, element by element.
- Exercises and their answers, links to what comes next, and sources: who searches for a word wants the lesson. They
  would be a sixth of an index that every reader who searches must load.
"""

import json
import re
from pathlib import Path

from mkdocs.plugins import CombinedEvent, event_priority

CODE = re.compile(r'<pre( class="stage[^>]*)?>.*?</pre>', re.DOTALL)  # errors, <pre class="output">, can be searched
EXCLUDED = re.compile(r'<(figure|figcaption|details) [^>]*data-search-exclude[^>]*>.*?</\1>', re.DOTALL)
ASIDE = re.compile(r'<h2 id="(?:try-it|next|sources|the-whole-files?)">.*?(?=<h2 |\Z)', re.DOTALL)
whole = {}


@event_priority(50)  # before the search plugin
def without_code(context, page, **_):
    whole[page.url] = page.content
    for pattern in (CODE, EXCLUDED, ASIDE):
        page.content = pattern.sub("", page.content)
    return context


@event_priority(-50)  # and after it
def with_code(context, page, **_):
    page.content = whole.pop(page.url)
    return context


on_page_context = CombinedEvent(without_code, with_code)


@event_priority(-50)  # after the search plugin has written it
def on_post_build(config, **_):
    """Part the index: every page fetches its settings, and only who searches, its documents."""
    index = Path(config.site_dir, "search", "search_index.json")
    if not index.is_file():  # the plugin is off
        return
    everything = json.loads(index.read_text("utf-8"))
    documents = json.dumps(everything["docs"], ensure_ascii=False, separators=(",", ":"))
    index.with_name("documents.json").write_text(documents, "utf-8")
    index.write_text(json.dumps(everything | {"docs": []}), "utf-8")
