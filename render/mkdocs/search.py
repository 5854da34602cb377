# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs that chooses what the search plugin reads of a page, and how much a word in it counts.

Left out are:

- Code: reading all those colored spans took a quarter of the time of a build. In its place stand the names in it that a
  reader may look for, such as ``tl.device_print``; and in that of a recording, its lines that report an error.
- The text of drawings, labels without the lines and boxes that part them: "6 stepsanother tile".
- Recordings that it is told to leave out: it reads their tables and pictures nonetheless, element by element.
- Exercises and their answers, links to what comes next, and sources: who searches for a word wants the lesson. They
  would be a sixth of an index that every reader who searches must load.

A page found by words that it does not use has them as ``keywords:`` in its settings; a query that is one of them finds
it among the first. How a query is put is in
``theme/assets/javascripts/workers/search-when-wanted.js``; ``tests/site/queries.toml`` says what must be found.
"""

import json
import re
from pathlib import Path

from mkdocs.plugins import CombinedEvent, event_priority

CODE = re.compile(r'<pre( class="stage[^>]*)?>.*?</pre>', re.DOTALL)  # errors, <pre class="output">, can be searched
EXCLUDED = re.compile(r"<(figure|figcaption|details) [^>]*data-search-exclude[^>]*>.*?</\1>", re.DOTALL)
DRAWING = re.compile(r'<(svg)[ >]|<(div) class="(?:room|exercise__picture)\b')
ASIDE = re.compile(r'<h2 id="(?:try-it|next|sources|the-whole-files?)">.*?(?=<h2 |\Z)', re.DOTALL)
TAG = re.compile("<[^>]*>")
NAME = re.compile(r"@?\b(?:(?:tl|triton|torch)\.[\w.]+|[A-Z]+_[A-Z_]+|[a-z]\w*_\w+|[A-Z][a-z]+[A-Z]\w*)\b")
ERROR = re.compile(r"^.*\b\w*(?:[Ee]rror|Warning|error):? .*$", re.M)
BOOSTS = {"title": 10.0, "page": 6.0, "text": 1.0, "tags": 1.0}  # Material's thousand for a title would drown the text
LESSON, WHOLE = 1.6, 1.5
KINDS = {"": 0.4, "notes": 1.0, "practice": 0.6, "reference": 1.2}
order = []  # of pages, by address, in the menu
whole, called, keywords = {}, {}, {}  # by address: a page's content; its title and words for it; those it does not use


def on_nav(nav, **_):
    order[:] = [page.url for page in nav.pages]


@event_priority(50)  # before the search plugin
def without_code(context, page, **_):
    whole[page.url] = page.content
    kind = " exercise" if page.url.startswith("practice/") else ""  # which their own pages need not say
    keywords[page.url] = page.meta.get("keywords", "")
    called[page.url] = f"{page.title} {keywords[page.url]}{kind}"
    page.content = ASIDE.sub("", page.content)
    page.content = EXCLUDED.sub(errors_in, page.content)
    page.content = CODE.sub(names_in, page.content)
    page.content = without_drawings(page.content)
    return context


def without_drawings(html: str) -> str:
    """Return a page without its drawings. They have elements of their own kind within, at which the plugin would stop.

    >>> without_drawings('<p>a</p><svg ><svg >6 steps</svg>another</svg><div class="room"><div>7</div></div>b')
    '<p>a</p>b'
    """
    parts, end = [], 0
    for drawing in DRAWING.finditer(html):
        if drawing.start() < end:  # within another
            continue
        parts.append(html[end : drawing.start()])
        depth = 0
        for tag in re.compile(rf"<(/?){drawing[1] or drawing[2]}\b").finditer(html, drawing.start()):
            depth += -1 if tag[1] else 1
            if not depth:
                break
        end = html.index(">", tag.end()) + 1
    return "".join([*parts, html[end:]])


def names_in(code: re.Match) -> str:
    """Return the names of an interface in a listing, each once."""
    names = dict.fromkeys(NAME.findall(TAG.sub("", code[0])))
    return f"<p>{' '.join(names)}</p>" if names else ""


def errors_in(recording: re.Match) -> str:
    """Return the lines of a recording that report an error."""
    lines = dict.fromkeys(ERROR.findall(TAG.sub("", recording[0])))
    return f"<p>{'<br>'.join(lines)}</p>" if lines else ""


@event_priority(-50)  # and after it
def with_code(context, page, **_):
    page.content = whole.pop(page.url)
    return context


on_page_context = CombinedEvent(without_code, with_code)


@event_priority(-50)  # after the search plugin has written it
def on_post_build(config, **_):
    """Part the index: every page fetches its settings, and only who searches, its titles and its documents."""
    index = Path(config.site_dir, "search", "search_index.json")
    if not index.is_file():  # the plugin is off
        return
    everything = json.loads(index.read_text("utf-8"))
    for document in everything["docs"]:
        document["page"] = called.get(document["location"].partition("#")[0], "")
        document["boost"] = weight(document["location"])
    titles = [
        [each["location"], each["title"], *filter(None, [keywords.get(each["location"])])]
        for each in everything["docs"]
        if called_so(each["location"])
    ]
    titles.sort(key=lambda title: lessons_first(title[0]))
    for name, held in {"documents.json": everything["docs"], "titles.json": titles}.items():
        index.with_name(name).write_text(json.dumps(held, ensure_ascii=False, separators=(",", ":")), "utf-8")
    everything["config"]["fields"] = {name: {"boost": boost} for name, boost in BOOSTS.items()}
    index.write_text(json.dumps(everything | {"docs": []}), "utf-8")


def called_so(location: str) -> bool:
    """Return whether a title is an answer before the text is there: a page's, an error's, or a term's."""
    page, _, section = location.partition("#")
    return not section or page in ("reference/errors/", "reference/glossary/")


def lessons_first(location: str) -> tuple[float, int]:
    """Return what titles are sorted by: the kind of their page, and its place in the menu."""
    page = location.partition("#")[0]
    return -KINDS.get(page.partition("/")[0], LESSON), order.index(page) if page in order else len(order)


def weight(location: str) -> float:
    """Return how much a part of a page counts: a page more than its sections, a lesson more than a note."""
    page, _, section = location.partition("#")
    kind = page.partition("/")[0]
    return KINDS.get(kind, LESSON) * (1 if section else WHOLE)
