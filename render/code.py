# SPDX-License-Identifier: Apache-2.0
"""Snippets' whole files, colored, to read, copy and download. They need no recording.

What is downloaded runs: a file that needs no other of ours comes as it is, any other one in a zip with those. The site
has both, and the colored file, beside its pages, by the snippet's name, since few readers of a page ask for them:
render/mkdocs/files.py writes them, and theme/assets/theme.js shows a file where it is unfolded.
"""

import contextlib
import io
import posixpath
import re
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pygments
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from recorder.project import ROOT, Snippet, read_text, relative
from recorder.reach import needed
from recorder.recording import sha256, write_atomically
from render.config import address
from render.templates import render
from render.wrapping import with_wrapping

KEPT = ROOT / ".cache/highlighted"
EPOCH = (1980, 1, 1, 0, 0, 0)  # so that the same files make the same zip


@lru_cache(maxsize=1024)
def highlight_python(source: str) -> Markup:
    """Return Python source as the site's own fences show it.

    It is kept in ``.cache/`` from build to build: coloring takes a sixth of a build's time.
    """
    kept = KEPT / f"{sha256(f'{pygments.__version__} {source}')}.html"
    if kept.is_file():
        return Markup(kept.read_text("utf-8"))
    code = highlight(source, PythonLexer(), HtmlFormatter(cssclass="language-python highlight", wrapcode=True))
    code = re.sub(r'<span class="[nw]">([^<]*)</span>', r"\1", code)  # colored as text, a sixth of the page
    with contextlib.suppress(OSError):  # a checkout that nothing can be written to is built all the same
        write_atomically(kept, code)
    return Markup(code)


def file_id(snippet: Snippet) -> str:
    return "file-" + snippet.name.replace("/", "-")


@dataclass(frozen=True)
class Download:
    """A file that a reader downloads of a snippet."""

    name: str  # vector_add.py, or coalescing.zip
    link: str


def download(snippet: Snippet, page: str = "") -> Download:
    """Return what a page offers of a snippet: the file, or a zip of it and of the files that it needs."""
    name = snippet.path.with_suffix(".zip" if needed(snippet.path) else ".py").name
    return Download(name, link_to_file(page, snippet.path.with_name(name)))


def make_zip(snippet: Snippet) -> bytes:
    """Return a zip of a snippet and of the files that it needs, each by its name in a checkout."""
    return zipped({relative(path): read_text(path) for path in (snippet.path, *needed(snippet.path))})


def zipped(texts: dict[str, str]) -> bytes:
    """Return a zip of texts, each by its name in it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in texts.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), text, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def color_file(snippet: Snippet) -> str:
    """Return the whole file, colored, as a page of its own, from which the pages that show it take it."""
    code = Markup(with_wrapping(highlight_python(read_text(snippet.path))))
    return render("colored.html", id=file_id(snippet), path=relative(snippet.path), code=code)


def link_to_file(page: str, file: Path) -> str:
    """Return the link from a page to one of the site's files of a snippet."""
    return posixpath.relpath(relative(file), (page and address(page)) or ".")
