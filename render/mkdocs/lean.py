# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs that takes comments and indents out of our styles, and out of scripts in ``assets/``.

Both say why in comments, for who works on them. A reader's phone need not fetch that. A script in a page stays as it
is, for ``policy`` names it by a digest, and a browser runs no other.
"""

import re
from functools import lru_cache
from pathlib import Path

from pygments import lex
from pygments.lexers import CssLexer, JavascriptLexer
from pygments.token import Comment, Text

LEXERS = {"style": CssLexer, "script": JavascriptLexer}
PARTS, ENDS = set("{};,:"), set("{};,")  # in a style sheet: no space is needed after these, and none before those
STYLE = re.compile(r"(<style\b[^>]*>)(.*?)(</style>)", re.S)


@lru_cache(None)  # most pages have the same ones
def shorten(source: str, kind: str) -> str:
    """Return a style sheet or a script without comments, and of white space only a line's end or one space.

    A style sheet needs neither beside a sign that parts what stands on both its sides. A colon is one only for what
    comes after it: before one, as in ``.a :hover``, a space means something.
    """
    text, blank, style = [], "", kind == "style"
    for token, value in lex(source, LEXERS[kind](stripnl=False, ensurenl=False)):
        comment = token in Comment and token not in Comment.Preproc  # which !important is to the lexer
        if comment or (token in Text and value.isspace()):
            blank += value
            continue
        parted = style and text and (text[-1] in PARTS or value in ENDS)
        if blank and not parted:
            text.append("\n" if "\n" in blank else " ")
        text.append(value)
        blank = ""
    return "".join(text).strip()


def on_post_page(output: str, **_) -> str:
    return STYLE.sub(lambda own: own[1] + shorten(own[2], "style") + own[3], output)


def on_post_build(config, **_):
    assets = Path(config.site_dir, "assets")
    ours = *assets.glob("*.*s*"), *assets.glob("javascripts/workers/*wanted.js")  # others in folders are Material's
    for path in ours:
        if path.suffix in (".css", ".js"):
            kind = "style" if path.suffix == ".css" else "script"
            path.write_text(shorten(path.read_text("utf-8"), kind), "utf-8")
