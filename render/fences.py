# SPDX-License-Identifier: Apache-2.0
"""The reader of a page's text: the settings above it, its fences, and the recordings and claims that it asks for.

Line numbers count from 0, in the text that was read.
"""

import re
import textwrap
from dataclasses import dataclass

import yaml

from recorder.project import RecorderError

FENCE = re.compile(r"^(?P<indent>[ \t>]*(?:(?:[-*+]|\d+\.)[ \t]+)?)(?P<ticks>`{3,}|~{3,})(?P<info>.*)$")
INFO = re.compile(r"(?:\{[ \t]*\.?)?(?P<language>[\w+#.-]*)[ \t]*[.#]?(?P<attribute>[^\s=}]*)")
ASKED = re.compile(r"(`{3,}|~{3,})[ \t]*\{?[ \t]*\.?recording\b")
DRAWN = re.compile(r"""class\s*=\s*["']?(?:[^"'>]*\s)?recording(?=[\s"'>])""")
CLAIMED = re.compile(r"<data\b[^>]*\bclaim\b")
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same, in C where there is one


@dataclass(frozen=True)
class Fence:
    """A fenced block of code."""

    line: int  # of its opening ticks
    indent: str  # before them: spaces, signs of quotations, the sign of a list's item
    ticks: str
    info: str  # behind them, stripped
    body: tuple[str, ...]  # the lines between the ticks
    closed: bool

    @property
    def language(self) -> str:
        """Return the language of the code, such as ``python``, or ``recording``; empty where none is given."""
        return INFO.match(self.info)["language"]

    @property
    def attribute(self) -> str:
        """Return the name of the first attribute behind the language, or nothing."""
        return INFO.match(self.info)["attribute"]

    @property
    def end(self) -> int:
        """Return the number of the first line below the fence."""
        return self.line + 1 + len(self.body) + self.closed

    @property
    def closes_another(self) -> bool:
        """Return whether a fence begins inside, whose closing ticks then close this one."""
        inner = filter(None, map(FENCE.match, self.body))
        return any(each["info"].strip() and each["ticks"].startswith(self.ticks) for each in inner)

    @property
    def source(self) -> str:
        """Return the code without the indent of the fence."""
        return textwrap.dedent("\n".join(line.removeprefix(self.indent) for line in self.body))


def front_matter(text: str) -> tuple[dict, str]:
    """Return the settings above a page, between two lines ``---``, and the text below. Raise ``ValueError``."""
    if not text.startswith("---"):
        return {}, text
    match = re.match(r"---\n(.*?)\n---\n", text, re.S)
    settings = yaml.safe_load(match[1]) if match else None
    if not isinstance(settings, dict):
        raise ValueError("what stands between its first two lines --- is no YAML")
    return settings, text[match.end() :]


def read_fences(lines: list[str]) -> list[Fence]:
    """Return the outermost fences of a text, in order. One that is never closed reaches to the end."""
    fences, opened, first = [], None, 0
    for number, line in enumerate(lines):
        match = FENCE.match(line)
        if not match:
            continue
        info = match["info"].strip()
        if opened is None:
            if "`" not in info:
                opened, first = match, number
        elif match["ticks"].startswith(opened["ticks"]) and not info:
            fences.append(_fence(opened, first, lines[first + 1 : number], closed=True))
            opened = None
    return fences if opened is None else [*fences, _fence(opened, first, lines[first + 1 :], closed=False)]


def _fence(opened: re.Match, line: int, body: list[str], closed: bool) -> Fence:
    return Fence(line, opened["indent"], opened["ticks"], opened["info"].strip(), tuple(body), closed)


def prose_of(lines: list[str]) -> list[str]:
    """Return as many lines, those of fences empty, but for a question's, which is prose."""
    prose = list(lines)
    for fence in read_fences(lines):
        body = fence.body if fence.language == "predict" else [""] * len(fence.body)
        prose[fence.line : fence.end] = ["", *body, ""][: fence.end - fence.line]
    return prose


def options_of(source: str) -> dict:
    """Return the options that a ``recording`` fence holds. Raise ``RecorderError`` unless each is given, and once."""
    try:
        asked = yaml.load(source, LOADER) or {}
        keys = [key.value for key, _ in yaml.compose(source, LOADER).value] if asked else []
        if isinstance(asked, dict) and len(keys) == len(asked):
            return asked
    except (yaml.YAMLError, TypeError, ValueError):
        keys = []
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise RecorderError(f"the option {twice[0]!r} is given twice")
    raise RecorderError(f"a recording fence holds `option: value` lines, not {source!r}")


def recordings_in(lines: list[str]) -> list[int]:
    """Return where the recording fences of a text begin, also those that Markdown takes for something else."""
    around = {number: fence for fence in read_fences(lines) for number in range(fence.line + 1, fence.end)}
    asked = []
    for number, line in enumerate(lines):
        ticks, fence = ASKED.search(line), around.get(number)
        if ticks and not (fence and (fence.ticks[0] != ticks[1][0] or len(fence.ticks) > len(ticks[1]))):
            asked.append(number)
    return asked


def claims_in(lines: list[str]) -> list[tuple[int, str]]:
    """Return the claims of a text with their lines. In code and in comments there are none."""
    keep_lines = lambda code: "\n" * code[0].count("\n")
    prose = re.sub(r"<!--.*?-->|(`+).+?\1", keep_lines, "\n".join(prose_of(lines)), flags=re.S)
    claims = re.finditer(r"\{\{.+?\}\}", prose, re.S)
    return [(prose.count("\n", 0, claim.start()), claim[0]) for claim in claims]


def count_drawn(html: str) -> int:
    """Return how many recordings some HTML shows."""
    return len(DRAWN.findall(html))


def count_claimed(html: str) -> int:
    """Return how many claims some HTML shows."""
    return len(CLAIMED.findall(html))


def at_first(html: str) -> str:
    """Return the HTML that a reader sees on a page that was just opened.

    It has no comment (an unclosed one goes on to the last line), and nothing that waits for a switch to another GPU.
    """
    return re.sub(r"(?s)<template data-gpu=.*?</template>|<!--.*?(-->|\Z)", "", html)
