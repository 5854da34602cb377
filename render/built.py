# SPDX-License-Identifier: Apache-2.0
"""Judge what a generator made of the pages: whether each is there, with its figures; and that no link is dead."""

import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup, SoupStrainer

from render.config import address, config, docs, nav
from render.extension import LANGUAGE, fences

NO_PAGE = ("http:", "https:", "mailto:", "data:", "javascript:", "blob:")


def problems(site: Path) -> list[str]:
    """What is wrong with a built site, a line each."""
    found, built = [], {}
    for page in nav():
        file = site / address(page) / "index.html"
        if not file.is_file():
            found.append(f"{page}: the menu names it, and it was not built: {file} is not there")
            continue
        built[page] = file.read_text("utf-8")
        found += [f"{page}: {fault}" for fault in _losses(page, built[page])]
    return found + dead_links(site)


def _losses(page: str, html: str) -> list[str]:
    """Figures, claims and cells that the page has and the built one has not."""
    path = docs() / page
    if page.endswith(".ipynb"):
        wanted = sum(cell["cell_type"] == "code" for cell in json.loads(path.read_text("utf-8"))["cells"])
        shown = html.count("jp-InputArea")
        return [f"{wanted} cells of code, {shown} of them on the built page"] if shown < wanted else []
    text = path.read_text("utf-8")
    wanted = sum(LANGUAGE.match(info)["language"] == "recording" for _, info in fences(text.splitlines()))
    shown = len(re.findall(r'class="(?:recording|recording recording--file|ledger)"', html))
    found = [f"{wanted} recordings, {shown} of them on the built page"] if shown < wanted else []
    wanted, shown = len(re.findall(r"\{\{.+?\}\}", text, re.S)), len(re.findall(r'<data class="claim', html))
    return found + ([f"{wanted} claims, {shown} of them on the built page"] if shown < wanted else [])


def dead_links(site: Path) -> list[str]:
    """Links and pictures that lead nowhere within the site, also in raw HTML."""
    ids, links = {}, []
    base = urlsplit(config().get("site_url") or "").path
    for file in sorted(site.rglob("*.html")):
        page = BeautifulSoup(_bare(file.read_text("utf-8")), "html.parser", parse_only=SoupStrainer(True))
        ids[file] = {tag[key] for tag in page.find_all(True) for key in ("id", "name") if tag.get(key)}
        for tag in page.find_all(["a", "link", "img", "script", "source"]):
            links += [(file, tag[key]) for key in ("href", "src") if tag.get(key)]
    found = []
    for file, link in dict.fromkeys(links):
        if link.startswith(NO_PAGE) or link.startswith("//"):
            if link.startswith("javascript:"):
                found.append(f"{file.relative_to(site)}: {link[:60]!r} is no address")
            continue
        target, fragment = urlsplit(link).path, unquote(urlsplit(link).fragment)
        if file.name == "404.html" or target.startswith("/"):  # from the root of the host
            path = site / unquote(target).removeprefix(base or "/").lstrip("/")
        else:
            path = (file.parent / unquote(target)).resolve() if target else file
        path = path / "index.html" if path.is_dir() else path
        if not path.is_file():
            found.append(f"{file.relative_to(site)}: the link to {link} leads nowhere")
        elif fragment and not fragment.startswith("__") and fragment not in ids.get(path.resolve(), [fragment]):
            found.append(f"{file.relative_to(site)}: {link} names a place that is not there")
    return found


def _bare(html: str) -> str:
    """A page without what takes long to read and holds no link."""
    return re.sub("<(svg|pre|style|template)\\b[^>]*>.*?</\\1>", _with_ids, html, flags=re.S)


def _with_ids(match: re.Match) -> str:
    """Of what is left out, only the ids."""
    return "".join(f'<i id="{name}"></i>' for name in re.findall(r'\bid="([^"]+)"', match[0]))
