# SPDX-License-Identifier: Apache-2.0
"""Code and outputs that a narrow screen wraps: each long line on its own, so that what comes of it stands further in.

A short line fits a phone and stays as it is, so a page grows by its long lines only. What is set in columns would lose
them: it keeps its lines, in letters as small as it takes and a phone can show, and scrolls if that is not enough.
theme/assets/code.css does both, below 600 px. Names joined by dots break after a dot, not inside a name.
"""

import html
import re

FITS = 40  # columns, on a screen of 320 px
IN = 4  # columns that what comes of a line stands further in than the line
PRE = r'<pre(?: id="__code_\w+"| class="(?:output|jp-OutputArea-output)[^>]*)?>'  # not the code of an explorer
BLOCK = re.compile(rf"(?s)({PRE}(?:<span></span>|<nav\b.*?</nav>)*)<code([^>]*)>(.*?)</code></pre>")
COLUMNS = re.compile(r"\S {2,}\S")
DOT = '<span class="o">.</span>'
BELOW = re.compile(r"\s*[\^~─-]+\s*")  # marks columns of the line above


def with_wrapping(page: str) -> str:
    """Return HTML in which each block of code is ready to wrap."""
    return BLOCK.sub(_wrapping, page)


def _wrapping(block: re.Match) -> str:
    begin, attributes, code = block.groups()
    lines = code.split("\n")
    texts = [html.unescape(re.sub(r"<[^>]+>", "", line)) for line in lines]
    if all(len(text) <= FITS for text in texts):
        return block[0]
    if '<span class="' not in code and in_columns(texts):  # no language, which has been colored
        columns = max(map(len, texts))
        return f'{begin}<code{attributes} class="in-columns" style="--columns:{columns}">{code}</code></pre>'
    return f"{begin}<code{attributes}>{_joined(zip(lines, texts, strict=True))}</code></pre>"


def in_columns(lines: list[str]) -> bool:
    """Return whether a text is set in columns: two lines with gaps, or one that marks columns of the line above."""
    gaps = sum(bool(COLUMNS.search(line.strip())) for line in lines)
    return gaps > 1 or any(BELOW.fullmatch(line) for line in lines)


def _joined(lines) -> str:
    """Return lines, the long ones in a span with its newline: it becomes a block, behind which no other one follows."""
    joined = ""
    for line, text in lines:
        if len(text) <= FITS:
            joined += f"{line}\n"
        else:
            indent = len(text) - len(text.lstrip()) + IN
            broken = line.replace(DOT, f"{DOT}<wbr>")
            joined += f'<span class="long" style="--in:{indent}">{broken}\n</span>'
    return joined.removesuffix("\n</span>") + "</span>" if joined.endswith("</span>") else joined[:-1]
