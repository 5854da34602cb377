# SPDX-License-Identifier: Apache-2.0
"""Judge the site that a generator built: each page is there with its figures and claims, and no link is dead."""

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from render.config import address, config, docs, nav
from render.fences import at_first, claims_in, count_claimed, count_drawn, recordings_in
from render.gates.hosts import other_hosts
from render.labs import SHOWN, code_cells, is_lab, markdown_of

NO_PAGE = ("http:", "https:", "mailto:", "data:", "//")
LINKING = ("a", "link", "img", "script", "source")
BUTTON = 'class="md-button download"'  # of the view `download`


def problems(site: Path) -> list[str]:
    """Return a line for each fault of a built site."""
    faults = [f"{place} is of another host" for place in other_hosts(site)]
    for page in nav():
        file = site / address(page) / "index.html"
        if not file.is_file():
            faults.append(f"{page}: the menu names it, and it was not built: {file} is not there")
        else:
            faults += [f"{page}: {fault}" for fault in _losses(page, file.read_text("utf-8"))]
    return faults + dead_links(site)


def _losses(page: str, html: str) -> list[str]:
    """Return the kinds of figures, claims and cells that the built page lacks or has too many of."""
    text, html, lab = (docs() / page).read_text("utf-8"), at_first(html), is_lab(page)
    lines = (markdown_of(text) if lab else text).splitlines()
    ours = ("exercise", "exercises", "caught", "ledger", "modeled", "unmodeled", "path", "route")
    figures = count_drawn(html) + sum(f'class="{view}"' in html for view in ours)
    figures += html.count(BUTTON) + html.count('class="emblem"')
    parts = {
        "recordings": (len(recordings_in(lines)), figures),
        "claims": (len(claims_in(lines)), count_claimed(html)),
        "cells of code": (len(code_cells(text)) if lab else 0, html.count(SHOWN)),
    }
    return [f"{a} {what}, {b} of them on the built page" for what, (a, b) in parts.items() if b != a]


def dead_links(site: Path) -> list[str]:
    """Return links and pictures that lead nowhere within the site, and names that two places of a page have."""
    faults, ids, links = [], {}, []
    base = urlsplit(config().get("site_url") or "").path
    for file in sorted(site.rglob("*.html")):
        page = _Places(_bare(file.read_text("utf-8")))
        ids[file] = page.names
        faults += [f"{file.relative_to(site)}: two places are called {id}" for id, n in page.ids.items() if n > 1]
        links += [(file, link) for link in page.links]
    for file, link in dict.fromkeys(links):
        scheme = re.match("[a-z.+-]+:|//", re.sub(r"[\x00-\x20]", "", link).lower())  # as a browser reads it
        if scheme:
            if scheme[0] not in NO_PAGE:
                faults.append(f"{file.relative_to(site)}: {link[:60]!r} is no address")
            continue
        target, fragment = urlsplit(link).path, unquote(urlsplit(link).fragment)
        if not target:
            path = file
        elif file.name == "404.html" or target.startswith("/"):  # from the root of the host
            path = site / unquote(target).removeprefix(base or "/").lstrip("/")
        else:
            path = (file.parent / unquote(target)).resolve()
        path = path / "index.html" if path.is_dir() else path
        if not path.is_file():
            faults.append(f"{file.relative_to(site)}: the link to {link} leads nowhere")
        elif fragment and not fragment.startswith("__") and fragment not in ids.get(path.resolve(), [fragment]):
            faults.append(f"{file.relative_to(site)}: {link} names a place that is not there")
    return faults


class _Places(HTMLParser):
    """A parser that collects what a link can lead to, and the links. It builds no tree, which took most of the time."""

    def __init__(self, html: str):
        super().__init__()
        self.names, self.ids, self.links = set(), Counter(), []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.names.update(filter(None, (given.get("id"), given.get("name"))))
        if given.get("id") and tag != "i":  # which stands for a part that is left out
            self.ids[given["id"]] += 1
        if tag in LINKING:
            self.links += filter(None, (given.get("href"), given.get("src")))


def _bare(html: str) -> str:
    """Return a page without the parts that take long to parse and hold no link."""
    return re.sub("<(svg|pre|style|template)\\b[^>]*>.*?</\\1>", _with_ids, html, flags=re.S)


def _with_ids(match: re.Match) -> str:
    """Return empty elements with the ids of a part that is left out."""
    return "".join(f'<i id="{name}"></i>' for name in re.findall(r'\bid="([^"]+)"', match[0]))
