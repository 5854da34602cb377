# SPDX-License-Identifier: Apache-2.0
"""Links from a page: to another, to the page that shows a snippet's whole file, and to the repository."""

import contextlib
import posixpath
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from recorder.project import RecorderError, Snippet, read_text, snippet_of_page
from render.config import Entry, address, config, docs, menu
from render.fences import Fence, front_matter, options_of, read_fences
from render.lessons import lessons

HOME = "index.md"


@dataclass(frozen=True)
class Place:
    """A page that shows a file."""

    page: str  # as the menu names it
    title: str  # as people read it in the menu


def way(here: str, there: str, place: str = "") -> str:
    """Return the link from a page to another, and to a place on it: ``../../programs/masks/#file-…``."""
    start, end = address(here) if here else "", address(there)
    link = "" if start == end else posixpath.relpath(end or ".", start or ".") + "/"
    return f"{link}#{place}" if place else link or "./"


def way_if_there(here: str, there: str, place: str = "") -> str:
    """Return the same link, or nothing where there is no such page."""
    return way(here, there, place) if (docs() / there).is_file() else ""


def repository(file: str) -> str:
    """Return where a file of the repository can be read; nothing unless its address is known and GitHub's."""
    here, branch = config().get("repo_url") or "", (config().get("edit_uri") or "edit/main").split("/")[1]
    return f"{here.rstrip('/')}/blob/{branch}/{file}" if here.startswith("https://github.com/") else ""


def place_of(snippet: Snippet) -> Place | None:
    """Return the page that is about a snippet; else the first in the menu that shows its file; or none."""
    there = []
    for page, path in _files(docs(), menu()):
        with contextlib.suppress(OSError):
            there.append((page, path, path.stat().st_mtime_ns))
    shows = _shows(tuple(there)).get(snippet.name)
    if not shows:
        return None
    page, title = min(shows, key=lambda each: (each[0], each[1] == HOME))[1:]  # the first of equals
    return Place(page, _in_menu(page) or title)


@lru_cache(maxsize=2)
def _files(folder: Path, entries: tuple[Entry, ...]) -> list[tuple[str, Path]]:
    """Return the pages of the menu that are no notebooks, and their files, once each."""
    return list({entry.page: folder / entry.page for entry in entries if entry.page.endswith(".md")}.items())


@lru_cache(maxsize=2)
def _shows(pages: tuple[tuple[str, Path, int], ...]) -> dict[str, list[tuple[bool, str, str]]]:
    """Return for each snippet the pages that show its file: whether they are about another, and their titles."""
    pages_of = {}
    for page, path, modified in pages:
        own, files, title = _of_page(path, modified, page)
        for name in files:
            pages_of.setdefault(name, []).append((own != name, page, title))
    return pages_of


def _in_menu(page: str) -> str:
    lesson = lessons().get(page)
    return f"Lesson {lesson.number}, {lesson.title}" if lesson else ""


@lru_cache(maxsize=256)
def _of_page(path: Path, modified: int, page: str) -> tuple[str, tuple[str, ...], str]:
    """Return a page's own snippet, the snippets whose files it shows, and its title."""
    settings, text = front_matter(read_text(path))
    own, title = settings.get("snippet") or snippet_of_page(page), re.search(r"(?m)^# (.+)", text)
    fences = (_options(fence) for fence in read_fences(text.splitlines()) if fence.language == "recording")
    files = tuple(options.get("of") or own for options in fences if options.get("view") == "file")
    return own, files, title[1].replace("`", "") if title else page


def _options(fence: Fence) -> dict:
    with contextlib.suppress(RecorderError):  # which is said where the page is made
        return options_of(fence.source)
    return {}
