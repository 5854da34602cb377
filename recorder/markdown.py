# SPDX-License-Identifier: Apache-2.0
"""The Python-Markdown extension by which pages ask for recordings. Needs neither torch nor a site generator.

In a page whose lesson is ``programs/vector-add``, this shows what ``snippets/programs/vector_add.py`` printed::

    ```recording
    view: output
    device: h200
    ```

``of: programs/other`` names another snippet; the other options are the arguments of the view in ``views.py``.
In a sentence, ``{{ h200: bandwidth[2**28].triton; .0f; > 1000 }}`` is a number from it; see ``claims.py``.
``--8<-- "programs/vector_add.py:kernel"`` is pymdownx.snippets'; here only its names are checked.

What is wrong stops the build with page and line. What is stale is shown under a notice, and logged as a warning
of MkDocs, which ``mkdocs build --strict`` turns into a failure.
"""

import inspect
import logging
import re
from functools import lru_cache
from pathlib import Path
from xml.etree.ElementTree import Element

import yaml
from markdown import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.postprocessors import Postprocessor
from markdown.preprocessors import Preprocessor
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound
from pymdownx.superfences import SuperFencesException

from recorder import claims, fingerprint, recording, runner, views
from recorder.project import ROOT, RecorderError, Snippet, find, nearest, relative, snippet_of_page

try:  # under MkDocs a BuildError is reported as one line; elsewhere any exception stops the build
    from mkdocs.exceptions import BuildError as _BuildError
except ImportError:
    _BuildError = Exception

log = logging.getLogger("mkdocs.recorder")
PREVIEW_TIME_LIMIT = 60  # seconds

CLAIM = re.compile(r"(?P<device>[\w.-]+)(\s+of\s+(?P<of>[\w/-]+))?\s*:\s*(?P<claim>.+)", re.S)


class PageError(SuperFencesException, _BuildError):
    """A page asks for something that is not there. Superfences lets only its own exceptions through."""


class Page:
    """The page that is being converted: its file, for error messages and for the name of its lesson."""

    def __init__(self):
        self.text, self.path = "", None
        self.shown, self.files = {}, set()  # snippets with a view on this page, and those shown whole
        self.warned, self.wrong = set(), []  # the latter: messages of claims that do not hold
        self.problems = lru_cache(recording.problems)  # a page asks for each of its numbers

    def begin(self, md, lines):
        self.__init__()
        self.text = "\n".join(lines)
        link_checker = next((t for t in md.treeprocessors if hasattr(t, "file")), None)
        if file := getattr(link_checker, "file", None):  # MkDocs' own extension knows which page this is
            self.path, name = Path(file.abs_src_path), file.src_uri
        elif context := next((p for p in md.preprocessors if hasattr(p, "page")), None):  # and so does Zensical's
            self.path, name = ROOT / context.config["docs_dir"] / context.page.path, context.page.path
        if self.path:
            self.lesson = snippet_of_page(name)
            self.text = self.path.read_text("utf-8")
        return getattr(link_checker, "config", None)

    def line_of(self, *texts: str) -> str:
        """``docs/en/page.md:41``, where the first of the texts that the page contains stands."""
        name = relative(self.path) if self.path and self.path.is_relative_to(ROOT) else str(self.path or "page")
        position = next((p for text in texts if (p := self.text.find(text)) >= 0), None)
        return name if position is None else f"{name}:{self.text.count(chr(10), 0, position) + 1}"

    def warn(self, text, what):
        if what not in self.warned:  # one line for each fault is enough, however often the page shows it
            self.warned.add(what)
            log.warning("%s", text)

    def fail(self, error, *texts):
        raise PageError(f"{self.line_of(*texts)}: {error}") from error

    def snippet(self, name: str | None) -> Snippet:
        if name:
            return find(name)
        if not self.path:
            raise RecorderError("a page without a file has no snippet of its own; name one by `of:`")
        try:
            return find(self.lesson)
        except RecorderError as error:
            raise RecorderError(f"{error}; name another by `of:`") from error


@lru_cache(maxsize=16)
def _preview(snippet: Snippet, code: str) -> dict | str:
    """What a changed snippet prints on this machine, never written down; or why it could not be run."""
    devices = runner.machine_devices()
    if not devices:
        return "torch and Triton are not installed here, so it was not run again"
    devices = [device for device in devices if snippet.runs_on(device)]
    if not devices:
        return "it needs a GPU, so it was not run again"
    log.info("Running %s, which has changed, for a preview", relative(snippet.path))
    try:
        return runner.record(snippet, devices[-1], time_limit=PREVIEW_TIME_LIMIT, only_output=True)
    except RecorderError as error:
        return f"it fails: {str(error).splitlines()[-1]}"


def fetch(page: Page, snippet: Snippet, device: str, place: str, live: bool = False) -> tuple[dict | None, str]:
    """The recording of a snippet on a device and a notice to show above it, or None if it was never recorded.

    ``live`` asks for a preview in its place, if the code has changed and can be run here.
    """
    known = recording.devices(snippet)
    if known and device not in known:
        repair = recording.mend(snippet.name, device)
        raise RecorderError(
            f"{snippet.name} has no recording on {device!r}{nearest(device, known)}; or make one with: {repair}"
        )
    if known:
        recorded = recording.load(snippet, device)
        prefix = relative(recording.path_of(snippet, device)).removesuffix("json")
        faults = [problem for problem in page.problems(snippet) if problem.path.startswith(prefix)]
    else:
        recorded, faults = None, page.problems(snippet)
    for problem in faults:
        page.warn(f"{place}: {problem}", str(problem))
    if not faults:
        return recorded, ""
    if faults[0].fault in ("missing", "stale") and live:
        new = _preview(snippet, fingerprint.of(snippet.path))
        if isinstance(new, dict):
            return new, views.notice("preview", f"Preview from this machine: {faults[0].why}.")
        return recorded, views.notice(faults[0].fault, f"{faults[0].fault.capitalize()}: {faults[0].why}; {new}.")
    return recorded, views.notice("stale" if known else "missing", f"{faults[0].fault.capitalize()}: {faults[0].why}.")


def render_fence(source, language, css_class, options, md, **kwargs) -> str:
    """What superfences calls for a ``recording`` fence."""
    page = md.recorder_page
    try:
        return _render(page, source)
    except RecorderError as error:
        page.fail(error, source, *source.strip().splitlines()[::-1])
    except Exception as error:  # superfences would swallow it and show the fence as it is
        page.fail(RecorderError(f"{type(error).__name__}: {error}"), source)


def _render(page: Page, source: str) -> str:
    try:
        asked = yaml.safe_load(source) or {}
        name, view = asked.pop("of", None), asked.pop("view", None)
    except (yaml.YAMLError, AttributeError) as error:
        raise RecorderError(f"a recording fence holds `option: value` lines, not {source!r}") from error
    known = [*views.VIEWS, "file", "ledger"]
    if view not in known:
        raise RecorderError(f"there is no view {view!r}{nearest(view, known)}")
    if view == "ledger":
        return views.ledger()
    place, snippet = page.line_of(source), page.snippet(name)
    (page.files.add(snippet) if view == "file" else page.shown.setdefault(snippet, place))
    if view == "file":
        return views.file(snippet)
    # What a snippet prints here says nothing about another device, if that is how its settings say that it differs.
    live = view in views.PREVIEWED and not snippet.settings.differs
    recorded, notice = fetch(page, snippet, asked.pop("device", "cpu"), place, live=live)
    if not recorded:
        return notice
    takes = list(inspect.signature(views.VIEWS[view]).parameters.values())[2:]
    known = [parameter.name for parameter in takes]
    if unknown := [option for option in asked if option not in known]:
        raise RecorderError(f"the view {view!r} has no option {unknown[0]!r}{nearest(unknown[0], known)}")
    if missing := [p.name for p in takes if p.default is ... and p.name not in asked]:
        raise RecorderError(f"the view {view!r} needs the option {missing[0]!r}")
    return views.figure(view, snippet, recorded, views.VIEWS[view](snippet, recorded, **asked), notice)


class ClaimProcessor(InlineProcessor):
    def handleMatch(self, match, data):
        page = self.md.recorder_page
        try:
            asked = CLAIM.fullmatch(match[1])
            if not asked:
                raise RecorderError(f"{match[0]!r} is no claim such as {{{{ cpu: EXPRESSION; FORMAT; CONDITION }}}}")
            snippet = page.snippet(asked["of"])
            recorded, notice = fetch(page, snippet, asked["device"], page.line_of(match[0]))
            shown, value = claims.check(asked["claim"], recorded) if recorded else ("?", "missing")
        except RecorderError as error:
            page.wrong.append(f"{page.line_of(match[0])}: {error}")  # EndPage names all of them at once
            return match[0], match.start(0), match.end(0)
        made = views.where(recorded["provenance"]) if recorded else "never recorded"
        element = Element("data", {"class": "claim claim--stale" if notice else "claim", "value": str(value)})
        element.set("title", f"{asked['claim'].split(';')[0].strip()} = {value} in {snippet.name}, {made}")
        element.text = shown
        return element, match.start(0), match.end(0)


def _is_language(name: str) -> bool:
    try:
        return bool(get_lexer_by_name(name))
    except ClassNotFound:
        return False


class BeginPage(Preprocessor):
    """Runs before pymdownx.snippets, to check the names that a page gives it and to say where they stand."""

    section = re.compile(r'^\s*--8<--\s+"(?P<path>[^":]+)(:(?P<section>[^"]+))?"', re.M)
    fence = re.compile(r"^[ \t]*(```|~~~)[ \t]*\{?[ \t]*\.?(?P<language>\w[\w+-]*)", re.M)
    last_build = None

    def run(self, lines):
        page = self.md.recorder_page
        config = page.begin(self.md, lines)
        if config is None or config is not BeginPage.last_build:
            BeginPage.last_build = config
            try:
                for problem in recording.all_problems():  # also of what no page shows
                    log.warning("%s", problem)
            except RecorderError as error:
                raise PageError(str(error)) from error
        for match in self.section.finditer("\n".join(lines)):
            try:
                self.check(match["path"], match["section"])
            except RecorderError as error:
                page.fail(error, match[0].strip())
        for match in self.fence.finditer("\n".join(lines)):
            if match["language"] != "recording" and not _is_language(match["language"]):
                known = ["recording", "python", "console", "text"]
                error = RecorderError(f"no fence is called {match['language']!r}{nearest(match['language'], known)}")
                page.fail(error, match[0].strip())
        return lines

    @staticmethod
    def check(name, section):
        path = ROOT / "snippets" / name
        if not path.is_file():
            raise RecorderError(
                f"there is no file snippets/{name}{nearest(name, (s.name + '.py' for s in recording.snippets()))}"
            )
        sections = re.findall(r"--8<-- \[start:\s*([\w-]+)\s*\]", path.read_text("utf-8"))
        if section and not re.fullmatch(r"[\d:,-]+", section) and section not in sections:
            raise RecorderError(f"snippets/{name} has no section {section!r}{nearest(section, sections)}")


class Shown(Preprocessor):
    """What a section says to the formatter is not for readers; the whole file keeps it."""

    def run(self, lines):
        return [line.removesuffix("  # fmt: skip") for line in lines]


class EndPage(Postprocessor):
    """All claims must hold. Every result offers the whole file behind it, so a page must hold that file, once."""

    def run(self, text):
        page = self.md.recorder_page
        if page.wrong:
            raise PageError("\n".join(page.wrong))
        for snippet, place in page.shown.items():
            if snippet not in page.files and page.path:
                fence = f"`view: file` and `of: {snippet.name}`"
                raise PageError(
                    f"{place}: a page that shows {snippet.name} also shows its file; add a fence with {fence}"
                )
        # The search index, which every page loads, is for prose: code would double it.
        return re.sub(r'(<div class="language-\w+ highlight")>', r"\1 data-search-exclude>", text)


class RecordingsExtension(Extension):
    def extendMarkdown(self, md):
        md.recorder_page = Page()
        md.preprocessors.register(BeginPage(md), "recorder_begin", 40)
        md.preprocessors.register(Shown(md), "recorder_shown", 28)  # after pymdownx.snippets, before the fences
        md.inlinePatterns.register(ClaimProcessor(r"\{\{\s*(.*?)\s*\}\}", md), "recorder_claim", 185)
        md.postprocessors.register(EndPage(md), "recorder_end", 1)


def makeExtension(**kwargs):
    return RecordingsExtension(**kwargs)
