# SPDX-License-Identifier: Apache-2.0
"""Whole files of snippets, colored, to read, copy and download. They need no recording."""

import re
from functools import lru_cache
from urllib.parse import quote

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from recorder.project import Snippet, read_text, relative
from recorder.source import imports
from render.templates import render


@lru_cache
def highlighted(source: str) -> Markup:
    """Python source as the site's own fences show it."""
    code = highlight(source, PythonLexer(), HtmlFormatter(cssclass="language-python highlight", wrapcode=True))
    return Markup(re.sub(r'<span class="[nw]">([^<]*)</span>', r"\1", code))  # colored as text, a sixth of the page


def file_id(snippet: Snippet) -> str:
    return "file-" + snippet.name.replace("/", "-")


def file(snippet: Snippet) -> Markup:
    """The whole file, and what it imports of ours."""
    source = read_text(snippet.path)
    return render(
        "file.html",
        id=file_id(snippet),
        path=relative(snippet.path),
        name=snippet.path.name,
        others=[relative(path) for path in imports(snippet.path) if path != snippet.path],
        code=highlighted(source),
        link=f"data:text/x-python;charset=utf-8,{quote(source)}",
    )
