# SPDX-License-Identifier: Apache-2.0
"""What a page asks for by its text alone, and what of it stands in HTML: recordings and claims, to be compared."""

import re
from collections.abc import Iterator

FENCE = re.compile(r"^(?P<indent>[ \t>]*(?:(?:[-*+]|\d+\.)[ \t]+)?)(?P<ticks>`{3,}|~{3,})(?P<info>.*)$")
ASKED = re.compile(r"(`{3,}|~{3,})[ \t]*\{?[ \t]*\.?recording\b")
DRAWN = re.compile(r"""class\s*=\s*["']?(?:[^"'>]*\s)?recording(?=[\s"'>])""")
CLAIMED = re.compile(r"<data\b[^>]*\bclaim\b")


def recordings(text: str) -> list[str]:
    """The lines that begin the recording fences of a page, also where Markdown takes them for something else."""
    found = []
    for line, around, _ in fenced(text.splitlines()):
        ticks = ASKED.search(line)
        if ticks and not (around and (around[0] != ticks[1][0] or len(around) > len(ticks[1]))):
            found.append(line)
    return found


def claims_of(text: str) -> int:
    """How many claims a page makes; what stands in code is none."""
    prose = "\n".join(line for line, around, info in fenced(text.splitlines()) if not around and info is None)
    return len(re.findall(r"\{\{.+?\}\}", re.sub(r"<!--.*?-->|(`+).+?\1", "", prose, flags=re.S), re.S))


def drawn(html: str) -> int:
    """How many recordings some HTML shows."""
    return len(DRAWN.findall(html))


def claimed(html: str) -> int:
    """How many claims some HTML shows."""
    return len(CLAIMED.findall(html))


def at_first(html: str) -> str:
    """What a reader sees of a page that was just opened: no comment (one that nobody ends goes on to the last line),
    and nothing that waits until another GPU is asked for."""
    return re.sub(r"(?s)<template data-gpu=.*?</template>|<!--.*?(-->|\Z)", "", html)


def fenced(lines: list[str]) -> Iterator[tuple[str, str, str | None]]:
    """Each line, the ticks of the fence around it, and, where it opens one, that one's info."""
    around = ""
    for line in lines:
        fence = FENCE.match(line)
        info = fence["info"].strip() if fence else ""
        opens = fence and not around and "`" not in info
        yield line, around, info if opens else None
        if opens:
            around = fence["ticks"]
        elif fence and fence["ticks"].startswith(around) and not info:
            around = ""
