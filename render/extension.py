# SPDX-License-Identifier: Apache-2.0
"""The Python-Markdown extension by which pages ask for recordings. Needs neither torch nor a site generator.

In a page whose lesson is ``programs/vector-add``, this shows what ``snippets/programs/vector_add.py`` printed::

    ```recording
    view: output
    device: gpu
    ```

``of: programs/other`` names another snippet; the other options are those of the figure (``figures/<name>/``).
In a sentence, ``{{ gpu: bandwidth[2**28].triton; .0f; > 1000 }}`` is a number from it; see ``claims/expressions.py``.
Where ``gpu`` has recordings on several, a reader can switch between them; ``cpu`` and ``h200`` name one device.
``view: file`` shows a whole file, ``view: snippet`` what is to know before one copies it. Some views are of no snippet:
``ledger``, ``path``, ``route``, ``exercises``, ``caught``, and ``exercise``, whose ``of`` is in ``practice/exercises``.
A fence ``predict`` asks before the page answers; see ``predict.py``.
``--8<-- "programs/vector_add.py:kernel"`` is pymdownx.snippets'; here only its names are checked. It shows a file of
``snippets/``, or one of the package that readers download: ``--8<-- "template/src/rownorm/ops.py:op"``.

What is wrong stops the build, with page and line, all faults of a page at once; see ``page.serving`` for the exception.
"""

import contextlib
import html
import json
import re
import secrets
import traceback
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element

from markdown import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.postprocessors import Postprocessor
from markdown.preprocessors import Preprocessor
from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from recorder.project import ROOT, RecorderError, Snippet, nearest, read_text, relative, snippets
from render import predict, recordings, template
from render.cards import Cards
from render.claims import expressions
from render.claims.expressions import Claim
from render.claims.values import Source, Values, WrongValue
from render.config import docs
from render.endings import with_fold
from render.fences import at_first, claims_in, count_claimed, count_drawn, options_of, read_fences, recordings_in
from render.gates import typed
from render.page import Page, PageError
from render.units import Units
from render.views import frame
from render.views.exercises import with_invitation
from render.views.registry import views
from render.wrapping import with_dots, with_wrapping

CODE = re.compile(r"<(pre|code|data|script|style|template|figure)\b.*?</\1>", re.S)
HOME = "index.md"
OURS = ("recording", "values", "predict")  # fences that are ours
LINE = "line_of_page"  # the attribute by which a recording fence carries its line through Markdown


def accept(language, inputs, options, attrs, md) -> bool:
    """Take every ``recording`` fence for one, with the attribute that says its line. Superfences asks."""
    options.update(inputs)
    return True


def render_fence(source, language, css_class, options, md, **kwargs) -> str:
    """Return the HTML of a ``recording`` fence, for superfences; or nothing, and the page knows what is wrong."""
    page = md.page
    page.fence = int(options[LINE]) if LINE in options else None
    page.fences.add(page.fence)
    try:
        page.rendered.append((page.fence, _render(page, source)))
        return page.rendered[-1][1]
    except RecorderError as error:
        page.fault(error, page.fence)
    except Exception as error:  # superfences would swallow it and show the fence as it is
        in_templates = [at for at in traceback.extract_tb(error.__traceback__) if at.filename.endswith(".html")]
        where = "".join(f" ({relative(Path(at.filename))}:{at.lineno})" for at in in_templates[-1:])
        page.fault(f"{type(error).__name__}: {error}{where}", page.fence)
    return ""


def _render(page: Page, source: str) -> str:
    options = options_of(source)
    name, known = options.pop("view", None), views()
    if name not in list(known):  # which may be no text
        raise RecorderError(f"there is no view {name!r}{nearest(name, known)}")
    return str(known[name](page, options))


class Claims(InlineProcessor):
    def handleMatch(self, match, data):
        page = self.md.page
        try:
            claim = expressions.read(match[1])
            page.values.used |= set(page.values.reached(claim.expression, claim.relies))
            first, *others = page.values.sources(claim)
            devices = recordings.devices(first.snippet, first.device)
            shown = [_show_claim(page, claim, device, first, *others) for device in devices]
        except RecorderError as error:
            page.fault(error, error.line if isinstance(error, WrongValue) else _line_of_claim(page, match[0]))
            return match[0], match.start(0), match.end(0)
        page.claims += 1
        page.tooltips |= {each.title.replace("&amp;", "&") for each in shown}
        first = shown[0]
        element = Element("data", {"class": "claim claim--stale" if first.stale else "claim", "value": first.value})
        element.set("title", first.title)
        element.text = AtomicString(first.shown)  # text, whatever it looks like
        if len(shown) > 1:
            page.gpus |= {each.device: each.gpu for each in shown}
            by_device = {each.device: [each.shown, each.title, each.value] for each in shown}
            element.set("data-by-gpu", json.dumps(by_device))
        return element, match.start(0), match.end(0)


def _line_of_claim(page: Page, claim: str) -> int | None:
    """Return the line at which a page makes a claim. Markdown may have changed the space in it."""
    written = lambda text: "".join(text.split())
    return next((line for line, text in claims_in(page.lines) if written(text) == written(claim)), None)


@dataclass(frozen=True)
class ShownClaim:
    """A claim on one device, as text for HTML."""

    device: str
    gpu: str  # what people call it
    shown: str
    value: str
    title: str
    stale: bool


def _show_claim(page: Page, claim: Claim, device: str, *sources: Source) -> ShownClaim:
    """Return a claim as a page shows it on one device. ``sources``: what its value is read from."""
    binds, fetched = recordings.binds(sources[0].device, device), {}
    for source in sources:
        try:
            fetched[source] = recordings.fetch(page, source.snippet, source.on(device))
        except RecorderError:
            if binds or source is sources[0]:
                raise  # else the claim says that it was not measured on this GPU
    first = fetched[sources[0]][0]
    if all(recorded for recorded, _ in fetched.values()):
        own = fetched[Source(claim.device, page.snippet(claim.of))][0] if claim.device else None
        shown, value = expressions.check(claim, own, binds, page.values.on(device))
        shown, text = re.sub(r"^-(?=\.?\d)", "−", shown), page.values.text(claim)  # a minus, no hyphen
        made = [
            f"{frame.origin_of_claim(each, text)}, by {relative(source.snippet.path)}"
            for source, (each, _) in fetched.items()
        ]
    else:
        shown, value = "?", "missing"
        made = [f"never recorded, by {relative(sources[0].snippet.path)}"]
    title, stale = f"{shown}: {'; '.join(made)}", any(notice for _, notice in fetched.values())
    gpu = recordings.gpu_name(first) if first else device
    return ShownClaim(device, gpu, _text(shown), _text(value), _text(title), stale)


def _text(value) -> str:
    """Return text for Python-Markdown, which takes ``&lt;`` for one character and leaves other text to be escaped."""
    return str(value).replace("&", "&amp;")


class BeginPage(Preprocessor):
    """Check the names in a page's fences before Markdown reads it, while each line has its number.

    Recording fences carry theirs along, in an attribute. Runs before pymdownx.snippets.
    """

    def run(self, lines):
        page = self.md.page
        page.begin(self.md, lines)
        fences = read_fences(lines)
        inside = {number for fence in fences for number in range(fence.line + 1, fence.end)}
        page.values = Values(page)
        kept = page.values.take(lines, fences)
        for fence in fences:
            language = fence.language
            if language and language not in OURS and not _is_language(language):
                known = [*OURS, "python", "console", "text"]
                page.fault(f"no fence is called {language!r}{nearest(language, known)}", fence.line)
            if language == "recording":
                if name := fence.attribute:
                    fault = f"a recording fence takes no attribute {name!r}; its options stand inside of it"
                    page.fault(fault, fence.line)
                kept[fence.line] = f'{fence.indent}{fence.ticks}recording {LINE}="{fence.line}"'
            if language == "predict":
                kept[fence.line : fence.end] = [""] * (fence.end - fence.line)
                try:
                    kept[fence.line] = "\n".join(predict.markdown_of(fence))
                except RecorderError as error:
                    page.fault(error, fence.line)
        if unclosed := [fence for fence in fences if fence.closes_another or not fence.closed]:
            page.fault("a fence is not closed", unclosed[0].line)
        shown = [number for number, line in enumerate(lines) if "-8<-" in line]
        for number in shown:
            if number not in inside or "snippet" not in self.md.preprocessors:
                page.fault("what is shown of a file stands in a fence, and pymdownx.snippets shows it", number)
        wrong = {number for number in shown if not self._is_section(page, number)}
        left = (line for number, line in enumerate(kept) if number not in wrong)
        return [line for lines in left for line in lines.split("\n")]

    @staticmethod
    def _is_section(page: Page, number: int) -> bool:
        """Return whether a line shows a part of a file, in the one spelling that is checked here."""
        line = page.lines[number]
        match = re.fullmatch(r'\s*--8<--\s+"(?P<path>[^":]+)(:(?P<section>[^"]+))?"\s*', line)
        try:
            if not match:
                raise RecorderError(f'write it as --8<-- "programs/vector_add.py:kernel", not {line.strip()!r}')
            name = match["path"] if match["path"] in template.files() else f"snippets/{match['path']}"
            path = ROOT / name
            if not path.is_file() or ".." in path.parts:
                known = (*(f"{snippet.name}.py" for snippet in snippets()), *template.files())
                raise RecorderError(f"there is no file {name}{nearest(match['path'], known)}")
            section, text = match["section"], read_text(path)
            page.sources[path] = None
            known = re.findall(r"--8<-- \[start:\s*([\w-]+)\s*\]", text)
            if section and section not in known:  # nor are there lines by number, which change with the file
                raise RecorderError(f"{name} has no section {section!r}{nearest(section, known)}")
            marks = rf"\[start:\s*{section}\s*\].*\n(?s:(.+?))^.*\[end:\s*{section}\s*\]"
            if section and (known.count(section) > 1 or not re.search(marks, text, re.M)):
                raise RecorderError(f"section {section!r} of {name} is not begun and ended once")
            return True
        except RecorderError as error:
            page.fault(error, number)
            return False


def _is_language(name: str) -> bool:
    try:
        return bool(get_lexer_by_name(name))
    except ClassNotFound:
        return False


class HideFormatterHints(Preprocessor):
    """Removes comments for the formatter from the sections that a page shows. The whole file keeps them."""

    def run(self, lines):
        return [line.removesuffix("  # fmt: skip") for line in lines]


class WholePage(Treeprocessor):
    """Notes that the whole page is being converted. Runs last: the table of contents converts headings alone before."""

    def run(self, root):
        self.md.page.whole = True


class EndPage(Postprocessor):
    """Judges the converted page as a whole, and adds its head, its styles and its scripts."""

    def run(self, text):
        page = self.md.page
        if not page.whole:
            return text
        for snippet, line in page.shown.items():
            if snippet not in page.files and page.path:
                fence = f"`view: file` and `of: {snippet.name}`"
                page.fault(f"a page that shows {snippet.name} also shows its file; add a fence with {fence}", line)
        seen, parts = at_first(text), {line: at_first(part) for line, part in page.rendered}
        asked = recordings_in(page.lines)
        if lost := [line for line in asked if line not in page.fences or parts.get(line, "") not in seen]:
            counted = f"of {len(asked)} recording fences only {len(asked) - len(lost)} are understood"
            page.fault(f"{counted}; is one indented wrongly?", lost[0])
        if page.claims != (shown := count_claimed(seen)):
            fault = f"of {page.claims} claims {shown} stand in sentences; pictures hold none, and none is typed by hand"
            page.fault_in_html(fault, "<data", "{{")
        if sum(count_drawn(part) for part in parts.values()) != count_drawn(seen):
            page.fault_in_html("a recording is drawn, not typed by hand", 'class="recording', "<figure", "<div")
        for heading in re.findall(r"(?s)<h[1-6]\b.*?</h", text):
            if claim := re.search(r'<data class="claim[^>]*>([^<]*&lt;[^<]*)', heading):
                page.fault_in_html(
                    f"a heading goes on to menus as HTML; it can hold no {html.unescape(claim[1])!r}", "{{"
                )
        page.values.check_used()
        to_copy = page.settings.get("to_copy")
        if to_copy and not (docs() / to_copy).is_file():
            page.fault(f"to_copy names {to_copy}, which is no page")
        if not page.faults and (left := re.search(r"(\{\{|\}\})[^<\n]{0,40}", CODE.sub("", seen))):
            page.fault_in_html(f"{left[0]!r} was not taken for a claim", html.unescape(left[0]), left[1])
        text = self._label_typed(page, text)
        if page.faults:
            raise PageError("\n".join(page.faults))
        # The search index is for prose: code would double it.
        text = re.sub(r'(<div class="language-[^"]* highlight"[^>]*)>', r"\1 data-search-exclude>", text)
        places = page.places_of_runs if page.name != HOME else ()  # where each figure says it
        try:
            text = with_invitation(text, page.name)
        except RecorderError as error:  # a fault of an exercise, not of the page
            raise PageError(str(error)) from error
        headed = frame.with_head(with_fold(text), page.name, places, page.gpus, self._code(page), to_copy)
        return with_dots(with_wrapping(frame.with_assets(headed, page.figures.values())))

    @staticmethod
    def _label_typed(page: Page, text: str) -> str:
        """Return the page with a label on each block of code that was typed by hand."""
        places = {f"<!--{secrets.token_hex(8)}-->": part for _, part in page.rendered}  # which nobody can type
        for place, part in places.items():
            text = text.replace(part, place, 1)
        python = sum(fence.language == "python" for fence in read_fences(page.lines))
        sources = [read_text(path) for path in page.sources]
        text, faults = typed.label_typed(text, page.name, page.tooltips, sources, python)
        for fault in faults:
            page.fault_in_html(fault, "<")
        for place, part in places.items():
            text = text.replace(place, part, 1)
        return text

    @staticmethod
    def _code(page: Page) -> Snippet | None:
        """Return the file that a page is about: its own snippet's, else the first that it shows whole."""
        with contextlib.suppress(RecorderError):
            if (own := page.snippet(None)) in page.files:
                return own
        return next(iter(page.files), None)


class RecordingsExtension(Extension):
    def extendMarkdown(self, md):
        md.page = Page()
        md.preprocessors.register(BeginPage(md), "recordings_begin", 40)
        md.preprocessors.register(
            HideFormatterHints(md), "recordings_shown", 28
        )  # after pymdownx.snippets, before the fences
        md.inlinePatterns.register(Claims(r"\{\{(.*?)\}\}", md), "recordings_claim", 185)
        md.treeprocessors.register(Cards(md), "recordings_cards", 5)
        md.treeprocessors.register(Units(md), "recordings_units", -5)  # after toc, of whose headings menus are made
        md.treeprocessors.register(WholePage(md), "recordings_whole", -10)
        md.postprocessors.register(EndPage(md), "recordings_end", 1)


def makeExtension(**kwargs):
    return RecordingsExtension(**kwargs)
