# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs that chooses what the search plugin reads of a page, and how much a word in it counts.

Left out are:

- Code: reading all those colored spans took a quarter of the time of a build. In its place stand the names in it that a
  reader may look for, such as ``tl.device_print``; and in that of a recording, its lines that report an error.
- The text of drawings, labels without the lines and boxes that part them: "6 stepsanother tile".
- Recordings that it is told to leave out: it reads their tables and pictures nonetheless, element by element.
- Exercises and their answers, links to what comes next, and sources: who searches for a word wants the lesson. They
  would be a sixth of an index that every reader who searches must load. Of an exercise's own page, what it has like all
  others: how to run its file, and numbers.

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
BEHIND = re.compile(r'<details class="behind"><summary>.*?</summary>')  # it begins in the part before
DRAWING = re.compile(r'<(svg)[ >]|<(div) class="(?:room|exercise__picture)\b')
ASIDE = re.compile(r'<h2 id="(?:try-it|next|sources|the-whole-files?)">.*?(?=<h2 |\Z)', re.DOTALL)
SAME = re.compile(r'<h2 id="(?:for-example|the-file|hints|a-solution|what-the-coach-says)">.*?(?=<h2 |\Z)', re.DOTALL)
TAG = re.compile("<[^>]*>")
NAME = re.compile(r"@?\b(?:(?:tl|triton|torch)\.[\w.]+|[A-Z]+_[A-Z_]+|[a-z]\w*_\w+|[A-Z][a-z]+[A-Z]\w*)\b")
ERROR = re.compile(r"^.*\b\w*(?:[Ee]rror|Warning|error):? .*$", re.M)
BOOSTS = {"title": 10.0, "page": 6.0, "text": 1.0, "tags": 1.0}  # Material's thousand for a title would drown the text
NUMBER = re.compile(r"^(\d+)\. ")  # of a lesson, in the menu
LESSON, WHOLE = 1.6, 1.5
KINDS = {"": 0.4, "notes": 1.0, "practice": 0.6, "reference": 1.2, "models": 1.2, "below": 1.2}
order, parts = [], {}  # of pages, by address: the menu's, and what a result says of where in the course it is
whole, called, keywords = {}, {}, {}  # by address: a page's content; its title and words for it; those it does not use
about = {}  # and its description, which a result shows


def on_nav(nav, **_):
    order[:] = [page.url for page in nav.pages]
    parts.clear()
    for page in nav.pages:
        parts[page.url] = part_of(page.title or "", [above.title for above in page.ancestors])


def part_of(title: str, above: list[str]) -> str:
    """Return what a result says of where in the course a page is, by its title in the menu and what it is below there.

    >>> part_of("6. Softmax", ["Programs", "Learn"]), part_of("", ["In PyTorch", "Learn"]), part_of("", ["Learn"])
    ('Lesson 6', 'In PyTorch', '')
    >>> part_of("Add two vectors", ["Programs", "Practice"]), part_of("Playground", ["Practice"]), part_of("Home", [])
    ('Exercise', 'Practice', '')
    """
    if number := NUMBER.match(title):
        return f"Lesson {number[1]}"
    match above:
        case [*_, ("Notes" | "Reference") as part]:
            return part.removesuffix("s")
        case ["Practice"]:
            return "Practice"
        case [_, "Practice"]:
            return "Exercise"
        case [chapter, _]:
            return chapter
    return ""


@event_priority(50)  # before the search plugin
def without_code(context, page, **_):
    whole[page.url] = page.content
    kind = "exercise" if page.url.startswith("practice/") else ""  # which their own pages need not say
    if parts.get(page.url, "").startswith("Lesson"):
        kind = "lesson"
    keywords[page.url] = page.meta.get("keywords", "")
    about[page.url] = page.meta.get("description", "")
    called[page.url] = f"{page.title} {keywords[page.url]} {kind}".rstrip()
    page.content = ASIDE.sub("", BEHIND.sub("", page.content))
    if parts.get(page.url) == "Exercise":
        page.content = SAME.sub("", page.content)
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
    """Part the index: every page fetches its settings, and only who searches, its documents."""
    index = Path(config.site_dir, "search", "search_index.json")
    if not index.is_file():  # the plugin is off
        return
    everything = json.loads(index.read_text("utf-8"))
    documents = with_heads(everything["docs"])
    pages = sorted((each["location"] for each in documents if "#" not in each["location"]), key=lessons_first)
    for document in documents:
        location, _, section = document["location"].partition("#")
        document["page"] = called.get(location, "")
        document["boost"] = weight(document["location"])
        if not section:
            document |= {"turn": pages.index(location), "part": parts.get(location, "")}
            document |= {"keywords": keywords.get(location, ""), "about": about.get(location, "")}
    index.with_name("documents.json").write_text(
        json.dumps(documents, ensure_ascii=False, separators=(",", ":")), "utf-8"
    )
    everything["config"]["fields"] = {name: {"boost": boost} for name, boost in BOOSTS.items()}
    index.write_text(json.dumps(everything | {"docs": []}), "utf-8")


def with_heads(documents: list[dict]) -> list[dict]:
    """Return the documents without numbers in titles, and pages with the text below their title, which the plugin takes
    for a section of the same name.

    >>> page, section = {"location": "a/", "title": "2. A", "text": ""}, {"location": "a/#a", "title": "A", "text": "t"}
    >>> with_heads([page, section, {"location": "a/#b", "title": "B", "text": "u"}])[:1]
    [{'location': 'a/', 'title': 'A', 'text': 't'}]
    """
    held = []
    for document in documents:
        document = document | ({} if "#" in document["location"] else {"title": NUMBER.sub("", document["title"])})
        page = held[-1] if held else {"location": None, "title": None}
        same = TAG.sub("", document["title"]) == page["title"]
        if same and not page["text"] and document["location"].startswith(f"{page['location']}#"):
            page["text"] = document["text"]
        else:
            held.append(document)
    return held


def lessons_first(location: str) -> tuple[float, int]:
    """Return what pages that are called alike are sorted by: their kind, and their place in the menu."""
    return -KINDS.get(location.partition("/")[0], LESSON), order.index(location) if location in order else len(order)


def weight(location: str) -> float:
    """Return how much a part of a page counts: a page more than its sections, a lesson more than a note."""
    page, _, section = location.partition("#")
    kind = page.partition("/")[0]
    return KINDS.get(kind, LESSON) * (1 if section else WHOLE)
