# SPDX-License-Identifier: Apache-2.0
"""The page that is being converted: its file, for error messages and for the name of its lesson; and its faults."""

import re
import sys
from functools import lru_cache
from pathlib import Path

import yaml
from pymdownx.superfences import SuperFencesException

from recorder import judge
from recorder.project import ROOT, RecorderError, Snippet, find, relative, snippet_of_page

try:  # under MkDocs a BuildError is reported as one line; elsewhere any exception stops the build
    from mkdocs.exceptions import BuildError as _BuildError
except ImportError:
    _BuildError = Exception


class PageError(SuperFencesException, _BuildError):
    """A page asks for something that is not there. Superfences lets only its own exceptions through."""


def serving() -> bool:
    """Whether a contributor looks at a draft: then what is stale is shown, marked as such, instead of refused."""
    return "serve" in sys.argv[1:3]


class Page:
    def __init__(self):
        self.text, self.path, self.name, self.settings = "", None, "", {}
        self.shown, self.files = {}, {}  # snippets with a figure on this page, and those shown whole, in order
        self.figures = {}  # figures on this page, in their order
        self.ran = {}  # where what it shows ran, each place once, in order
        self.gpus = {}  # GPUs that a reader can switch between: what people call them, by device
        self.whole = False  # whether all of it has been converted
        self.fence = ""  # the recording fence that is being rendered
        self.fences = 0  # recording fences that were understood as such
        self.made = []  # the HTML of each of them
        self.claims = 0
        self.values = None  # what it names; see values.py
        self.tooltips = set()  # of claims
        self.sources = {}  # files that it shows sections of, each once
        self.faults = []  # messages, each with its place
        self.problems = lru_cache(judge.problems)  # a page asks for each of its numbers

    def begin(self, md, lines: list[str]) -> None:
        """Forget the page before and find out which one this is."""
        self.__init__()
        self.text = "\n".join(lines)
        found = getattr(md, "page_of_check", None) or _file_of_mkdocs(md) or _file_of_zensical(md)
        if found:
            self.path, self.name = found
            self.text = self.path.read_text("utf-8")
            self.settings = front_matter(self.text)[0]

    def line_of(self, *texts: str) -> str:
        """``docs/en/page.md:41``, where the first of the texts that the page contains stands."""
        name = relative(self.path) if self.path and self.path.is_relative_to(ROOT) else str(self.path or "page")
        position = next((p for text in texts if text and (p := self.text.find(text)) >= 0), None)
        return name if position is None else f"{name}:{self.text.count(chr(10), 0, position) + 1}"

    def fault(self, error, *texts: str) -> None:
        """Note what is wrong, at the place of the first of the texts; the end of the page names all faults at once."""
        message = f"{self.line_of(*texts)}: {error}"
        if message not in self.faults:
            self.faults.append(message)

    def fault_in(self, lines: list[str], number: int, error: str) -> None:
        """Note what is wrong with one of the lines that Markdown was given, counted from 0, below the settings."""
        above = self.text.count("\n") + 1 - len(lines)
        same = self.text.split("\n")[above:][number : number + 1] == [lines[number]] if above >= 0 else False
        place = f"{self.line_of()}:{above + number + 1}" if same else self.line_of(lines[number].strip())
        self.faults.append(f"{place}: {error}")

    def snippet(self, name: str | None) -> Snippet:
        """The snippet of this name; without one that which the page's settings name, or the page's own name."""
        if name:
            return find(name)
        if not self.path:
            raise RecorderError("a page without a file has no snippet of its own; name one by `of:`")
        try:
            return find(self.settings.get("snippet") or snippet_of_page(self.name))
        except RecorderError as error:
            raise RecorderError(f"{error}; name another by `of:`") from error


def front_matter(text: str) -> tuple[dict, str]:
    """The settings above a page, between two lines ``---``, and the text below. Raises ``ValueError``."""
    if not text.startswith("---"):
        return {}, text
    found = re.match(r"---\n(.*?)\n---\n", text, re.S)
    settings = yaml.safe_load(found[1]) if found else None
    if not isinstance(settings, dict):
        raise ValueError("what stands between its first two lines --- is no YAML")
    return settings, text[found.end() :]


def _file_of_mkdocs(md) -> tuple[Path, str] | None:
    """MkDocs' own extension, which checks links, knows which page this is."""
    file = next((t.file for t in md.treeprocessors if hasattr(t, "file")), None)
    return (Path(file.abs_src_path), file.src_uri) if file else None


def _file_of_zensical(md) -> tuple[Path, str] | None:
    context = next((p for p in md.preprocessors if hasattr(p, "page") and hasattr(p, "config")), None)
    return (ROOT / context.config["docs_dir"] / context.page.path, context.page.path) if context else None
