# SPDX-License-Identifier: Apache-2.0
"""The page that is being converted: its file and lines, for error messages, its snippet, and its faults."""

import sys
from functools import lru_cache
from pathlib import Path

from pymdownx.superfences import SuperFencesException

from recorder import judge
from recorder.project import ROOT, RecorderError, Snippet, find, relative, snippet_of_page
from render.fences import front_matter

try:  # under MkDocs a BuildError is reported as one line; elsewhere any exception stops the build
    from mkdocs.exceptions import BuildError as _BuildError
except ImportError:
    _BuildError = Exception


class PageError(SuperFencesException, _BuildError):
    """A fault of a page, or several. Superfences lets only its own exceptions through."""


def serving() -> bool:
    """Return whether a contributor looks at a draft, where stale results are shown, marked as such, not refused."""
    return "serve" in sys.argv[1:3]


def building() -> bool:
    """Return whether this process builds the site once and ends, so that no file changes between two pages."""
    return "build" in sys.argv[1:3]


_problems = lru_cache(None)(judge.problems)  # of a build: many pages show the same snippets


class Page:
    def __init__(self):
        self.text, self.path, self.name, self.settings = "", None, "", {}
        self.lines = []  # that Markdown is given; places on the page are their numbers, from 0
        self.above = None  # how many lines of the file stand above them; unknown in a notebook
        self.shown = {}  # snippets with a figure on this page, in order, and the line of their first fence
        self.files = {}  # snippets that it shows whole, in order
        self.figures = {}  # figures on this page, in their order
        self.places_of_runs = {}  # where what it shows ran, each place once, in order
        self.gpus = {}  # GPUs that a reader can switch between: what people call them, by device
        self.whole = False  # whether all of it has been converted
        self.fence = None  # the line of the recording fence that is being rendered
        self.fences = set()  # lines of recording fences that were understood as such
        self.rendered = []  # the line and the HTML of each of them
        self.claims = 0
        self.values = None  # what it names; see claims/values.py
        self.tooltips = set()  # of claims
        self.sources = {}  # files that it shows sections of, each once
        self.faults = []  # messages, each with its place
        self.problems = _problems if building() else lru_cache(judge.problems)  # a page asks for each of its numbers

    def begin(self, md, lines: list[str]) -> None:
        """Forget the page before and find out which one this is."""
        self.__init__()
        self.text, self.lines, self.above = "\n".join(lines), lines, 0
        known = getattr(md, "page_of_check", None) or _file_of_mkdocs(md) or _file_of_zensical(md)
        if known:
            self.path, self.name = known
            self.text = self.path.read_text("utf-8")
            self.settings = front_matter(self.text)[0]
            above = self.text.count("\n") + 1 - len(lines)
            self.above = above if above >= 0 and self.text.split("\n")[above:] == lines else None

    def place(self, line: int | None) -> str:
        """Return where a line of the page stands, such as ``docs/en/page.md:41``; without a line, its file."""
        if line is not None and self.above is not None:
            return f"{self._file()}:{self.above + line + 1}"
        return self._file() if line is None else self._search(self.lines[line].strip())

    def _search(self, *texts: str) -> str:
        """Return where the first of the texts that the page contains stands."""
        at = next((at for text in texts if text and (at := self.text.find(text)) >= 0), None)
        return self._file() + ("" if at is None else f":{self.text.count(chr(10), 0, at) + 1}")

    def _file(self) -> str:
        return relative(self.path) if self.path and self.path.is_relative_to(ROOT) else str(self.path or "page")

    def fault(self, error, line: int | None = None) -> None:
        """Note what is wrong with a line. The end of the page names all faults at once."""
        self._note(self.place(line), error)

    def fault_in_html(self, error, *texts: str) -> None:
        """Note what is wrong in the HTML, which has no lines, at the first of the texts that the page contains."""
        self._note(self._search(*texts), error)

    def _note(self, place: str, error) -> None:
        if (message := f"{place}: {error}") not in self.faults:
            self.faults.append(message)

    def snippet(self, name: str | None) -> Snippet:
        """Return the snippet of this name; without one, that of the page's settings or of the page's own name."""
        if name:
            return find(name)
        if not self.path:
            raise RecorderError("a page without a file has no snippet of its own; name one by `of:`")
        try:
            return find(self.settings.get("snippet") or snippet_of_page(self.name))
        except RecorderError as error:
            raise RecorderError(f"{error}; name another by `of:`") from error


def _file_of_mkdocs(md) -> tuple[Path, str] | None:
    """Return the page's file and name from MkDocs' own extension, which checks links."""
    file = next((t.file for t in md.treeprocessors if hasattr(t, "file")), None)
    return (Path(file.abs_src_path), file.src_uri) if file else None


def _file_of_zensical(md) -> tuple[Path, str] | None:
    context = next((p for p in md.preprocessors if hasattr(p, "page") and hasattr(p, "config")), None)
    return (ROOT / context.config["docs_dir"] / context.page.path, context.page.path) if context else None
