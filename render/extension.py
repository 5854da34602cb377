# SPDX-License-Identifier: Apache-2.0
"""The Python-Markdown extension by which pages ask for recordings. Needs neither torch nor a site generator.

In a page whose lesson is ``programs/vector-add``, this shows what ``snippets/programs/vector_add.py`` printed::

    ```recording
    view: output
    device: h200
    ```

``of: programs/other`` names another snippet; the other options are those of the figure (``figures/<name>/``).
In a sentence, ``{{ h200: bandwidth[2**28].triton; .0f; > 1000 }}`` is a number from it; see ``claims.py``.
``--8<-- "programs/vector_add.py:kernel"`` is pymdownx.snippets'; here only its names are checked.

What is wrong stops the build, with page and line, all faults of a page at once; see ``page.serving`` for the exception.
"""

import re
from xml.etree.ElementTree import Element

import yaml
from markdown import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.postprocessors import Postprocessor
from markdown.preprocessors import Preprocessor
from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from figures.registry import figures
from recorder.project import ROOT, RecorderError, nearest, read_text, snippets
from render import claims, code, frame
from render.fresh import fetch
from render.ledger import ledger
from render.page import Page, PageError
from render.templates import render

CLAIM = re.compile(r"(?P<device>[\w.-]+)(\s+of\s+(?P<of>[\w/-]+))?\s*:\s*(?P<claim>.+)", re.S)
FENCE = re.compile(r"^(?P<indent>[ \t>]*(?:(?:[-*+]|\d+\.)[ \t]+)?)(?P<ticks>`{3,}|~{3,})(?P<info>.*)$")
TYPED = {"text": "A sketch, typed by hand", "console": "To type yourself"}  # what the gates cannot judge says so
LANGUAGE = re.compile(r"[ \t]*(?:\{[ \t]*\.?)?(?P<language>[\w+#.-]*)")


def accept(language, inputs, options, attrs, md) -> bool:
    """What superfences asks before it takes a recording fence for one: always, or it would show its own source."""
    options.update(inputs)
    return True


def render_fence(source, language, css_class, options, md, **kwargs) -> str:
    """What superfences calls for a ``recording`` fence."""
    page = md.page
    page.fences += 1
    try:
        if given := [*options, *(kwargs.get("attrs") or {})]:
            raise RecorderError(f"a recording fence takes no attribute {given[0]!r}; its options stand inside of it")
        return _render(page, source)
    except RecorderError as error:
        page.fault(error, source, *source.strip().splitlines()[::-1])
    except Exception as error:  # superfences would swallow it and show the fence as it is
        page.fault(f"{type(error).__name__}: {error}", source, *source.strip().splitlines()[::-1])
    return ""


def _render(page: Page, source: str) -> str:
    try:
        asked = yaml.safe_load(source) or {}
        name, view = asked.pop("of", None), asked.pop("view", None)
    except (yaml.YAMLError, AttributeError) as error:
        raise RecorderError(f"a recording fence holds `option: value` lines, not {source!r}") from error
    if view not in (known := [*figures(), "file", "ledger"]):
        raise RecorderError(f"there is no view {view!r}{nearest(view, known)}")
    if view == "ledger":
        return str(ledger())
    snippet = page.snippet(name)
    if view == "file":
        page.files.add(snippet)
        return str(code.file(snippet))
    page.shown.setdefault(snippet, source)
    figure, device = figures()[view], asked.pop("device", "cpu")
    if unknown := [option for option in asked if option not in figure.options]:
        raise RecorderError(f"the view {view!r} has no option {unknown[0]!r}{nearest(unknown[0], figure.options)}")
    if missing := [p.name for p in figure.options.values() if p.default is ... and p.name not in asked]:
        raise RecorderError(f"the view {view!r} needs the option {missing[0]!r}")
    # What a snippet prints here says nothing about another device, if that is how its settings say that it differs.
    recorded, notice = fetch(page, snippet, device, live=figure.previewed and not snippet.settings.differs)
    if not recorded:
        return str(render("notice.html", notice=notice))
    page.figures[view] = figure
    return str(frame.framed(figure, recorded, figure.draw(recorded, **asked), notice))


class Claims(InlineProcessor):
    def handleMatch(self, match, data):
        page = self.md.page
        try:
            asked = CLAIM.fullmatch(match[1])
            if not asked:
                raise RecorderError(f"{match[0]!r} is no claim such as {{{{ cpu: EXPRESSION; FORMAT; CONDITION }}}}")
            snippet = page.snippet(asked["of"])
            recorded, notice = fetch(page, snippet, asked["device"])
            shown, value = claims.check(asked["claim"], recorded) if recorded else ("?", "missing")
        except RecorderError as error:
            page.fault(error, match[0])
            return match[0], match.start(0), match.end(0)
        made = frame.where(recorded.provenance) if recorded else "never recorded"
        element = Element("data", {"class": "claim claim--stale" if notice else "claim", "value": str(value)})
        element.set("title", f"{asked['claim'].split(';')[0].strip()} = {value} in {snippet.name}, {made}")
        element.text = AtomicString(shown)  # text, whatever it looks like
        return element, match.start(0), match.end(0)


class BeginPage(Preprocessor):
    """Runs before pymdownx.snippets, to check the names that a page gives it and to say where they stand."""

    def run(self, lines):
        page = self.md.page
        page.begin(self.md, lines)
        for number, info in fences(lines):
            language = LANGUAGE.match(info)["language"].lower()
            if language and language != "recording" and not _is_language(language):
                known = ["recording", "python", "console", "text"]
                page.fault(f"no fence is called {language!r}{nearest(language, known)}", lines[number].strip())
        for line in lines:
            if "-8<-" in line:
                self._check(page, line)
        return lines

    @staticmethod
    def _check(page: Page, line: str) -> None:
        """A line that shows a part of a file: only in the one spelling that is checked here."""
        found = re.fullmatch(r'\s*--8<--\s+"(?P<path>[^":]+)(:(?P<section>[^"]+))?"\s*', line)
        try:
            if not found:
                raise RecorderError(f'write it as --8<-- "programs/vector_add.py:kernel", not {line.strip()!r}')
            path = ROOT / "snippets" / found["path"]
            if not path.is_file():
                known = (f"{snippet.name}.py" for snippet in snippets())
                raise RecorderError(f"there is no file snippets/{found['path']}{nearest(found['path'], known)}")
            section = found["section"]
            known = re.findall(r"--8<-- \[start:\s*([\w-]+)\s*\]", read_text(path))
            if section and not re.fullmatch(r"[\d:,-]+", section) and section not in known:
                raise RecorderError(f"snippets/{found['path']} has no section {section!r}{nearest(section, known)}")
        except RecorderError as error:
            page.fault(error, line.strip())


def fences(lines: list[str]) -> list[tuple[int, str]]:
    """Line number and info of each fence that opens; those inside of a longer one are its text."""
    found, open_ticks = [], ""
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if not fence:
            continue
        ticks, info = fence["ticks"], fence["info"].strip()
        if not open_ticks and "`" not in info:
            found.append((number, info))
            open_ticks = ticks
        elif ticks.startswith(open_ticks) and not info:
            open_ticks = ""
    return found


def _is_language(name: str) -> bool:
    try:
        return bool(get_lexer_by_name(name))
    except ClassNotFound:
        return False


class Shown(Preprocessor):
    """What a section says to the formatter is not for readers; the whole file keeps it."""

    def run(self, lines):
        return [line.removesuffix("  # fmt: skip") for line in lines]


class WholePage(Treeprocessor):
    """Runs after all others. Before, the table of contents has single headings go through what is for whole pages."""

    def run(self, root):
        self.md.page.whole = True


class EndPage(Postprocessor):
    """All must hold. Every result offers the whole file behind it, so a page must hold that file, once."""

    def run(self, text):
        page = self.md.page
        if not page.whole:
            return text
        for snippet, source in page.shown.items():
            if snippet not in page.files and page.path:
                fence = f"`view: file` and `of: {snippet.name}`"
                page.fault(f"a page that shows {snippet.name} also shows its file; add a fence with {fence}", source)
        asked = sum(LANGUAGE.match(info)["language"] == "recording" for _, info in fences(page.text.splitlines()))
        if asked != page.fences:
            page.fault(f"of {asked} recording fences only {page.fences} are understood; is one indented wrongly?")
        if page.faults:
            raise PageError("\n".join(page.faults))
        # The search index is for prose: code would double it. And what no run made says so.
        text = re.sub(r'(<div class="language-\w+ highlight")>', r"\1 data-search-exclude>", text)
        typed = lambda match: f'{match[0]} data-typed="{TYPED[match[1]]}"'
        text = re.sub(r'<div class="language-(text|console) highlight"', typed, text)
        return frame.dressed(text, page.figures.values())


class RecordingsExtension(Extension):
    def extendMarkdown(self, md):
        md.page = Page()
        md.preprocessors.register(BeginPage(md), "recordings_begin", 40)
        md.preprocessors.register(Shown(md), "recordings_shown", 28)  # after pymdownx.snippets, before the fences
        md.inlinePatterns.register(Claims(r"\{\{\s*(.*?)\s*\}\}", md), "recordings_claim", 185)
        md.treeprocessors.register(WholePage(md), "recordings_whole", -10)
        md.postprocessors.register(EndPage(md), "recordings_end", 1)


def makeExtension(**kwargs):
    return RecordingsExtension(**kwargs)
