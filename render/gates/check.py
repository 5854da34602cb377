# SPDX-License-Identifier: Apache-2.0
"""Judge every page without a site generator: its fences, claims, sections, references and terms, and the menu."""

import posixpath
import re
from collections.abc import Iterable

from bs4 import BeautifulSoup
from markdown.extensions.toc import slugify

from recorder import judge
from recorder.project import RecorderError, nearest, read_text, relative
from render.config import address, converter, docs, nav, pages
from render.fences import front_matter, prose_of
from render.gates import terms
from render.labs import is_lab, markdown_of
from render.lessons import lessons
from render.page import PageError
from render.practice import exercises

UNDONE = r"\[\^[\w-]+\]", r"\[[^\[\]\n]+\]\[[^\[\]\n]*\]", "<!--|-->"  # references, footnotes, comments
UNDONE += r"(?m)^(?:===|!!!?|\?\?\?)[!+]* ?\S.*$", r"\{:? ?[.#][\w-]+"  # tabs, admonitions, attributes
# A lesson's number in a sentence, and where the first link leads that it stands in or before.
NUMBERED = re.compile(r"\b(?P<words>[Ll]esson\s+(?P<number>\d+))(?:(?:(?!\.\s)[^()])*\]\((?P<to>[^)#]*))?")


def problems() -> list[str]:
    """Return a line for each fault of recordings, snippets and pages."""
    recorded = [str(problem) for problem in judge.all_problems()]
    faults = recorded + menu_problems() + exercises.strays()
    # What is wrong with a recording is said once, not at each of the places that show it.
    faults += [fault for fault in page_problems(pages()) if not fault.endswith(tuple(recorded))]
    return list(dict.fromkeys(faults))


def page_problems(wanted: list[str]) -> list[str]:
    """Return a line for each fault of some pages, and of the recordings that they show."""
    try:
        exercises.check_cards()
        html, faults = convert(dict.fromkeys([terms.GLOSSARY, *wanted]))
    except RecorderError as error:
        return [str(error)]
    glossary = html.get(terms.GLOSSARY, "")
    known = terms.terms(glossary)
    for page, text in html.items():
        if page not in wanted:
            continue
        if (titles := text.count("<h1")) != 1:
            faults.append(f"{_file(page)}: it has {titles} titles; a page has one, such as `# Title`")
        if (lesson := lessons().get(page)) and lesson.title != (title := _title(text)):
            faults.append(
                f"{_file(page)}: its title is {title!r}, and the menu in mkdocs.yml calls it {lesson.title!r}"
            )
        prose = terms.prose_of(text)
        faults += [f"{_file(page, left)}: Markdown makes nothing of {left}" for left in undone(prose)]
        if page == terms.GLOSSARY:
            for term in terms.misplaced(known):
                faults.append(f"{_file(page, f'## {term}')}: {term!r} is not where the alphabet puts it")
        else:
            faults += sorted((_unlinked(page, *use) for use in terms.unlinked(prose, known).items()), key=_line)
        faults += unfinished(page)
        faults += misnumbered(page)
        faults += split_lists(page)
    return faults


def find_page(name: str) -> str:
    """Return a page by its file, name or address: ``docs/en/gpu/x.md``, ``gpu/x``. Raise ``RecorderError``."""
    bare = name.removeprefix(f"{relative(docs())}/").rstrip("/")
    known = next((page for page in pages() if bare in (page, page.rpartition(".")[0])), None)
    if not known:
        raise RecorderError(f"there is no page {name!r}{nearest(bare, pages())}")
    return known


def _title(html: str) -> str:
    match = re.search("(?s)<h1[^>]*>(.*?)</h1>", html)
    return BeautifulSoup(match[1], "html.parser").get_text().removesuffix("¶") if match else ""


def _file(page: str, words: str = "") -> str:
    """Return where a page is written, with the line of some words if they stand there so."""
    path = docs() / page
    match = (
        re.search(r"\s+".join(map(re.escape, words.split())), path.read_text("utf-8", errors="replace"))
        if words
        else None
    )
    return relative(path) + (f":{match.string.count(chr(10), 0, match.start()) + 1}" if match else "")


def _unlinked(page: str, term: str, words: str) -> str:
    """Return the message for the first use of a term without a link, with the link to write."""
    way = posixpath.relpath(terms.GLOSSARY, posixpath.dirname(page))
    link = f"[{term.lower()}]({way}#{slugify(term, '-')})"
    return f"{_file(page, words)}: the first use of {term!r} is no link to the glossary: …{words}…; write: {link}"


def _line(fault: str) -> int:
    """Return the line that a message begins with, or 0."""
    match = re.match(r"[^:]+:(\d+): ", fault)
    return int(match[1]) if match else 0


def unfinished(page: str) -> list[str]:
    """Return the faults of lines that still say TODO, as `recorder new` writes them."""
    lines = enumerate(read_text(docs() / page).splitlines(), 1)
    return [f"{_file(page)}:{at}: unfinished: {line.strip()}" for at, line in lines if re.search(r"\bTODO\b", line)]


def misnumbered(page: str) -> list[str]:
    """Return the faults of sentences that give a lesson another number than the menu does."""
    faults = []
    text = read_text(docs() / page).replace("\\n", "  ")  # a notebook writes line ends so
    for match in NUMBERED.finditer(text):
        lesson = lessons().get(posixpath.normpath(posixpath.join(posixpath.dirname(page), match["to"] or ".")))
        if not lesson:
            why = "a lesson is called by its title, or by its number in or before a link to it"
        elif lesson.number == int(match["number"]):
            continue
        else:
            why = f"the menu calls {lesson.page} lesson {lesson.number}; better link its title"
        line = text.count("\n", 0, match.start()) + 1
        faults.append(f"{_file(page)}:{line}: {match['words']!r}: {why}")
    return faults


def split_lists(page: str) -> list[str]:
    """Return the faults of lines inside a paragraph or an item that begin with a number, as a list's next item does.

    Whoever wraps *n is 1, 4 and 10. Then …* before the 10 makes an item of the rest, and the list's numbers are off.
    """
    text = read_text(docs() / page)
    lines = prose_of((markdown_of(text) if is_lab(page) else text).splitlines())
    faults, last, before = [], {}, ""  # the last number of the list at each indent; the line before
    for line in lines:
        if match := re.match(r"(?P<indent>[ >]*)(?P<number>\d+)\. ", line):
            indent, number = match["indent"], int(match["number"])
            if re.fullmatch(r"[ >]*|[ >]*(===|!!!|\?\?\?).*", before) or last.get(indent) == number - 1:
                last[indent] = number
            else:
                faults.append(
                    f"{_file(page, line.strip())}: {line.strip()[:40]!r}: a line that begins with a number and a "
                    "period is an item of a list; wrap the sentence elsewhere, or leave a blank line before a list"
                )
        before = line
    return faults


def menu_problems() -> list[str]:
    """Return the faults of the menu: pages that it lacks, names twice or in a wrong place, and names of no page."""
    there, named = pages(), nav()
    faults = [f"mkdocs.yml: the menu names {page}, which is no page" for page in named if page not in there]
    faults += [f"{_file(page)}: the menu in mkdocs.yml does not name it" for page in there if page not in named]
    faults += [f"mkdocs.yml: the menu names {page} twice" for page in dict.fromkeys(named) if named.count(page) > 1]
    known = (".md", ".ipynb", ".svg", ".png", ".jpg", ".webp")
    for path in sorted(docs().rglob("*")):
        if path.is_symlink() or (path.is_file() and path.suffix not in known):
            faults.append(f"{relative(path)}: it is neither a page nor a picture, and would be part of the site")
    numbers = [lesson.number for lesson in lessons().values()]
    if numbers != (wanted := list(range(1, len(numbers) + 1))):
        first = next(number for number, at in zip(numbers, wanted, strict=True) if number != at)
        faults.append(
            f"mkdocs.yml: the lessons are not numbered 1, 2, 3 …: {first} stands in the wrong place; fix: "
            "python -m recorder number"
        )
    last = {address(page): page for page in there}
    faults += [f"{_file(page)}: {last[address(page)]} has its address" for page in there if last[address(page)] != page]
    return faults


def convert(wanted: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Return the HTML of every page that can be converted, and the faults of the others."""
    html, faults, markdown = {}, [], converter()
    for page in wanted:
        path = docs() / page
        try:
            text = read_text(path)
            text = markdown_of(text) if is_lab(page) else front_matter(text)[1]
            markdown.page_of_check = (path, page)
            html[page] = markdown.reset().convert(text)
        except PageError as error:
            faults += str(error).splitlines()
        except RecorderError as error:  # of a file that is named: the page itself, or another
            faults.append(str(error))
        except Exception as error:  # of one page, which must not hide what is wrong with the others
            what = "it is no notebook" if is_lab(page) else "it cannot be converted"
            faults.append(f"{_file(page)}: {what} ({type(error).__name__}: {' '.join(str(error).split())[:300]})")
    return html, faults


def undone(prose: BeautifulSoup) -> list[str]:
    """Return what Markdown left unconverted: undefined references and footnotes, and misspelled blocks."""
    text = prose.get_text()
    return [left for pattern in UNDONE for left in re.findall(pattern, text)]
