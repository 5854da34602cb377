# SPDX-License-Identifier: Apache-2.0
"""Judge every page without a site generator: its fences, claims, sections, references and terms, and the menu."""

import json
import posixpath
import re

import yaml
from bs4 import BeautifulSoup
from markdown.extensions.toc import slugify

from recorder import judge
from recorder.project import RecorderError, relative
from render import terms
from render.config import address, converter, docs, nav, pages
from render.labs import markdown_of
from render.page import PageError

UNDONE = r"\[\^[\w-]+\]", r"\[[^\[\]\n]+\]\[[^\[\]\n]*\]", "<!--|-->"  # references, footnotes, comments
UNDONE += r"(?m)^(?:===|!!!?|\?\?\?)[!+]* ?\S.*$", r"\{:? ?[.#][\w-]+"  # tabs, admonitions, attributes


def problems() -> list[str]:
    """What is wrong with recordings, snippets and pages, a line each."""
    recorded = [str(problem) for problem in judge.all_problems()]
    found = recorded + menu_problems()
    try:
        html, faults = convert()
    except RecorderError as error:
        return [*found, str(error)]
    # What is wrong with a recording is said once, not at each of the places that show it.
    found += [fault for fault in faults if not fault.endswith(tuple(recorded))]
    known = terms.terms(html.get(terms.GLOSSARY, ""))
    for term in terms.misplaced(known):
        found.append(f"{_file(terms.GLOSSARY, f'## {term}')}: {term!r} is not where the alphabet puts it")
    for page, text in html.items():
        if (titles := text.count("<h1")) != 1:
            found.append(f"{_file(page)}: it has {titles} titles; a page has one, such as `# Title`")
        prose = terms.prose_of(text)
        found += [f"{_file(page, mark)}: Markdown makes nothing of {mark}" for mark in undone(prose)]
        if page != terms.GLOSSARY:
            found += sorted((_unlinked(page, *use) for use in terms.unlinked(prose, known).items()), key=_line)
        found += [f"{_file(page, line)}: unfinished: {line.strip()}" for line in _lines_to_do(page)]
    return list(dict.fromkeys(found))


def _file(page: str, words: str = "") -> str:
    """Where a page is written, with the line of some words if they stand there so."""
    path = docs() / page
    found = re.search(r"\s+".join(map(re.escape, words.split())), path.read_text("utf-8")) if words else None
    return relative(path) + (f":{found.string.count(chr(10), 0, found.start()) + 1}" if found else "")


def _unlinked(page: str, term: str, words: str) -> str:
    """What is said of the first use of a term without a link, with the link to write."""
    way = posixpath.relpath(terms.GLOSSARY, posixpath.dirname(page))
    mend = f"[{term.lower()}]({way}#{slugify(term, '-')})"
    return f"{_file(page, words)}: the first use of {term!r} is no link to the glossary: …{words}…; mend: {mend}"


def _line(fault: str) -> int:
    """The line that a message begins with, or 0."""
    found = re.match(r"[^:]+:(\d+): ", fault)
    return int(found[1]) if found else 0


def _lines_to_do(page: str) -> list[str]:
    """Lines that `recorder new` has left to be done, or whoever wrote so."""
    return [line for line in (docs() / page).read_text("utf-8").splitlines() if re.search(r"\bTODO\b", line)]


def menu_problems() -> list[str]:
    """Pages that the menu does not name, and names in it that are no page."""
    there, named = pages(), nav()
    found = [f"mkdocs.yml: the menu names {page}, which is no page" for page in named if page not in there]
    found += [f"{_file(page)}: the menu in mkdocs.yml does not name it" for page in there if page not in named]
    found += [f"mkdocs.yml: the menu names {page} twice" for page in dict.fromkeys(named) if named.count(page) > 1]
    known = (".md", ".ipynb", ".svg", ".png", ".jpg", ".webp")
    for path in sorted(docs().rglob("*")):
        if path.is_symlink() or (path.is_file() and path.suffix not in known):
            found.append(f"{relative(path)}: it is neither a page nor a picture, and would be part of the site")
    last = {address(page): page for page in there}
    found += [f"{_file(page)}: {last[address(page)]} has its address" for page in there if last[address(page)] != page]
    return found


def convert() -> tuple[dict[str, str], list[str]]:
    """The HTML of every page that can be converted, and what is wrong with the others."""
    html, faults, markdown = {}, [], converter()
    for page in pages():
        path = docs() / page
        try:
            text = path.read_text("utf-8")
            if page.endswith(".ipynb"):
                text = markdown_of(sound(json.loads(text)["cells"]))
            markdown.page_of_check = (path, page)
            html[page] = markdown.reset().convert(_without_front_matter(text))
        except PageError as error:
            faults += str(error).splitlines()
        except UnicodeDecodeError as error:
            faults.append(f"{_file(page)}: it is not UTF-8 ({error})")
        except Exception as error:  # of one page, which must not hide what is wrong with the others
            what = "it is no notebook" if page.endswith(".ipynb") else "it cannot be converted"
            faults.append(f"{_file(page)}: {what} ({type(error).__name__}: {' '.join(str(error).split())[:300]})")
    return html, faults


def sound(cells: list[dict]) -> list[dict]:
    """The cells of a notebook, which have all that a page is made from. Raises ``ValueError`` or ``KeyError``."""
    for cell in cells:
        if not re.fullmatch(r"[\w-]{1,64}", cell["id"]) or [other["id"] for other in cells].count(cell["id"]) > 1:
            raise ValueError(f"{cell['id']!r} is no name for one cell")
        _ = cell["source"], cell["metadata"], [output["output_type"] for output in cell.get("outputs", [])]
    return cells


def _without_front_matter(text: str) -> str:
    """The text below the settings of a page. Raises ``ValueError``."""
    if not text.startswith("---"):
        return text
    found = re.match(r"---\n(.*?)\n---\n", text, re.S)
    if not found or not isinstance(yaml.safe_load(found[1]), dict):
        raise ValueError("what stands between its first two lines --- is no YAML")
    return text[found.end() :]


def undone(prose: BeautifulSoup) -> list[str]:
    """What Markdown leaves as it is written: references and footnotes that nothing defines, and blocks misspelled."""
    text = prose.get_text()
    return [found for pattern in UNDONE for found in re.findall(pattern, text)]
