# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs that takes comments and indents out of our styles and scripts, in the pages and in ``assets/``.

Both say why in comments, for who works on them. A reader's phone need not fetch that.
"""

import re
from functools import lru_cache
from pathlib import Path

from pygments import lex
from pygments.lexers import CssLexer, JavascriptLexer
from pygments.token import Comment, Text

LEXERS = {"style": CssLexer, "script": JavascriptLexer}
OURS = re.compile(r'(<(style)\b[^>]*>|<(script) type="module">)(.*?)(</(?:\2|\3)>)', re.S)


@lru_cache(None)  # most pages have the same ones
def shorten(source: str, kind: str) -> str:
    """Return a style sheet or a script without comments, and of white space only a line's end or one space."""
    text, blank = [], ""
    for token, value in lex(source, LEXERS[kind](stripnl=False, ensurenl=False)):
        if token in Comment or (token in Text and value.isspace()):
            blank += value
            continue
        if blank:
            text.append("\n" if "\n" in blank else " ")
        text.append(value)
        blank = ""
    return "".join(text).strip()


def on_post_page(output: str, **_) -> str:
    return OURS.sub(lambda own: own[1] + shorten(own[4], own[2] or own[3]) + own[5], output)


def on_post_build(config, **_):
    for path in Path(config.site_dir, "assets").glob("*.*s*"):  # Material's lie in folders of their own
        if path.suffix in (".css", ".js"):
            kind = "style" if path.suffix == ".css" else "script"
            path.write_text(shorten(path.read_text("utf-8"), kind), "utf-8")
